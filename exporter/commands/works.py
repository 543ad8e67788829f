"""The functions of the agent that work on a cluster, from the requests that the cluster answers. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

Works = Literal["yes", "partly", "no", "unproven"]


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
    """A part of the agent, and whether it works here. ``why`` is "" where it does, else what is missing or how it is
    done.
    """

    name: str
    works: Works
    why: str = ""


NEEDS: Mapping[str, tuple[str, ...]] = {
    "stalled partitions, and since when": ("topics", "last stable offsets"),
    "the producer that holds a partition": ("producers of partitions",),
    "open transactions, their ages and applications": ("every broker answers", "transactional ids"),
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

OUTCOMES = "outcomes, fences and timeouts"
_BY_POLLING = "at least, by polling the coordinators (transactions.outcomes): "


def features(answered: Sequence[Capability], outcomes: str) -> tuple[Feature, ...]:
    """Return what works. ``outcomes`` is the setting ``transactions.outcomes`` of the cluster."""
    by_name = {capability.name: capability for capability in answered}
    found = [_feature(name, [by_name[need] for need in needs]) for name, needs in NEEDS.items()]
    found.insert(3, _outcomes(by_name, outcomes))
    return tuple(found)


def _outcomes(by_name: Mapping[str, Capability], outcomes: str) -> Feature:
    log = _feature(OUTCOMES, [by_name["transaction log"]])
    polled = _feature(OUTCOMES, [by_name["every broker answers"], by_name["transactional ids"]])
    if outcomes == "polling":
        log = Feature(OUTCOMES, "no", "the setting says so")
    if log.works != "no" or outcomes == "log":
        return log
    if polled.works == "no":
        return polled
    return Feature(OUTCOMES, "partly", _BY_POLLING + log.why)


def _feature(name: str, needs: Sequence[Capability]) -> Feature:
    if missing := next((need for need in needs if need.faults), None):
        return Feature(name, "no", missing.faults[0])
    if unproven := next((need.unproven for need in needs if need.unproven), ""):
        return Feature(name, "unproven", unproven)
    return Feature(name, "yes")
