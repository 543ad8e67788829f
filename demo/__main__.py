"""``python -m demo``: a real Kafka, applications that fail on purpose, and the agent that reports them.

Runs until Ctrl-C. With DEMO_SECONDS in the environment it ends after that many seconds, or earlier once every situation
was seen and the agent's counts equal those of the applications: exit 0, or 1 with what was not seen. DEMO_PORT is the
agent's port. With DEMO_FULL=1 two Connect workers, a Kafka Streams and a Spark application run as well.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from demo.application_runner import TOPICS, TORN_TOPIC, ApplicationRunner
from demo.engines import SCENES as ENGINE_SCENES
from demo.engines import DemoEngines
from demo.scenes import ORPHAN_TOPIC, SCENES, Scene, abort_line, next_steps, torn
from exporter.alerts.settings import Settings
from exporter.catalogue import OUTCOMES, TRANSACTIONS_TOTAL
from exporter.model import Deadline
from testkit import jars, monitoring
from testkit.agent import COMMAND, AgentError, AgentProcess, Metrics
from testkit.cluster import KafkaCluster, StartError
from testkit.connect import ConnectError
from testkit.jvm_agents import JvmAgents
from testkit.kafka_tools import write_tools
from testkit.orphan import Orphan, OrphanError, make_orphan
from testkit.processes import poll
from testkit.settings import free_ports
from testkit.torn import TornTransaction
from testkit.workloads.outcome_counts import OutcomeCounts

DEFAULT_PORT = 10618
STALL_AFTER_SECONDS = 10
SETTLE_SECONDS = 25.0
# A hanging transaction is first met by the full sweep of all partitions, a blocked group by the reading of groups: once
# a minute and every 30 seconds by default, which is long to look at a checklist.
HURRY = {"KAFKA_EOS_CLUSTERS__0__LSO__SWEEP_INTERVAL": "10s", "KAFKA_EOS_CLUSTERS__0__GROUPS__INTERVAL": "10s"}
REMIND_SECONDS = 15.0
TORN = "audit markers finds the transaction that was torn, and no other"
ABORT_LINE = "the status page gives the line that ends the hanging one"


class Checklist:
    """The situations that were seen, when first, and those still awaited."""

    def __init__(self, orphan: Orphan, torn_one: TornTransaction, scenes: Sequence[Scene] = SCENES) -> None:
        self._orphan = orphan
        self._torn = torn_one
        self._scenes = tuple(scenes)
        self._began = time.monotonic()
        self._awaited = {scene.title for scene in scenes} | {ABORT_LINE, TORN}
        self.wrong: str | None = None

    @property
    def awaited(self) -> list[str]:
        """Titles not seen yet, in the order of the scenes."""
        return [
            title for title in (*(scene.title for scene in self._scenes), ABORT_LINE, TORN) if title in self._awaited
        ]

    def look(self, agent: AgentProcess) -> Metrics:
        """Read /metrics and the status once, and print what is seen for the first time."""
        metrics = agent.metrics()
        for scene in self._scenes:
            evidence = scene.evidence(metrics)
            if evidence is not None:
                self._tick(scene.title, evidence)
        steps = next_steps(agent.status())
        line = abort_line(steps, self._orphan.start_offset)
        if line is not None:
            self._tick(ABORT_LINE, line)
        if self._torn.evidence is not None:
            self._tick(TORN, self._torn.evidence)
        self.wrong = self.wrong or torn(steps)
        return metrics

    def missed(self, metrics: Metrics) -> list[str]:
        """For each situation that was not seen: its title and what was seen instead."""
        lines = [f"{s.title}: {s.instead(metrics)}" for s in self._scenes if s.title in self._awaited]
        if ABORT_LINE in self._awaited:
            lines.append(f"{ABORT_LINE}: it does not, for start offset {self._orphan.start_offset}")
        if TORN in self._awaited:
            lines.append(f"{TORN}: {self._torn.wrong or 'no answer yet'}")
        if self.wrong is not None:
            lines.append(f"an abort line where it would tear a transaction: {self.wrong}")
        return lines

    def _tick(self, title: str, evidence: str) -> None:
        if title in self._awaited:
            self._awaited.remove(title)
            print(f"[{time.monotonic() - self._began:5.1f} s] seen: {title}\n            {evidence}", flush=True)


def main() -> int:
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    limit = os.environ.get("DEMO_SECONDS")
    try:
        with TemporaryDirectory(prefix="kafka-eos-jvms-") as folder:
            jvms = JvmAgents(Path(folder))
            with KafkaCluster(progress=jars.say, jvm_options=jvms.options) as cluster:
                return _play(cluster, jvms, over, float(limit) if limit else None)
    except (StartError, ConnectError, jars.JarsError, OrphanError, AgentError, TimeoutError) as error:
        jars.say(f"the demo cannot go on: {error}")
        return 2


def _play(cluster: KafkaCluster, jvms: JvmAgents, over: threading.Event, seconds: float | None) -> int:
    jars.classes(cluster.version)
    for topic, partitions in TOPICS.items():
        cluster.create_topic(topic, partitions)
    port = _port(os.environ.get("DEMO_PORT", ""))
    flags = {
        "--bootstrap-server": cluster.bootstrap,
        "--cluster.name": "demo",
        "--state.dir": str(cluster.folder / "state"),
        "--lso.stall-after": f"{STALL_AFTER_SECONDS}s",
    }
    arguments = [word for flag in flags.items() for word in flag]
    jars.say("starting the agent and the applications")
    environment = {**HURRY, **_jvms(jvms)}
    tools = write_tools(cluster.folder, jars.library(cluster.version))
    with ExitStack() as full:
        scenes: tuple[Scene, ...] = SCENES
        if engines := _engines(cluster, jvms):
            full.enter_context(engines)
            scenes, environment = (*SCENES, *ENGINE_SCENES), {**environment, **engines.environment}
        agent = full.enter_context(AgentProcess(cluster.processes, *arguments, port=port, environment=environment))
        orphan = make_orphan(cluster, ORPHAN_TOPIC)
        with ApplicationRunner(cluster, jvms.options, agent.url) as runner:
            torn_one = TornTransaction(cluster, runner.torn_producer(), TORN_TOPIC)
            torn_one.start()
            checklist = Checklist(orphan, torn_one, scenes)
            _invite(cluster, agent, _alerts(cluster, agent), tools)
            if engines:
                engines.play(agent.url)
            metrics = _watch(agent, runner, checklist, over, seconds)
            if over.is_set():
                print("stopping", flush=True)
                return 0 if seconds is None else 1
            problems = [*checklist.missed(metrics), *runner.failures, *_settle(agent, runner)]
            problems += engines.failures if engines else []
    for problem in problems:
        print(f"NOT AS IT SHOULD BE: {problem}", flush=True)
    print("every situation was seen" if not problems else f"{len(problems)} problem(s)", flush=True)
    return 1 if problems else 0


def _engines(cluster: KafkaCluster, jvms: JvmAgents) -> DemoEngines | None:
    """Connect and Kafka Streams, if DEMO_FULL asks for them."""
    if os.environ.get("DEMO_FULL", "0") in {"", "0"}:
        return None
    jars.say("starting two Connect workers and a Kafka Streams application; Spark follows")
    return DemoEngines(cluster, jvms)


def _jvms(jvms: JvmAgents) -> Mapping[str, str]:
    """The JVMs that the agent asks, in both ways, and the listener for librdkafka's statistics; by environment."""
    return {
        "KAFKA_EOS_CLUSTERS__0__BROKERS__0__JOLOKIA": jvms.jolokia("broker-1"),
        "KAFKA_EOS_CLUSTERS__0__BROKERS__0__INTERVAL": "5s",
        "KAFKA_EOS_PRODUCERS__0__JOLOKIA": jvms.jolokia("java-billing-1"),
        "KAFKA_EOS_PRODUCERS__0__INTERVAL": "5s",
        "KAFKA_EOS_PRODUCERS__1__JMX_EXPORTER": jvms.jmx_exporter("java-payouts-1"),
        "KAFKA_EOS_PRODUCERS__1__INTERVAL": "5s",
        "KAFKA_EOS_INGEST__ENABLED": "true",
    }


def _alerts(cluster: KafkaCluster, agent: AgentProcess) -> list[str]:
    """Start Prometheus and Alertmanager with our rules if they are installed. Returns what to say of them."""
    if not monitoring.installed():
        return [f"  alerts        none: {monitoring.HOW_TO_GET_THEM} installs Prometheus and Alertmanager"]
    rules = Settings(runbook_url=f"{agent.url}/runbooks", page_url=agent.url)
    made = monitoring.Monitoring(cluster.processes, [f"127.0.0.1:{agent.port}"], rules, monitoring.Pace())
    return [f"  alerts        {made.prometheus}/alerts", f"  pages         {made.alertmanager}"]


def _watch(
    agent: AgentProcess, runner: ApplicationRunner, checklist: Checklist, over: threading.Event, seconds: float | None
) -> Metrics:
    """Look until stopped, or with a limit until all was seen or the limit is over."""
    until = Deadline.after(seconds if seconds is not None else float("inf"))
    remind = Deadline.after(REMIND_SECONDS)
    reported = 0
    while True:
        metrics = checklist.look(agent)
        for failure in runner.failures[reported:]:
            print(f"an application broke down: {failure}", flush=True)
        reported = len(runner.failures)
        if seconds is None and not checklist.awaited:
            print("every situation was seen; the applications go on until Ctrl-C", flush=True)
            over.wait()
        if over.is_set() or until.over or not checklist.awaited:
            return metrics
        if remind.over:
            print(f"            waiting for: {', '.join(checklist.awaited)}", flush=True)
            remind = Deadline.after(REMIND_SECONDS)
        over.wait(min(0.5, until.remaining()))


def _settle(agent: AgentProcess, runner: ApplicationRunner) -> list[str]:
    """Stop the applications and compare their counts with the agent's. Returns the differences."""
    print("the applications stop; their own counts and the agent's:", flush=True)
    runner.finish(Deadline.after(SETTLE_SECONDS))
    until = Deadline.after(SETTLE_SECONDS)
    while True:
        agent_counts = {counts.transactional_id: _counted(agent.metrics(), counts) for counts in runner.counts}
        differing = [counts for counts in runner.counts if agent_counts[counts.transactional_id] != counts.outcomes()]
        if not differing or not poll(until, 0.5):
            break
    for counts in runner.counts:
        verdict = "DIFFERS" if counts in differing else "equal"
        print(f"  {counts.transactional_id:12} {_words(counts.outcomes()):60} {verdict}", flush=True)
    return [
        f"{counts.transactional_id}: counted by the application: {_words(counts.outcomes())}, the agent "
        f"{_words(agent_counts[counts.transactional_id])}"
        for counts in differing
    ]


def _counted(metrics: Metrics, counts: OutcomeCounts) -> dict[str, int]:
    application = counts.transactional_id.rpartition("-")[0]
    return {
        outcome: round(metrics.total(TRANSACTIONS_TOTAL, application=application, outcome=outcome))
        for outcome in OUTCOMES
    }


def _words(outcomes: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items() if count) or "nothing finished"


def _invite(cluster: KafkaCluster, agent: AgentProcess, alerts: list[str], tools: Path) -> None:
    """Print what to open, what to type, what to look for."""
    command = shlex.quote(os.path.relpath(COMMAND) if COMMAND.is_relative_to(Path.cwd()) else str(COMMAND))
    lines = [
        "",
        f"  Kafka {cluster.version}   {cluster.bootstrap}",
        f"  status page   {agent.url}/",
        f"  metrics       {agent.url}/metrics",
        f"  as JSON       {agent.url}/api/v1/status",
        *alerts,
        "",
        "  on the terminal, with Kafka's own tools for the lines that the page gives:",
        f"    export PATH={tools}:$PATH",
        *(
            f"    {command} transactions{view} --bootstrap-server {cluster.bootstrap}"
            for view in ("", " stalled", " hanging", " recent")
        ),
        "",
        f"  A partition is called stalled after {STALL_AFTER_SECONDS} s here (30 s by default). Look for",
        "    orders-0   held by stuck-1, an open transaction, so the group orders-reader waits",
        "    ledger-0   held by a hanging transaction that no coordinator has, and the line that ends it",
        "    pay-3, ship-3   two processes each with one transactional.id, fencing each other",
        "    reports-1, nightly-1   transactions that time out; importer-1, crawler-1   half of them aborted",
        "    checkout-1, billing-1, payouts-1   healthy",
        "    till-1     a transaction torn by hand, which `audit markers` finds",
        "",
    ]
    print("\n".join(lines), flush=True)


def _port(chosen: str) -> int:
    """The agent's port: the chosen one, else its default where that is free. Raises StartError where it is taken."""
    if not chosen:
        return DEFAULT_PORT if _is_free(DEFAULT_PORT) else free_ports(1)[0]
    if not chosen.isdecimal() or not 0 < int(chosen) < 65536 or not _is_free(int(chosen)):
        raise StartError(f"port {chosen} is not a port, or is taken: choose another one with make demo PORT=12345")
    return int(chosen)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
