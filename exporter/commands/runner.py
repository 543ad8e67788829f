"""The runner of the commands that read clusters: a read of one cluster returns views and what could not be read; the
runner opens the clusters, prints tables for people or JSON for programs, and returns the exit code.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from exporter.bounds.text import some
from exporter.cluster import Cluster
from exporter.commands.clusters import opened
from exporter.commands.output import print_advice, print_json, print_next_step, print_not_asked, print_table, say
from exporter.commands.settings import add_duration_flag, add_reading_flags
from exporter.config import ClusterConfig
from exporter.core.durations import format_duration
from exporter.kafka.client import AskError
from exporter.lso.next_step import NextStep
from exporter.model import Deadline, Fault
from exporter.views.columns import View, terminal_columns

T = TypeVar("T")
V = TypeVar("V")

CLEAN, FOUND, UNKNOWN = 0, 1, 2

MOST_STEPS = 20
MOST_NAMES = 5
"""Partitions that are named where many have the same next step. The table has all of them."""


@dataclass(frozen=True, slots=True)
class ClusterReport(Generic[T]):
    """Result for one cluster: what was found, messages about what could not be read, what is undecided, and paragraphs
    for people. ``as_of`` is when it was asked, in Unix seconds.
    """

    cluster: Cluster
    found: tuple[T, ...] = ()
    not_asked: tuple[str, ...] = ()
    undecided: tuple[T, ...] = ()
    advice: tuple[str, ...] = ()
    as_of: float = 0.0

    def of_views(self, view: Callable[[T], V]) -> ClusterReport[V]:
        """The report with a view of each value."""
        found, undecided = tuple(map(view, self.found)), tuple(map(view, self.undecided))
        return ClusterReport(self.cluster, found, self.not_asked, undecided, self.advice, self.as_of)


Read = Callable[[Cluster, ClusterConfig, Deadline], ClusterReport[T]]
"""Reads one cluster until a deadline. Raises AskError where it does not answer."""


class OutputForm(Protocol[T]):
    """How reports are printed, and what they mean: the exit code of one cluster."""

    def document(self, reports: Sequence[ClusterReport[T]]) -> Mapping[str, object]:
        """The JSON of all clusters."""

    def print(self, reports: Sequence[ClusterReport[T]]) -> None:
        """Print the text of all clusters."""

    def code(self, report: ClusterReport[T]) -> int:
        """Return CLEAN, FOUND or UNKNOWN."""


def found_or_unknown(report: ClusterReport[Any]) -> int:
    """The exit code of a list: FOUND for one that has any, UNKNOWN where something could not be read or decided."""
    if report.found:
        return FOUND
    return UNKNOWN if report.not_asked or report.undecided else CLEAN


def worst(codes: Iterable[int]) -> int:
    """The exit code of all clusters: FOUND where something was found, else UNKNOWN, else CLEAN."""
    return max(codes, key=(CLEAN, UNKNOWN, FOUND).index, default=CLEAN)


def add_command(
    parsers: Any,  # noqa: ANN401 -- argparse's subparsers have no public type
    name: str,
    command: Callable[[argparse.Namespace], int],
    *,
    summary: str,
    description: str,
    examples: str,
    timeout: float = 30.0,
) -> argparse.ArgumentParser:
    """The command line of a command that reads clusters, ``timeout`` seconds each unless a flag says otherwise."""
    parser: argparse.ArgumentParser = parsers.add_parser(name, help=summary, description=description, epilog=examples)
    add_reading_flags(parser)
    text = f"how long a cluster may take to answer ({format_duration(timeout)})"
    add_duration_flag(parser, "--timeout", argparse.SUPPRESS, text)
    parser.set_defaults(command=command, usual_timeout=timeout)
    return parser


def run(options: argparse.Namespace, read: Read[T], form: OutputForm[T]) -> int:
    """Read all clusters and print the result. Returns the exit code."""
    reports = read_all(options, read)
    if vars(options).get("output") == "json":
        print_json(form.document(reports))
    else:
        form.print(reports)
    for report in reports:
        print_not_asked(report.cluster.target, report.not_asked)
    return worst(map(form.code, reports))


def read_all(options: argparse.Namespace, read: Read[T]) -> list[ClusterReport[T]]:
    """Read each cluster in turn, ``--timeout`` each. One that does not answer is in its report as not read."""
    seconds = vars(options).setdefault("timeout", options.usual_timeout)  # of the command, unless a flag says
    reports: list[ClusterReport[T]] = []
    with opened(options) as clusters:
        for cluster, settings in clusters:
            as_of = cluster.clock.wall()
            try:
                report = read(cluster, settings, Deadline.after(seconds))
            except AskError as error:
                report = ClusterReport(cluster, not_asked=(error.fault.detail,))
            reports.append(replace(report, as_of=as_of))
    return reports


def fault_texts(read: Iterable[object]) -> tuple[str, ...]:
    """Return the texts of the faults among what was read."""
    return tuple(item.detail for item in read if isinstance(item, Fault))


@dataclass(frozen=True, slots=True)
class ListForm:
    """A list of views of one type, the rows of all clusters in one table. ``key`` names the list in JSON; ``nothing``
    is printed for an empty list. ``undecided`` is whether rows can be undecided.
    """

    key: str
    nothing: str
    view: type
    order: Callable[[View], Any]
    undecided: bool = False
    advice: Callable[[Sequence[View]], Iterable[str]] = field(default=lambda _: ())

    code = staticmethod(found_or_unknown)

    def document(self, reports: Sequence[ClusterReport[View]]) -> Mapping[str, object]:
        """The rows, those that are undecided, and what was not asked."""
        lists = (self.key, "undecided") if self.undecided else (self.key,)
        found = {
            key: [{"kafka_cluster": cluster, **row} for cluster, row in self._sorted(reports, which)]
            for key, which in zip(lists, ("found", "undecided"), strict=False)
        }
        return {**found, "not_asked": [text for report in reports for text in report.not_asked]}

    def print(self, reports: Sequence[ClusterReport[View]]) -> None:
        """Print the table, then the next steps."""
        rows = [row for which in ("found", "undecided") for row in self._sorted(reports, which)]
        if not rows:
            if not any(report.not_asked for report in reports):
                print(self.nothing)
            return
        print_views(self.view, rows, several=len(reports) > 1)
        print_steps(row for _, row in rows)
        for text in (*self.advice([row for _, row in rows]), *(text for report in reports for text in report.advice)):
            print_advice(text)

    def _sorted(self, reports: Sequence[ClusterReport[View]], which: str) -> list[tuple[str, View]]:
        rows = [(report.cluster.name, row) for report in reports for row in getattr(report, which)]
        return sorted(rows, key=lambda row: self.order(row[1]))


@dataclass(frozen=True, slots=True)
class SectionForm(Generic[T]):
    """A document and a text for each cluster."""

    section: Callable[[ClusterReport[T]], Mapping[str, object]]
    text: Callable[[ClusterReport[T], bool], None]
    code: Callable[[ClusterReport[T]], int]

    def document(self, reports: Sequence[ClusterReport[T]]) -> Mapping[str, object]:
        """The documents of the clusters."""
        return {"clusters": [{"kafka_cluster": one.cluster.name, **self.section(one)} for one in reports]}

    def print(self, reports: Sequence[ClusterReport[T]]) -> None:
        """Print the text of each cluster that answered; it is told whether there are several."""
        for report in reports:
            self.text(report, len(reports) > 1)


def print_views(view: type, rows: Sequence[tuple[str, View]], *, several: bool = False) -> None:
    """A table of views, each with the name of its cluster."""
    columns = terminal_columns(view)
    print_table(
        [*(["cluster"] if several else []), *(shown.column.heading for shown in columns)],
        [[*([cluster] if several else []), *(shown.text(row) for shown in columns)] for cluster, row in rows],
        {shown.column.heading for shown in columns if shown.column.number},
    )


def print_steps(rows: Iterable[View]) -> None:
    """Print each next step once, with the partitions or transactions that it is for: one transaction may hold many."""
    subjects: dict[NextStep, list[str]] = {}
    for row in rows:
        if (step := row.get("next_step")) is not None:
            name = f"{row['topic']}-{row['partition']}" if "topic" in row else row["transactional_id"]
            subjects.setdefault(NextStep(**step), []).append(name)
    for advised, names in list(subjects.items())[:MOST_STEPS]:
        print_next_step(some(sorted(names), MOST_NAMES), advised)
    if len(subjects) > MOST_STEPS:
        say(f"{len(subjects) - MOST_STEPS} more next steps: --output json has them all")
