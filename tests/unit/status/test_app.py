"""The HTTP interface over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from exporter.catalogue import SOURCE_UP
from exporter.exposition.render import Exposition
from exporter.exposition.text_format import Format
from exporter.journal.query import QueryError
from exporter.model import Clock, Deadline, Snapshot
from exporter.status.app import BODIES, LARGE_ANSWERS, App
from exporter.status.query_pages import ClusterQuery, RefusedQueryError
from exporter.status.reloads import RELOAD_SECONDS
from exporter.views.applications import InventoryOutput
from exporter.views.rolls import RollOutput, cluster_roll_document
from exporter.web_server.messages import Answer, Request, refused
from exporter.web_server.negotiation import MOST_CHOICES, _choices
from exporter.web_server.server import ListenError, Server

# What a browser and Prometheus 2 and 3 send.
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0;q=0.75,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=0.0.4;q=0.25,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclass
class AppInputs:
    """The inputs of the server, set by a test."""

    exposition: Exposition = field(default_factory=Exposition)
    ready: bool = True
    problems: list[str] = field(default_factory=list)
    reloads: int = 0
    asked: list[ClusterQuery] = field(default_factory=list)
    refused: bool = False
    document: dict[str, Any] = field(
        default_factory=lambda: {
            "version": "1.2.3",
            "generated_at": "2026-11-21T10:00:00.000Z",
            "generated_at_timestamp": 1795255200.0,
            "ready": True,
            "clusters": [],
        }
    )

    def app(self, prefix: str = "") -> App:
        return App(
            self.exposition,
            lambda: self.document,
            lambda: self.ready,
            self.reload,
            prefix,
            page_seconds=0.0,
            queries=lambda: self,
        )

    def named(self, query: ClusterQuery) -> ClusterQuery:
        if query.cluster not in {None, "prod", "test"}:
            raise QueryError("cluster is one of prod, test.")
        return query._replace(cluster=query.cluster or "prod")

    def roll(self, query: ClusterQuery) -> RollOutput:
        self.asked.append(query)
        return {"clusters": [cluster_roll_document("prod", query.outage, (), ("no broker answers",), 0.0)]}

    def inventory(self, query: ClusterQuery) -> InventoryOutput:
        self.asked.append(query)
        if self.refused:
            raise RefusedQueryError({"clusters": []})
        return {"clusters": []}

    def reload(self) -> list[str]:
        self.reloads += 1
        return self.problems


@dataclass
class EndpointAnswer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class EndpointClient:
    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.port, self.host = port, host

    def __call__(self, method: str, path: str, **headers: str) -> EndpointAnswer:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=20)
        try:
            connection.request(method, path, headers={key.replace("_", "-"): value for key, value in headers.items()})
            response = connection.getresponse()
            names = {key.lower(): value for key, value in response.getheaders()}
            return EndpointAnswer(response.status, names, response.read())
        finally:
            connection.close()


@contextlib.contextmanager
def _serving(behind: AppInputs) -> Iterator[EndpointClient]:
    server = Server([("127.0.0.1", 0)], behind.app())
    server.open()
    try:
        yield EndpointClient(server.ports[0])
    finally:
        server.close()


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[AppInputs, EndpointClient]]:
    behind = AppInputs()
    with _serving(behind) as ask:
        yield behind, ask


@pytest.fixture
def behind(served: tuple[AppInputs, EndpointClient]) -> AppInputs:
    behind = served[0]
    vars(behind).update(vars(AppInputs(behind.exposition)))
    sample = SOURCE_UP(1, "prod", "lso", "prod")
    now = Clock().monotonic()
    behind.exposition.swap({("a",): Snapshot("lso", "prod", "prod", 60.0, (sample,), (), (), 0.1, now, 0.0)})
    return behind


@pytest.fixture
def ask(behind: AppInputs, served: tuple[AppInputs, EndpointClient]) -> EndpointClient:
    return served[1]


def test_metrics_are_text_for_whoever_asks_for_nothing_else(ask: EndpointClient) -> None:
    answer = ask("GET", "/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"] == TEXT
    assert 'kafka_eos_source_up{kafka_cluster="prod",source="lso",target="prod"} 1.0\n' in answer.text
    assert "# EOF" not in answer.text


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (BROWSER, TEXT),
        (PROMETHEUS_2, OPENMETRICS),
        (PROMETHEUS_3, OPENMETRICS + "; escaping=allow-utf-8"),
        ("application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text; version=1.0.0; escaping=values", OPENMETRICS + "; escaping=underscores"),
        ("application/openmetrics-text; version=2.0.0", OPENMETRICS),
        ("application/openmetrics-text; version=0.0.1", TEXT),
        ("application/openmetrics-text; version=nonsense; q=0.1", OPENMETRICS),
        ("application/openmetrics-text;q=0.5,text/plain;version=0.0.4;q=0.9", TEXT),
        ("application/openmetrics-text;q=0,*/*", TEXT),
        (
            "text/plain;version=1.0.0;escaping=underscores",
            "text/plain; version=1.0.0; charset=utf-8; escaping=underscores",
        ),
        ("application/json", TEXT),
        (";;;,,=", TEXT),
    ],
)
def test_the_accept_header_chooses_the_format(ask: EndpointClient, accept: str, content_type: str) -> None:
    answer = ask("GET", "/metrics", Accept=accept)
    assert answer.status == 200
    assert answer.headers["content-type"] == content_type
    assert answer.text.endswith("# EOF\n") is content_type.startswith("application/openmetrics")


def test_a_header_of_many_choices_is_read_up_to_a_bound(ask: EndpointClient) -> None:
    for header in ("text/plain," * 600, ";" * 7_000, "text/plain" + ";q=1" * 1_500):
        assert ask("GET", "/metrics", Accept=header, Accept_Encoding=header).headers["content-type"] == TEXT
    many = ",".join(["text/html"] * MOST_CHOICES + ["application/openmetrics-text"])
    assert ask("GET", "/metrics", Accept=many).headers["content-type"] == TEXT
    assert len(list(_choices(many))) == MOST_CHOICES


@pytest.mark.parametrize("query", ["?refresh=off", "?a=b&refresh=off", "?" + "a&" * 5000 + "refresh=off"])
def test_the_page_does_not_refresh_itself_where_the_query_says_so(ask: EndpointClient, query: str) -> None:
    assert b'http-equiv="refresh"' in ask("GET", "/").body
    assert b'http-equiv="refresh"' not in ask("GET", f"/{query}").body


def test_openmetrics_from_the_socket_parses(ask: EndpointClient) -> None:
    families = list(text_string_to_metric_families(ask("GET", "/metrics", Accept=PROMETHEUS_3).text))  # type: ignore[no-untyped-call]
    assert [family.name for family in families] == ["kafka_eos_source_up"]


def test_a_browser_gets_a_runbook_as_a_page_and_any_other_client_its_markdown(ask: EndpointClient) -> None:
    path = "/runbooks/KafkaEosLsoStalled"
    page = ask("GET", path, Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert b"<h1>KafkaEosLsoStalled</h1>" in page.body
    plain = ask("GET", path, Accept="*/*")
    assert plain.body.startswith(b"# KafkaEosLsoStalled")
    assert {page.headers["vary"], plain.headers["vary"]} == {"Accept"}
    assert ask("GET", "/runbooks/Nothing", Accept="text/html").status == 404
    assert b"<li>" in ask("GET", "/runbooks", Accept="text/html").body


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [("gzip", True), ("gzip, deflate, br", True), ("*", True), ("br", False), ("gzip;q=0", False), ("identity", False)],
)
def test_the_body_is_compressed_for_who_accepts_it(ask: EndpointClient, accepted: str, compressed: bool) -> None:
    answer = ask("GET", "/metrics", Accept_Encoding=accepted)
    assert ("content-encoding" in answer.headers) is compressed
    assert answer.headers["vary"] == "Accept, Accept-Encoding"
    body = gzip.decompress(answer.body) if compressed else answer.body
    assert body == ask("GET", "/metrics").body


def test_head_says_the_length_and_sends_nothing(ask: EndpointClient) -> None:
    whole = ask("GET", "/metrics")
    head = ask("HEAD", "/metrics")
    assert head.status == 200
    assert head.body == b""
    assert head.headers["content-length"] == str(len(whole.body))


def test_several_requests_go_over_one_connection(ask: EndpointClient) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", ask.port, timeout=20)
    for path in ("/metrics", "/-/healthy", "/metrics", "/nothing", "/metrics"):
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        assert response.status == (404 if path == "/nothing" else 200)
        assert not response.will_close
    connection.close()


def test_a_body_larger_than_any_buffer_arrives_whole() -> None:
    behind = AppInputs()  # of its own: a body that another test asked for would be given for half a second
    now = Clock().monotonic()
    samples = tuple(SOURCE_UP(number, "prod", "lso", f"target-{number}") for number in range(50_000))
    behind.exposition.swap({("big",): Snapshot("lso", "prod", "prod", 60.0, samples, (), (), 0.1, now, 0.0)})
    with _serving(behind) as ask:
        answer = ask("GET", "/metrics")
    assert len(answer.body) == int(answer.headers["content-length"]) > 4_000_000
    assert answer.body == behind.exposition.body(Format.TEXT)


def test_readiness_follows_the_runner_and_health_does_not(ask: EndpointClient, behind: AppInputs) -> None:
    behind.ready = False
    assert ask("GET", "/-/ready").status == 503
    assert ask("GET", "/-/healthy").status == 200
    behind.ready = True
    assert ask("GET", "/-/ready").status == 200


def test_reload_is_for_post_only(ask: EndpointClient, behind: AppInputs) -> None:
    for method in ("GET", "HEAD", "PUT", "DELETE"):
        answer = ask(method, "/-/reload")
        assert answer.status == 405
        assert answer.headers["allow"] == "POST"
    assert behind.reloads == 0
    assert ask("POST", "/-/reload").status == 200
    assert behind.reloads == 1


def test_a_refused_reload_says_every_problem(ask: EndpointClient, behind: AppInputs) -> None:
    behind.problems = ["clusters[0].name: is required", "web: unknown key"]
    answer = ask("POST", "/-/reload")
    assert answer.status == 400
    assert all(problem in answer.text for problem in behind.problems)


def test_a_flood_of_reloads_shares_one_a_second(behind: AppInputs) -> None:
    app = behind.app()

    async def post() -> int:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope: dict[str, Any] = {
            "type": "http",
            "method": "POST",
            "path": "/-/reload",
            "raw_path": b"/-/reload",
            "query_string": b"",
        }
        scope |= {"headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1), "state": {"loopback": True}}
        await app(scope, receive, send)
        return int(sent[0]["status"])

    async def flood() -> float:
        began = time.monotonic()
        assert await asyncio.gather(*(post() for _ in range(200))) == [200] * 200
        assert behind.reloads == 1
        late = asyncio.gather(*(post() for _ in range(200)))
        await asyncio.sleep(0)
        assert await late == [200] * 200
        return time.monotonic() - began

    assert asyncio.run(flood()) >= RELOAD_SECONDS
    assert behind.reloads == 2


def test_the_status_document_is_json(ask: EndpointClient, behind: AppInputs) -> None:
    answer = ask("GET", "/api/v1/status")
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.body) == behind.document


def test_lists_that_a_reader_does_not_want_are_left_out_of_the_document(ask: EndpointClient, behind: AppInputs) -> None:
    behind.document["clusters"] = [{"name": "a", "open_transactions": [1], "unclean_ids": [2], "known": {}}]
    answer = ask("GET", "/api/v1/status?without=open_transactions,known,x&without=unclean_ids")
    assert json.loads(answer.body)["clusters"] == [{"name": "a", "known": {}}]
    assert json.loads(ask("GET", "/api/v1/status?without=" + "a," * 1500).body) == behind.document


@pytest.mark.parametrize(
    ("path", "shown"),
    [("/", r"1.2.3-\ud800-😀-\udc80"), ("/api/v1/status", "1.2.3-\\ufffd-😀-\\ufffd")],
)
def test_a_lone_surrogate_in_a_name_is_escaped_on_the_page_and_replaced_in_json(
    ask: EndpointClient, behind: AppInputs, path: str, shown: str
) -> None:
    behind.document["version"] = "1.2.3-\ud800-\U0001f600-\udc80"
    answer = ask("GET", path)
    assert answer.status == 200
    assert shown.replace("\\ufffd", "\ufffd") in answer.text


def test_an_answer_that_fails_is_a_500_that_shows_and_logs_nothing_of_the_document(
    ask: EndpointClient, behind: AppInputs, caplog: pytest.LogCaptureFixture
) -> None:
    behind.document = {"clusters": ["a-secret-name" * 1000]}
    answer = ask("GET", "/")
    assert (answer.status, answer.text) == (500, "500 Internal Server Error\n")
    [record] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "a-secret-name" not in logging.Formatter().format(record)
    assert ask("GET", "/metrics").status == 200


def test_many_readers_of_the_page_cost_what_one_costs() -> None:
    made = []

    def status() -> dict[str, Any]:
        made.append(1)
        return AppInputs().document

    server = Server([("127.0.0.1", 0)], App(Exposition(), status, lambda: True, list, page_seconds=3600.0))
    server.open()
    try:
        ask = EndpointClient(server.ports[0])
        pages = {ask("GET", "/").body for _ in range(10)}
        others = {ask("GET", "/?refresh=off").body for _ in range(10)}
        documents = {ask("GET", "/api/v1/status").body for _ in range(10)}
    finally:
        server.close()
    assert len(pages) == len(others) == len(documents) == 1
    assert pages != others
    assert len(made) == 3


def test_a_scrape_does_not_wait_for_pages() -> None:
    asked, go_on = threading.Semaphore(0), threading.Event()

    def status() -> dict[str, Any]:
        asked.release()
        assert go_on.wait(60)  # longer than a request
        return AppInputs().document

    server = Server([("127.0.0.1", 0)], App(Exposition(), status, lambda: True, list))
    server.open()
    try:
        ask = EndpointClient(server.ports[0])
        readers = [
            threading.Thread(target=ask, args=("GET", path)) for path in ("/", "/?refresh=off", "/api/v1/status")
        ]
        for reader in readers:
            reader.start()
        assert asked.acquire(timeout=20)
        assert ask("GET", "/metrics").status == 200
        assert not asked.acquire(timeout=0)  # one is rendered at a time
        assert all(reader.is_alive() for reader in readers)
        go_on.set()
        for reader in readers:
            reader.join(20)
    finally:
        go_on.set()
        server.close()


def test_neither_scrapes_nor_pages_wait_for_what_a_cluster_is_asked_for(behind: AppInputs) -> None:
    go_on = threading.Event()

    def roll(query: ClusterQuery) -> RollOutput:
        assert go_on.wait(60)
        return AppInputs.roll(behind, query)

    behind.roll = roll  # type: ignore[method-assign]  # a cluster that does not answer
    server = Server([("127.0.0.1", 0)], behind.app())
    server.open()
    try:
        ask = EndpointClient(server.ports[0])
        readers = [
            threading.Thread(target=ask, args=("GET", f"/api/v1/roll?brokers={number}"))
            for number in range(2 * LARGE_ANSWERS)
        ]
        for reader in readers:
            reader.start()
        assert ask("GET", "/metrics").status == 200
        assert ask("GET", "/").status == 200
        go_on.set()
        for reader in readers:
            reader.join(20)
    finally:
        go_on.set()
        server.close()


def test_scrapes_that_wait_for_a_body_that_takes_long_share_the_next_one() -> None:
    now, made, all_asked = 1000.0, 0, threading.Event()

    def own(_: Format) -> bytes:
        nonlocal now, made
        assert all_asked.wait(20)
        now, made = now + 1.0, made + 1
        exposition.swap({("a",): Snapshot("lso", "prod", "prod", 60.0, (), (), (), 0.1, now, 0.0)})
        return b""

    exposition = Exposition(Clock(lambda: now), own=own)
    app = App(exposition, None, lambda: True, None)

    async def scrapes(number: int) -> list[Answer]:
        request = Request("GET", "/metrics", "", {}, "127.0.0.1")
        asking = [asyncio.ensure_future(app._metrics(request)) for _ in range(number)]
        await asyncio.sleep(0)  # each has come to where it waits
        all_asked.set()
        return await asyncio.gather(*asking)

    try:
        assert [answer.status for answer in asyncio.run(scrapes(10))] == [200] * 10
        assert made == 1
        asyncio.run(scrapes(1))
        assert made == 2  # the last one was begun before it was asked for, and a source has answered since
    finally:
        app.close()


def test_an_answer_is_dropped_when_its_time_is_over() -> None:
    app = App(Exposition(), lambda: AppInputs().document, lambda: True, list, page_seconds=0.05)
    server = Server([("127.0.0.1", 0)], app)
    server.open()
    try:
        assert EndpointClient(server.ports[0])("GET", "/api/v1/status").status == 200
        until = Deadline.after(20)
        assert app._pages is not None
        while app._pages._pages._known:
            assert not until.over
            time.sleep(0.02)
    finally:
        server.close()


def test_the_document_has_a_line_for_each_transaction(ask: EndpointClient, behind: AppInputs) -> None:
    behind.document["clusters"] = [{"open_transactions": [{"id": "a"}, {"id": "b"}]}]
    text = ask("GET", "/api/v1/status").text
    assert json.loads(text) == behind.document
    assert '\n    {"id": "a"},\n    {"id": "b"}\n   ]' in text


@pytest.mark.parametrize("path", ["/nothing", "/metrics/x", "/../etc/passwd", "/%00", "/metrics%0d%0aX-Evil: 1"])
def test_what_is_not_there_is_a_plain_404_that_repeats_nothing(ask: EndpointClient, path: str) -> None:
    connection = socket.create_connection(("127.0.0.1", ask.port), timeout=20)
    connection.sendall(
        f"GET {path.replace(' ', '%20')} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    )
    reply = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    connection.close()
    head, _, body = reply.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 404 ")
    assert "content-type: text/plain" in head.lower()
    assert "evil" not in reply.lower()
    assert body == "404 Not Found\n"


def test_writing_methods_are_refused_everywhere_else(ask: EndpointClient) -> None:
    for path in ("/", "/metrics", "/api/v1/status", "/-/healthy", "/-/ready"):
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert ask(method, path).status == 405


def test_every_answer_has_the_security_headers(ask: EndpointClient) -> None:
    for path in ("/", "/metrics", "/api/v1/status", "/-/ready", "/nothing"):
        headers = ask("GET", path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "script-src" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert headers["server"] == "kafka-eos-exporter"


def test_a_route_prefix_goes_before_every_path(behind: AppInputs) -> None:
    server = Server([("127.0.0.1", 0)], behind.app("/eos"))
    server.open()
    try:
        ask = EndpointClient(server.ports[0])
        for path in ("/metrics", "/", "/api/v1/status", "/-/healthy", "/-/ready"):
            assert ask("GET", f"/eos{path}").status == 200
        assert ask("POST", "/eos/-/reload").status == 200
        assert ask("GET", "/metrics").status == 404
        for path in ("/", "/eos"):
            answer = ask("GET", path)
            assert (answer.status, answer.headers["location"]) == (302, "/eos/")
        page = ask("GET", "/eos/").text
        assert 'href="/eos/metrics"' in page
        assert 'href="/metrics"' not in page
    finally:
        server.close()


def test_several_addresses_are_served_with_ipv6_among_them(behind: AppInputs) -> None:
    server = Server([("127.0.0.1", 0), ("::1", 0), ("", 0)], behind.app())
    server.open()
    try:
        four, six, both = server.ports
        for port, host in ((four, "127.0.0.1"), (six, "::1"), (both, "127.0.0.1"), (both, "::1")):
            assert EndpointClient(port, host)("GET", "/-/healthy").status == 200
    finally:
        server.close()


def test_a_port_in_use_is_said_clearly_and_nothing_is_left_listening(behind: AppInputs) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = Server([("127.0.0.1", 0), ("127.0.0.1", port)], behind.app())
        with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{port}: address already in use"):
            server.open()
    with pytest.raises(ConnectionRefusedError):
        EndpointClient(server.ports[0])("GET", "/-/healthy")


def test_an_address_of_another_machine_is_said_clearly(behind: AppInputs) -> None:
    server = Server([("192.0.2.1", 0)], behind.app())
    with pytest.raises(ListenError, match=r"cannot listen on 192\.0\.2\.1:0: cannot assign requested address"):
        server.open()


def test_close_ends_every_thread_and_lets_the_port_go(behind: AppInputs) -> None:
    before = set(threading.enumerate())
    server = Server([("127.0.0.1", 0)], behind.app())
    server.open()
    port = server.ports[0]
    assert EndpointClient(port)("GET", "/-/healthy").status == 200
    server.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
    assert set(threading.enumerate()) <= before
    socket.create_server(("127.0.0.1", port)).close()


def test_requests_are_logged_for_those_who_debug_only(ask: EndpointClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ask("GET", "/metrics")
    requests = [record for record in caplog.records if "/metrics" in record.getMessage()]
    assert [record.levelname for record in requests] == ["DEBUG"]


def test_whether_a_broker_may_be_stopped_is_asked_for_each_request(ask: EndpointClient, behind: AppInputs) -> None:
    answer = ask("GET", "/api/v1/roll?broker=3&outage=90s")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert json.loads(answer.text)["clusters"][0]["not_asked"] == ["no broker answers"]
    ask("GET", "/api/v1/roll?broker=3&outage=90s")
    assert behind.asked == [ClusterQuery("prod", 3, 90.0)] * 2


def test_the_page_on_stopping_brokers_has_the_same_answers(ask: EndpointClient, behind: AppInputs) -> None:
    answer = ask("GET", "/roll?outage=90s")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "Not read: no broker answers" in answer.text
    assert behind.asked == [ClusterQuery("prod", None, 90.0)]
    assert [ask("GET", f"/roll?{query}").status for query in ("cluster=staging", "broker=x")] == [400, 400]


def test_an_inventory_that_was_made_is_given_to_further_readers(ask: EndpointClient, behind: AppInputs) -> None:
    paths = ["/api/v1/inventory", "/api/v1/inventory?cluster=prod", "/api/v1/inventory"]
    assert {ask("GET", path).status for path in paths} == {200}
    assert behind.asked == [ClusterQuery("prod")]


def test_an_inventory_that_was_refused_is_asked_for_again(ask: EndpointClient, behind: AppInputs) -> None:
    behind.refused = True
    answer = ask("GET", "/api/v1/inventory?cluster=test")
    assert (answer.status, json.loads(answer.text)) == (200, {"clusters": []})
    ask("GET", "/api/v1/inventory?cluster=test")
    assert behind.asked == [ClusterQuery("test")] * 2


@pytest.mark.parametrize("path", ["roll?broker=x", "roll?cluster=staging", "inventory?broker=1"])
def test_what_is_asked_of_no_cluster_is_refused_with_its_reason(ask: EndpointClient, path: str) -> None:
    answer = ask("GET", f"/api/v1/{path}")
    assert answer.status == 400
    assert answer.text.startswith(("broker is", "cluster is", "'broker' is"))


def test_no_thread_of_an_application_that_is_closed_is_left(behind: AppInputs) -> None:
    before = set(threading.enumerate())
    app = behind.app()
    server = Server([("127.0.0.1", 0)], app)
    server.open()
    ask = EndpointClient(server.ports[0])
    for path in ("/", "/metrics", "/roll", "/api/v1/inventory", "/runbooks"):
        assert ask("GET", path).status == 200
    server.close()
    app.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
    assert set(threading.enumerate()) <= before


class SlowPosts:
    """Reads bodies when it may, and refuses a head without a token."""

    def __init__(self) -> None:
        self.may_read = threading.Event()
        self.taken: list[bytes] = []

    def refusal(self, request: Request) -> Answer | None:
        return None if "authorization" in request.headers else refused(401)

    def __call__(self, request: Request, body: bytes) -> Answer:
        self.may_read.wait(60)
        self.taken.append(body)
        return Answer(204)


async def status_of(app: App, path: str, body: bytes, *, token: bool = True, held: list[bytes] | None = None) -> int:
    """The status of the answer to a post; 0 where the client left before its body. ``held`` has what was received."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if held is not None:
            held.append(body)
        return {"type": "http.request", "body": body, "more_body": False} if body else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-length", b"1")]
    headers += [(b"authorization", b"Bearer t0ken")] if token else []
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode()}
    scope |= {"query_string": b"", "headers": headers, "client": ("127.0.0.1", 1), "state": {"loopback": True}}
    await app(scope, receive, send)
    return int(sent[0]["status"]) if sent else 0


def test_no_body_is_received_of_a_client_without_the_token_and_few_of_those_with_it() -> None:
    posts, held = SlowPosts(), list[bytes]()
    app = App(Exposition(), dict, lambda: True, None, post_handlers={"/post": posts}, posts_have_tokens=True)

    async def ask() -> None:
        reading = [asyncio.ensure_future(status_of(app, "/post", b"a", held=held)) for _ in range(BODIES + 5)]
        while len(held) < BODIES:  # noqa: ASYNC110 -- tokens are checked on a thread; the test's time limit ends this
            await asyncio.sleep(0.001)
        assert await status_of(app, "/post", b"no token", token=False, held=held) == 401
        assert await status_of(app, "/nothing", b"no path", held=held) == 404
        assert held == [b"a"] * BODIES
        posts.may_read.set()
        assert await asyncio.gather(*reading) == [204] * (BODIES + 5)
        assert await status_of(app, "/post", b"") == 0

    try:
        asyncio.run(ask())
    finally:
        posts.may_read.set()
        app.close()
