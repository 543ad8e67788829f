"""Everything at once, scraped by a real Prometheus: the data with which dashboards are tested.

``python -m demo.full_stack`` starts a broker, the demo's applications, Connect, Kafka Streams, Spark, two replicas of
the agent and Prometheus, prints where they are, and keeps them until Ctrl-C.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import yaml
from confluent_kafka import KafkaException, Producer

from demo.application_runner import TOPICS, ApplicationRunner
from demo.pipelines import DemoPipelines
from demo.scenes import ORPHAN_TOPIC
from exporter.alerts.files import generated
from exporter.catalogue import BROKER_TRANSACTION_VERSION
from exporter.librdkafka_stats import EosStats
from exporter.model import Deadline
from testkit import jars
from testkit.agent import AgentProcess
from testkit.cluster import KafkaCluster, StartError
from testkit.connect import ConnectCluster, ConnectError
from testkit.jvm_agents import JvmAgents
from testkit.orphan import make_orphan
from testkit.processes import Child, ProcessGroup, poll
from testkit.settings import free_ports
from testkit.spark import SparkError
from testkit.streams import StreamsApp
from testkit.workloads.producers import JavaProducer, ProducerError

JOB = "kafka-eos-exporter"
CLUSTER = "prod"
SCRAPE_SECONDS = 5
CALL_SECONDS = 60.0
REST_SECONDS = 15.0
SHOWN_SECONDS = 60.0
WORDS = "words"


class PrometheusServer:
    """A real Prometheus that scrapes these addresses and evaluates our rules."""

    def __init__(self, processes: ProcessGroup, folder: Path, targets: list[str], name: str = "prometheus") -> None:
        port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{port}"
        interval = f"{SCRAPE_SECONDS}s"
        scrape = {"job_name": JOB, "static_configs": [{"targets": targets}]}
        times = {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval}
        rules = folder / f"{name}-rules.yml"
        rules.write_text(_evaluated_often(generated()["alerts/generated/rules.yaml"]))
        settings = {"global": times, "rule_files": [str(rules)], "scrape_configs": [scrape]}
        file = folder / f"{name}.yml"
        file.write_text(yaml.safe_dump(settings))
        self.child: Child = processes.start(
            name,
            [
                "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={folder / name}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
        )

    def ask(self, path: str, **parameters: object) -> Any:  # noqa: ANN401 - whatever JSON it is
        """One call of its API; a refusal in JSON is given back as it came. Raises OSError without an answer."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=CALL_SECONDS) as answer:  # noqa: S310 - our own http address
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.headers.get_content_type() != "application/json":
                raise  # while it starts, it answers 503 in plain text
            return json.load(error)

    def wait_for(self, query: str, timeout: float) -> Any:  # noqa: ANN401 - as above
        """Wait until a query has an answer, and give it back. Raises TimeoutError."""
        until = Deadline.after(timeout)
        while True:
            try:
                found = self.ask("query", query=query)
            except OSError:
                found = {}
            if found.get("status") == "success" and found["data"]["result"]:
                return found["data"]["result"]
            if not poll(until, 0.5):
                raise TimeoutError(f"no answer to {query}: {found}")


class FullStack:
    """The whole stack, as a context manager. ``prometheus`` may be asked at once; things show up within a minute.

    With ``one_replica``, the server of that name scrapes one replica alone, and should answer what ``prometheus`` does.
    """

    def __init__(self, progress: jars.Progress = jars.say, *, one_replica: bool = False) -> None:
        self._progress = progress
        self._with_one = one_replica
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        enter = self._stack.enter_context
        # The agents of the JVMs keep their rules beside the cluster's own files, which exist before its processes.
        folder = Path(enter(_Folder("kafka-eos-full_stack-")))
        jvms = JvmAgents(folder)
        cluster = enter(KafkaCluster(jvm_options=jvms.options, progress=self._progress))
        jars.classes(cluster.version)
        for topic, partitions in {**TOPICS, WORDS: 2}.items():
            cluster.create_topic(topic, partitions)
        self._progress("starting Spark, Connect and Kafka Streams")
        pipelines = DemoPipelines(cluster, folder)
        self._connect = connect = enter(ConnectCluster(cluster, "etl", workers=1, jvm_options=jvms.options))
        self.failing = folder / "fail"
        connect.create_step_source("steps", WORDS, 2)
        connect.create_step_source("ledger-feed", "imports", 1, fail_file=self.failing)
        connect.create_file_sink("archive", folder / "archive.txt", WORDS)
        self.streams = enter(
            StreamsApp(cluster, "wordcount", WORDS, settings={"commit.interval.ms": "1000"}, jvm_options=jvms.options)
        )
        client = enter(JavaProducer(cluster, "audit-1", jvm_options=jvms.options))
        client.init()
        settings = folder / "agent.yml"
        pipelines.start()
        made = {**_settings(cluster, connect, jvms), **pipelines.settings}
        settings.write_text(yaml.safe_dump(made))
        self._progress("starting the agents, Prometheus and the applications")
        options = ("--config", str(settings))
        agents = [enter(AgentProcess(cluster.processes, *options, name=f"agent-{replica}")) for replica in (1, 2)]
        self.pages = [agent.url for agent in agents]
        self.prometheus = self._scrape(cluster.processes, folder, agents, "prometheus")
        self.one_replica: PrometheusServer | None = None
        if self._with_one:
            self.one_replica = self._scrape(cluster.processes, folder, agents[:1], "one-replica")
        for server in filter(None, (self.prometheus, self.one_replica)):
            # Prometheus does not see an increase before its first scrape: scraping begins before the first failure.
            server.wait_for(str(BROKER_TRANSACTION_VERSION), SHOWN_SECONDS)
        make_orphan(cluster, ORPHAN_TOPIC)
        self._stage = enter(ApplicationRunner(cluster))
        pipelines.fail()
        self._over = over = threading.Event()
        tell = [EosStats(agent.url, client_id="metered-1") for agent in agents]
        for actor, whom in ((_write, (client,)), (_write_metered, (cluster.bootstrap, tell))):
            threading.Thread(target=actor, args=(*whom, over), daemon=True).start()
        self._stack.callback(over.set)

    @staticmethod
    def _scrape(processes: ProcessGroup, folder: Path, agents: list[AgentProcess], name: str) -> PrometheusServer:
        return PrometheusServer(processes, folder, [agent.url.removeprefix("http://") for agent in agents], name)

    def fail_a_task(self) -> None:
        """From now on a Connect task fails at its next step."""
        self.failing.touch()

    def rest(self) -> None:
        """Stop all writers, so that scrapes at different instants become equal."""
        self._over.set()
        self._stage.finish(Deadline.after(REST_SECONDS))
        for connector in ("steps", "ledger-feed"):
            self._connect.call("PUT", f"/connectors/{connector}/pause")

    def restore(self) -> None:
        """Kafka Streams loses its state and restores it."""
        self.streams.kill()
        self.streams.lose_state()
        self.streams.start()


def _evaluated_often(rules: str) -> str:
    """The rules without their groups' own intervals: a group of every 5 minutes is first evaluated within 5 minutes."""
    read = yaml.safe_load(rules)
    return yaml.safe_dump({"groups": [{**group, "interval": f"{SCRAPE_SECONDS}s"} for group in read["groups"]]})


def _write(client: JavaProducer, over: threading.Event) -> None:
    with suppress(ProducerError):  # it is stopped with the stack, wherever it is
        while not over.wait(0.5):
            client.begin()
            client.send("payments", 2)
            client.commit()


def _write_metered(bootstrap: str, tell: list[EosStats], over: threading.Event) -> None:
    """A librdkafka client in this process, which hands its statistics to the agents."""

    def statistics(text: str) -> None:
        for stats in tell:
            stats(text)

    settings = {"bootstrap.servers": bootstrap, "transactional.id": "metered-1", "log_level": 0}
    producer = Producer({**settings, "statistics.interval.ms": 2000, "stats_cb": statistics})
    with suppress(KafkaException):  # as above
        producer.init_transactions(CALL_SECONDS)
        while not over.wait(1):
            producer.begin_transaction()
            producer.produce("payments", b"metered")
            producer.commit_transaction(CALL_SECONDS)


def _settings(cluster: KafkaCluster, connect: ConnectCluster, jvms: JvmAgents) -> dict[str, Any]:
    worker = connect.workers[0]
    return {
        "clusters": [
            {
                "name": CLUSTER,
                "kafka": {"bootstrap.servers": cluster.bootstrap},
                "lso": {"stall_after": "10s", "sweep_interval": "10s"},
                "groups": {"interval": "10s"},
                "brokers": [{"jolokia": jvms.jolokia("broker-1")}],
            }
        ],
        "producers": [{"jolokia": jvms.jolokia("java-audit-1"), "cluster": CLUSTER}],
        "connect": [
            {
                "name": "etl",
                "cluster": CLUSTER,
                "group_id": connect.group_id,
                "rest": [worker.url],
                "workers": [{"jolokia": jvms.jolokia(worker.name)}],
            }
        ],
        "streams": [{"jolokia": jvms.jolokia("streams-wordcount"), "cluster": CLUSTER}],
        "ingest": {"enabled": True},
    }


class _Folder:
    """A temporary folder, gone in the end even while processes still write there."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __enter__(self) -> str:
        self._path = tempfile.mkdtemp(prefix=self._prefix)
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def main() -> int:
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    try:
        with FullStack() as full_stack:
            for page in full_stack.pages:
                print(f"agent       {page}")
            print(f"Prometheus  {full_stack.prometheus.url}/alerts", flush=True)
            over.wait(120)
            full_stack.fail_a_task()
            full_stack.restore()
            over.wait()
    except (StartError, ConnectError, SparkError, jars.JarsError, TimeoutError) as error:
        jars.say(f"cannot go on: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
