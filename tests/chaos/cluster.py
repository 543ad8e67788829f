"""Three brokers and a controller of their own process, wired so that any two of them can be cut off from each other.

Clients reach a broker directly. Other brokers reach it through a proxy, as its inter-broker listener is advertised at
the proxy's address. All brokers reach the controller through one proxy: ``controller.quorum.voters`` names it, and the
controller is advertised there, or brokers would learn its own address from it and go around the proxy. What is of which
broker is known by the client id.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from exporter.kafka.connection import BrokerConnection
from exporter.kafka.faults import AskError
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.metadata import Metadata, metadata_request, read_metadata
from exporter.model import Deadline
from testkit import jars
from testkit.cluster import BrokerNode, StartError
from testkit.processes import ProcessGroup, java, poll
from testkit.settings import ClusterShape, Node, free_ports, server_properties
from tests.chaos.modes import ORDINARY, Mode
from tests.chaos.oracle.segments import SegmentBatch, batches
from tests.helpers.shifted_clock import with_clock
from tests.helpers.tcp_proxy import Matches, TcpProxy

CONTROLLER = 100
BROKERS = (1, 2, 3)
REPLICAS = 3
MIN_ISR = 2
TRANSACTION_LOG = "__transaction_state"
TRANSACTION_PARTITIONS = 20
TOPICS = {"orders": 6, "payments": 6, "ledger": 2, "pairs": 6}
PAIRS = "pairs"
"""Of two replicas, of which one is enough: two brokers that restart one after the other leave it without a leader."""
PAIR_PLACES = [[1, 2], [2, 3], [3, 1]] * 2
LAST_LEADER = re.compile(r"to (\d+) using an unclean election.* lastKnownElr=\[\1\]")
START_SECONDS = 300.0
"""On a machine that runs other tests as well."""
BROKER_HEAP_MB = 320
CONTROLLER_HEAP_MB = 160


class ChaosCluster:
    """A context manager. ``to_controller`` is a proxy, ``to_broker`` are proxies by broker id."""

    def __init__(self, version: str = jars.DEFAULT_VERSION, mode: Mode = ORDINARY) -> None:
        self.version = version
        self.mode = mode
        self.id = self._first_id = ""
        self.lost: list[dict[tuple[str, int], list[SegmentBatch]]] = []
        """The logs of brokers just before leaders that may lack some of their records took their place."""
        self.folder = Path(tempfile.mkdtemp(prefix="kafka-eos-chaos-"))
        self.processes = ProcessGroup(self.folder)
        self.library = jars.library(version)
        ports = iter(free_ports(1 + 2 * len(BROKERS)))
        controller = next(ports)
        self._internal = {number: next(ports) for number in BROKERS}
        self.to_controller = TcpProxy(controller)
        self._held: dict[int, Matches] = {}
        self.to_broker = {number: TcpProxy(self._internal[number]) for number in BROKERS}
        self._controller = Node(CONTROLLER, is_broker=False, is_controller=True, controller_port=controller)
        self._nodes = {
            number: Node(number, is_broker=True, is_controller=False, port=next(ports)) for number in BROKERS
        }
        self.controller = self._server(self._controller, CONTROLLER_HEAP_MB)
        self.brokers = {number: self._server(node, BROKER_HEAP_MB) for number, node in self._nodes.items()}

    @property
    def bootstrap(self) -> str:
        """The brokers' own addresses, for clients."""
        return ",".join(broker.address for broker in self.brokers.values())

    def broker(self, node_id: int) -> BrokerNode:
        return self.brokers[node_id]

    def data(self, broker: int) -> Path:
        """The log folder of a broker."""
        return self.folder / f"data-{broker}"

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "socket.timeout.ms": 10000})

    def proxies(self) -> list[TcpProxy]:
        return [self.to_controller, *self.to_broker.values()]

    # --- Faults of the network ---

    def part_from_controller(self, broker: int) -> None:
        """Nothing passes between this broker and the controller; its clients and peers still reach it."""
        mine = {str(broker), f"raft-client-{broker}"}
        self._hold_from_controller(broker, lambda client_id: client_id in mine or client_id.endswith(f"-{broker}"))

    def hold_metadata(self, broker: int) -> None:
        """The broker's heartbeats pass and keep it in the cluster, and it learns nothing new from the controller."""
        self._hold_from_controller(broker, lambda client_id: client_id == f"raft-client-{broker}")

    def _hold_from_controller(self, broker: int, matches: Matches) -> None:
        self.join_controller(broker)
        self._held[broker] = matches
        self.to_controller.hold(matches)

    def join_controller(self, broker: int) -> None:
        """End what keeps this broker from the controller."""
        if (matches := self._held.pop(broker, None)) is not None:
            self.to_controller.heal(matches)

    def part_from_peers(self, broker: int) -> None:
        """Nothing passes between this broker and the other brokers."""
        self.to_broker[broker].hold()
        for other, proxy in self.to_broker.items():
            if other != broker:
                proxy.hold(lambda client_id: of_broker(client_id, broker))

    def part_pair(self, one: int, other: int) -> None:
        """Nothing passes between these two brokers."""
        self.to_broker[one].hold(lambda client_id: of_broker(client_id, other))
        self.to_broker[other].hold(lambda client_id: of_broker(client_id, one))

    def heal(self) -> None:
        self._held.clear()
        for proxy in self.proxies():
            proxy.heal()

    # --- Life ---

    def start(self) -> Self:
        until = Deadline.after(START_SECONDS)
        try:
            for proxy in self.proxies():
                proxy.start()
            self._format(until)
            self.controller.start()
            for broker in self.brokers.values():
                broker.start()
            self._create_topics(until)
        except BaseException:
            self.close()
            raise
        return self

    def _create_topics(self, until: Deadline) -> None:
        self.wait_whole(until)
        for name, partitions in TOPICS.items():
            self.create_topic(name, partitions)

    def become_another(self, *, same_id: bool) -> None:
        """Stop all nodes, put their data away, and start a new cluster with the same topics at the same addresses."""
        until = Deadline.after(START_SECONDS)
        self._stop_all(until)
        self._first_id = self.id
        for number in (CONTROLLER, *BROKERS):
            self.data(number).rename(self._kept_data(number))
        self._format(until, same_id=same_id)
        self._start_all()
        self._create_topics(until)

    def become_itself(self) -> None:
        """Stop the other cluster, remove it, and start the first one with its data."""
        until = Deadline.after(START_SECONDS)
        self._stop_all(until)
        for number in (CONTROLLER, *BROKERS):
            shutil.rmtree(self.data(number))
            self._kept_data(number).rename(self.data(number))
        self.id = self._first_id
        self._start_all()
        self.wait_whole(until)
        self.wait_replicated(until)

    def _stop_all(self, until: Deadline) -> None:
        for node in (*self.brokers.values(), self.controller):
            node.stop(until)

    def _start_all(self) -> None:
        for node in (self.controller, *self.brokers.values()):
            node.start()

    def _kept_data(self, number: int) -> Path:
        return self.folder / f"kept-{number}"

    def allow_unclean_elections(self, topics: Collection[str]) -> None:
        """Of these topics leaders may be elected that are not in sync; of the others, no more."""
        config = "unclean.leader.election.enable"
        changes = [
            ConfigResource(
                ResourceType.TOPIC,
                topic,
                incremental_configs=[
                    ConfigEntry(config, str(topic in topics).lower(), incremental_operation=AlterConfigOpType.SET)
                ],
            )
            for topic in (TRANSACTION_LOG, *TOPICS)
        ]
        admin = self.admin()  # kept until the answers are here: a client that is collected fails its futures
        for answer in admin.incremental_alter_configs(changes, request_timeout=15).values():
            answer.result(20)

    def keep_logs(self, broker: int) -> None:
        """Read the logs of a broker that is stopped: another leader may not have their records."""
        folders = [folder for folder in self.data(broker).glob("*-*") if folder.is_dir()]
        found = {}
        for folder in folders:
            topic, _, number = folder.name.rpartition("-")
            if topic == TRANSACTION_LOG or topic in TOPICS:
                found[topic, int(number)] = list(batches(folder))
        self.lost.append(found)

    def view(self, broker: int, timeout: float = 2.0) -> Metadata:
        """The cluster as this broker has it. Raises AskError. (librdkafka would ask any broker in the metadata.)"""
        node = self._nodes[broker]
        properties = Properties.parse({"bootstrap.servers": self.brokers[broker].address})
        until = Deadline.after(timeout)
        with closing(BrokerConnection(f"broker {broker}", ("127.0.0.1", node.port or 0), properties, None)) as asked:
            asked.open(until)
            return read_metadata(asked.call(metadata_request(None), until))

    def members(self, broker: int) -> set[int]:
        """The brokers that this one lists; none when it does not answer."""
        try:
            return set(self.view(broker).brokers)
        except AskError:
            return set()

    def wait_whole(self, deadline: Deadline) -> None:
        """Wait until every broker lists all of them. Raises StartError."""
        late = set(BROKERS)
        while late:
            late = {number for number in late if self.members(number) != set(BROKERS)}
            if late and not poll(deadline, 0.2):
                number = min(late)
                tail = self.brokers[number].child.tail()
                raise StartError(f"broker {number} is not in the cluster in time; the end of its log:\n{tail}")

    def wait_replicated(self, deadline: Deadline) -> None:
        """Wait until every partition has a leader and all its replicas in sync. Raises StartError."""
        admin = self.admin()
        missing: list[str] = ["no metadata yet"]
        while missing:
            try:
                topics = admin.list_topics(timeout=5).topics
            except KafkaException:
                topics = {}
            missing = [
                f"{name}-{number}: leader {partition.leader}, in sync {partition.isrs} of {partition.replicas}"
                for name, topic in topics.items()
                for number, partition in topic.partitions.items()
                if partition.leader < 0 or len(partition.isrs) < len(partition.replicas)
            ] or ([] if topics else ["no metadata"])
            if missing and not poll(deadline, 0.5):
                raise StartError(f"{len(missing)} partitions are not whole again: {'; '.join(missing[:5])}")

    def close(self, *, keep: bool = False) -> None:
        self.processes.close(Deadline.after(0))
        for proxy in self.proxies():
            proxy.close()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def unclean_elections(self) -> int:
        """How many leaders the controller elected that may lack records which were acknowledged, by its own log.

        The last known leader of a partition of two replicas has all of them (KIP-966): only logs of replicas that
        cannot lead are truncated.
        """
        with (self.folder / f"broker-{CONTROLLER}.log").open(errors="replace") as lines:
            return sum("using an unclean election" in line and not LAST_LEADER.search(line) for line in lines)

    def create_topic(self, name: str, partitions: int) -> None:
        admin = self.admin()
        if name in admin.list_topics(timeout=30).topics:
            return
        # The oracle dates a stall by the instant at which its holder's first batch was appended.
        config = {"min.insync.replicas": str(self._min_isr), "message.timestamp.type": "LogAppendTime"}
        if name == PAIRS:
            config["min.insync.replicas"] = "1"
            topic = NewTopic(name, partitions, replica_assignment=PAIR_PLACES, config=config)
        else:
            topic = NewTopic(name, partitions, REPLICAS, config=config)
        admin.create_topics([topic], request_timeout=30)[name].result()
        self.wait_replicated(Deadline.after(START_SECONDS))

    def _server(self, node: Node, heap_mb: int) -> BrokerNode:
        argv = java(heap_mb, self.library, "kafka.Kafka", str(self._properties_file(node)))
        if ahead := self.mode.clocks.get(node.id):
            argv = with_clock(argv, ahead, self.folder)
        return BrokerNode(node, argv, self.processes)

    @property
    def _min_isr(self) -> int:
        return 1 if self.mode.unclean else MIN_ISR

    def _properties_file(self, node: Node) -> Path:
        return self.folder / f"node-{node.id}.properties"

    def _properties(self, node: Node) -> str:
        extra = {
            "log.cleaner.enable": "false",  # the oracle reads every record that was ever in the transaction log
            "transaction.state.log.min.isr": str(self._min_isr),
            "min.insync.replicas": str(self._min_isr),
            "offsets.topic.num.partitions": "5",
            # A follower that is cut off leaves the ISR after this, 30 s by default: markers wait for it.
            "replica.lag.time.max.ms": "10000",
            "auto.leader.rebalance.enable": "false",  # leaderships move when the nemesis says so
            "unclean.leader.election.enable": "false",
            # Not less than by default: a busy machine would take brokers away that nothing was done to.
            "broker.session.timeout.ms": "9000",
            "broker.heartbeat.interval.ms": "2000",
            "log.flush.offset.checkpoint.interval.ms": "5000",
            "num.recovery.threads.per.data.dir": "2",
            "controller.quorum.voters": f"{CONTROLLER}@{self.to_controller.address}",
        }
        if node.is_broker:
            internal = self._internal[node.id]
            protocols = "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
            own = f"PLAINTEXT://127.0.0.1:{node.port}"
            extra |= {
                "listeners": f"{own},INTERNAL://127.0.0.1:{internal}",
                "advertised.listeners": f"{own},INTERNAL://{self.to_broker[node.id].address}",
                "listener.security.protocol.map": protocols,
                "inter.broker.listener.name": "INTERNAL",
            }
        else:
            extra["advertised.listeners"] = f"CONTROLLER://{self.to_controller.address}"
        shape = ClusterShape((self._controller, *self._nodes.values()), TRANSACTION_PARTITIONS, None, extra)
        return server_properties(shape, node, str(self.data(node.id)))

    def _format(self, deadline: Deadline, *, same_id: bool = False) -> None:
        if not same_id:
            self.id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "x")
        jobs = []
        for node in (self._controller, *self._nodes.values()):
            self._properties_file(node).write_text(self._properties(node))
            arguments = ["format", "--cluster-id", self.id, "--config", str(self._properties_file(node))]
            argv = java(128, self.library, "kafka.tools.StorageTool", *arguments)
            jobs.append(self.processes.start(f"format-{node.id}", argv))
        for job in jobs:
            if job.wait(deadline) != 0:
                raise StartError(f"formatting failed:\n{job.tail()}")


def of_broker(client_id: str, broker: int) -> bool:
    """Whether a connection between brokers comes from this one: ``broker-2-fetcher-0``, ``...-broker-2``, or ``2``."""
    return client_id == str(broker) or f"broker-{broker}" in client_id
