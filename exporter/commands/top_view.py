"""Render one status document for ``top``: tables of rich, with as many rows as the terminal has lines for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from exporter.bounds.text import printable
from exporter.core.durations import format_age
from exporter.lso.next_step import clock_time
from exporter.status.page import by_holder
from exporter.status.verdict import verdict
from exporter.views import documents
from exporter.views.columns import terminal_columns

if TYPE_CHECKING:
    from rich.console import RenderableType

COLOURS = {"good": "green", "bad": "red", "warn": "yellow", "blind": "yellow"}
_HEADING_LINES, _HEADER_LINES = 2, 2
"""An empty line and the heading of a section; a table's header and the line below it."""
_FIRST_COLUMN = 24
"""Largest width, in characters, that the first column keeps on a narrow terminal."""


def view(status: Mapping[str, Any], url: str, height: int) -> RenderableType:
    """Return the whole screen: headline, the stalls of every cluster, then for each cluster applications, open
    transactions and bad ends.

    Rows that do not fit in ``height`` lines are counted; stalls are the last to be left out.
    """
    found = verdict(status)
    head = f"kafka-eos-exporter {status['version']}  {url}  {clock_time(status['generated_at_timestamp'])}  q quits"
    several = len(status["clusters"]) > 1
    stalls = [_stalls(cluster, several) for cluster in status["clusters"]]
    urgent = [section for section in stalls if section.rows]
    others = [section for section in stalls if not section.rows]
    others += [section for cluster in status["clusters"] for section in _sections(cluster, several)]
    return screen((head, found.text, *found.details), found.level, urgent, others, height)


def screen(
    lines: Sequence[str], level: str, urgent: Sequence[TableSection], others: Sequence[TableSection], height: int
) -> RenderableType:
    """Return a screen of so many lines: a head, a verdict of this level and its details, then tables."""
    from rich.console import Group  # noqa: PLC0415 -- the agent runs without rich
    from rich.text import Text  # noqa: PLC0415

    texts = [
        Text(printable(line), f"bold {COLOURS[level]}" if place == 1 else "", no_wrap=True, overflow="ellipsis")
        for place, line in enumerate(lines)
    ]
    room = max(0, height - len(texts) - 1)
    shown_rows = shares([len(section.rows) for section in urgent], [len(section.rows) for section in others], room)
    tables = [
        table_of(section, shown)
        for section, shown in zip((*urgent, *others), shown_rows, strict=True)
        if shown is not None
    ]
    return Group(*texts, *tables)


def unreachable(url: str, why: str) -> RenderableType:
    """Return the screen for an agent that does not answer: no old values."""
    from rich.text import Text  # noqa: PLC0415 -- as above

    return Text(f"{url} does not answer: {printable(why)}\nq quits", style="bold red")


class TableSection(NamedTuple):
    """A table below its heading."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def _name(cluster: Mapping[str, Any], several: bool) -> str:
    return f" of {cluster['name'] or cluster['bootstrap_servers']}" if several else ""


def _stalls(cluster: Mapping[str, Any], several: bool) -> TableSection:
    stalled, known = cluster["stalled_partitions"], cluster["known"]["stalled_partitions"]
    return TableSection(
        f"stalled partitions{_name(cluster, several)}: {_how_many(len(stalled), known)}",
        ("partition", "kind", "stalled", "waiting", "transactional.id", "application"),
        [_stall(held) for held in by_holder(stalled)],
    )


def _sections(cluster: Mapping[str, Any], several: bool) -> Iterator[TableSection]:
    name, known, hour = _name(cluster, several), cluster["known"], cluster["last_hour"]
    if hour is None:
        yield TableSection(f"applications{name}: not known, the transaction log is not read", (), [])
    else:
        title = f"applications{name}, last {hour['minutes']} min"
        yield section_of(title, documents.ApplicationHourDocument, hour["applications"])
    opened = cluster["open_transactions"]
    title = f"open transactions{name}: {_how_many(len(opened), known['open_transactions'])}"
    yield section_of(title, documents.OpenTransactionDocument, opened)
    title = f"fences and timeouts{name}, last hour: {_how_many(_ends(cluster), known['unclean_ends'])}"
    yield section_of(title, documents.UncleanIdDocument, cluster["unclean_ids"])


def section_of(title: str, view: type, rows: Sequence[Mapping[str, Any]]) -> TableSection:
    """The section of a list of views, with their columns."""
    columns = terminal_columns(view)
    return TableSection(
        title,
        tuple(shown.column.heading for shown in columns),
        [tuple(shown.text(row) for shown in columns) for row in rows],
    )


def _how_many(number: int, known: bool) -> str:
    return str(number) if known else f"{number} known of" if number else "not known"


def _stall(stalls: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    stall, blocker = stalls[0], stalls[0]["blocker"]
    more = f" +{len(stalls) - 1}" if len(stalls) > 1 else ""
    waiting = sum(row["lag_offsets"] for row in stalls)
    place = f"{stall['topic']}-{stall['partition']}{more}"
    who = (blocker["transactional_id"] or "?", blocker["application"] or "?")
    kind = blocker["kind"] + (", ignored" if all(row.get("ignored") is not None for row in stalls) else "")
    return place, kind, format_age(stall["seconds"]), str(waiting), *who


def _ends(cluster: Mapping[str, Any]) -> int:
    return int(sum(unclean["ends"] for unclean in cluster["unclean_ids"]) + cluster["unclean_ends_of_other_ids"])


def shares(urgent: Sequence[int], others: Sequence[int], room: int) -> list[int | None]:
    """Return how many rows each section shows, None for one that is not drawn at all.

    The urgent sections get all their rows while there is room. Then come the headings of the others, and their rows one
    each in turn.
    """
    left = room
    shown_rows: list[int | None] = []
    for rows in urgent:
        shown = min(rows, max(0, left - _HEADING_LINES - _HEADER_LINES))
        lines = _HEADING_LINES + (_HEADER_LINES + shown if shown else 0)
        shown_rows.append(shown if lines <= left else None)
        left -= lines if lines <= left else 0
    headings = left // _HEADING_LINES
    rest: list[int | None] = [0 if place < headings else None for place in range(len(others))]
    left -= _HEADING_LINES * min(headings, len(others))
    grew = True
    while grew:
        grew = False
        for place, rows in enumerate(others):
            shown_now = rest[place]
            cost = 1 if shown_now else _HEADER_LINES + 1
            if shown_now is not None and shown_now < rows and cost <= left:
                rest[place] = shown_now + 1
                left -= cost
                grew = True
    return [*shown_rows, *rest]


def table_of(section: TableSection, shown: int) -> RenderableType:
    """Return a section with its first rows, and how many are left out."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 -- as above
    from rich.console import Group  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    title, columns, rows = section
    more = f" ({len(rows) - shown} not shown)" if len(rows) > shown else ""
    heading = Text(f"\n{printable(title)}{more}", style="bold", no_wrap=True, overflow="ellipsis")
    if not shown:
        return heading
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, column in enumerate(columns):
        # On a narrow terminal the first column, which names the row, is the last to be cut. rich cuts the longest of
        # the columns that may wrap, and else takes whole columns away; the texts themselves never wrap.
        least = None if place else min(_FIRST_COLUMN, max(len(printable(row[0])) for row in rows))
        table.add_column(Text(column, no_wrap=True), min_width=least)
    for row in islice(rows, shown):
        table.add_row(*(Text(printable(cell), no_wrap=True, overflow="ellipsis") for cell in row))
    return Group(heading, table)
