"""Helpers of the audit's tests: histories written record by record, and audits of them in one Spark session."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Producer

from exporter.audit_results.result import AuditResult, Finding
from exporter.jobs.audit.definition import Audit
from exporter.jobs.audit.outcome import AuditReport, AuditSettings, audit_once
from exporter.jobs.audit.read import TopicAccess
from exporter.jobs.lakes import Lake
from exporter.jobs.session import spark_session
from testkit.cluster import KafkaCluster
from tests.e2e.spark.packages import all_packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 30.0


class PlannedRecord(NamedTuple):
    """A record to write."""

    partition: int
    key: str | None
    value: bytes | str | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class Auditor:
    """Audits topics of one cluster in one session."""

    session: SparkSession
    kafka: KafkaCluster
    access: TopicAccess

    def audit(self, topic: str, folder: Path | None = None, **question: Any) -> AuditResult:
        return self.report(topic, folder, **question).result

    def report(self, topic: str, folder: Path | None = None, **question: Any) -> AuditReport:
        settings = AuditSettings(topic, folder=folder, most_shown=50)
        return audit_once(self.session, self.access, Audit(topic, **question), settings, lambda _: None)


@contextmanager
def auditor(kafka: KafkaCluster, lakes: Collection[type[Lake]] = ()) -> Iterator[Auditor]:
    """A Spark of two cores with all that an audit may need, and these table formats."""
    access = TopicAccess.of(kafka.client_properties())
    # Few records, many small stages: one task each is what they need.
    conf = {"spark.sql.ansi.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    packages = all_packages()
    for lake in lakes:
        conf |= lake.conf("")
        packages += lake.packages("")
    if lakes:
        conf["spark.sql.extensions"] = ",".join(lake.conf("")["spark.sql.extensions"] for lake in lakes)
    try:
        with spark_session("audits", master="local[2]", packages=packages, conf=conf) as session:
            yield Auditor(session, kafka, access)
    finally:
        access.client.close()


def write(kafka: KafkaCluster, topic: str, transactions: Iterable[tuple[Iterable[PlannedRecord], bool]]) -> None:
    """Each transaction's records, then its end: True commits, False aborts."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"writer-{topic}", "log_level": 0})
    producer.init_transactions(SECONDS)
    for records, commit in transactions:
        producer.begin_transaction()
        for record in records:
            producer.produce(topic, record.value, record.key, record.partition, headers=list(record.headers))
        assert producer.flush(SECONDS) == 0
        if commit:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)


def history_writer(audits: Auditor, fresh: Callable[[str], str], partitions: int) -> Callable[..., str]:
    """``made(records of each transaction, aborted={3})`` writes them to a topic of its own; gives its name."""
    numbers = count(1)

    def made(transactions: list[list[PlannedRecord]], aborted: frozenset[int] = frozenset(), **config: str) -> str:
        topic = fresh(f"history-{next(numbers)}")
        audits.kafka.create_topic(topic, partitions, **config)
        write(
            audits.kafka,
            topic,
            ((transaction, number not in aborted) for number, transaction in enumerate(transactions)),
        )
        return topic

    return made


def by_kind(result: AuditResult) -> dict[str, Finding]:
    return {finding.kind: finding for finding in result.findings}


def places(finding: Finding) -> set[tuple[int, int]]:
    """Partition and offset of each example."""
    return {(example["partition"], example["offset"]) for example in finding.examples}


def part(example: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Some of the values of an example."""
    return {name: example[name] for name in names if name in example}
