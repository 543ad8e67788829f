"""The cost of scrapes: how long GET /metrics takes in each of its forms, while the agent works."""

from __future__ import annotations

import http.client
import random
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

TEXT = "text/plain;version=0.0.4"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
PROMETHEUS = f"{OPENMETRICS};q=0.6,{TEXT};q=0.5,*/*;q=0.1"
"""The Accept header of Prometheus 2; it asks for gzip as well, and keeps its connection."""

CALL_SECONDS = 10.0
GAP_SECONDS = 0.025


class ScrapeForm(NamedTuple):
    """One way to ask."""

    name: str
    path: str
    accept: str
    encoding: str
    keep_alive: bool


class ScrapeTiming(NamedTuple):
    """Seconds from the request to the last byte, sorted, and the bytes of one answer."""

    seconds: tuple[float, ...]
    size: int

    def quantile(self, share: float) -> float:
        return self.seconds[min(len(self.seconds) - 1, int(share * len(self.seconds)))]


FORMS = tuple(
    ScrapeForm(
        f"{name}, {'gzip' if gzip else 'identity'}, {'keep-alive' if keep_alive else 'new connections'}",
        "/metrics",
        accept,
        "gzip" if gzip else "identity",
        keep_alive,
    )
    for name, accept in (("OpenMetrics", OPENMETRICS), ("text", TEXT))
    for gzip in (True, False)
    for keep_alive in (True, False)
)
FLOOR = ScrapeForm("new connections", "/-/healthy", "*/*", "identity", keep_alive=False)
"""An answer of nothing: what this machine and its other load make of any answer."""
PAGES = tuple(FLOOR._replace(path=path) for path in ("/", "/api/v1/status"))
PAGE_GAP_SECONDS = 2.4
"""Each of the two is made anew: an answer is reused for a second."""


def time_forms(
    port: int, forms: Sequence[ScrapeForm], count: int, gap: float = GAP_SECONDS
) -> dict[ScrapeForm, ScrapeTiming]:
    """Ask in all forms in turn, in random order, ``count`` times each, about ``gap`` seconds apart.

    Raises OSError when nothing answers.
    """
    kept = {form: _connect(port) for form in forms if form.keep_alive}
    seconds: dict[ScrapeForm, list[float]] = {form: [] for form in forms}
    sizes: dict[ScrapeForm, int] = {}
    for form in forms:
        _ask(kept.get(form) or _connect(port), form)  # the first one of a kind makes its body
    for _ in range(count):
        for form in random.sample(forms, len(forms)):
            time.sleep(random.uniform(0.5, 1.5) * gap)
            took, sizes[form] = _ask(kept.get(form) or _connect(port), form)
            seconds[form].append(took)
    for connection in kept.values():
        connection.close()
    return {form: ScrapeTiming(tuple(sorted(taken)), sizes[form]) for form, taken in seconds.items()}


def scrape(port: int, headers: Mapping[str, str] | None = None) -> bytes:
    """One GET /metrics on a connection of its own."""
    connection = _connect(port)
    try:
        connection.request("GET", "/metrics", headers=dict(headers or {"Accept": TEXT}))
        return connection.getresponse().read()
    finally:
        connection.close()


def value(body: bytes, name: str, *labels: str) -> float | None:
    """The value of the one line with this name and all of these ``label="value"``; None when there is none."""
    start = 0
    needle = f"\n{name}{{".encode()
    wanted = [label.encode() for label in labels]
    while (start := body.find(needle, start)) >= 0:
        end = body.find(b"\n", start + 1)
        line = body[start + 1 : end if end >= 0 else len(body)]
        if all(part in line for part in wanted):
            return float(line.rpartition(b" ")[2])
        start += 1
    return None


def _connect(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=CALL_SECONDS)


def _ask(connection: http.client.HTTPConnection, form: ScrapeForm) -> tuple[float, int]:
    began = time.perf_counter()
    connection.request("GET", form.path, headers={"Accept": form.accept, "Accept-Encoding": form.encoding})
    response = connection.getresponse()
    size = len(response.read())
    took = time.perf_counter() - began
    if response.status != http.client.OK:
        raise ConnectionError(f"{form.path} answers {response.status}")
    if not form.keep_alive:
        connection.close()
    return took, size
