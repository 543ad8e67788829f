"""A real Kafka cluster on loopback: one to three KRaft brokers that can be stopped, killed, paused and started again.

``python -m testkit.cluster --brokers 3`` starts one and keeps it until Ctrl-C.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from exporter.model import Deadline
from testkit import jars
from testkit.access import Grants
from testkit.processes import Child, JvmOptions, ProcessGroup, java, poll, run_to_end
from testkit.settings import SASL, ClusterShape, Node, Security, nodes_of, server_properties, zookeeper_properties

START_SECONDS = 240.0
STOP_SECONDS = 20.0
TOOL_SECONDS = 180.0


class StartError(RuntimeError):
    """A broker did not come up; the text has the end of its log and where the rest is."""


class BrokerNode:
    """One node of the cluster. ``start`` brings it back on the same ports and data."""

    def __init__(self, node: Node, argv: Sequence[str], group: ProcessGroup) -> None:
        self.node = node
        self.id = node.id
        self.address = f"127.0.0.1:{node.port}"
        self._argv = tuple(argv)
        self._group = group
        self._child: Child | None = None

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    @property
    def child(self) -> Child:
        if self._child is None:
            raise StartError(f"broker {self.id} was never started")
        return self._child

    def start(self) -> None:
        """Start the process and return at once; ``KafkaCluster.wait_ready`` waits."""
        if not self.running:
            self._child = self._group.start(f"broker-{self.id}", self._argv)

    def restart_with(self, argv: Sequence[str]) -> None:
        """Stop the process, and start this one in its place."""
        self.stop()
        self._argv = tuple(argv)
        self.start()

    def stop(self, deadline: Deadline | None = None) -> None:
        """SIGTERM: a controlled shutdown that moves leaders away first, where there is somewhere to move them."""
        self.child.stop(deadline or Deadline.after(STOP_SECONDS))

    def kill(self) -> None:
        """SIGKILL: connections break, and the controller takes broker.session.timeout.ms to notice."""
        self.child.kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        self.child.pause()

    def resume(self) -> None:
        self.child.resume()


class KafkaCluster:
    """A cluster in a temporary folder, as a context manager.

    One broker or three are combined brokers and controllers, so one of three can go and the quorum stays; two brokers
    get a controller of their own, node 100, as three do with ``own_controller``. ``properties`` are of all nodes,
    ``node_properties`` of one, by its id; ``plugin`` is a jar on the class path of all. With ``zookeeper``, which Kafka
    before 4.0 can have, the brokers have that, and no controllers; they have no ``security`` then.
    Raises StartError when it does not come up, JarsError without Kafka's jars.
    """

    def __init__(
        self,
        version: str = jars.DEFAULT_VERSION,
        brokers: int = 1,
        *,
        properties: Mapping[str, str] | None = None,
        node_properties: Mapping[int, Mapping[str, str]] | None = None,
        transaction_partitions: int = 50,
        security: Security | None = None,
        jvm_options: JvmOptions = lambda _: (),
        heap_mb: int = 512,
        zookeeper: bool = False,
        plugin: Path | None = None,
        own_controller: bool = False,
        progress: jars.Progress | None = None,
    ) -> None:
        self.version = version
        self._plugin = plugin
        self.security = security
        self._progress = progress or _quiet
        self._library = jars.library(version, self._progress)
        secured = security.protocols if security is not None else ()
        nodes = nodes_of(brokers, secured, own_controller=own_controller)
        ports = [node.controller_port for node in nodes if node.controller_port is not None]
        self._shape = ClusterShape(
            tuple(node for node in nodes if node.is_broker or not zookeeper),
            transaction_partitions,
            security,
            dict(properties or {}),
            ports[0] if zookeeper else None,
        )
        self._node_properties = dict(node_properties or {})
        self._jvm_options = jvm_options
        self._heap_mb = heap_mb
        self._cluster_uuid = new_cluster_uuid()
        self.folder = Path(tempfile.mkdtemp(prefix="kafka-eos-"))
        self.processes = ProcessGroup(self.folder)
        self._nodes = tuple(BrokerNode(node, self._argv(node), self.processes) for node in self._shape.nodes)
        self.brokers = tuple(broker for broker in self._nodes if broker.node.is_broker)

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, without security; on a cluster with Security this is the super user's listener."""
        return ",".join(broker.address for broker in self.brokers)

    @property
    def sasl_bootstrap(self) -> str:
        """Addresses of the listeners with SASL."""
        return self.secured_bootstrap(SASL)

    def secured_bootstrap(self, listener: str) -> str:
        """Addresses of the secured listeners of this name."""
        return ",".join(f"127.0.0.1:{broker.node.secured[listener]}" for broker in self.brokers)

    def client_properties(self, user: str | None = None, mechanism: str | None = None) -> dict[str, str]:
        """Kafka properties, in the usual dotted names, of an anonymous client or of a user of ``security``.

        A user comes by SASL, with the first of the listener's mechanisms unless another one with a password is named.
        """
        if user is None:
            return {"bootstrap.servers": self.bootstrap}
        if self.security is None:
            raise ValueError("the cluster was started without security")
        return {
            "bootstrap.servers": self.sasl_bootstrap,
            "security.protocol": self.security.protocols[SASL],
            "sasl.mechanism": mechanism or self.security.mechanisms[0],
            "sasl.username": user,
            "sasl.password": self.security.users[user],
            **({"ssl.ca.location": self.security.tls.authority} if self.security.tls is not None else {}),
        }

    @property
    def controller_port(self) -> int:
        """Where the first controller listens."""
        return next(node.controller_port for node in self._shape.nodes if node.controller_port is not None)

    def broker(self, node_id: int) -> BrokerNode:
        return next(broker for broker in self.brokers if broker.id == node_id)

    def admin(self) -> AdminClient:
        """A new admin client with all rights. librdkafka's own log is off: brokers go away on purpose here."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    @property
    def access(self) -> Grants:
        """Adds and removes ACLs, as the super user."""
        return Grants(self.admin())

    def start(self, deadline: Deadline | None = None) -> Self:
        """Format, start and wait until all brokers are in the cluster. Cleans up after itself when that fails."""
        until = deadline or Deadline.after(START_SECONDS)
        try:
            self._progress(f"starting Kafka {self.version} with {len(self.brokers)} broker(s)")
            self._prepare(until)
            for broker in self._nodes:
                broker.start()
            self.wait_ready(until)
        except BaseException:
            self.processes.close(Deadline.after(0))
            raise
        return self

    def wait_ready(self, deadline: Deadline | None = None) -> None:
        """Wait until every broker that runs is registered. Raises StartError with the log of one that died."""
        until = deadline or Deadline.after(START_SECONDS)
        while True:
            for node in self._nodes:
                if node.child.returncode is not None and node.child.returncode > 0:
                    raise StartError(self._post_mortem(node, f"ended with code {node.child.returncode}"))
            running = [broker for broker in self.brokers if broker.running]
            expected = {broker.id for broker in running}
            # Each must say so itself: the others list a killed broker until its session ends, and a broker opens its
            # port to clients only once it is unfenced.
            late = [broker for broker in running if not expected <= _members(broker, until)]
            if not late:
                return
            if not poll(until, 0.1):
                raise StartError(self._post_mortem(late[0], "is not ready in time"))

    def upgrade(self, version: str) -> Iterator[BrokerNode]:
        """Restart one broker after the other with another version of Kafka, each on its data, and give it when it is
        back. Tools and new clients are of that version when all are.
        """
        self._library = jars.library(version, self._progress)
        for broker in self._nodes:
            broker.restart_with(self._argv(broker.node))
            self.wait_ready()
            yield broker
        self.version = version

    def format_again(self, *, same_id: bool, deadline: Deadline | None = None) -> None:
        """Stop all nodes and start them without their data, as a new cluster at the same addresses."""
        until = deadline or Deadline.after(START_SECONDS)
        for node in self._nodes:
            node.stop()
        for member in self._shape.nodes:
            shutil.rmtree(self.folder / f"data-{member.id}", ignore_errors=True)
        if not same_id:
            self._cluster_uuid = new_cluster_uuid()
        self._format(until)
        for node in self._nodes:
            node.start()
        self.wait_ready(until)

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Create a topic on as many brokers as there are, and wait until it has leaders."""
        admin = self.admin()
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, partitions, min(3, len(self.brokers)), config=dotted)
        admin.create_topics([topic])[name].result(120)
        until = Deadline.after(120)
        while True:
            found = admin.list_topics(name, timeout=60).topics[name].partitions
            if len(found) == partitions and all(partition.leader >= 0 for partition in found.values()):
                return
            if not poll(until):
                raise TimeoutError(f"topic {name} has no leaders")

    def delete_topic(self, name: str) -> None:
        admin = self.admin()  # kept until the answer is here: a client that is collected fails its futures
        admin.delete_topics([name])[name].result(120)

    def tool(self, main: str, *arguments: str, deadline: Deadline | None = None) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's own command line tools, by its class, with this cluster's jars and bootstrap servers."""
        argv = java(256, self._library, main, "--bootstrap-server", self.bootstrap, *arguments, log_level="error")
        return run_to_end(argv, deadline or Deadline.after(TOOL_SECONDS))

    def transactions_tool(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """``kafka-transactions.sh``: list, describe, find-hanging, abort ..."""
        return self.tool("org.apache.kafka.tools.TransactionsCommand", *arguments)

    def close(self, *, keep: bool = False) -> None:
        """End all that was started: at once, unless the data is to be kept."""
        self.processes.close(Deadline.after(STOP_SECONDS if keep else 0))
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _argv(self, node: Node) -> list[str]:
        properties = str(self._properties_file(node))
        argv = java(self._heap_mb, self._library, "kafka.Kafka", properties, classes=self._plugin)
        secured = self.security.jvm_options() if self.security is not None else []
        return [argv[0], *secured, *self._jvm_options(f"broker-{node.id}"), *argv[1:]]

    def _properties_file(self, node: Node) -> Path:
        return self.folder / f"node-{node.id}.properties"

    def _prepare(self, deadline: Deadline) -> None:
        """Write the properties of every node; format its storage, or start the ZooKeeper that it has instead."""
        for node in self._shape.nodes:
            shape = replace(self._shape, extra={**self._shape.extra, **self._node_properties.get(node.id, {})})
            self._properties_file(node).write_text(server_properties(shape, node, str(self.folder / f"data-{node.id}")))
        if self._shape.zookeeper_port is None:
            self._format(deadline)
        else:
            self._start_zookeeper(self._shape.zookeeper_port)

    def _format(self, deadline: Deadline) -> None:
        """Format every node's storage, all at once: a JVM start each."""
        jobs: list[Child] = []
        for node in self._shape.nodes:
            arguments = ["format", "--cluster-id", self._cluster_uuid, "--config", str(self._properties_file(node))]
            if self._shape.security is not None:
                arguments += self._shape.security.scram_arguments()
            argv = java(128, self._library, "kafka.tools.StorageTool", *arguments)
            jobs.append(self.processes.start(f"format-{node.id}", argv))
        for job in jobs:
            if job.wait(deadline) != 0:
                raise StartError(f"formatting failed:\n{job.tail()}")

    def _start_zookeeper(self, port: int) -> None:
        file = self.folder / "zookeeper.properties"
        file.write_text(zookeeper_properties(port, str(self.folder / "zookeeper")))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self.processes.start("zookeeper", java(128, self._library, main, str(file)))

    def _post_mortem(self, broker: BrokerNode, what: str) -> str:
        return f"broker {broker.id} {what}; the end of {broker.child.log}:\n{broker.child.tail()}"


def _members(broker: BrokerNode, deadline: Deadline) -> set[int]:
    """The brokers that this one lists; none when it does not answer."""
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    try:
        return set(admin.list_topics(timeout=max(0.1, min(2.0, deadline.remaining()))).brokers)
    except KafkaException:
        return set()


def new_cluster_uuid() -> str:
    """A cluster id as ``kafka-storage.sh random-uuid`` makes them. None begins with a dash."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "x")


def _quiet(_: str) -> None:
    """Progress that is not shown."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m testkit.cluster", description="A local Kafka until Ctrl-C.")
    parser.add_argument("--version", default=jars.DEFAULT_VERSION, help="Kafka version (default: %(default)s)")
    parser.add_argument("--brokers", type=int, default=1, choices=(1, 2, 3))
    parser.add_argument("--topic", action="append", default=[], metavar="NAME[:PARTITIONS]", help="repeatable")
    parser.add_argument(
        "--property", action="append", default=[], metavar="KEY=VALUE", help="of the servers; repeatable"
    )
    parser.add_argument("--user", action="append", default=[], metavar="NAME", help="add a SASL listener and this user")
    parser.add_argument("--sasl", default="SCRAM-SHA-512", choices=("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"))
    options = parser.parse_args(argv)
    security = Security.of(*options.user, mechanism=options.sasl) if options.user else None
    properties = dict(item.split("=", 1) for item in options.property)
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    try:
        with KafkaCluster(
            options.version, options.brokers, properties=properties, security=security, progress=jars.say
        ) as cluster:
            for topic in options.topic:
                name, _, partitions = topic.partition(":")
                cluster.create_topic(name, int(partitions or 1))
            jars.say(f"logs and data in {cluster.folder}; Ctrl-C stops and deletes")
            for broker in cluster.brokers:
                jars.say(f"broker {broker.id}: {broker.address}, pid {broker.child.pid}")
            if security is not None:
                jars.say("SASL_PLAINTEXT, with the super user on the plain listener:")
                for user in security.users:
                    jars.say("  " + " ".join(f"{k}={v}" for k, v in cluster.client_properties(user).items()))
            print(cluster.bootstrap, flush=True)
            over.wait()
    except (StartError, jars.JarsError) as error:
        jars.say(str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
