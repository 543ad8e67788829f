"""The status page: the document of ``/api/v1/status`` as HTML that needs no script and no other host."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from exporter.bounds.text import printable_value
from exporter.core.durations import format_age
from exporter.core.owners import UNOWNED, Owners
from exporter.lso.next_step import CHECK_FIRST, clock_time
from exporter.model import Reason
from exporter.status.curves import curve
from exporter.status.filters import EVERYTHING, NO_OWNERS, Filter
from exporter.transactions.facts import NOTICEABLE_SECONDS
from exporter.web_server.messages import encoded

if TYPE_CHECKING:
    from jinja2 import Environment

REFRESH_SECONDS = 10
MOST_STALLS = 100
MOST_OPEN = 50
MOST_ENDS = 50
MOST_FAILED = 50
MOST_AUDITS = 50
MOST_SOURCES = 100
MOST_FINDINGS = 5
MOST_NAMES = 5
MOST_APPLICATIONS = 50
MOST_NAMES_OF_A_HOLDER = 12
PARTS_OF_A_PIECE = 200
REFUSALS = frozenset({str(Reason.AUTHORIZATION), str(Reason.AUTHENTICATION)})

_TEMPLATES = Path(__file__).parent / "templates"
STYLE = (_TEMPLATES / "status.css").read_text(encoding="utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:;"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""No script, only the inline style sheet of the page, and a form that leads back to it."""


class PageVerdict(NamedTuple):
    """The first line of the page. ``level`` is good, bad, warn, or blind for unknown."""

    level: str
    text: str
    details: tuple[str, ...] = ()


NOBODY = PageVerdict("blind", "No cluster of this name is watched")


def verdict(status: Mapping[str, Any], hidden: int = 0) -> PageVerdict:
    """The most important state; good only where every request was answered. ``hidden`` are the stalled partitions that
    a filter took out of the status.
    """
    clusters, shard = status["clusters"], status["shard"]
    every = [stall for cluster in clusters for stall in cluster["stalled_partitions"]]
    stalled = [stall for stall in every if stall["ignored"] is None]
    ignored = len(every) - len(stalled)
    beside = f" but {_count(ignored, 'partition')} of topics that are ignored" if ignored else ""
    beside += f" but {_count(hidden, 'partition')} that the filter hides" if hidden else ""
    blind = tuple(_blind_spots(clusters))
    failures = (*_storms(clusters), *_failures(clusters))
    warnings = tuple(_warnings(clusters))
    details = (*failures, *warnings, *blind)
    if stalled:
        hanging = sum(stall["blocker"]["kind"] == "hanging" for stall in stalled)
        tail = f", {hanging} by a hanging transaction" if hanging else ""
        unmarked = sum(stall["blocker"]["kind"] == "unmarked" for stall in stalled)
        tail += f", {unmarked} by a committed transaction that lacks its marker" if unmarked else ""
        return PageVerdict("bad", f"{_count(len(stalled), 'partition')} stalled{tail}", details)
    if failures:
        return PageVerdict("bad", failures[0], details[1:])
    if blind:
        return PageVerdict("blind", "Cannot see everything", (*blind, *warnings))
    if warnings:
        return PageVerdict("warn", warnings[0], details[1:])
    new = [cluster["known"] for cluster in clusters if is_new(cluster["known"])]
    if new and status["ready"]:
        least = min(new, key=lambda known: known["stalls_watched_seconds"])
        looked, after = (format_age(least[key]) for key in ("stalls_watched_seconds", "stall_after_seconds"))
        text = f"No partition is known to be stalled, after {looked} of looking: a stall is known after {after}."
        return PageVerdict("blind", "Starting: too early to know every stall", (text,))
    if not status["ready"]:
        return PageVerdict("blind", "Starting: not every source has answered yet")
    part = "" if shard is None else f" of this shard ({shard['index']}/{shard['count']})"
    down = any(source["up"] is False for cluster in clusters for source in cluster["sources"])
    answers = "every source answers" + (" but those that are ignored" if down else "")
    return PageVerdict("good", "All fine", (f"No partition{part} is stalled{beside}, and {answers}.",))


def _storms(clusters: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for transactional.ids with a fence storm."""
    storms = [storm for cluster in clusters if cluster["last_hour"] for storm in cluster["last_hour"]["fence_storms"]]
    if storms:
        worst = max(storms, key=lambda storm: (storm["fences"], storm["transactional_id"]))
        more = f" and {len(storms) - 1} more" if len(storms) > 1 else ""
        yield f"Fence storm: {worst['transactional_id']}{more}, fenced {worst['fences']} times in 10 minutes"


def _warnings(clusters: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Conditions that may be intended, a line for each kind: applications that stopped, settings."""
    applications = [
        each for cluster in clusters if cluster["last_hour"] for each in cluster["last_hour"]["applications"]
    ]
    if stopped := sorted(each["application"] for each in applications if each["stopped_minutes"] is not None):
        verb = "has" if len(stopped) == 1 else "have"
        names = ", ".join(stopped[:MOST_NAMES]) + (
            f" and {len(stopped) - MOST_NAMES} more" if stopped[MOST_NAMES:] else ""
        )
        yield f"{_count(len(stopped), 'application')} {verb} stopped committing: {names}"
    if failed := sum(len(cluster["posture"]["failed"]) for cluster in clusters if cluster["posture"]):
        yield f"{_count(failed, 'check')} of the settings {'fails' if failed == 1 else 'fail'}"


_AN = {"abort": "an abort", "commit": "a commit"}


def _failures(clusters: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Torn transactions, and failures of engines and audits, a line for each kind."""
    torn = [each for cluster in clusters for each in cluster["torn_markers"] or ()]
    if torn:
        first = torn[-1]
        what = "no marker" if first["found"] == "nothing" else f"the marker of {_AN[first['found']]}"
        more = f", and {len(torn) - 1} more" if len(torn) > 1 else ""
        yield (
            f"Torn: {first['transactional_id']} was decided {first['decided'].upper()}, and"
            f" {first['topic']}-{first['partition']} has {what}{more}"
        )
    if failed := sum(len(connect["failed"]) for cluster in clusters for connect in cluster["connect"]):
        yield f"Failed in Connect, connectors and tasks: {failed}"
    if failed := sum(query["state"] == "failed" for cluster in clusters for query in cluster["spark"]):
        yield f"Failed queries of Spark: {failed}"
    if found := sum(audit["verdict"] == "findings" for cluster in clusters for audit in cluster["audits"]):
        yield f"Audits with findings: {found}"


def _blind_spots(clusters: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for cluster in clusters:
        name = cluster["name"] or cluster["bootstrap_servers"]
        asked = [source for source in cluster["sources"] if source["ignored"] is None]
        refused = {source["source"] for source in asked if any(f["reason"] in REFUSALS for f in source["faults"])}
        if refused:
            verb = "is" if len(refused) == 1 else "are"
            yield f"{name}: {', '.join(sorted(refused))} {verb} refused: a grant or a password is missing"
        down = sorted({source["source"] for source in asked if source["up"] is False} - refused)
        if down:
            yield f"{name}: {', '.join(down)} {'does' if len(down) == 1 else 'do'} not answer in full"
        if not cluster["known"]["stalled_partitions"] and any(
            source["up"] is not None for source in cluster["sources"]
        ):
            yield f"{name}: whether a partition is stalled is not known"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def page(status: Mapping[str, Any], prefix: str = "", *, refresh: bool = True, shown: Filter = EVERYTHING) -> str:
    """The page as a whole; see ``page_pieces``."""
    return b"".join(page_pieces(status, prefix, refresh=refresh, shown=shown)).decode()


def page_pieces(
    status: Mapping[str, Any],
    prefix: str = "",
    *,
    refresh: bool = True,
    shown: Filter = EVERYTHING,
    owners: Owners = NO_OWNERS,
) -> Iterator[bytes]:
    """The page in pieces. ``prefix`` goes before every link; with ``refresh`` it loads itself anew every ten seconds.

    With a filter the whole page, with its headline, is of the filtered status, and names the filter.
    """
    whole = {**status, "clusters": [_with_stalls(each) for each in status["clusters"]]}
    hidden, status = shown.hidden(whole, owners), shown.applied(whole, owners)
    template = environment().get_template("status.html")
    stream = template.stream(
        status=status,
        verdict=NOBODY if shown.clusters and not status["clusters"] else verdict(status, hidden),
        shown=shown,
        hidden_stalls=hidden,
        curve=curve,
        by_holder=by_holder,
        is_new=is_new,
        by_reason=by_reason,
        most_names_of_a_holder=MOST_NAMES_OF_A_HOLDER,
        filter_of=lambda **name: Filter(
            frozenset({name["cluster"]} if "cluster" in name else shown.clusters),
            frozenset({name["application"]} if "application" in name else ()),
            frozenset({name["owner"]} if "owner" in name else ()),
        ).query(),
        blocked_groups=blocked_groups,
        anchors=anchors,
        most_applications=MOST_APPLICATIONS,
        prefix=prefix,
        style=STYLE,
        refresh=REFRESH_SECONDS if refresh else 0,
        check_first=CHECK_FIRST,
        most_stalls=MOST_STALLS,
        noticeable_distance=NOTICEABLE_SECONDS,
        most_open=MOST_OPEN,
        most_ends=MOST_ENDS,
        most_failed=MOST_FAILED,
        failing_first=_failing_first,
        most_sources=MOST_SOURCES,
        most_audits=MOST_AUDITS,
        most_findings=MOST_FINDINGS,
        most_names=MOST_NAMES,
        unowned=UNOWNED,
    )
    stream.enable_buffering(PARTS_OF_A_PIECE)
    return map(encoded, stream)


def _with_stalls(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The cluster, with each stall made once although it is looked at several times."""
    return {**cluster, "stalled_partitions": list(cluster["stalled_partitions"])}


def is_new(known: Mapping[str, Any]) -> bool:
    """Whether the agent has not read last stable offsets for long enough to know every stall."""
    looked = known["stalls_watched_seconds"]
    return looked is not None and looked < known["stall_after_seconds"]


def _failing_first(sources: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The sources in their order; those that do not answer first where not all are shown."""
    return sources if len(sources) <= MOST_SOURCES else sorted(sources, key=lambda each: each["up"] is True)


def by_holder(stalls: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the stalls grouped by transaction, in the order of the first of each.

    Stalls with a line to copy, which is for one partition, and stalls with an unknown holder are groups of one. What is
    ignored comes last.
    """
    holders: dict[object, list[Mapping[str, Any]]] = {}
    for stall in sorted(stalls, key=lambda each: each.get("ignored") is not None):
        blocker = stall["blocker"]
        alone = stall["next_step"]["command"] or blocker["producer_id"] is None
        who = (blocker["kind"], blocker["transactional_id"], blocker["producer_id"], blocker["producer_epoch"])
        holders.setdefault((stall["topic"], stall["partition"]) if alone else who, []).append(stall)
    return list(holders.values())


def anchors(cards: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """Return the id of each card, "" where a card before it has it: the links of its stalls lead there."""
    names = [card[0]["links"]["page"].partition("#")[2] for card in cards]
    return ["" if name in names[:place] else name for place, name in enumerate(names)]


def blocked_groups(stalls: Iterable[Mapping[str, Any]]) -> list[tuple[str, int, str]] | None:
    """Return the groups that wait for the partitions of a card, worst first: name, withheld offsets and owner.

    None where the groups of none of the partitions were read.
    """
    known = [each["blocked_groups"] for each in stalls if each["blocked_groups"] is not None]
    found: dict[tuple[str, str], int] = {}
    for group in (group for groups in known for group in groups):
        who = (group["group"], group["owner"])
        found[who] = found.get(who, 0) + group["blocked_offsets"]
    worst = sorted(found.items(), key=lambda each: (-each[1], each[0]))
    return [(name, offsets, owner) for (name, owner), offsets in worst] if known else None


def by_reason(ignored: Sequence[Mapping[str, str]]) -> dict[tuple[str, str], list[str]]:
    """Return the names of ignored subjects by kind and reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in ignored:
        found.setdefault((each["kind"], each["reason"]), []).append(each["subject"])
    return found


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


def _last_commit(committed: Sequence[int]) -> str:
    """When an application committed last, by its commits of the last minutes, the oldest first."""
    ago = next((ago for ago, count in enumerate(reversed(committed)) if count), None)
    if ago is None:
        return f"none in {len(committed)} min"
    return f"{ago} min ago" if ago else "this minute"


def _grouped(number: int) -> Markup:
    return Markup(f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}"))  # noqa: S704 -- digits


@cache
def environment(folder: Path = _TEMPLATES) -> Environment:
    """Return the environment of the templates in a folder: what they show is escaped and printable."""
    # Most agents are scraped for months before somebody looks at their page. It is in parts: Python takes memory for a
    # part while it compiles it, seventy bytes for each of the code that Jinja makes of it.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=printable_value,
    )
    environment.filters["age"] = lambda seconds: "unknown" if seconds is None else format_age(seconds)
    environment.filters["clock"] = lambda seconds: "unknown" if seconds is None else clock_time(seconds)
    environment.filters["last_commit"] = _last_commit
    environment.filters["took"] = _took
    environment.filters["grouped"] = _grouped
    return environment
