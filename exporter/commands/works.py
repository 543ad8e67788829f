"""The functions of the agent that work on a cluster, from the requests that the cluster answers. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

Works = Literal["yes", "no", "unproven"]


class Capability(NamedTuple):
    """One capability. ``faults`` is empty when the cluster allows it; ``unproven`` is why that cannot be determined.

    ``unseen`` is what no answer of a broker can show, whatever the verdict.
    """

    name: str
    without: str
    faults: tuple[str, ...]
    unproven: str = ""
    unseen: str = ""

    @property
    def verdict(self) -> Literal["ok", "missing", "unproven"]:
        return "missing" if self.faults else "unproven" if self.unproven else "ok"


class Feature(NamedTuple):
    """A part of the agent, and whether it works here. ``why`` is "" where it does, else what is missing."""

    name: str
    works: Works
    why: str = ""


NEEDS: Mapping[str, tuple[str, ...]] = {
    "stalled partitions, and since when": ("topics", "last stable offsets"),
    "the producer that holds a partition": ("producers of partitions",),
    "open transactions, their ages and applications": ("every broker answers", "transactional ids"),
    "outcomes, fences and timeouts": ("transaction log",),
    "times of transactions, Flink jobs, commits of Connect's tasks": ("transaction log",),
    "proof that a transaction hangs, and the line that ends it": (
        "transaction log",
        "producers of partitions",
        "transactional ids",
    ),
    "read_committed lag of groups": ("last stable offsets", "consumer groups"),
    "posture: settings of brokers": ("broker configs",),
    "posture: settings of topics": ("topic configs",),
}
"""The kinds of requests that each part needs, all of them."""


def features(answered: Sequence[Capability]) -> tuple[Feature, ...]:
    """Return what works."""
    by_name = {capability.name: capability for capability in answered}
    return tuple(_feature(name, [by_name[need] for need in needs]) for name, needs in NEEDS.items())


def _feature(name: str, needs: Sequence[Capability]) -> Feature:
    if missing := next((need for need in needs if need.faults), None):
        return Feature(name, "no", missing.faults[0])
    if unproven := next((need.unproven for need in needs if need.unproven), ""):
        return Feature(name, "unproven", unproven)
    return Feature(name, "yes")
