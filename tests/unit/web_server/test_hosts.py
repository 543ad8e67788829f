"""Host and Origin: a page that a browser shows neither reads names here nor writes, however it gets here."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping

import pytest

from exporter.agent.receivers import IngestApp
from exporter.exposition.render import Exposition
from exporter.settings.reading import read
from exporter.settings.sections import EndpointConfig
from exporter.status.app import App
from exporter.web_server.hosts import foreign, from_browser, is_host, name_of, reload_refusal
from exporter.web_server.messages import Request
from exporter.web_server.server import Server

STATUS = {
    "version": "1.2.3",
    "generated_at": "2026-11-21T10:00:00.000Z",
    "generated_at_timestamp": 1795255200.0,
    "ready": True,
    "clusters": [],
}
BROWSER = {"Accept-Language": "en", "User-Agent": "Mozilla/5.0"}
REBOUND = "evil.example"


class Inbox:
    def __init__(self) -> None:
        self.taken = 0

    def take(self, body: bytes) -> None:
        self.taken += 1


class EndpointOnAllAddresses:
    """An agent's endpoint on loopback, and on every address as well."""

    def __init__(self, hosts: tuple[str, ...] = ()) -> None:
        self.inbox = Inbox()
        self.reloads = 0
        handler = IngestApp(self.inbox, lambda: "")
        post_handlers = {"/ingest/librdkafka": handler}
        app = App(Exposition(), lambda: STATUS, lambda: True, self.reload, post_handlers=post_handlers, hosts=hosts)
        self.server = Server([("127.0.0.1", 0), ("", 0)], app)

    def reload(self) -> list[str]:
        self.reloads += 1
        return []

    def __call__(self, method: str, path: str, headers: Mapping[str, str], *, everywhere: bool = False) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.ports[everywhere], timeout=20)
        body = b"{}" if method == "POST" else None
        try:
            connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
            for name, value in {**headers, **({"Content-Length": "2"} if body else {})}.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            return connection.getresponse().status
        finally:
            connection.close()


def behind(*hosts: str) -> Iterator[EndpointOnAllAddresses]:
    made = EndpointOnAllAddresses(hosts)
    made.server.open()
    yield made
    made.server.close()


@pytest.fixture
def loopback() -> Iterator[EndpointOnAllAddresses]:
    yield from behind()


@pytest.fixture
def named() -> Iterator[EndpointOnAllAddresses]:
    yield from behind("eos.example", "2001:db8::7")


@pytest.mark.parametrize("path", ["/", "/api/v1/status", "/runbooks", "/nothing", "/metrics"])
def test_a_page_whose_name_was_bound_to_loopback_reads_no_names(loopback: EndpointOnAllAddresses, path: str) -> None:
    served = 404 if path == "/nothing" else 200
    assert loopback("GET", path, {"Host": f"{REBOUND}:10618", **BROWSER}) == 403
    assert loopback("GET", path, {"Host": "localhost:10618", **BROWSER}) == served
    assert loopback("GET", path, {"Host": f"{REBOUND}:10618", **BROWSER}, everywhere=True) == served


@pytest.mark.parametrize("path", ["/metrics", "/-/healthy", "/-/ready"])
def test_a_scraper_and_a_probe_may_use_any_host(loopback: EndpointOnAllAddresses, path: str) -> None:
    assert loopback("GET", path, {"Host": "proxied.example"}) == 200


@pytest.mark.parametrize("header", ["Accept-Language", "Sec-Fetch-Site", "Origin", "Sec-Fetch-Mode"])
def test_a_browser_is_known_by_headers_that_a_page_cannot_leave_out(header: str) -> None:
    assert from_browser(Request("GET", "/metrics", headers={header.lower(): ""}))
    assert not from_browser(Request("GET", "/metrics", headers={"host": "x", "user-agent": "Prometheus/3.5.0"}))


def test_a_page_whose_name_was_bound_to_loopback_hands_nothing_in(loopback: EndpointOnAllAddresses) -> None:
    headers = {"Content-Type": "application/json", "Host": REBOUND, "Origin": f"http://{REBOUND}"}
    assert loopback("POST", "/ingest/librdkafka", headers) == 403
    assert loopback("POST", "/ingest/librdkafka", {**headers, "Host": "127.0.0.1"}) == 403
    assert loopback("POST", "/ingest/librdkafka", {**headers, "Host": "127.0.0.1", "Origin": "null"}) == 403
    assert loopback.inbox.taken == 0
    assert loopback("POST", "/ingest/librdkafka", {"Content-Type": "application/json"}) == 204
    assert loopback.inbox.taken == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Host": REBOUND},
    ],
)
def test_no_browser_reloads_the_settings(loopback: EndpointOnAllAddresses, headers: dict[str, str]) -> None:
    for everywhere in (False, True):
        expected = 200 if everywhere and "Host" in headers else 403
        assert loopback("POST", "/-/reload", headers, everywhere=everywhere) == expected
    assert loopback.reloads == ("Host" in headers)


def test_who_is_no_browser_reloads_the_settings(loopback: EndpointOnAllAddresses) -> None:
    assert loopback("POST", "/-/reload", {}) == 200
    assert loopback("POST", "/-/reload", {"Host": "localhost:1"}) == 200
    assert loopback.reloads == 2


@pytest.mark.parametrize(
    ("host", "here", "everywhere"),
    [
        ("eos.example", 200, 200),
        ("EOS.example.:8443", 200, 200),
        ("[2001:db8::7]:8443", 200, 200),
        ("localhost", 200, 403),
        ("127.0.0.1:10618", 200, 403),
        (REBOUND, 403, 403),
        ("xeos.example", 403, 403),
        ("eos.example.evil.example", 403, 403),
    ],
)
def test_names_that_are_set_are_taken_and_then_no_others(
    named: EndpointOnAllAddresses, host: str, here: int, everywhere: int
) -> None:
    assert named("GET", "/", {"Host": host}) == here
    assert named("GET", "/", {"Host": host}, everywhere=True) == everywhere


def test_a_link_from_another_site_opens_the_page(loopback: EndpointOnAllAddresses) -> None:
    headers = {**BROWSER, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert loopback("GET", "/", headers) == 200


@pytest.mark.parametrize(
    ("host", "origin", "is_own"),
    [
        ("eos:10618", "http://eos:10618", True),
        ("EOS:10618", "http://eos:10618", True),
        ("eos", "http://eos", True),
        ("eos", "https://eos", True),
        ("eos:443", "https://eos", True),
        ("eos", "https://eos:443", True),
        ("[::1]:10618", "http://[::1]:10618", True),
        ("proxy", "https://allowed.example:8443", True),
        ("eos:10618", "http://eos:10619", False),
        ("eos:10618", "http://eos", False),
        ("eos", "http://evil", False),
        ("eos", "http://eos.evil", False),
        ("eos", "null", False),
        ("eos", "", False),
        ("eos", "eos", False),
        ("eos", "file://eos", False),
        ("eos", "http://user@eos", False),
        ("eos", "http://eos http://eos", False),
    ],
)
def test_only_its_own_origin_and_those_that_are_set_are_taken(host: str, origin: str, is_own: bool) -> None:
    request = Request("POST", "/x", headers={"host": host, "origin": origin})
    assert (foreign(request, ()) is None) is (is_own and "allowed" not in origin)
    if "allowed" in origin:
        assert foreign(request, {"allowed.example", name_of(host)}) is None


def test_an_asterisk_takes_every_host_and_no_foreign_origin() -> None:
    request = Request("GET", "/", headers={"host": REBOUND}, loopback=True)
    assert foreign(request, {"*"}) is None
    assert foreign(request._replace(headers={"host": "a", "origin": "http://b"}), {"*"}) is not None


def test_a_request_of_http_1_0_without_a_host_is_from_no_browser() -> None:
    assert foreign(Request("GET", "/", loopback=True), ()) is None


def test_a_refusal_repeats_nothing_of_the_request() -> None:
    for headers in ({"host": REBOUND}, {"host": "localhost", "origin": f"http://{REBOUND}"}):
        refusal = foreign(Request("POST", "/", headers=headers, loopback=True), ())
        assert refusal
        assert b"evil" not in refusal.body
    refusal = reload_refusal(Request("POST", "/-/reload", headers={"origin": f"http://{REBOUND}"}))
    assert refusal
    assert b"evil" not in refusal.body


@pytest.mark.parametrize("text", ["a", "a:1", "a.b_c-d~", "127.0.0.1", "[::1]", "[::1]:80", "a:"])
def test_hosts_are_names_and_addresses_with_a_port_or_none(text: str) -> None:
    assert is_host(text)


@pytest.mark.parametrize(
    "text", ["", ":80", "a b", "a/b", "a@b", "::1", "[::1", "a:b", "a:123456", "a,b", "é", "a" * 256]
)
def test_anything_else_is_no_host(text: str) -> None:
    assert not is_host(text)
    assert name_of(text) == ""


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("eos.example", ("eos.example",)),
        (["EOS.example.", "[2001:db8::7]", "2001:db8::8", "192.0.2.1", "my_service"],
         ("eos.example", "2001:db8::7", "2001:db8::8", "192.0.2.1", "my_service")),
        ("*", ("*",)),
        ([], ()),
    ],
)  # fmt: skip
def test_hosts_are_set_by_name_or_address(given: object, kept: tuple[str, ...]) -> None:
    settings, _ = read(EndpointConfig, {"allowed_hosts": given}, {})
    assert settings is not None
    assert settings.allowed_hosts == kept


@pytest.mark.parametrize(
    "given", ["https://eos.example", "eos.example:8443", "eos.example/eos", "", "a b", "*.example"]
)
def test_what_is_no_host_is_a_problem_of_the_settings(given: str) -> None:
    _, [problem] = read(EndpointConfig, {"allowed_hosts": given}, {})
    assert "is no host name or address" in problem.text
