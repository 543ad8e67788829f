"""How long it takes until /metrics says what happened: a commit, a timeout, a fence, and who blocks a partition.

The log's own clock begins each wait: the timestamp of the record that settles the event, read by a witness of ours.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import OFFSET_END, Consumer
from confluent_kafka import TopicPartition as Position

from exporter.catalogue import LSO_BLOCKER_INFO, TRANSACTIONS_TOTAL
from exporter.model import Deadline
from exporter.transactions.machine.records import TOPIC, Status, decode_key, decode_value
from testkit.agent import AgentProcess
from testkit.cluster import KafkaCluster
from testkit.orphan import make_orphan
from tests.bench.log_tail import partitions_of_log
from tests.bench.scale import OPEN_TIMEOUT_MS, Scale, spare_partition
from tests.bench.scrapes import scrape, value
from tests.bench.wire import BrokerConnections

TIMEOUT_MS = 1000
EVENT_SECONDS = 60.0
LOOK_SECONDS = 0.1
STALL_AFTER_SECONDS = 30.0
BLOCKER_SECONDS = 240.0


class LogObserver:
    """Reads the transaction log beside the agent and remembers when each id's newest record was written."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": "witness", "isolation.level": "read_uncommitted"}
        )
        self._consumer.assign([Position(TOPIC, number, OFFSET_END) for number in partitions_of_log(cluster)])
        self._seen: dict[tuple[str, Status], float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)
        self._thread.start()

    def wait(self, transactional_id: str, status: Status, after: float) -> float:
        """When the id's first record of this status after ``after`` was written, in Unix seconds."""
        deadline = Deadline.after(EVENT_SECONDS)
        while (at := self._seen.get((transactional_id, status), 0.0)) < after:
            if deadline.over:
                raise TimeoutError(f"{transactional_id} never became {status.name}")
            time.sleep(0.01)
        return at

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._over.is_set():
            for message in self._consumer.consume(1000, 0.05):
                key, record = message.key(), message.value()
                if message.error() is None and key is not None and record is not None:
                    self._seen[decode_key(key), decode_value(record).status] = message.timestamp()[1] / 1000


class Delays(NamedTuple):
    """Seconds, of several tries of one kind of event."""

    seconds: tuple[float, ...]

    @property
    def worst(self) -> float:
        return max(self.seconds)

    @property
    def median(self) -> float:
        return sorted(self.seconds)[len(self.seconds) // 2]


def event_delays(
    cluster: KafkaCluster, agent: AgentProcess, wire: BrokerConnections, scale: Scale, tries: int
) -> dict[str, Delays]:
    """From the record that settles a commit, a timeout and a fence to the scrape that has it counted."""
    found: dict[str, list[float]] = {"commit": [], "timeout": [], "fence": []}
    # The witness starts at the end of the log, and the applications' counters from what they are now.
    witness = LogObserver(cluster)
    time.sleep(2)
    try:
        for _ in range(tries):
            time.sleep(random.uniform(0, 1))
            for kind, delay in _one_of_each(agent, wire, scale, witness).items():
                found[kind].append(delay)
    finally:
        witness.close()
    return {kind: Delays(tuple(delays)) for kind, delays in found.items()}


def _one_of_each(agent: AgentProcess, wire: BrokerConnections, scale: Scale, witness: LogObserver) -> dict[str, float]:
    began = time.time()
    committing, fenced = wire.init(["event-commit-0", "event-fence-0"], OPEN_TIMEOUT_MS)
    (timing_out,) = wire.init(["event-timeout-0"], TIMEOUT_MS)
    before = _counts(scrape(agent.port))
    wire.add([(identity, spare_partition(scale, at)) for at, identity in enumerate((committing, fenced, timing_out))])
    begun = time.time()
    wire.end([(committing, True)])
    wire.init(["event-fence-0"], OPEN_TIMEOUT_MS)
    settled_by = {"commit": Status.COMPLETE_COMMIT, "fence": Status.EMPTY, "timeout": Status.COMPLETE_ABORT}
    delays: dict[str, float] = {}
    deadline = Deadline.after(EVENT_SECONDS)
    while len(delays) < len(settled_by):
        after = _counts(scrape(agent.port))
        now = time.time()
        for kind, status in settled_by.items():
            if kind not in delays and after[kind] > before[kind]:
                since = begun if kind != "timeout" else began
                delays[kind] = now - witness.wait(f"event-{kind}-0", status, since - 0.001)
        if deadline.over:
            raise TimeoutError(f"/metrics counts only {sorted(delays)}")
        time.sleep(LOOK_SECONDS / 2)
    return delays


def _counts(body: bytes) -> dict[str, float]:
    outcomes = {"commit": "committed", "timeout": "timed_out", "fence": "fenced"}
    return {
        kind: value(body, TRANSACTIONS_TOTAL.name, f'application="event-{kind}"', f'outcome="{outcome}"') or 0.0
        for kind, outcome in outcomes.items()
    }


def blocker_delays(
    cluster: KafkaCluster, agent: AgentProcess, wire: BrokerConnections, scale: Scale, tries: int
) -> tuple[Delays, Delays]:
    """From the stall threshold to the named blocker: of open transactions, and of a true orphan."""
    ids = [f"blocker-{number}" for number in range(tries)]
    producers = wire.init(ids, OPEN_TIMEOUT_MS)
    thresholds: dict[str, float] = {}
    for number, producer in enumerate(producers):
        # A topic of its own: of thousands of stalls those of a new topic are series, see ``shown``.
        work = [(producer, spare_partition(scale, number * scale.partitions))]
        wire.add(work)
        wire.produce(work)
        thresholds[f'transactional_id="{producer.transactional_id}"'] = time.time() + STALL_AFTER_SECONDS
        time.sleep(random.uniform(0, 2))
    place = spare_partition(scale, tries * scale.partitions)
    make_orphan(cluster, place.topic, place.partition)
    orphan = 'kind="hanging"'
    thresholds[orphan] = time.time() + STALL_AFTER_SECONDS
    seen = _wait_for_blockers(agent, list(thresholds))
    delays = {label: max(0.0, seen[label] - threshold) for label, threshold in thresholds.items()}
    return Delays(tuple(delays[label] for label in delays if label != orphan)), Delays((delays[orphan],))


def _wait_for_blockers(agent: AgentProcess, labels: Sequence[str]) -> dict[str, float]:
    seen: dict[str, float] = {}
    deadline = Deadline.after(BLOCKER_SECONDS)
    while len(seen) < len(labels):
        body, now = scrape(agent.port), time.time()
        for label in labels:
            if label not in seen and value(body, LSO_BLOCKER_INFO.name, label) is not None:
                seen[label] = now
        if deadline.over:
            raise TimeoutError(f"no blocker is named for {sorted(set(labels) - seen.keys())}")
        time.sleep(LOOK_SECONDS)
    return seen
