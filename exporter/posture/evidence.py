"""Evidence for the checks of the posture, and their result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from exporter.connect.exactly_once import LoggedIds
from exporter.connect.facts import ConnectState
from exporter.core.replication import UnmadeTopic
from exporter.flink.facts import JobTimes
from exporter.inventory.applications_in_log import WrittenOutside
from exporter.kafka.requests.metadata import PartitionMetadata
from exporter.model import Fact, Fault
from exporter.posture.check import PostureCheck, Settings
from exporter.posture.offsets import CommitTimes
from exporter.transactions.facts import (
    ApplicationTimeouts,
    CommitDurations,
    IdChanges,
    OffsetPartitions,
    OpenTransaction,
    RepeatedInits,
)


@dataclass(frozen=True, slots=True)
class Posture(Fact):
    """All checks of one cluster, failed ones first."""

    checks: tuple[PostureCheck, ...]


@dataclass(frozen=True, slots=True)
class PostureEvidence:
    """Input of the checks. Settings that could not be read are replaced by an error text.

    ``topics`` has the internal topics and those that transactions write to; ``clients`` counts, by application, the
    transactional ids of the last hour by the transaction version of their client, None where the log is not read;
    ``beyond_lso`` are (group, topic) pairs of groups that are proven to read beyond the last stable offset, and
    ``unproven_readers`` those of ``GroupsBeyondLso``;
    ``newest_commits`` are by group, or why they are not known. ``log_sizes`` has by broker the bytes of internal topics
    by partition, or why they are not known. ``elsewhere``: the brokers list transactions and have no transaction log.
    ``durations``, ``timeouts`` and ``pauses`` are those of ``TransactionUse``.
    ``unmade`` are the internal topics that are not there, or why that or their settings are not known.
    ``spark_sinks`` has the kind of the sink by application and query. ``written_outside`` are topics
    that groups read.
    """

    cluster: str
    brokers: Mapping[int, Settings | str]
    topics: Mapping[str, Mapping[int, PartitionMetadata]]
    topic_settings: Mapping[str, Settings | str]
    transaction_version: int | None
    version_error: str = ""
    opened: Sequence[OpenTransaction] | None = None
    opened_error: str = ""
    clients: Mapping[str, Mapping[int, int]] | None = None
    clients_error: str = ""
    beyond_lso: frozenset[tuple[str, str]] = frozenset()
    unproven_readers: Mapping[str, int] = field(default_factory=dict)
    connects: Sequence[ConnectState] = field(default_factory=tuple)
    connect_log: LoggedIds | None = None
    newest_commits: Mapping[str, CommitTimes] | Fault = field(default_factory=dict)
    offset_partitions: Mapping[str, OffsetPartitions] = field(default_factory=dict)
    id_changes: Mapping[str, IdChanges] = field(default_factory=dict)
    repeated_inits: Mapping[str, RepeatedInits] = field(default_factory=dict)
    pauses: Mapping[str, float] = field(default_factory=dict)
    flink_jobs: Sequence[JobTimes] = field(default_factory=tuple)
    log_sizes: Mapping[int, Mapping[str, Mapping[int, int]] | str] = field(default_factory=dict)
    elsewhere: bool = False
    spark_sinks: Mapping[str, str] = field(default_factory=dict)
    durations: Mapping[str, CommitDurations] = field(default_factory=dict)
    timeouts: Mapping[str, ApplicationTimeouts] = field(default_factory=dict)
    written_outside: Sequence[WrittenOutside] = field(default_factory=tuple)
    written_outside_error: str = ""
    unmade: Mapping[str, UnmadeTopic | str] = field(default_factory=dict)


def broker_settings(evidence: PostureEvidence) -> list[Settings]:
    """The settings of the brokers that answered."""
    return [settings for settings in evidence.brokers.values() if not isinstance(settings, str)]


def broker_error(evidence: PostureEvidence) -> str:
    """Why the settings of a broker are unknown; "" when all are known."""
    return next((settings for settings in evidence.brokers.values() if isinstance(settings, str)), "")


def broker_numbers(evidence: PostureEvidence, key: str) -> list[int]:
    """The values of one setting over all brokers, where they are whole numbers."""
    values: Iterable[str] = (settings.get(key, "") for settings in broker_settings(evidence))
    return [int(value) for value in values if value.lstrip("-").isdigit()]
