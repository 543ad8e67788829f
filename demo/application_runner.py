"""The demo's applications: who runs, on which client, with which topics; and the threads that drive them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import Self

from demo.actors import (
    aborts,
    carries_offsets,
    commits,
    fence_each_other,
    holds_open,
    reads_committed,
    times_out,
)
from demo.scenes import GROUP, ORPHAN_TOPIC, STALLED_PARTITION, STALLED_TOPIC
from exporter.model import Deadline
from testkit.cluster import KafkaCluster
from testkit.processes import JvmOptions
from testkit.workloads.outcome_counts import OutcomeCounts
from testkit.workloads.producers import JavaProducer, Producer, ProducerClass, ProducerError, RdkafkaProducer

TORN_TOPIC = "receipts"
TOPICS = {STALLED_TOPIC: 3, ORPHAN_TOPIC: 1, "payments": 3, "imports": 2, "reports": 1, TORN_TOPIC: 2}
TIMEOUT_SECONDS = 3.0
STUCK_SECONDS = 900.0


class ApplicationRunner:
    """Starts the applications and keeps their counts. One thread each; ``failures`` names those that broke down."""

    def __init__(self, cluster: KafkaCluster, jvm_options: JvmOptions = lambda _: (), report_to: str = "") -> None:
        """The healthy applications can be asked: the Java ones by ``jvm_options``, librdkafka's reports to an agent."""
        self._cluster = cluster
        self._jvm_options = jvm_options
        self._report_to = report_to
        self._stop = Event()
        self._threads: list[Thread] = []
        self.counts: list[OutcomeCounts] = []
        self.failures: list[str] = []

    def start(self) -> None:
        """Start all applications; they are on their way when this returns."""
        v1, v2 = RdkafkaProducer, JavaProducer
        checkout = RdkafkaProducer(self._cluster, "checkout-1", report_to=self._report_to)
        self._act(commits, self._booked(checkout), STALLED_TOPIC)
        billing, payouts = (
            self._booked(JavaProducer(self._cluster, name, jvm_options=self._jvm_options))
            for name in ("billing-1", "payouts-1")
        )
        self._act(carries_offsets, billing, "payments", ORPHAN_TOPIC, "billing")
        self._act(commits, payouts, "payments")
        self._act(aborts, self._producer(v1, "importer-1"), "imports")
        self._act(aborts, self._producer(v2, "crawler-1"), "imports")
        self._act(times_out, self._producer(v1, "reports-1", TIMEOUT_SECONDS), "reports", TIMEOUT_SECONDS)
        self._act(times_out, self._producer(v2, "nightly-1", TIMEOUT_SECONDS), "reports", TIMEOUT_SECONDS)
        self._act(fence_each_other, *self._rivals(v1, "pay-3"), "payments")
        self._act(fence_each_other, *self._rivals(v2, "ship-3"), "payments")
        reading = Event()
        stalled = (STALLED_TOPIC, STALLED_PARTITION, reading)
        self._act(reads_committed, self._cluster.bootstrap, GROUP, *stalled)
        self._act(holds_open, self._producer(v1, "stuck-1", STUCK_SECONDS), *stalled)

    def torn_producer(self) -> Producer:
        """Whose transaction is torn; no actor has it."""
        return self._producer(RdkafkaProducer, "till-1")

    def finish(self, deadline: Deadline) -> None:
        """Tell all to finish what they are at, and wait for them."""
        self._stop.set()
        for thread in self._threads:
            thread.join(deadline.remaining())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Errors from now on, when the clients are stopped, are no failures.
        self._stop.set()

    def _producer(self, make: ProducerClass, transactional_id: str, timeout: float = 60.0) -> Producer:
        return self._booked(make(self._cluster, transactional_id, timeout=timeout))

    def _booked(self, producer: Producer) -> Producer:
        self.counts.append(producer.counts)
        return producer

    def _rivals(self, make: ProducerClass, transactional_id: str) -> tuple[Producer, Producer]:
        first = self._producer(make, transactional_id)
        return first, make(self._cluster, transactional_id, counts=first.counts)

    def _act(self, actor: Callable[..., None], *arguments: object) -> None:
        def run() -> None:
            try:
                actor(*arguments, self._stop)
            except ProducerError as error:
                if not self._stop.is_set():
                    self.failures.append(str(error))

        thread = Thread(target=run, name=actor.__name__, daemon=True)
        thread.start()
        self._threads.append(thread)
