"""Output of findings, the same for every command: tables for people, JSON for programs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from exporter.bounds.text import some
from exporter.cluster import Cluster
from exporter.commands.output import print_advice, print_json, print_next_step, print_not_asked, print_table, say
from exporter.lso.next_step import NextStep
from exporter.model import Fault, TopicPartition
from exporter.transactions.facts import CoordinatorTime

T = TypeVar("T")

CLEAN, FOUND, UNKNOWN = 0, 1, 2

MOST_STEPS = 20
MOST_NAMES = 5
"""Partitions that are named where many have the same next step. The table has all of them."""


_NOT_KNOWN = CoordinatorTime()


@dataclass(frozen=True, slots=True)
class ClusterReport(Generic[T]):
    """Result for one cluster: what was found, what is undecided, and messages about what could not be read.

    ``time`` has the bounds of its coordinators' clock. ``groups`` are those whose offsets wait in a stalled partition.
    """

    cluster: Cluster
    found: tuple[T, ...]
    not_asked: tuple[str, ...] = ()
    undecided: tuple[T, ...] = ()
    time: CoordinatorTime = _NOT_KNOWN
    groups: Mapping[TopicPartition, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReportFormat(Generic[T]):
    """How findings of one kind are printed. ``key`` names their list in JSON; ``nothing`` is printed for an empty list.

    ``step`` returns the subject of a next step and the step, for findings that need one. ``undecided`` is whether
    findings of this kind can be undecided.
    """

    key: str
    nothing: str
    columns: tuple[str, ...]
    row: Callable[[T], tuple[object, ...]]
    document: Callable[[Cluster, T], Mapping[str, object]]
    order: Callable[[T], float] = field(default=lambda _: 0.0)
    step: Callable[[Cluster, T], tuple[str, NextStep] | None] = field(default=lambda *_: None)
    undecided: bool = False
    advice: Callable[[Sequence[T]], Iterable[str]] = field(default=lambda _: ())


def fault_texts(read: Iterable[object]) -> tuple[str, ...]:
    """Return the texts of the faults among what was read."""
    return tuple(item.detail for item in read if isinstance(item, Fault))


def show(options: argparse.Namespace, looks: Sequence[ClusterReport[T]], form: ReportFormat[T]) -> int:
    """Print the results. Returns the exit code."""
    found = _of(looks, form, lambda look: look.found)
    undecided = _of(looks, form, lambda look: look.undecided)
    if options.output == "json":
        document = {form.key: _documents(found, form)}
        if form.undecided:
            document["undecided"] = _documents(undecided, form)
        print_json(document | {"not_asked": [text for look in looks for text in look.not_asked]})
    elif found or undecided:
        _print(found + undecided, form, several=len(looks) > 1)
    elif not any(look.not_asked for look in looks):
        print(form.nothing)
    for look in looks:
        print_not_asked(look.cluster.target, look.not_asked)
    return exit_code(looks)


def time_of(looks: Sequence[ClusterReport[T]], cluster: Cluster) -> CoordinatorTime:
    """The bounds of this cluster's coordinators' clock."""
    return next(look.time for look in looks if look.cluster is cluster)


def exit_code(looks: Sequence[ClusterReport[T]]) -> int:
    """Exit code: 1 when something was found, else 2 when something could not be read or decided, else 0."""
    if any(look.found for look in looks):
        return FOUND
    return UNKNOWN if any(look.not_asked or look.undecided for look in looks) else CLEAN


def _of(
    looks: Sequence[ClusterReport[T]], form: ReportFormat[T], which: Callable[[ClusterReport[T]], Sequence[T]]
) -> list[tuple[Cluster, T]]:
    return sorted(
        ((look.cluster, subject) for look in looks for subject in which(look)), key=lambda row: form.order(row[1])
    )


def _documents(found: Sequence[tuple[Cluster, T]], form: ReportFormat[T]) -> list[dict[str, Any]]:
    return [{"kafka_cluster": cluster.name, **form.document(cluster, subject)} for cluster, subject in found]


def _print(found: Sequence[tuple[Cluster, T]], form: ReportFormat[T], *, several: bool) -> None:
    """Print the table, then the next steps."""
    if several:
        print_table(("cluster", *form.columns), ((cluster.name, *form.row(subject)) for cluster, subject in found))
    else:
        print_table(form.columns, (form.row(subject) for _, subject in found))
    # One transaction may hold many partitions: its next step is printed once.
    subjects: dict[NextStep, list[str]] = {}
    for cluster, subject in found:
        if (step := form.step(cluster, subject)) is not None:
            subjects.setdefault(step[1], []).append(step[0])
    for advised, names in list(subjects.items())[:MOST_STEPS]:
        print_next_step(some(sorted(names), MOST_NAMES), advised)
    if len(subjects) > MOST_STEPS:
        say(f"{len(subjects) - MOST_STEPS} more next steps: --output json has them all")
    for text in form.advice([subject for _, subject in found]):
        print_advice(text)
