"""The proxy that chaos and other tests on real brokers put between them: what is cut, held and healed."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tests.helpers.tcp_proxy import TcpProxy, client_id_of


def request(client_id: str, body: bytes = b"rest") -> bytes:
    name = client_id.encode()
    head = struct.pack(">hhih", 18, 3, 7, len(name)) + name + body
    return struct.pack(">i", len(head)) + head


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    """A proxy to a server that sends back what it is sent."""
    server = socket.create_server(("127.0.0.1", 0))

    def echo(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=echo, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with TcpProxy(server.getsockname()[1]) as proxy:
        yield proxy
    server.close()


def connect(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=5)


def receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (chunk := connection.recv(size - len(data))):
        data += chunk
    return data


def is_over(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def name_client(connection: socket.socket, client_id: str) -> None:
    """Send a request of this client, and receive its echo."""
    sent = request(client_id)
    connection.sendall(sent)
    receive(connection, len(sent))


def test_bytes_pass_both_ways_and_the_client_id_is_known(proxy: TcpProxy) -> None:
    with connect(proxy) as connection:
        sent = request("raft-client-1")
        connection.sendall(sent)
        assert receive(connection, len(sent)) == sent
        assert proxy.client_ids() == ["raft-client-1"]


def test_a_held_client_gets_its_answer_after_the_proxy_healed_while_another_one_is_served(proxy: TcpProxy) -> None:
    with connect(proxy) as held, connect(proxy) as served:
        for connection, name in ((held, "raft-client-1"), (served, "1")):
            name_client(connection, name)
        proxy.hold(lambda client_id: client_id.startswith("raft-client"))
        held.sendall(b"late")
        served.sendall(b"now!")
        assert receive(served, 4) == b"now!"
        held.settimeout(0.2)
        with pytest.raises(TimeoutError):
            held.recv(1)
        proxy.heal()
        held.settimeout(5)
        assert receive(held, 4) == b"late"


def test_healing_one_rule_leaves_the_others_in_force(proxy: TcpProxy) -> None:
    def one(client_id: str) -> bool:
        return client_id == "1"

    def two(client_id: str) -> bool:
        return client_id == "2"

    with connect(proxy) as first, connect(proxy) as second:
        for connection, name in ((first, "1"), (second, "2")):
            name_client(connection, name)
        proxy.hold(one)
        proxy.hold(two)
        proxy.heal(one)
        first.sendall(b"now!")
        assert receive(first, 4) == b"now!"
        second.sendall(b"late")
        second.settimeout(0.2)
        with pytest.raises(TimeoutError):
            second.recv(1)


def test_a_cut_resets_what_is_open_and_refuses_what_is_new_until_it_heals(proxy: TcpProxy) -> None:
    sent = request("broker-2-fetcher-0")
    with connect(proxy) as connection:
        connection.sendall(sent)
        receive(connection, len(sent))
        proxy.cut()
        assert is_over(connection)
    with connect(proxy) as refused:
        refused.sendall(sent)
        assert is_over(refused)
    proxy.heal()
    with connect(proxy) as again:
        again.sendall(sent)
        assert receive(again, len(sent)) == sent


def test_a_cut_of_one_client_leaves_the_others_connected(proxy: TcpProxy) -> None:
    with connect(proxy) as one, connect(proxy) as two:
        for connection, name in ((one, "broker-1-fetcher-0"), (two, "broker-2-fetcher-0")):
            name_client(connection, name)
        proxy.cut(lambda client_id: client_id.startswith("broker-1-"))
        assert is_over(one)
        two.sendall(b"still")
        assert receive(two, 5) == b"still"


def test_a_target_that_is_away_closes_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = server.getsockname()[1]
    with TcpProxy(nobody) as proxy, connect(proxy) as connection:
        connection.sendall(request("any"))
        assert is_over(connection)


def test_what_is_no_kafka_request_has_no_client_id() -> None:
    assert client_id_of(b"GET /metrics HTTP/1.1\r\n") == ""
    assert client_id_of(request("producer-1")[:10]) is None
    assert client_id_of(request("producer-1")) == "producer-1"
