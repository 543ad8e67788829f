"""How what was found is shown: one shape for every look, for people and for programs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from exporter.commands.output import print_advice, print_json, print_next_step, print_not_asked, print_table, say
from exporter.kafka.faults import some
from exporter.lso.next_step import NextStep
from exporter.model import CoordinatorTime
from exporter.sources.cluster import Cluster

T = TypeVar("T")

CLEAN, FOUND, UNKNOWN = 0, 1, 2

MOST_STEPS = 20
MOST_NAMES = 5
"""Partitions that are named where many have the same next step; the table has them all."""


_NOT_KNOWN = CoordinatorTime(None, None)


@dataclass(frozen=True, slots=True)
class ClusterReport(Generic[T]):
    """What one cluster showed: what was found, what may be one, and in words what could not be asked.

    ``time`` is what is known of its coordinators' clock.
    """

    cluster: Cluster
    found: tuple[T, ...]
    not_asked: tuple[str, ...] = ()
    undecided: tuple[T, ...] = ()
    time: CoordinatorTime = _NOT_KNOWN


@dataclass(frozen=True, slots=True)
class ReportFormat(Generic[T]):
    """How things of one kind are shown. ``key`` is their list's name in JSON, ``nothing`` is said when empty.

    ``step`` gives what a next step is about, and the step, for what needs one; ``undecided`` is whether there can be
    things for which it is unknown.
    """

    key: str
    nothing: str
    columns: tuple[str, ...]
    row: Callable[[T], tuple[object, ...]]
    document: Callable[[Cluster, T], dict[str, Any]]
    order: Callable[[T], float] = field(default=lambda _: 0.0)
    step: Callable[[Cluster, T], tuple[str, NextStep] | None] = field(default=lambda *_: None)
    undecided: bool = False
    advice: Callable[[Sequence[T]], Iterable[str]] = field(default=lambda _: ())


def show(options: argparse.Namespace, looks: Sequence[ClusterReport[T]], form: ReportFormat[T]) -> int:
    """Print what the looks gave; gives back the exit code."""
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
    """What a look showed of this cluster's coordinators' clock."""
    return next(look.time for look in looks if look.cluster is cluster)


def exit_code(looks: Sequence[ClusterReport[T]]) -> int:
    """1 when anything was found; else 2 when anything could not be asked or decided, since it may be there; else 0."""
    if any(look.found for look in looks):
        return FOUND
    return UNKNOWN if any(look.not_asked or look.undecided for look in looks) else CLEAN


def _of(
    looks: Sequence[ClusterReport[T]], form: ReportFormat[T], which: Callable[[ClusterReport[T]], Sequence[T]]
) -> list[tuple[Cluster, T]]:
    return sorted(((look.cluster, each) for look in looks for each in which(look)), key=lambda row: form.order(row[1]))


def _documents(found: Sequence[tuple[Cluster, T]], form: ReportFormat[T]) -> list[dict[str, Any]]:
    return [{"kafka_cluster": cluster.name, **form.document(cluster, each)} for cluster, each in found]


def _print(found: Sequence[tuple[Cluster, T]], form: ReportFormat[T], *, several: bool) -> None:
    """The table, then what to do about it."""
    if several:
        print_table(("cluster", *form.columns), ((cluster.name, *form.row(each)) for cluster, each in found))
    else:
        print_table(form.columns, (form.row(each) for _, each in found))
    # One transaction may hold many partitions: what to do about it is said once.
    subjects: dict[NextStep, list[str]] = {}
    for cluster, each in found:
        if (step := form.step(cluster, each)) is not None:
            subjects.setdefault(step[1], []).append(step[0])
    for advised, names in list(subjects.items())[:MOST_STEPS]:
        print_next_step(some(names, MOST_NAMES), advised)
    if len(subjects) > MOST_STEPS:
        say(f"{len(subjects) - MOST_STEPS} more next steps: --output json has them all")
    for text in form.advice([each for _, each in found]):
        print_advice(text)
