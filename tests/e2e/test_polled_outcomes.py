"""Outcomes by polling beside the transaction log, on one broker whose log one principal may read and another may not.

Both generations of clients run for a minute and a half: one that takes seconds for a transaction, one at full speed,
two that share an id, one that runs into its timeout. The log is the truth; polling must never say more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from demo.agent import AgentProcess, Metrics
from demo.cluster import KafkaCluster
from demo.processes import poll
from demo.settings import Security
from demo.workloads.producers import EndedError, JavaProducer, Producer, ProducerClass, RdkafkaProducer
from exporter import catalogue
from exporter.model import Deadline
from tests.e2e.conftest import StartAgent

pytestmark = pytest.mark.proof

RICH, POOR = "rich", "poor"
LOG = "__transaction_state"
RUN_SECONDS = 90.0
SETTLE_SECONDS = 75.0
COUNTED_SECONDS = 10.0
INTERVALS = (1, 5, 30)
LOST = ("aborted", "timed_out", "fenced")
SOURCE = "txnlog"
SCAN = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000"}
"""Kafka's default, which the other tests shorten: a look between timeout and scan is what shows a timeout."""
BEFORE_THE_FIRST_LOOK = 2.0
"""Seconds, at most, before the first look of an agent that looks every second has an id: the epochs that its client has
raised by then are not known.
"""


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster("4.3.1", security=Security.of(RICH, POOR), properties=SCAN) as running:
        for user in (RICH, POOR):
            running.access.allow_all_reads(user)
        running.access.deny(POOR, "READ", "Topic", LOG)
        running.create_topic("orders")
        with RdkafkaProducer(running, "first-1") as producer:  # the cluster makes its log at the first transaction
            producer.init()
            producer.run(1, "orders")
        yield running


def _pause(seconds: float) -> None:
    until = Deadline.after(seconds)
    while poll(until, 0.2):
        pass


def _slow(make: Callable[[str], Producer], name: str, over: Deadline) -> None:
    """A transaction of 2 s every 4 s, each fifth of which is aborted."""
    with make(name) as producer:
        producer.init()
        number = 0
        while not over.over:
            producer.begin()
            producer.send("orders")
            producer.flush()
            _pause(2.0)
            number += 1
            (producer.abort if number % 5 == 0 else producer.commit)()
            _pause(2.0)


def _fast(make: Callable[[str], Producer], name: str, over: Deadline) -> None:
    """At the client's full speed; one in eleven is aborted."""
    with make(name) as producer:
        producer.init()
        while not over.over:
            producer.run(10, "orders")
            producer.run(1, "orders", commit=False)


def _fenced(make: Callable[[str], Producer], name: str, over: Deadline) -> None:
    """Some commits, and then another producer takes the id within a transaction, again and again."""
    with ExitStack() as stack:
        while not over.over:
            producer = stack.enter_context(make(name))
            producer.init()  # fences the one before
            for _ in range(3):
                producer.run(1, "orders")
                _pause(2.0)
            producer.begin()
            producer.send("orders")
            producer.flush()
            _pause(6.0)


def _late(make: Callable[[str], Producer], name: str, over: Deadline) -> None:
    """A transaction that is left open until its timeout of 8 s, three times."""
    with make(name) as producer:
        for _ in range(3):
            producer.init()
            producer.begin()
            producer.send("orders")
            producer.flush()
            _pause(24.0)
            with suppress(EndedError):
                producer.commit()


WORK = {"slow": _slow, "fast": _fast, "fenced": _fenced, "late": _late}


def _play(kafka: KafkaCluster) -> None:
    over = Deadline.after(RUN_SECONDS)
    threads = []
    clients: tuple[ProducerClass, ...] = (RdkafkaProducer, JavaProducer)
    for client in clients:
        for name, work in WORK.items():
            timeout = 8.0 if name == "late" else 60.0

            def make(transactional_id: str, client: ProducerClass = client, timeout: float = timeout) -> Producer:
                return client(kafka, transactional_id, timeout=timeout)

            named = f"{name}-{client.generation}x-1"
            threads.append(threading.Thread(target=work, args=(make, named, over), name=named))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(RUN_SECONDS + SETTLE_SECONDS)
        assert not thread.is_alive(), thread.name


def _outcomes(metrics: Metrics, application: str) -> dict[str, float]:
    family = catalogue.TRANSACTIONS_OBSERVED_TOTAL
    if not metrics.samples(family):
        family = catalogue.TRANSACTIONS_TOTAL
    return {str(sample.labels["outcome"]): sample.value for sample in metrics.samples(family, application=application)}


def _table(seen: dict[str, dict[str, dict[str, float]]]) -> str:
    rows = []
    for application, by_agent in seen.items():
        for agent, counts in by_agent.items():
            shown = " ".join(f"{outcome} {count:g}" for outcome, count in counts.items() if count)
            rows.append(f"{application:<14}{agent:<8}{shown}")
    return "\n".join(rows)


def test_polling_never_counts_more_than_the_log_and_finds_what_it_says(
    kafka: KafkaCluster, start_agent: StartAgent, tmp_path: Path
) -> None:
    agents: dict[str, AgentProcess] = {}
    for name, user, seconds in (("log", RICH, 5), *((f"{interval}s", POOR, interval) for interval in INTERVALS)):
        properties = tmp_path / f"{name}.properties"
        settings = kafka.client_properties(user)
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        config = tmp_path / f"{name}.yml"
        listed = "\n".join(f"      {key}: {value!r}" for key, value in settings.items())
        config.write_text(
            f"clusters:\n  - name: e2e\n    kafka:\n{listed}\n    transactions: {{interval: {seconds}s}}\n"
        )
        agents[name] = start_agent("--config", str(config), name=name)
    for name, agent in agents.items():
        if name != "log":
            agent.wait_until(lambda seen: seen.value(catalogue.SOURCE_BLIND, source=SOURCE) == 1)
    _play(kafka)
    applications = [f"{name}-{client.generation}x" for client in (RdkafkaProducer, JavaProducer) for name in WORK]

    def complete(metrics: Metrics) -> bool:
        """Whether nothing is open, so that every outcome is in the log."""
        opened = metrics.samples(catalogue.TRANSACTIONS_OPEN)
        return bool(opened) and all(sample.value == 0 for sample in opened)

    agents["log"].wait_until(complete, timeout=SETTLE_SECONDS)
    found = {name: agent.metrics() for name, agent in agents.items() if name != "log"}
    # The log's agent counts an abort when no record can say any more that it was a fence.
    _pause(COUNTED_SECONDS)
    found["log"] = agents["log"].metrics()
    seen = {
        application: {name: _outcomes(metrics, application) for name, metrics in found.items()}
        for application in applications
    }
    print(_table(seen))
    for application, by_agent in seen.items():
        truth = by_agent["log"]
        for name in (f"{interval}s" for interval in INTERVALS):
            polled = by_agent[name]
            where = (application, name, polled, truth)
            for outcome in ("committed", "timed_out", "fenced"):
                assert polled.get(outcome, 0) <= truth[outcome], where
            assert sum(polled.get(text, 0) for text in LOST) <= sum(truth[text] for text in LOST), where
            assert sum(polled.values()) <= sum(truth.values()), where
            epochs = found[name].value(catalogue.PRODUCER_EPOCHS_OBSERVED_TOTAL, application=application)
            if application in {"slow-v2x", "fast-v2x"} and name == "1s":
                # A client of Transactions V2 raises its epoch with each: it ends at most so many.
                assert epochs is not None
                ended = truth["committed"] + truth["aborted"]
                assert epochs >= ended - 1 - ended * BEFORE_THE_FIRST_LOOK / RUN_SECONDS, where
    # What takes longer than an interval is seen whole.
    for generation in ("v1", "v2"):
        truth, polled = seen[f"slow-{generation}x"]["log"], seen[f"slow-{generation}x"]["1s"]
        assert polled["committed"] >= truth["committed"] - 1, (polled, truth)
        assert polled["aborted"] >= truth["aborted"] - 1, (polled, truth)
        assert seen[f"late-{generation}x"]["1s"]["timed_out"] >= 1, seen[f"late-{generation}x"]
    assert seen["fenced-v1x"]["1s"]["fenced"] >= 1, seen["fenced-v1x"]
    poor = found["5s"]
    assert poor.value(catalogue.SOURCE_UP, source=SOURCE) == 0
    ignored = poor.samples(catalogue.IGNORED_INFO, kind="source", subject=f"{SOURCE}/e2e")
    assert len(ignored) == 1, ignored
    assert not poor.samples(catalogue.TRANSACTIONS_TOTAL)
    assert not found["log"].samples(catalogue.TRANSACTIONS_OBSERVED_TOTAL)
