"""``check connection``: which requests a cluster allows, one row for each capability, and which grant is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

from exporter.bounds.text import printable
from exporter.cluster import Cluster
from exporter.commands.output import say
from exporter.commands.runner import (
    CLEAN,
    FOUND,
    UNKNOWN,
    ClusterReport,
    SectionForm,
    add_command,
    fault_texts,
    print_views,
    run,
)
from exporter.config import ClusterConfig
from exporter.core.documents import document_of
from exporter.core.replication import UnmadeTopic
from exporter.kafka.client import AskError
from exporter.kafka.log.tail import Tail
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.configs import MIN_ISR, unmade_topics
from exporter.kafka.requests.groups import describe_group_grant
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, TRANSACTION_STATE, Metadata
from exporter.kafka.requests.offsets import Isolation, end_offsets
from exporter.kafka.requests.transactions import describe_grant, describe_producers, list_transactions
from exporter.model import Deadline, Fault, Reason, TopicPartition
from exporter.views.command_documents import CapabilityDocument, ConnectionSection, FeatureDocument

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


SECONDS = 15.0
"""How long each answer may take."""
MOST_PARTITIONS = 500
DENIED_IDS = (
    "a DENY on single ids cannot be seen by the denied principal: brokers leave such ids out without an error. The"
    " transaction log has them, so that nothing of theirs is called hanging; only an administrator sees the ACLs"
)
_EXAMPLES = """\
examples:
  kafka-eos-exporter check connection --bootstrap-server kafka-1:9092
  kafka-eos-exporter check connection --config /etc/kafka-eos-exporter.yml --output json

exit codes: 0 everything may be asked, 1 something is missing, 2 no broker answers (and nothing is missing elsewhere)
"""


def add_to(checks: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``check connection``."""
    add_command(
        checks,
        "connection",
        lambda options: run(options, read, FORM),
        summary="access to a cluster, and missing grants",
        description="Send each kind of request that the agent sends, once, and name each grant that is missing.",
        examples=_EXAMPLES,
        timeout=SECONDS,
    )


def read(cluster: Cluster, _: ClusterConfig, deadline: Deadline) -> ClusterReport[Capability]:
    """Each kind of request once, each with as much time as the deadline has now. Raises AskError."""
    say(f"asking {cluster.target} ...")
    patience = deadline.remaining()
    return ClusterReport(cluster, tuple(capabilities_of(cluster, lambda: Deadline.after(patience))))


def _code(report: ClusterReport[Capability]) -> int:
    if any(capability.faults for capability in report.found):
        return FOUND
    return CLEAN if report.found else UNKNOWN


def capabilities_of(cluster: Cluster, deadline: Callable[[], Deadline]) -> Iterator[Capability]:
    """Make each kind of request once, each with a ``deadline`` of its own. Raises AskError when no broker answers."""
    client = cluster.client
    metadata = cluster.metadata(deadline())
    # Metadata about all topics omits a topic without DESCRIBE and has no error. A request by name is refused.
    internal = cluster.metadata(deadline(), [TRANSACTION_STATE, CONSUMER_OFFSETS])
    unmade = unmade_topics(client, internal, deadline())
    log, offsets = (_Internal.of(internal, topic, unmade) for topic in (TRANSACTION_STATE, CONSUMER_OFFSETS))
    none_visible = "" if metadata.topics else "no topic is visible: grant DESCRIBE on Topic:*, unless there is none"
    listed = list_transactions(client, metadata, deadline())
    yield Capability("every broker answers", "the transactions of the others stay unseen", fault_texts(listed.faults))
    hidden = fault_texts([log.refused, offsets.refused])
    yield Capability("topics", "what is not visible is not watched", hidden, none_visible)
    sample = _sample(metadata)
    obstacles = [plan.obstacle for plan in unmade.values() if not isinstance(plan, str) and plan.obstacle]
    yield Capability(
        "internal topics",
        "transactions cannot begin, or groups cannot commit: no grant mends it",
        tuple(obstacles),
        next((f"{topic}: {plan}" for topic, plan in unmade.items() if isinstance(plan, str)), "")
        or log.not_yet
        or offsets.not_yet,
    )
    stable = end_offsets(client, metadata, sample, Isolation.READ_COMMITTED, deadline())
    yield Capability("last stable offsets", "no LSO, no stalled partitions", fault_texts(stable.faults), none_visible)
    producers = describe_producers(client, metadata, sample, deadline())
    yield Capability(
        "producers of partitions",
        "blockers are not named, nothing is called hanging",
        fault_texts(producers.faults),
        none_visible,
    )
    grant = describe_grant(client, metadata, deadline())
    yield Capability(
        "transactional ids",
        "no open transactions, every blocker of kind unknown",
        fault_texts([grant]),
        log.not_yet,
        DENIED_IDS,
    )
    # DescribeProducers needs the same READ on a topic as reading it does, and reads no record.
    reading = describe_producers(client, internal, log.partitions, deadline())
    refusals = [log.refused, *reading.faults]
    if log.partitions and not any(refusals):
        refusals.append(_tail_fault(cluster.properties, log.partitions[0].partition, deadline()))
    yield Capability(
        "transaction log",
        "no outcomes, no times, nothing is called hanging",
        fault_texts(refusals),
        log.not_yet,
    )
    group_grant = describe_group_grant(client, metadata, deadline())
    yield Capability("consumer groups", "no read_committed lag of groups", fault_texts([group_grant]), offsets.not_yet)
    config = client.config("topic", TRANSACTION_STATE, (MIN_ISR,), deadline()) if log.partitions else {}
    refused = config if isinstance(config, Fault) else log.refused
    yield Capability("topic configs", "no condition under_min_isr", fault_texts([refused]), log.not_yet)
    broker = client.config("broker", str(min(metadata.brokers)), (MIN_ISR,), deadline())
    faults = [broker if isinstance(broker, Fault) else None]
    yield Capability("broker configs", "no posture checks of the brokers' settings", fault_texts(faults))


class _Internal(NamedTuple):
    """One internal topic: its partitions, or the refusal, or that it is not there yet and how it will be made."""

    partitions: tuple[TopicPartition, ...]
    refused: Fault | None
    not_yet: str

    @classmethod
    def of(cls, metadata: Metadata, topic: str, unmade: Mapping[str, UnmadeTopic | str]) -> _Internal:
        partitions = tuple(TopicPartition(topic, number) for number in sorted(metadata.topics.get(topic, {})))
        fault = metadata.errors.get(topic)
        refused = fault if fault is not None and fault.reason is Reason.AUTHORIZATION else None
        plan = unmade.get(topic, "")
        not_yet = (
            ""
            if partitions or refused
            else f"no {topic}: {plan if isinstance(plan, str) else plan.obstacle or plan.text}"
        )
        return cls(partitions, refused, not_yet)


def _tail_fault(properties: Properties, partition: int, deadline: Deadline) -> Fault | None:
    """Why librdkafka, which has its own TLS and SASL, cannot read the log. No record is read here."""
    try:
        tail = Tail(properties, TRANSACTION_STATE)
    except AskError as error:
        return error.fault
    try:
        tail.reach(partition, deadline)
    except AskError as error:
        tail.poll(1, 0.1)  # errors are delivered by poll; no partition is assigned, so no message is lost
        return tail.trouble() or error.fault
    finally:
        tail.close()
    return None


def _sample(metadata: Metadata) -> list[TopicPartition]:
    """One partition of each topic, for as many topics as one request holds. The transaction log has its own row."""
    first = (
        TopicPartition(topic, min(partitions))
        for topic, partitions in sorted(metadata.topics.items())
        if partitions and topic != TRANSACTION_STATE
    )
    return list(islice(first, MOST_PARTITIONS))


def _section(report: ClusterReport[Capability]) -> ConnectionSection:
    works = features(report.found) if report.found else ()
    return {
        "error": next(iter(report.not_asked), None),
        "capabilities": [document_of(CapabilityDocument, capability) for capability in report.found],
        "works": [document_of(FeatureDocument, feature) for feature in works],
    }


def _print(report: ClusterReport[Capability], _: bool = False) -> None:
    if not report.found:
        return
    section = _section(report)
    print(printable(f"cluster {report.cluster.target}"))
    print_views(CapabilityDocument, [("", capability) for capability in section["capabilities"]])
    for capability in report.found:
        for text in (*(capability.faults or [capability.unproven]), capability.unseen):
            if text:
                print(printable(f"{capability.name}: {text}"))
    print()
    print_views(FeatureDocument, [("", feature) for feature in section["works"]])


FORM = SectionForm(_section, _print, _code)
