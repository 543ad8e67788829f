"""Render one status document for ``top``: tables of rich, with as many rows as the terminal has lines for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from exporter.bounds.text import printable
from exporter.core.durations import format_age
from exporter.lso.next_step import clock_time
from exporter.web.page import by_holder, verdict

if TYPE_CHECKING:
    from rich.console import RenderableType

_BARS = " ▁▂▃▄▅▆▇█"
_COLOURS = {"good": "green", "bad": "red", "warn": "yellow", "blind": "yellow"}
_SPARK_MINUTES = 20
_LINES_BESIDE_ROWS = 4
"""A heading, a header with its line, and an empty line for each table."""


def view(status: Mapping[str, Any], url: str, height: int) -> RenderableType:
    """Return the whole screen: headline, then for each cluster stalls, applications, open transactions, bad ends.

    Rows that do not fit in ``height`` lines are counted.
    """
    from rich.console import Group  # noqa: PLC0415 -- the agent runs without rich
    from rich.text import Text  # noqa: PLC0415

    found = verdict(status)
    parts: list[RenderableType] = [
        Text(f"kafka-eos-exporter {status['version']}  {url}  {clock_time(status['generated_at_timestamp'])}  q quits"),
        Text(printable(found.text), style=f"bold {_COLOURS[found.level]}"),
        *(Text(printable(detail)) for detail in found.details),
    ]
    sections = [
        section for cluster in status["clusters"] for section in _sections(cluster, len(status["clusters"]) > 1)
    ]
    room = max(0, height - len(parts) - 1)
    wanted = [len(rows) for _, _, rows in sections]
    for (title, columns, rows), shown in zip(sections, _shares(wanted, room), strict=True):
        parts.append(_table(title, columns, rows, shown))
    return Group(*parts)


def unreachable(url: str, why: str) -> RenderableType:
    """Return the screen for an agent that does not answer: no old values."""
    from rich.text import Text  # noqa: PLC0415 -- as above

    return Text(f"{url} does not answer: {printable(why)}\nq quits", style="bold red")


def _sections(
    cluster: Mapping[str, Any], several: bool
) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    name = f" of {cluster['name'] or cluster['bootstrap_servers']}" if several else ""
    known = cluster["known"]
    stalls = [_stall(each) for each in by_holder(cluster["stalled_partitions"])]
    yield (
        f"stalled partitions{name}: {_how_many(len(cluster['stalled_partitions']), known['stalled_partitions'])}",
        ("partition", "kind", "stalled", "waiting", "transactional.id", "application"),
        stalls,
    )
    hour = cluster["last_hour"]
    if hour is None:
        yield f"applications{name}: not known, the transaction log is not read", (), []
    else:
        minutes = hour["minutes"]
        yield (
            f"applications{name}, last {minutes} min",
            ("application", "per min", "", "committed", "aborted", "timed out", "fenced", "state"),
            [_application(each) for each in hour["applications"]],
        )
    yield (
        f"open transactions{name}: {_how_many(len(cluster['open_transactions']), known['open_transactions'])}",
        ("open for", "transactional.id", "application", "state", "times out", "partitions"),
        [_open(each) for each in cluster["open_transactions"]],
    )
    yield (
        f"fences and timeouts{name}, last hour: {_how_many(_ends(cluster), known['unclean_ends'])}",
        ("times", "newest", "transactional.id", "application", "what"),
        [_unclean(each) for each in cluster["unclean_ids"]],
    )


def _how_many(number: int, known: bool) -> str:
    return str(number) if known else f"{number} known of" if number else "not known"


def _stall(stalls: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    stall, blocker = stalls[0], stalls[0]["blocker"]
    more = f" +{len(stalls) - 1}" if len(stalls) > 1 else ""
    waiting = sum(each["lag_offsets"] for each in stalls)
    place = f"{stall['topic']}-{stall['partition']}{more}"
    who = (blocker["transactional_id"] or "?", blocker["application"] or "?")
    kind = blocker["kind"] + (", ignored" if all(each.get("ignored") is not None for each in stalls) else "")
    return place, kind, format_age(stall["seconds"]), str(waiting), *who


def _application(each: Mapping[str, Any]) -> tuple[str, ...]:
    counts, minutes = each["outcomes"], each["committed_per_minute"]
    state = f"stopped {each['stopped_minutes']} min ago" if each["stopped_minutes"] is not None else ""
    rate = str(minutes[-2]) if len(minutes) > 1 else "?"
    bad = (str(counts[outcome]) for outcome in ("aborted", "timed_out", "fenced"))
    return each["application"], rate, spark(minutes[:-1]), str(counts["committed"]), *bad, state


def _open(each: Mapping[str, Any]) -> tuple[str, ...]:
    age = "?" if each["seconds"] is None else format_age(each["seconds"])
    left = (
        None
        if each["seconds"] is None or each["timeout_seconds"] is None
        else each["timeout_seconds"] - each["seconds"]
    )
    out = (
        "never"
        if each["timeout_seconds"] is None
        else "?"
        if left is None
        else "overdue"
        if left < 0
        else format_age(left)
    )
    return age, each["transactional_id"], each["application"], each["state"], out, str(each["partition_count"])


def _ends(cluster: Mapping[str, Any]) -> int:
    return sum(each["ends"] for each in cluster["unclean_ids"]) + int(cluster["unclean_ends_of_other_ids"])


def _unclean(each: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        str(each["ends"]),
        format_age(each["newest"]["seconds_ago"]),
        each["transactional_id"],
        each["application"],
        each["outcome"].replace("_", " "),
    )


def spark(numbers: Sequence[int]) -> str:
    """Return the last numbers as blocks of eight heights; a space for 0."""
    last = numbers[-_SPARK_MINUTES:]
    top = max(last, default=0)
    return "".join(_BARS[0 if not number else 1 + (number * 7) // top] for number in last)


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Return how many rows each table gets: one each in turn, until the lines or the rows are used up."""
    left = room - sum(_LINES_BESIDE_ROWS if rows else 2 for rows in wanted)
    shares = [0] * len(wanted)
    while left > 0 and any(share < rows for share, rows in zip(shares, wanted, strict=True)):
        for place, rows in enumerate(wanted):
            if left > 0 and shares[place] < rows:
                shares[place] += 1
                left -= 1
    return shares


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], shown: int) -> RenderableType:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 -- as above
    from rich.console import Group  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    more = f" ({len(rows) - shown} not shown)" if len(rows) > shown else ""
    heading = Text(f"\n{printable(title)}{more}", style="bold")
    if not shown:
        return heading
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True, overflow="ellipsis")
    for row in islice(rows, shown):
        table.add_row(*(Text(printable(cell)) for cell in row))
    return Group(heading, table)
