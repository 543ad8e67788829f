"""How each fault of the nemesis is done to this cluster, these clients and this agent, and mended."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import PartitionMetadata
from kafka import KafkaAdminClient
from kafka import TopicPartition as Place
from kafka.errors import KafkaError

from exporter.kafka.faults import AskError
from exporter.model import Deadline
from testkit.processes import poll
from tests.chaos.agent import AgentUnderTest
from tests.chaos.cluster import BROKERS, MIN_ISR, TOPICS, TRANSACTION_LOG, ChaosCluster
from tests.chaos.modes import UNCLEAN_ELECTION
from tests.chaos.nemesis import IN_A_ROW, FaultAction, InjectedFault
from tests.chaos.workloads import Workload

MOVED_AT_ONCE = 8
OUT_OF_ISR_SECONDS = 30.0
TRUNCATED_BYTES = 4096
ALONE_SECONDS = 6.0
ALONE_WITHIN = 45.0
LOSE_RECORDS = {"log": {TRANSACTION_LOG}, "data": set(TOPICS), "all": {TRANSACTION_LOG, *TOPICS}}
"""The topics of which an unclean election is allowed."""


class FaultActions:
    """``by_kind`` has one deed for every kind.

    Of the faults of one broker, of one client or of the agent, a second one waits for the first.
    """

    def __init__(self, cluster: ChaosCluster, workload: Workload, agent: AgentUnderTest, seed: int) -> None:
        self._cluster = cluster
        self._workload = workload
        self._agent = agent
        self._lots = random.Random(f"{seed}/actions")
        self._locks = {name: threading.Lock() for name in (*map(str, BROKERS), *workload.names, "agent", "leaders")}
        self.by_kind: dict[str, FaultAction] = {
            "broker killed": self._kill_broker,
            "broker stopped": self._stop_brokers,
            "two brokers stopped": self._stop_brokers,
            "broker restarted": self._restart_broker,
            IN_A_ROW: self._restart_in_a_row,
            "cut off from the controller": self._cut_controller,
            "metadata held back": self._hold_metadata,
            "cut off from its peers": self._cut_peers,
            "two brokers cut off from each other": self._cut_pair,
            UNCLEAN_ELECTION: self._elect_unclean,
            "log of a follower truncated": self._truncate,
            "broker killed, agent killed 2 s later": self._kill_broker_and_agent,
            "leaderships moved": self._move_leaders,
            "client killed": self._kill_client,
            "client stopped": self._stop_client,
            "agent killed": self._kill_agent,
            "agent stopped": self._stop_agent,
            "agent started with a wrong clock": self._start_with_wrong_clock,
        }

    @contextmanager
    def _alone(self, *names: str) -> Iterator[None]:
        locks = [self._locks[name] for name in sorted(names)]
        for lock in locks:
            lock.acquire()
        try:
            yield
        finally:
            for lock in locks:
                lock.release()

    # --- Brokers ---

    def _kill_broker(self, fault: InjectedFault) -> None:
        broker = self._cluster.brokers[int(fault.target)]
        with self._alone(fault.target):
            broker.kill()
            time.sleep(fault.seconds)
            broker.start()

    def _kill_broker_and_agent(self, fault: InjectedFault) -> None:
        broker = self._cluster.brokers[int(fault.target)]
        with self._alone(fault.target):
            broker.kill()
            time.sleep(2)
            with self._alone("agent"):
                self._agent.kill()
                self._agent.start()
            time.sleep(max(0.0, fault.seconds - 2))
            broker.start()

    def _restart_broker(self, fault: InjectedFault) -> None:
        broker = self._cluster.brokers[int(fault.target)]
        with self._alone(fault.target):
            broker.stop(Deadline.after(20))
            time.sleep(fault.seconds)
            broker.start()

    def _restart_in_a_row(self, fault: InjectedFault) -> None:
        """Stop the second broker before the first is in sync again: partitions of the two have no leader until it is
        back, and their coordinators, which go on, pass them over.
        """
        first, second = (self._cluster.brokers[int(name)] for name in fault.target.split())
        with self._alone(*fault.target.split()):
            first.stop(Deadline.after(20))
            first.start()
            second.stop(Deadline.after(20))
            time.sleep(fault.seconds)
            second.start()

    def _stop_brokers(self, fault: InjectedFault) -> None:
        names = fault.target.split()
        with self._alone(*names):
            for name in names:
                self._cluster.brokers[int(name)].pause()
            time.sleep(fault.seconds)
            for name in names:
                self._cluster.brokers[int(name)].resume()

    def _elect_unclean(self, fault: InjectedFault) -> None:
        """Let one broker commit alone, then elect others without it: what it had alone is lost when it is back."""
        name, topics = fault.target.split()
        leader = self._cluster.brokers[int(name)]
        others = [broker for broker in self._cluster.brokers.values() if broker is not leader]
        began = time.monotonic()
        with self._alone(*map(str, BROKERS), "leaders"):
            self._cluster.allow_unclean_elections(LOSE_RECORDS[topics])
            self._cluster.wait_replicated(Deadline.after(OUT_OF_ISR_SECONDS))
            for broker in others:
                broker.pause()
                self._cluster.keep_logs(broker.id)
            try:
                self._wait_alone(int(name))
                time.sleep(ALONE_SECONDS)
                leader.kill()
                self._cluster.keep_logs(int(name))
            finally:
                for broker in others:
                    broker.resume()
            # The others lead without it, and take new records.
            time.sleep(max(ALONE_SECONDS, began + fault.seconds - time.monotonic()))
            leader.start()
            self._cluster.wait_whole(Deadline.after(OUT_OF_ISR_SECONDS))

    def _wait_alone(self, number: int) -> None:
        """Wait until this broker leads every partition, with no other one in sync."""
        until = Deadline.after(ALONE_WITHIN)
        while True:
            try:
                topics = self._cluster.view(number, 3.0).topics
                here = [
                    partition
                    for topic in topics.values()
                    for partition in topic.values()
                    if number in partition.replicas
                ]
                if here and all(partition.leader == number and partition.isr == (number,) for partition in here):
                    return
            except AskError:
                pass
            if not poll(until, 0.5):
                raise RuntimeError("it did not come to lead every partition alone")

    def _truncate(self, fault: InjectedFault) -> None:
        """Cut off the end of logs that was never written to the disk, as on a machine that lost its power."""
        number = int(fault.target)
        broker = self._cluster.brokers[number]
        with self._alone(fault.target):
            broker.kill()
            # Only a follower may lose what it had: what is in sync, or eligible beside too few that are, could lead.
            out = self._wait_out_of_sync(number)
            cut = truncate_logs(self._cluster.data(number), self._lots) if out else 0
            broker.start()
        if not cut:
            raise RuntimeError("it did not leave the ISR, or had no log to truncate: nothing was truncated")

    def _wait_out_of_sync(self, number: int) -> bool:
        """Whether every partition has enough replicas in sync without this broker, so that it cannot be elected.

        Where fewer than ``min.insync.replicas`` are left, a broker that leaves the ISR stays eligible, and the last one
        is elected again when it is back, with what its log then has (KIP-966).
        """
        until = Deadline.after(OUT_OF_ISR_SECONDS)
        admin = self._cluster.admin()
        while True:
            try:
                topics = admin.list_topics(timeout=5).topics.values()
                partitions = [partition for topic in topics for partition in topic.partitions.values()]
                if partitions and all(_cannot_lead(number, partition) for partition in partitions):
                    return True
            except KafkaException:
                pass
            if not poll(until, 0.5):
                return False

    # --- The network ---

    def _cut_controller(self, fault: InjectedFault) -> None:
        with self._alone(fault.target):
            self._cluster.part_from_controller(int(fault.target))
            time.sleep(fault.seconds)
            self._cluster.join_controller(int(fault.target))

    def _hold_metadata(self, fault: InjectedFault) -> None:
        with self._alone(fault.target):
            self._cluster.hold_metadata(int(fault.target))
            time.sleep(fault.seconds)
            self._cluster.join_controller(int(fault.target))

    def _cut_peers(self, fault: InjectedFault) -> None:
        with self._alone(*map(str, BROKERS)):
            self._cluster.part_from_peers(int(fault.target))
            time.sleep(fault.seconds)
            for proxy in self._cluster.to_broker.values():
                proxy.heal()

    def _cut_pair(self, fault: InjectedFault) -> None:
        one, other = map(int, fault.target.split())
        with self._alone(*map(str, BROKERS)):
            self._cluster.part_pair(one, other)
            time.sleep(fault.seconds)
            for proxy in self._cluster.to_broker.values():
                proxy.heal()

    # --- Leaderships ---

    def _move_leaders(self, _: InjectedFault) -> None:
        """Make another replica that is in sync the preferred leader of some partitions, and elect it."""
        with self._alone("leaders"):
            topics = self._cluster.admin().list_topics(timeout=5).topics
            every = [
                (name, number, partition)
                for name, topic in topics.items()
                for number, partition in topic.partitions.items()
                if partition.leader >= 0 and len(partition.isrs) > 1
            ]
            # Half of them of the transaction log: there a coordinator moves.
            log = [place for place in every if place[0] == TRANSACTION_LOG]
            rest = [place for place in every if place[0] != TRANSACTION_LOG]
            half = MOVED_AT_ONCE // 2
            drawn = self._lots.sample(log, min(half, len(log))) + self._lots.sample(rest, min(half, len(rest)))
            wanted: dict[Place, list[int]] = {}
            for name, number, drawn_place in drawn:
                first = self._lots.choice([replica for replica in drawn_place.isrs if replica != drawn_place.leader])
                wanted[Place(name, number)] = [
                    first,
                    *(replica for replica in drawn_place.replicas if replica != first),
                ]
            if not wanted:
                raise RuntimeError("no partition has a second replica in sync")
            self._elect(wanted)

    def _elect(self, wanted: dict[Place, list[int]]) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self._cluster.bootstrap.split(","), request_timeout_ms=10000)
        try:
            admin.alter_partition_reassignments(wanted, timeout_ms=8000)
            admin.elect_leaders(0, list(wanted), timeout_ms=8000, raise_errors=False)
        except KafkaError as error:
            raise RuntimeError(f"the controller did not move them: {error}") from error
        finally:
            admin.close()

    # --- Clients and the agent ---

    def _kill_client(self, fault: InjectedFault) -> None:
        with self._alone(fault.target):
            self._workload.kill(fault.target)
            time.sleep(max(fault.seconds, self._workload.gap(fault.target)))
            self._workload.start_client(fault.target)

    def _stop_client(self, fault: InjectedFault) -> None:
        with self._alone(fault.target):
            self._workload.pause(fault.target)
            time.sleep(fault.seconds)
            self._workload.resume(fault.target)

    def _kill_agent(self, fault: InjectedFault) -> None:
        with self._alone("agent"):
            self._agent.kill()
            time.sleep(fault.seconds)
            self._agent.start()

    def _stop_agent(self, fault: InjectedFault) -> None:
        with self._alone("agent"):
            self._agent.pause()
            time.sleep(fault.seconds)
            self._agent.resume()

    def _start_with_wrong_clock(self, fault: InjectedFault) -> None:
        with self._alone("agent"):
            self._agent.kill()
            self._agent.start(clock=int(fault.target))


def _cannot_lead(number: int, partition: PartitionMetadata) -> bool:
    return number not in partition.isrs and len(partition.isrs) >= min(MIN_ISR, len(partition.replicas) - 1)


def truncate_logs(data: Path, lots: random.Random) -> int:
    """Cut up to some kilobytes off the newest segment of half of a stopped broker's partitions; how many were cut.

    A machine that loses power loses the ends of a segment's indexes too. An index that is longer than its segment stops
    the partition's replication for good (InvalidOffsetException); a missing one is made anew (LogSegment.sanityCheck).
    """
    cut = 0
    for folder in sorted(data.glob("*-*")):
        segments = sorted(folder.glob("*.log"))
        if not segments or folder.name.startswith("__cluster_metadata") or lots.random() < 0.5:
            continue
        size = segments[-1].stat().st_size
        if size:
            with segments[-1].open("r+b") as stream:
                stream.truncate(max(0, size - lots.randint(1, TRUNCATED_BYTES)))
            for ending in (".index", ".timeindex", ".txnindex"):
                segments[-1].with_suffix(ending).unlink(missing_ok=True)
            cut += 1
    return cut
