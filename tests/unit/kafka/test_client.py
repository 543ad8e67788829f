"""The client against brokers on loopback with every known kind of failure."""

from __future__ import annotations

import datetime as dt
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import ListTransactionsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from exporter.kafka.broker import Broker
from exporter.kafka.client import AskError, ClusterClient
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.metadata import Metadata, metadata_request
from exporter.model import Clock, Deadline, Fault, Reason
from testkit.certificates import LIFE, Authority
from testkit.processes import poll
from tests.helpers.kafka import (
    VERSIONS,
    CloseConnection,
    FakeBroker,
    NoAnswer,
    api_versions,
    broker,
    metadata_response,
)

PLAIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "eos",
    "sasl.password": "hunter2",
}


@contextmanager
def client_of(
    *servers: FakeBroker | str, settings: Mapping[str, object] | None = None, clock: Clock | None = None
) -> Iterator[ClusterClient]:
    addresses = [server if isinstance(server, str) else server.address for server in servers]
    dotted = {"bootstrap.servers": ",".join(addresses), **(settings or {})}
    client = ClusterClient(Properties.parse(dotted), clock)
    try:
        yield client
    finally:
        client.close()


def soon() -> Deadline:
    return Deadline.after(20)


def fault_of(client: ClusterClient, deadline: Deadline | None = None) -> Fault:
    with pytest.raises(AskError) as raised:
        client.metadata(deadline or soon())
    return raised.value.fault


def answer_of(one: Broker, deadline: Deadline) -> Any:
    """Return what a request for metadata gets."""
    return one.submit(metadata_request(None), deadline).result(timeout=30)


def answered_again(client: ClusterClient) -> Metadata:
    """Return the metadata as soon as a broker answers again that is asked beside the requests."""
    until = soon()
    while True:
        try:
            return client.metadata(until)
        except AskError:
            if not poll(until, 0.02):
                raise


@contextmanager
def free_port() -> Iterator[str]:
    """An address without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    yield f"127.0.0.1:{port}"


# --- Metadata ---


def test_metadata_is_read_into_values() -> None:
    answer = metadata_response([(1, "k1", 9092), (2, "k2", 9093)], {"t": [1, -1], "__x": [2]}, {"hidden": 29})
    with broker(lambda name, _: answer if name == "Metadata" else None) as one, client_of(one) as client:
        metadata = client.metadata(soon())
    assert metadata.cluster_id == "cluster-1"
    assert metadata.brokers == {1: "k1:9092", 2: "k2:9093"}
    assert metadata.internal == {"__x"}
    assert metadata.leader("t", 0) == 1
    assert metadata.leader("t", 1) is None
    assert metadata.topics["t"][0].replicas == (1, 2)
    assert metadata.denies("hidden")
    assert "grant DESCRIBE on Topic:hidden" in metadata.errors["hidden"].detail


def test_an_answer_of_the_same_bytes_is_not_read_again_and_any_other_is() -> None:
    leaders = {"t": [1, -1]}

    def handler(name: str, _: Any) -> Any:
        return metadata_response([(1, "127.0.0.1", one.port)], leaders) if name == "Metadata" else None

    with broker(handler) as one, client_of(one) as client:
        first = client.metadata(soon())
        assert client.metadata(soon()) is first
        assert client.metadata(soon(), ["t"]) == first
        leaders["t"] = [1, 1]
        assert client.metadata(soon()).leader("t", 1) == 1
        assert first.leader("t", 1) is None


def test_equal_partitions_are_one_object() -> None:
    answer = metadata_response([(1, "k1", 9092), (2, "k2", 9093)], {"t": [1, 2, 1], "u": [1]})
    with broker(lambda name, _: answer if name == "Metadata" else None) as one, client_of(one) as client:
        topics = client.metadata(soon()).topics
    assert topics["t"][0] != topics["t"][1]
    assert topics["t"][0] is topics["t"][2] is topics["u"][0]


def test_topics_are_never_created_by_asking() -> None:
    assert metadata_request(["t"]).allow_auto_topic_creation is False
    assert metadata_request(None).allow_auto_topic_creation is False


def test_named_topics_are_asked_by_name() -> None:
    asked = []

    def handler(name: str, request: Any) -> None:
        if name == "Metadata":
            asked.append(request)

    with broker(handler) as one, client_of(one) as client:
        client.metadata(soon(), ["a", "b"])
    assert [topic.name for topic in asked[0].topics] == ["a", "b"]


def test_an_answer_that_is_young_enough_serves_again() -> None:
    now = [100.0]
    with broker() as one, client_of(one, clock=Clock(monotonic=lambda: now[0])) as client:
        deadline = Deadline.after(20)
        client.metadata(deadline)
        now[0] = 129.0
        client.metadata(deadline, max_age=30)
        assert one.names.count("Metadata") == 1
        now[0] = 131.0
        client.metadata(deadline, max_age=30)
        assert one.names.count("Metadata") == 2


def test_a_cached_answer_without_the_named_topic_does_not_pass_for_an_answer_about_it() -> None:
    with broker() as one, client_of(one) as client:
        client.metadata(soon())
        client.metadata(soon(), ["t"], max_age=60)
        assert one.names.count("Metadata") == 2


def test_after_a_broker_failed_cached_metadata_is_asked_again_soon() -> None:
    now = [100.0]
    clock = Clock(monotonic=lambda: now[0])
    with free_port() as gone, broker() as one:
        answer = metadata_response([(1, "127.0.0.1", one.port), (2, "127.0.0.1", int(gone.rpartition(":")[2]))])
        with (
            broker(lambda name, _: answer if name == "Metadata" else None) as two,
            client_of(two, clock=clock) as client,
        ):
            client.metadata(soon())
            now[0] = 101.0
            assert client.ask({2: ListTransactionsRequest()}, soon())[2].reason is Reason.UNREACHABLE
            now[0] = 110.0
            client.metadata(soon(), max_age=60)
            assert (one.names + two.names).count("Metadata") == 2


def test_a_new_leader_outdates_the_cached_answer() -> None:
    leaders = [[1], [2], [2]]

    def handler(name: str, _request: Any) -> Any:
        return metadata_response([(1, "127.0.0.1", one.port)], {"t": leaders.pop(0)}) if name == "Metadata" else None

    with broker(handler) as one, client_of(one) as client:
        client.metadata(soon())
        assert client.metadata(soon(), ["t"]).leader("t", 0) == 2
        assert client.metadata(soon(), max_age=60).leader("t", 0) == 2


def test_the_next_bootstrap_server_is_asked_when_one_is_gone() -> None:
    with free_port() as gone, broker() as one, client_of(gone, one) as client:
        assert client.metadata(soon()).brokers == {1: one.address}


def test_when_nobody_answers_every_server_and_cause_is_reported() -> None:
    with (
        free_port() as gone,
        broker(lambda _name, _request: CloseConnection) as closing,
        client_of(gone, closing) as client,
    ):
        fault = fault_of(client)
    assert fault.reason is Reason.UNREACHABLE
    assert f"{gone} cannot be reached: connection refused" in fault.detail
    assert f"{closing.address} cannot be reached: the connection was closed at once" in fault.detail


@pytest.mark.parametrize("host", ["kafka.invalid", "kafka..test", "k" * 70])
def test_a_name_that_does_not_resolve_is_reported(host: str) -> None:
    with client_of(f"{host}:9092") as client:
        assert "its name does not resolve" in fault_of(client).detail


def test_a_cluster_whose_brokers_all_moved_is_found_again_by_its_bootstrap_servers() -> None:
    with free_port() as gone, broker() as entry, broker() as moved:
        first = metadata_response([(1, "127.0.0.1", int(gone.rpartition(":")[2]))])
        answers = [first, metadata_response([(1, "127.0.0.1", moved.port)])]
        with broker(lambda name, _: answers.pop(0) if name == "Metadata" else None) as boot, client_of(boot) as client:
            assert client.metadata(soon()).brokers == {1: gone}
            assert client.metadata(soon()).brokers == {1: moved.address}
    assert entry.connections == 0


# --- Requests ---


def listing(correlation: int = 2) -> bytes:
    """An empty ListTransactions answer v1: response header v1, throttle, error, no filters, no states."""
    body = struct.pack(">ib", correlation, 0) + struct.pack(">ih", 0, 0) + b"\x01\x01\x00"
    return struct.pack(">i", len(body)) + body


def test_each_broker_is_asked_on_its_own() -> None:
    with free_port() as gone, broker(lambda name, _: listing(4) if name == "66" else None) as one:
        answer = metadata_response([(1, "127.0.0.1", one.port), (2, "127.0.0.1", int(gone.rpartition(":")[2]))])
        with broker(lambda name, _: answer if name == "Metadata" else None) as boot, client_of(boot) as client:
            client.metadata(soon())
            one_listing = {node: ListTransactionsRequest() for node in (1, 2, 3)}
            answers = client.ask(one_listing, soon())
    # Asked before: ApiVersions at the connect, the identity, and how far the broker has read the metadata.
    assert not isinstance(answers[1], Fault)
    assert answers[1].transaction_states == []
    assert answers[2].reason is Reason.UNREACHABLE
    assert f"broker 2 at {gone}" in answers[2].detail
    assert answers[3] == Fault(
        Reason.UNREACHABLE, "broker 3 is not in the cluster's metadata: it is down, or was removed"
    )
    assert set(answers) == {1, 2, 3}


def test_a_silent_broker_is_a_timeout_at_the_deadline_and_is_asked_again_on_a_new_connection() -> None:
    silent = threading.Event()

    def handler(name: str, _request: Any) -> Any:
        return NoAnswer if name == "Metadata" and silent.is_set() else None

    with broker(handler) as one, client_of(one) as client:
        client.metadata(soon())  # connects, which takes an unknown part of a deadline
        silent.set()
        asked = one.names.count("Metadata")
        fault = fault_of(client, Deadline.after(1.5))
        while one.names.count("Metadata") == asked:  # on a slow machine its turn may come too late
            fault = fault_of(client, Deadline.after(1.5))
        assert fault.reason is Reason.TIMEOUT
        assert f"bootstrap server {one.address} did not answer" in fault.detail
        silent.clear()
        one.hang_up()  # ends the request that is sent again
        assert answered_again(client).brokers == {1: one.address}
        assert one.connections > 1


def test_a_late_answer_is_never_taken_for_that_of_the_next_request() -> None:
    late = threading.Event()
    first = [True]

    def handler(name: str, _request: Any) -> Any:
        if name == "Metadata" and first:
            first.clear()
            late.wait(10)
            return metadata_response([(9, "late", 9)])
        return None

    with broker(handler) as one, client_of(one) as client:
        while first:  # on a slow machine its turn may come too late
            assert fault_of(client, Deadline.after(1.5)).reason is Reason.TIMEOUT
        late.set()
        assert answered_again(client).brokers == {1: one.address}


def test_a_broker_that_does_not_answer_delays_no_later_request_by_much() -> None:
    def handler(name: str, _request: Any) -> Any:
        return NoAnswer if name == "66" else None

    with broker(handler) as one, client_of(one) as client:
        client.metadata(soon())
        assert client.ask({1: ListTransactionsRequest()}, Deadline.after(3.0))[1].reason is Reason.TIMEOUT
        later = Deadline.after(600)
        for _ in range(3):
            assert client.ask({1: ListTransactionsRequest()}, later)[1].reason is Reason.TIMEOUT
        # A share of that deadline is minutes.
        assert later.remaining() > 540


def test_what_a_broker_did_not_answer_is_asked_again_beside_the_requests() -> None:
    silent = [True]
    tried = threading.Semaphore(0)

    def handler(name: str, _request: Any) -> Any:
        if name != "ApiVersions" or not silent[0]:
            return None
        tried.release()
        return NoAnswer

    with broker(handler) as one:
        properties = Properties.parse({"bootstrap.servers": one.address})
        # Every look at this clock is 5 s after the one before: an attempt took its time, and the next one is due.
        clock = Clock(monotonic=count(0.0, 5.0).__next__)
        asked = Broker("one", ("127.0.0.1", one.port), properties, None, clock)
        try:
            while not tried.acquire(blocking=False):  # on a slow machine its turn may come too late
                assert answer_of(asked, Deadline.after(0.5)).reason is Reason.TIMEOUT
            waiting = Deadline.after(600)
            assert tried.acquire(timeout=30)  # the second attempt, which lasts
            assert answer_of(asked, waiting).reason is Reason.TIMEOUT
            assert waiting.remaining() > 540
            silent[0] = False
            one.hang_up()
            while isinstance(answer := answer_of(asked, soon()), Fault):
                assert not waiting.over, answer
        finally:
            asked.stop()
            asked.join(5)


def test_a_connection_that_the_broker_closed_meanwhile_is_replaced_without_a_fault() -> None:
    with broker() as one, client_of(one) as client:
        client.metadata(soon())
        one.hang_up()
        client.metadata(soon())
        assert one.connections == 2


def test_a_quota_is_reported_where_it_is_the_cause_of_a_timeout() -> None:
    def handler(name: str, _request: Any) -> Any:
        if name != "Metadata":
            return None
        answer = metadata_response([(1, "127.0.0.1", one.port)])
        answer.throttle_time_ms = 600_000
        return NoAnswer if one.names.count("Metadata") > 1 else answer

    with broker(handler) as one, client_of(one) as client:
        client.metadata(soon())
        fault = fault_of(client, Deadline.after(1.5))
    assert fault.reason is Reason.TIMEOUT
    assert "holds us back by a quota" in fault.detail


def test_an_idle_connection_is_not_trusted() -> None:
    now = [0.0]
    with broker() as one, client_of(one, clock=Clock(monotonic=lambda: now[0])) as client:
        client.metadata(soon())
        now[0] = 600.0
        client.metadata(soon())
        assert one.connections == 2


def test_a_connection_that_is_never_to_be_closed_as_idle_is_kept() -> None:
    now = [0.0]
    settings, clock = {"connections.max.idle.ms": 0}, Clock(monotonic=lambda: now[0])
    with broker() as one, client_of(one, settings=settings, clock=clock) as client:
        client.metadata(soon())
        now[0] = 6000.0
        client.metadata(soon())
        assert one.connections == 1


def test_attempts_to_connect_are_spaced_and_the_last_cause_is_reported_meanwhile() -> None:
    now = [0.0]
    with (
        broker(lambda _name, _request: CloseConnection) as one,
        client_of(one, clock=Clock(monotonic=lambda: now[0])) as client,
    ):
        faults = {fault_of(client) for _ in range(5)}
        assert one.connections == 1
        assert len(faults) == 1
        now[0] = 10.0
        fault_of(client)
        assert one.connections == 2


def test_an_api_that_the_broker_does_not_have_is_unsupported_and_costs_no_connection() -> None:
    old = {key: span for key, span in VERSIONS.items() if key != 66}
    with broker(lambda name, _: api_versions(old) if name == "ApiVersions" else None) as one, client_of(one) as client:
        client.metadata(soon())
        fault = client.ask({1: ListTransactionsRequest()}, soon())[1]
        assert fault.reason is Reason.UNSUPPORTED
        assert "ListTransactions" in fault.detail
        assert "Kafka 3.0 or later" in fault.detail
        client.metadata(soon())
        assert one.connections == 1


def test_a_broker_that_knows_only_older_apiversions_is_asked_again_in_its_own() -> None:
    asked: list[int] = []

    def handler(name: str, request: Any) -> Any:
        if name != "ApiVersions":
            return None
        asked.append(1)
        if len(asked) > 1:
            return None
        # Error 35 comes in layout 0, whatever was asked for (KIP-511): code, then key 18 from 0 to 2.
        body = struct.pack(">ihi", 1, 35, 1) + struct.pack(">hhh", 18, 0, 2)
        return struct.pack(">i", len(body)) + body

    with broker(handler) as one, client_of(one) as client:
        assert client.metadata(soon()).cluster_id == "cluster-1"
        assert len(asked) == 2


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP, not Kafka"),
        (struct.pack(">i", 2**31 - 1), "no Kafka broker"),
        (struct.pack(">ii", 4, 77), "answers out of turn"),
        (struct.pack(">ii", 4, 1), "cannot be decoded"),
    ],
)
def test_garbage_is_malformed_and_told(data: bytes, text: str) -> None:
    with broker(lambda _name, _request: data) as one, client_of(one) as client:
        fault = fault_of(client)
    assert fault.reason is Reason.MALFORMED
    assert text in fault.detail


def test_finalized_features_are_reported() -> None:
    def handler(name: str, _request: Any) -> Any:
        return api_versions(transaction_version=2) if name == "ApiVersions" else None

    with broker(handler) as one, client_of(one) as client:
        assert client.features(soon()) == {"transaction.version": 2}


def test_features_are_those_of_the_broker_that_has_read_the_most_metadata() -> None:
    with two_brokers(new=(1, 4)) as (client, _, positions):
        assert client.finalized_features == {}
        client.metadata(soon(), ["t"])
        client.stale_brokers(soon())
        assert client.finalized_features == {"transaction.version": 0}
        positions[1] = 140
        client.stale_brokers(soon())
        assert client.finalized_features == {"transaction.version": 2}
        positions[1] = -1  # the only other one has not heard of it
        client.stale_brokers(soon())
        assert client.finalized_features == {"transaction.version": 2}
        positions[1] = 90
        client.stale_brokers(soon())
        assert client.finalized_features == {"transaction.version": 0}


def test_closing_wakes_whoever_waits() -> None:
    asked = threading.Event()
    faults: list[Fault] = []

    def handler(name: str, _request: Any) -> Any:
        if name == "Metadata":
            asked.set()
            return NoAnswer
        return None

    with broker(handler) as one, client_of(one) as client:
        waiting = threading.Thread(target=lambda: faults.append(fault_of(client, Deadline.after(60))))
        waiting.start()
        assert asked.wait(10)
        client.close()
        waiting.join(10)
        assert not waiting.is_alive()
        assert faults[0].reason is Reason.UNREACHABLE
        assert fault_of(client).reason is not Reason.INTERNAL


def test_closing_ends_a_request_on_a_connection_that_was_in_use() -> None:
    """It is not sent again on a new one."""
    asked = threading.Event()

    def handler(name: str, _request: Any) -> Any:
        if name != "66":
            return None
        asked.set()
        return NoAnswer

    with broker(handler) as one, client_of(one) as client:
        client.metadata(soon())
        answer: list[Any] = []
        waiting = threading.Thread(
            target=lambda: answer.append(client.ask({1: ListTransactionsRequest()}, Deadline.after(60))[1])
        )
        waiting.start()
        assert asked.wait(10)
        client.close()
        waiting.join(10)
        assert not waiting.is_alive()
        assert answer[0].reason is Reason.UNREACHABLE
        assert one.connections == 1


def test_no_thread_is_left_after_close() -> None:
    before = threading.active_count()
    with broker() as one, client_of(one) as client:
        client.metadata(soon())
    assert threading.active_count() <= before


def test_the_constructor_connects_to_nothing() -> None:
    with broker() as one, client_of(one):
        assert one.connections == 0


# --- SASL ---


def test_a_refused_password_is_reported_with_the_brokers_reason_and_without_the_password() -> None:
    def handler(name: str, _request: Any) -> Any:
        if name == "SaslAuthenticate":
            return SaslAuthenticateResponse(
                error_code=58, error_message="invalid credentials", auth_bytes=b"", session_lifetime_ms=0
            )
        return None

    with broker(handler) as one, client_of(one, settings=PLAIN) as client:
        fault = fault_of(client)
    assert fault.reason is Reason.AUTHENTICATION
    assert "PLAIN as eos: invalid credentials: check sasl.username and sasl.password" in fault.detail
    assert "hunter2" not in fault.detail


def test_a_mechanism_that_the_listener_does_not_offer_is_reported_with_those_it_does() -> None:
    def handler(name: str, _request: Any) -> Any:
        return SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-512"]) if name == "SaslHandshake" else None

    with broker(handler) as one, client_of(one, settings=PLAIN) as client:
        fault = fault_of(client)
    assert fault.reason is Reason.AUTHENTICATION
    assert "does not offer PLAIN but SCRAM-SHA-512" in fault.detail


def test_a_sasl_listener_that_is_not_asked_for_sasl_says_so() -> None:
    with broker(lambda name, _: CloseConnection if name == "Metadata" else None) as one, client_of(one) as client:
        fault = fault_of(client)
    assert fault.reason is Reason.AUTHENTICATION
    assert "as SASL listeners do" in fault.detail


def test_the_listener_of_a_controller_is_recognized() -> None:
    none = {18: (0, 4)}
    with broker(lambda name, _: api_versions(none) if name == "ApiVersions" else None) as one, client_of(one) as client:
        fault = fault_of(client)
    assert fault.reason is Reason.UNSUPPORTED
    assert "is it the listener of a controller?" in fault.detail


def test_a_broker_that_hangs_up_during_sasl_refuses_us() -> None:
    with (
        broker(lambda name, _: CloseConnection if name == "SaslAuthenticate" else None) as one,
        client_of(one, settings=PLAIN) as client,
    ):
        assert fault_of(client).reason is Reason.AUTHENTICATION


def test_a_sasl_session_is_left_before_it_expires() -> None:
    now = [0.0]

    def handler(name: str, _request: Any) -> Any:
        if name == "SaslAuthenticate":
            return SaslAuthenticateResponse(
                error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=10_000
            )
        return None

    with broker(handler) as one, client_of(one, clock=Clock(monotonic=lambda: now[0]), settings=PLAIN) as client:
        client.metadata(soon())
        now[0] = 8.0
        client.metadata(soon())
        assert one.connections == 1
        now[0] = 9.0
        client.metadata(soon())
        assert one.connections == 2


def test_a_refused_password_is_not_remembered_for_ever() -> None:
    now = [0.0]
    wrong = [True]

    def handler(name: str, _request: Any) -> Any:
        if name == "SaslAuthenticate" and wrong[0]:
            return SaslAuthenticateResponse(
                error_code=58, error_message="invalid credentials", auth_bytes=b"", session_lifetime_ms=0
            )
        return None

    with broker(handler) as one, client_of(one, clock=Clock(monotonic=lambda: now[0]), settings=PLAIN) as client:
        fault_of(client)
        wrong[0] = False
        now[0] = 5.0
        assert client.metadata(soon()).brokers == {1: one.address}


# --- TLS ---


def test_tls_with_a_known_authority_and_a_client_certificate_works(authority: Authority) -> None:
    certificate, key, _ = authority.issue("client")
    settings = {
        "security.protocol": "SSL",
        "ssl.ca.location": authority.certificate,
        "ssl.certificate.location": certificate,
        "ssl.key.location": key,
    }
    with broker(tls=authority.server(demand=True)) as one, client_of(one, settings=settings) as client:
        assert client.metadata(soon()).brokers == {1: one.address}


@pytest.mark.parametrize(
    ("name", "known", "life", "text"),
    [
        ("elsewhere.example", True, LIFE, "its certificate is for another host"),
        ("127.0.0.1", False, LIFE, "no authority that this host trusts has signed its certificate"),
        ("127.0.0.1", True, -LIFE / 2, "its certificate has expired"),
    ],
)
def test_a_brokers_certificate_that_is_no_good_says_what_to_look_at(
    authority: Authority, name: str, known: bool, life: dt.timedelta, text: str
) -> None:
    settings: dict[str, object] = {"security.protocol": "SSL"}
    if known:
        settings["ssl.ca.location"] = authority.certificate
    context = authority.server("refused", (name,), life=life)
    with broker(tls=context) as one, client_of(one, settings=settings) as client:
        fault = fault_of(client)
    assert fault.reason is Reason.AUTHENTICATION
    assert text in fault.detail


def test_a_certificate_of_another_authority_than_the_one_that_is_trusted_says_which(
    authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "another authority").certificate
    settings = {"security.protocol": "SSL", "ssl.ca.location": other}
    with broker(tls=authority.server()) as one, client_of(one, settings=settings) as client:
        assert f"not signed by an authority in ssl.ca.location {other}" in fault_of(client).detail


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("none", "it wants a client certificate: set ssl.certificate.location and ssl.key.location"),
        ("foreign", "must be signed by an authority that the broker trusts"),
        ("expired", "it refuses our certificate, which expired at 20"),
        ("expired store", "renew ssl.keystore.location"),
    ],
)
def test_a_certificate_of_ours_that_is_refused_says_why(
    authority: Authority, tmp_path: Path, kind: str, text: str
) -> None:
    settings: dict[str, object] = {"security.protocol": "SSL", "ssl.ca.location": authority.certificate}
    if kind == "expired store":
        store = authority.issue_pkcs12("past", "changeit", life=-LIFE / 2)
        settings |= {"ssl.keystore.location": store, "ssl.keystore.password": "changeit"}
    elif kind != "none":
        signer = Authority(tmp_path, "another authority") if kind == "foreign" else authority
        certificate, key, _ = signer.issue("unwanted", life=-LIFE / 2 if kind == "expired" else LIFE)
        settings |= {"ssl.certificate.location": certificate, "ssl.key.location": key}
    with broker(tls=authority.server(demand=True)) as one, client_of(one, settings=settings) as client:
        fault = fault_of(client)
    assert fault.reason is Reason.AUTHENTICATION
    assert text in fault.detail


def test_tls_to_a_plaintext_listener_says_so() -> None:
    with (
        broker(lambda _name, _request: CloseConnection) as one,
        client_of(one, settings={"security.protocol": "SSL"}) as client,
    ):
        fault = fault_of(client)
    assert fault.reason is Reason.AUTHENTICATION
    assert "security.protocol" in fault.detail or "is it a TLS listener?" in fault.detail


def test_plaintext_to_a_tls_listener_says_so(authority: Authority) -> None:
    with broker(tls=authority.server()) as one, client_of(one) as client:
        assert "TLS listener" in fault_of(client).detail


def test_a_listener_that_never_finishes_the_handshake_is_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with client_of(address, settings={"security.protocol": "SSL"}) as client:
            fault = fault_of(client, Deadline.after(2.0))
    assert fault.reason is Reason.TIMEOUT
    assert "the TLS handshake" in fault.detail


def test_a_request_object_is_encoded_for_the_connection_that_sends_it() -> None:
    request = MetadataRequest(topics=[])
    with broker() as one, client_of(one) as client:
        client.metadata(soon())
        answer = client.ask({1: request}, soon())[1]
    assert not isinstance(answer, Fault)
    assert answer.cluster_id == "cluster-1"


# --- Brokers that contradict each other ---


@contextmanager
def two_brokers(
    clock: Clock | None = None, *, old: tuple[int, int] = (1, 4), new: tuple[int, int] = (2, 5)
) -> Iterator[tuple[ClusterClient, list[int], list[int]]]:
    """Broker 1 says the old ``(leader, epoch)`` of t-0 and broker 2 the new; who was asked for Metadata, in order.

    The third is how far brokers 1 and 2 have read the cluster's metadata, and may be changed; from position 140 on,
    transaction.version is 2.
    """
    asked: list[int] = []
    positions = [100, 100]

    def handler(node: int, leader: int, epoch: int) -> Any:
        def answer(name: str, _request: Any) -> Any:
            if name == "ApiVersions":
                position = positions[node - 1]
                return api_versions(position=position, transaction_version=2 if position >= 140 else 0)
            if name != "Metadata":
                return None
            asked.append(node)
            addresses = [(1, "127.0.0.1", one.port), (2, "127.0.0.1", two.port)]
            return metadata_response(addresses, {"t": [leader]}, epoch=epoch)

        return answer

    with (
        broker(handler(1, *old)) as one,
        broker(handler(2, *new)) as two,
        client_of(one, clock=clock) as client,
    ):
        yield client, asked, positions


def test_brokers_are_asked_for_metadata_in_turn() -> None:
    with two_brokers(new=(1, 4)) as (client, asked, _):
        for _ in range(5):
            client.metadata(soon(), ["t"])
    assert sorted(asked[1:]) == [1, 1, 2, 2]


def test_an_older_leader_epoch_is_refused_and_the_next_broker_asked() -> None:
    with two_brokers() as (client, asked, _):
        leaders = [client.metadata(soon(), ["t"]).leader("t", 0) for _ in range(6)]
    assert leaders == [1, 2, 2, 2, 2, 2]
    assert asked.count(2) >= 5


def test_the_first_contact_believes_the_broker_that_has_read_the_most() -> None:
    with two_brokers() as (client, asked, positions):
        positions[1] = 101
        assert client.metadata(soon(), ["t"]).leader("t", 0) == 2
    assert asked == [1, 2]


def test_where_every_broker_gives_an_older_epoch_than_was_seen_the_epochs_begin_anew() -> None:
    answers = [(2, 9), (1, 4), (1, 4)]

    def handler(name: str, _request: Any) -> Any:
        leader, epoch = answers.pop(0) if name == "Metadata" else (0, 0)
        address = [(1, "127.0.0.1", one.port)]
        return metadata_response(address, {"t": [leader]}, epoch=epoch) if name == "Metadata" else None

    with broker(handler) as one, client_of(one) as client:
        assert [client.metadata(soon(), ["t"]).leader("t", 0) for _ in range(3)] == [2, 2, 1]


def test_what_must_be_right_is_asked_of_all_brokers() -> None:
    with two_brokers() as (client, asked, _):
        client.metadata(soon(), ["t"])
        del asked[:]
        assert client.confirmed(soon(), ["t"]).leader("t", 0) == 2
    assert sorted(asked) == [1, 2]


def test_a_broker_that_stopped_to_read_the_metadata_is_a_fault_by_its_id_and_asked_last() -> None:
    now = [100.0]
    clock = Clock(monotonic=lambda: now[0])
    with two_brokers(clock, new=(1, 4)) as (client, asked, positions):
        deadline = Deadline.after(20)
        client.metadata(deadline, ["t"])
        assert client.stale_brokers(deadline) == ()
        positions[1] = 140
        assert client.stale_brokers(deadline) == ()
        now[0] += 5.0
        (fault,) = client.stale_brokers(deadline)
        del asked[:]
        for _ in range(3):
            client.metadata(deadline, ["t"])
        assert asked == [2, 2, 2]
        positions[0] = 150
        assert client.stale_brokers(deadline) == ()
    assert fault.reason is Reason.STALE
    assert fault.detail.startswith("broker 1 at 127.0.0.1:")
    assert "5 s old" in fault.detail
