"""The history of ended transactions beside the journals, and where the two differ. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from typing_extensions import TypedDict

from exporter.catalogue import CANARY
from exporter.core.instants import instant
from exporter.words import Outcome

_TOLD = (Outcome.TIMED_OUT, Outcome.FENCED)
"""Outcomes that are events of a journal."""


class HistoryRows(NamedTuple):
    """Rows of a history in the time of the report: outcomes by application, and for how many seconds a transaction was
    open at most. ``cluster`` names its cluster, ``until`` is when it was last written (Unix seconds), ``caveats`` say
    what it may lack.
    """

    cluster: str
    until: float | None
    outcomes: Mapping[str, Mapping[Outcome, int]]
    longest: Mapping[str, float | None]
    caveats: tuple[str, ...] = ()


class HistoryApplicationDocument(TypedDict):
    """The transactions of one application that completed in the time of the report."""

    application: str
    committed: int
    aborted: int
    timed_out: int
    fenced: int
    longest_seconds: float | None
    """For how long one of them was open at most."""
    journal_timed_out: int
    """By the journals."""
    journal_fenced: int


class HistoryDocument(TypedDict):
    """The history of ended transactions, beside the journals."""

    cluster: str
    written_until: str | None
    applications: list[HistoryApplicationDocument]
    differences: list[str]
    """Sentences on where journals and history differ, and what is known to explain it."""
    caveats: list[str]
    """Sentences on what the history may lack."""


def beside_history(
    rows: HistoryRows, journal: Mapping[str, Mapping[str, int]], wanted: frozenset[str], reasons: Sequence[str]
) -> HistoryDocument:
    """Return the outcomes of the wanted applications, all where there is none.

    ``journal`` has the unclean ends of the journals by application and kind; ``reasons`` are what the journals may lack
    or have at another time, as sentences.
    """
    names = sorted(name for name in rows.outcomes.keys() | journal.keys() if not wanted or name in wanted or not name)
    found = [_application(name, rows, journal.get(name, {})) for name in names]
    differences = list(_differences(found))
    if differences:
        known = [*reasons, *rows.caveats]
        differences += [f"This may explain it: {reason}." for reason in known]
        differences += [] if known else ["Nothing that journals or history know of explains it."]
    return {
        "cluster": rows.cluster,
        "written_until": instant(rows.until),
        "applications": found,
        "differences": differences,
        "caveats": list(rows.caveats),
    }


def _application(name: str, rows: HistoryRows, journal: Mapping[str, int]) -> HistoryApplicationDocument:
    outcomes = rows.outcomes.get(name, {})
    return {
        "application": name,
        "committed": outcomes.get(Outcome.COMMITTED, 0),
        "aborted": outcomes.get(Outcome.ABORTED, 0),
        "timed_out": outcomes.get(Outcome.TIMED_OUT, 0),
        "fenced": outcomes.get(Outcome.FENCED, 0),
        "longest_seconds": rows.longest.get(name),
        "journal_timed_out": journal.get(Outcome.TIMED_OUT.value, 0),
        "journal_fenced": journal.get(Outcome.FENCED.value, 0),
    }


def _differences(applications: Sequence[HistoryApplicationDocument]) -> Iterator[str]:
    for row in applications:
        if row["application"] == CANARY:  # it is fenced on purpose, which is no event
            continue
        pairs = (row["timed_out"], row["journal_timed_out"]), (row["fenced"], row["journal_fenced"])
        for outcome, (history, journal) in zip(_TOLD, pairs, strict=True):
            if history != journal:
                who, what = row["application"] or "Unknown applications", outcome.value.replace("_", " ")
                yield f"{who}: {history} {what} by the history, {journal} by the journals."
