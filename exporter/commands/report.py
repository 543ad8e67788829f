"""How what was found is shown: one shape for every look, for people and for programs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from exporter.commands.output import print_json, print_next_step, print_not_asked, print_table
from exporter.next_step import NextStep
from exporter.sources.cluster import Cluster

T = TypeVar("T")

CLEAN, FOUND, UNKNOWN = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Look(Generic[T]):
    """What one cluster showed: what was found, what may be one, and in words what could not be asked."""

    cluster: Cluster
    found: tuple[T, ...]
    not_asked: tuple[str, ...] = ()
    undecided: tuple[T, ...] = ()


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """How things of one kind are shown. ``key`` is their list's name in JSON, ``nothing`` is said when empty."""

    key: str
    nothing: str
    columns: tuple[str, ...]
    row: Callable[[T], tuple[object, ...]]
    document: Callable[[Cluster, T], dict[str, Any]]
    order: Callable[[T], float] = field(default=lambda _: 0.0)
    step: Callable[[Cluster, T], tuple[str, NextStep]] | None = None


def show(options: argparse.Namespace, looks: Sequence[Look[T]], form: Form[T]) -> int:
    """Print what the looks gave; gives back the exit code."""
    found = _of(looks, form, lambda look: look.found)
    undecided = _of(looks, form, lambda look: look.undecided)
    if options.output == "json":
        document = {form.key: _documents(found, form)}
        if form.step is not None:
            document["undecided"] = _documents(undecided, form)
        print_json(document | {"not_asked": [text for look in looks for text in look.not_asked]})
    elif found or undecided:
        _print(found + undecided, form, several=len(looks) > 1)
    elif not any(look.not_asked for look in looks):
        print(form.nothing)
    for look in looks:
        print_not_asked(look.cluster.target, look.not_asked)
    return exit_code(looks)


def exit_code(looks: Sequence[Look[T]]) -> int:
    """1 when anything was found; else 2 when anything could not be asked or decided, since it may be there; else 0."""
    if any(look.found for look in looks):
        return FOUND
    return UNKNOWN if any(look.not_asked or look.undecided for look in looks) else CLEAN


def _of(looks: Sequence[Look[T]], form: Form[T], which: Callable[[Look[T]], Sequence[T]]) -> list[tuple[Cluster, T]]:
    return sorted(((look.cluster, each) for look in looks for each in which(look)), key=lambda row: form.order(row[1]))


def _documents(found: Sequence[tuple[Cluster, T]], form: Form[T]) -> list[dict[str, Any]]:
    return [{"kafka_cluster": cluster.name, **form.document(cluster, each)} for cluster, each in found]


def _print(found: Sequence[tuple[Cluster, T]], form: Form[T], *, several: bool) -> None:
    if several:
        print_table(("cluster", *form.columns), ((cluster.name, *form.row(each)) for cluster, each in found))
    else:
        print_table(form.columns, (form.row(each) for _, each in found))
    if form.step is not None:
        for cluster, each in found:
            print_next_step(*form.step(cluster, each))
