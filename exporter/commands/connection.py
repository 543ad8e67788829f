"""``check connection``: what may be asked of a cluster, capability by capability, and which grant is missing."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from exporter.commands.clusters import duration, opened
from exporter.commands.output import print_json, print_table, say
from exporter.commands.settings import add_cluster_flags
from exporter.kafka.answers import Answers
from exporter.kafka.client import AskError
from exporter.kafka.groups import describe_group_grant
from exporter.kafka.metadata import CONSUMER_OFFSETS, TRANSACTION_STATE, Metadata
from exporter.kafka.offsets import Isolation, end_offsets
from exporter.kafka.transactions import describe_grant, describe_producers, list_transactions
from exporter.model import Deadline, Fault, Reason, TopicPartition
from exporter.sources.cluster import Cluster

MIN_ISR = "min.insync.replicas"
MOST_PARTITIONS = 500
_EXAMPLES = """\
examples:
  kafka-eos-exporter check connection --bootstrap-server kafka-1:9092
  kafka-eos-exporter check connection --config /etc/kafka-eos-exporter.yml --output json

exit codes: 0 everything may be asked, 1 something is missing, 2 no broker answers
"""


class Capability(NamedTuple):
    """One thing that the agent asks for. ``faults`` is empty when it may; ``unproven`` says why that cannot be seen."""

    name: str
    without: str
    faults: tuple[str, ...]
    unproven: str = ""

    @property
    def verdict(self) -> str:
        return "missing" if self.faults else "unproven" if self.unproven else "ok"


def add_to(checks: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``check connection``."""
    parser = checks.add_parser(
        "connection",
        help="what may be asked of a cluster, and which grants are missing",
        description="Ask the cluster everything that the agent asks, once, and name each grant that is missing.",
        epilog=_EXAMPLES,
    )
    add_cluster_flags(parser)
    parser.add_argument("--output", choices=("text", "json"), default="text", help="a table for people, or JSON")
    parser.add_argument(
        "--timeout", type=duration, default=15.0, metavar="DURATION", help="how long each answer may take (15s)"
    )
    parser.set_defaults(command=_command)


def _command(options: argparse.Namespace) -> int:
    code = 0
    documents: list[dict[str, Any]] = []
    with opened(options) as clusters:
        for cluster, _ in clusters:
            say(f"asking {cluster.target} ...")
            try:
                capabilities = tuple(capabilities_of(cluster, lambda: Deadline.after(options.timeout)))
            except AskError as error:
                documents.append({"kafka_cluster": cluster.name, "error": error.fault.detail, "capabilities": []})
                say(f"could not ask {cluster.target}: {error.fault.detail}")
                code = 2
                continue
            if any(each.faults for each in capabilities):
                code = max(code, 1)
            rows = [{**each._asdict(), "verdict": each.verdict} for each in capabilities]
            documents.append({"kafka_cluster": cluster.name, "error": None, "capabilities": rows})
            if options.output == "text":
                _print(cluster, capabilities)
    if options.output == "json":
        print_json({"clusters": documents})
    return code


def capabilities_of(cluster: Cluster, deadline: Callable[[], Deadline]) -> Iterator[Capability]:
    """Ask once for everything, each with a ``deadline`` of its own. Raises AskError when no broker answers."""
    client = cluster.client
    metadata = cluster.metadata(deadline())
    listed = list_transactions(client, metadata, deadline())
    yield Capability("every broker answers", "transactions of the others stay unseen", _texts(listed.faults))
    yield _topics(metadata)
    partitions = _sample(metadata)
    stable = end_offsets(client, metadata, partitions, Isolation.READ_COMMITTED, deadline())
    yield Capability(
        "last stable offsets",
        "no LSO, no stalled partitions",
        _texts(stable.faults),
        "" if partitions else "no topics yet",
    )
    yield _producers(describe_producers(client, metadata, partitions, deadline()), partitions)
    log = TRANSACTION_STATE
    exists = bool(metadata.topics.get(log))
    not_yet = "" if exists else f"no {log} yet: nothing ran a transaction"
    grant = describe_grant(client, metadata, deadline())
    yield Capability(
        "transactional ids", "no open transactions, every blocker of kind unknown", _texts([grant]), not_yet
    )
    # DescribeProducers needs the same READ on the topic as reading it does, and reads no record.
    one = [TopicPartition(log, number) for number in sorted(metadata.topics.get(log, {}))]
    reading = describe_producers(client, metadata, one, deadline())
    yield Capability(
        "transaction log", "no counters of outcomes, fences and times: gauges only", _texts(reading.faults), not_yet
    )
    no_groups = "" if metadata.topics.get(CONSUMER_OFFSETS) else f"no {CONSUMER_OFFSETS} yet: no group committed"
    group_grant = describe_group_grant(client, metadata, deadline())
    yield Capability("consumer groups", "no read_committed lag of groups", _texts([group_grant]), no_groups)
    config = client.config("topic", log, (MIN_ISR,), deadline()) if exists else {}
    yield Capability(
        "topic configs",
        "no condition under_min_isr",
        _texts([config if isinstance(config, Fault) else None]),
        not_yet,
    )


def _topics(metadata: Metadata) -> Capability:
    denied = [fault for fault in metadata.errors.values() if fault.reason is Reason.AUTHORIZATION]
    # Topics without DESCRIBE are left out in silence: none at all is either an empty cluster or a missing grant.
    unproven = "" if metadata.topics else "no topic is visible: grant DESCRIBE on Topic:*, unless the cluster is empty"
    return Capability("topics", "what is not visible is not watched", _texts(denied), unproven)


def _sample(metadata: Metadata) -> list[TopicPartition]:
    """One partition of each topic, of as many topics as one request takes."""
    first = (TopicPartition(topic, min(some)) for topic, some in sorted(metadata.topics.items()) if some)
    return [partition for partition, _ in zip(first, range(MOST_PARTITIONS), strict=False)]


def _producers(answers: Answers[TopicPartition, Any], asked: list[TopicPartition]) -> Capability:
    faults = [fault for fault in answers.faults if fault.reason is not Reason.UNKNOWN_TOPIC]
    without = "blockers are not named, nothing is called hanging"
    return Capability("producers of partitions", without, _texts(faults), "" if asked else "no topics yet")


def _texts(faults: Iterable[Fault | None]) -> tuple[str, ...]:
    return tuple(fault.detail for fault in faults if fault is not None)


def _print(cluster: Cluster, capabilities: tuple[Capability, ...]) -> None:
    print(f"cluster {cluster.target}")
    print_table(
        ("may we ask for", "verdict", "else", "what to do"),
        (
            (each.name, each.verdict, each.without if each.faults else "", "; ".join(each.faults) or each.unproven)
            for each in capabilities
        ),
    )
