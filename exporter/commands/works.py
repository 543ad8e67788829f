"""The functions of the agent that work on a cluster, from the requests that the cluster answers. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

Works = Literal["yes", "partly", "no", "unproven"]


class Answered(Protocol):
    """A kind of request, as ``check connection`` tried it."""

    @property
    def name(self) -> str: ...
    @property
    def faults(self) -> Sequence[str]: ...
    @property
    def unproven(self) -> str: ...


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


def features(answered: Sequence[Answered], outcomes: str) -> tuple[Feature, ...]:
    """Return what works. ``outcomes`` is the setting ``transactions.outcomes`` of the cluster."""
    by_name = {capability.name: capability for capability in answered}
    found = [_feature(name, [by_name[need] for need in needs]) for name, needs in NEEDS.items()]
    found.insert(3, _outcomes(by_name, outcomes))
    return tuple(found)


def _outcomes(by_name: Mapping[str, Answered], outcomes: str) -> Feature:
    log = _feature(OUTCOMES, [by_name["transaction log"]])
    polled = _feature(OUTCOMES, [by_name["every broker answers"], by_name["transactional ids"]])
    if outcomes == "polling":
        log = Feature(OUTCOMES, "no", "the setting says so")
    if log.works != "no" or outcomes == "log":
        return log
    if polled.works == "no":
        return polled
    return Feature(OUTCOMES, "partly", _BY_POLLING + log.why)


def _feature(name: str, needs: Sequence[Answered]) -> Feature:
    if missing := next((need for need in needs if need.faults), None):
        return Feature(name, "no", missing.faults[0])
    if unproven := next((need.unproven for need in needs if need.unproven), ""):
        return Feature(name, "unproven", unproven)
    return Feature(name, "yes")
