"""The status page: the document of ``/api/v1/status`` as HTML that needs no script and no other host."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from exporter.core.durations import format_age
from exporter.lso.next_step import CHECK_FIRST, clock_time
from exporter.model import NOTICEABLE_SECONDS

REFRESH_SECONDS = 10
MOST_STALLS = 100
MOST_OPEN = 50
MOST_ENDS = 50
MOST_FAILED = 50

_TEMPLATES = Path(__file__).parent / "templates"
_STYLE = (_TEMPLATES / "status.css").read_text(encoding="utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""No script at all, and only the one style sheet that stands in the page."""


class PageVerdict(NamedTuple):
    """The first line of the page. ``level`` is good, bad, or blind: it cannot be told."""

    level: str
    text: str
    details: tuple[str, ...] = ()


def verdict(status: Mapping[str, Any]) -> PageVerdict:
    """What matters most now; all is well only where everything that was asked answered."""
    clusters, shard = status["clusters"], status["shard"]
    stalled = [stall for cluster in clusters for stall in cluster["stalled_partitions"]]
    blind = tuple(_blind_spots(clusters))
    failures = tuple(_failures(clusters))
    details = (*failures, *blind)
    if stalled:
        hanging = sum(stall["blocker"]["kind"] == "hanging" for stall in stalled)
        tail = f", {hanging} by a hanging transaction" if hanging else ""
        return PageVerdict("bad", f"{_count(len(stalled), 'partition')} stalled{tail}", details)
    if failures:
        return PageVerdict("bad", failures[0], details[1:])
    if blind:
        return PageVerdict("blind", "Cannot see everything", blind)
    if not status["ready"]:
        return PageVerdict("blind", "Starting: not every source has answered yet")
    part = "" if shard is None else f" of this shard ({shard['index']}/{shard['count']})"
    return PageVerdict("good", "All fine", (f"No partition{part} is stalled, and every source answers.",))


def _failures(clusters: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What failed around the clusters, a line for each kind."""
    if failed := sum(len(connect["failed"]) for cluster in clusters for connect in cluster["connect"]):
        yield f"Failed in Connect, connectors and tasks: {failed}"
    if failed := sum(query["state"] == "failed" for cluster in clusters for query in cluster["spark"]):
        yield f"Failed queries of Spark: {failed}"
    if found := sum(audit["verdict"] == "findings" for cluster in clusters for audit in cluster["audits"]):
        yield f"Audits with findings: {found}"


def _blind_spots(clusters: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for cluster in clusters:
        name = cluster["name"] or cluster["bootstrap_servers"]
        down = sorted({source["source"] for source in cluster["sources"] if source["up"] is False})
        if down:
            yield f"{name}: {', '.join(down)} {'does' if len(down) == 1 else 'do'} not answer in full"
        if not cluster["known"]["stalled_partitions"] and any(
            source["up"] is not None for source in cluster["sources"]
        ):
            yield f"{name}: whether a partition is stalled is not known"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def page(status: Mapping[str, Any], prefix: str = "", *, refresh: bool = True) -> str:
    """The page. ``prefix`` goes before every link; with ``refresh`` it loads itself anew every ten seconds."""
    return _ENVIRONMENT.get_template("status.html").render(
        status=status,
        verdict=verdict(status),
        prefix=prefix,
        style=_STYLE,
        refresh=REFRESH_SECONDS if refresh else 0,
        check_first=CHECK_FIRST,
        most_stalls=MOST_STALLS,
        noticeable_distance=NOTICEABLE_SECONDS,
        most_open=MOST_OPEN,
        most_ends=MOST_ENDS,
        most_failed=MOST_FAILED,
    )


def _took(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return (
        f"{seconds:.1f} s"
        if seconds >= 1
        else f"{seconds * 1000:.0f} ms"
        if seconds >= 0.01
        else f"{seconds * 1000:.1f} ms"
    )


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters["age"] = lambda seconds: "unknown" if seconds is None else format_age(seconds)
    environment.filters["clock"] = lambda seconds: "unknown" if seconds is None else clock_time(seconds)
    environment.filters["took"] = _took
    environment.filters["grouped"] = lambda number: f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return environment


_ENVIRONMENT = _environment()
