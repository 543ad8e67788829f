"""``make lab``: exactly-once from PostgreSQL by Debezium under kills, and what exactly-once costs. Minutes.

Each run of the first part fills a table, kills a worker or the database's connections, waits until every row is in the
topic, and has our own audit count what is there twice or missing. The second part measures throughput and the time from
send to read side by side. The tables go to standard output, as in docs/lab.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from demo import jars, lab_cost
from demo.cluster import KafkaCluster
from demo.connect import ConnectCluster, WorkerProcess
from demo.postgres import Postgres
from exporter.model import Deadline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from exporter.audit_results.result import AuditResult

ROWS = 100_000
"""Rows of a table before its connector starts: some seconds of a snapshot."""
STREAMED = 5_000
BATCH = 500
"""Rows of one INSERT while changes are streamed."""
COMPLETE_SECONDS = 180.0
_DATABASE = {"wal_level": "logical", "max_replication_slots": "20", "max_wal_senders": "20"}
_JSON = "org.apache.kafka.connect.json.JsonConverter"


class LabFault(NamedTuple):
    """A fault that is made while records flow; ``snapshot``: while the snapshot does."""

    name: str
    snapshot: bool
    strike: Callable[[LabRun], None]


class LabOutcome(NamedTuple):
    """A row of the table. ``duplicates`` and ``missing`` are the audit's, ``seconds`` until every row was there."""

    support: str
    fault: str
    rows: int
    records: int
    aborted: int
    duplicates: int
    missing: int
    seconds: float


@dataclass(slots=True)
class LabRun:
    """One connector with its table and topic."""

    kafka: KafkaCluster
    postgres: Postgres
    connect: ConnectCluster
    name: str
    seen: set[int] = field(default_factory=set)

    @property
    def topic(self) -> str:
        return f"{self.name}.public.{self.name}"

    def worker(self) -> WorkerProcess:
        """The worker that runs the task."""
        (task,) = self.connect.call("GET", f"/connectors/{self.name}/status")["tasks"]
        return next(
            candidate for candidate in self.connect.workers if str(task["worker_id"]).endswith(f":{candidate.port}")
        )

    def insert(self, first: int, count: int) -> None:
        self.postgres.execute(
            f"INSERT INTO {self.name} SELECT n, md5(n::text) FROM generate_series({first}, {first + count - 1}) n"  # noqa: S608 -- numbers and a name of our own
        )


def kill(run: LabRun) -> None:
    """SIGKILL to the worker that runs the task; it is started again."""
    victim = run.worker()
    victim.kill()
    victim.start()


def terminate(run: LabRun) -> None:
    """The database ends the connector's connections."""
    run.postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND backend_type IN ('walsender', 'client backend')"
    )


FAULTS = (
    LabFault("worker killed in the snapshot", True, kill),
    LabFault("worker killed while streaming", False, kill),
    LabFault("database connections terminated while streaming", False, terminate),
)


def debezium(postgres: Postgres, name: str, *, exactly_once: bool) -> dict[str, object]:
    """The connector's settings. Its errors are retried by Debezium, which is its default."""
    return {
        **postgres.debezium(name, name),
        "exactly.once.support": "required" if exactly_once else "requested",
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "filtered",
        "max.batch.size": 512,
        "max.queue.size": 1024,
        "key.converter": _JSON,
        "value.converter": _JSON,
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
    }


def play(run: LabRun, fault: LabFault, *, exactly_once: bool) -> float:
    """Fill, start, strike in the middle, and wait until every row is in the topic. Returns seconds from the strike."""
    rows = ROWS if fault.snapshot else BATCH
    run.postgres.execute(f"CREATE TABLE {run.name} (id int PRIMARY KEY, content text)")
    run.insert(1, rows)
    run.kafka.create_topic(run.topic)
    run.connect.create(run.name, debezium(run.postgres, run.name, exactly_once=exactly_once))
    run.connect.wait_tasks(run.name)
    with reading(run) as read:
        if fault.snapshot:
            read(rows // 5)
            fault.strike(run)
            began = time.monotonic()
        else:
            read(rows)
            began = time.monotonic()
            for first in range(rows + 1, rows + STREAMED, BATCH):
                run.insert(first, BATCH)
                if first >= rows + STREAMED // 2 > first - BATCH:
                    read(rows + BATCH)
                    fault.strike(run)
                    began = time.monotonic()
            rows += STREAMED
        revive(run, lambda: read(rows))
        return time.monotonic() - began


def revive(run: LabRun, read: Callable[[], None]) -> None:
    """Read to the end; a task that failed is restarted, as an operator would."""
    if "FAILED" in run.connect.task_states(run.name):
        run.connect.restart_task(run.name)
    read()


@contextmanager
def reading(run: LabRun) -> Iterator[Callable[[int], None]]:
    """A function that reads until so many ids were seen by a read_committed consumer. Raises TimeoutError."""
    consumer = Consumer(
        {"bootstrap.servers": run.kafka.bootstrap, "group.id": run.name, "isolation.level": "read_committed"}
    )
    consumer.assign([Position(run.topic, 0, 0)])

    def read(ids: int) -> None:
        until = Deadline.after(COMPLETE_SECONDS)
        while len(run.seen) < ids:
            for message in consumer.consume(5_000, 0.5):
                value = message.value()
                if message.error() is None and value is not None:
                    run.seen.add(json.loads(value)["after"]["id"])
            if until.over:
                raise TimeoutError(f"{run.topic} has {len(run.seen)} of {ids} ids:\n{run.connect.log_tail()}")

    try:
        yield read
    finally:
        consumer.close()


def audited(session: SparkSession, run: LabRun) -> AuditResult:
    """Each row has one event: what is there twice, and which rows are not there."""
    from exporter.jobs.audit.columns import Shape  # noqa: PLC0415 -- pyspark is an extra
    from exporter.jobs.audit.definition import Audit, NullId, Outbox  # noqa: PLC0415 -- as above
    from exporter.jobs.audit.outcome import AuditSettings, audit_once  # noqa: PLC0415 -- as above
    from exporter.jobs.audit.read import TopicAccess  # noqa: PLC0415 -- as above
    from exporter.jobs.audit.tables import SinkTable  # noqa: PLC0415 -- as above
    from exporter.kafka.client import ClusterClient  # noqa: PLC0415 -- as above
    from exporter.kafka.properties.client import Properties  # noqa: PLC0415 -- as above

    table = SinkTable(run.postgres.jdbc_url, run.name, "postgres")
    question = Audit(
        run.topic,
        id="get_json_object(after, '$.id')",
        shape=Shape(envelope=True),
        null_id=NullId.FAIL,
        outbox=Outbox(table, "id"),
    )
    properties = Properties.parse(run.kafka.client_properties())
    client = ClusterClient(properties)
    try:
        access = TopicAccess(client, properties)
        return audit_once(session, access, question, AuditSettings(run.name), lambda _: None).result
    finally:
        client.close()


def pipelines() -> list[LabOutcome]:
    """Every fault with exactly-once source support on and off."""
    from exporter.jobs.session import POSTGRESQL, kafka_connector, spark_session  # noqa: PLC0415 -- as above

    plugin = jars.debezium()
    outcomes = []
    with ExitStack() as full:
        kafka = full.enter_context(KafkaCluster(progress=jars.say))
        postgres = full.enter_context(Postgres(_DATABASE))
        conf = {"spark.sql.ansi.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
        packages = [kafka_connector(), POSTGRESQL]
        session = full.enter_context(spark_session("lab", master="local[2]", packages=packages, conf=conf))
        for support in ("enabled", "disabled"):
            # Kafka's own default: how far an at-least-once source may go back.
            properties = {
                "exactly.once.source.support": support,
                "offset.flush.interval.ms": "60000",
                "plugin.path": str(plugin),
            }
            with ConnectCluster(kafka, f"eos-{support}", properties=properties) as connect:
                for number, fault in enumerate(FAULTS):
                    run = LabRun(kafka, postgres, connect, f"{support}_{number}")
                    jars.say(f"{support}: {fault.name}")
                    seconds = play(run, fault, exactly_once=support == "enabled")
                    outcomes.append(outcome_of(support, fault, run, audited(session, run), seconds))
                    jars.say(f"  {outcomes[-1]}")
                    connect.delete(run.name)
    return outcomes


def outcome_of(support: str, fault: LabFault, run: LabRun, result: AuditResult, seconds: float) -> LabOutcome:
    """Raises RuntimeError for an audit that is not sure."""
    if result.unknown:
        raise RuntimeError(f"the audit of {run.topic} is not sure: {'; '.join(result.unknown)}")
    counts = {finding.kind: finding.count for finding in result.findings}
    rows = len(run.seen)
    aborted = result.aborted_records or 0
    found = counts.get("duplicate", 0), counts.get("missing", 0)
    return LabOutcome(support, fault.name, rows, result.records or 0, aborted, *found, seconds)


def pipeline_table(outcomes: Sequence[LabOutcome]) -> str:
    head = "| exactly.once.source.support | fault | rows | records | aborted | duplicates | missing | complete after |"
    lines = [head, "|---|---|---:|---:|---:|---:|---:|---:|"]
    for outcome in outcomes:
        numbers = " | ".join(f"{number:,}" for number in outcome[2:7])
        lines.append(f"| {outcome.support} | {outcome.fault} | {numbers} | {outcome.seconds:.0f} s |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.lab", description="Exactly-once under faults, and its cost.")
    parser.add_argument("--only", choices=("pipelines", "cost"), help="one of the two parts")
    options = parser.parse_args(argv)
    began = time.monotonic()
    jars.say(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if options.only != "cost":
        print(pipeline_table(pipelines()), end="\n\n", flush=True)
    if options.only != "pipelines":
        print(lab_cost.table(lab_cost.measured(jars.say)), flush=True)
    jars.say(f"{time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
