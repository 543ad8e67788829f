"""Whether a page or a command has a line that ends a transaction, and what a commit left."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from exporter import catalogue
from exporter.model import Deadline
from testkit.agent import AgentProcess
from testkit.processes import poll
from tests.helpers.schemas import conform

LOOKS = (("stalled", "--stall-after", "2s"), ("hanging", "--older-than", "1ms"))
QUIET_SECONDS = 60.0
"""Longer than two rounds take: what would be claimed is claimed by then."""


class EndingResult(NamedTuple):
    """A command that ended."""

    code: int
    out: str
    err: str

    schema: str

    @property
    def document(self) -> dict[str, Any]:
        """Return what it printed as JSON, as the published schema of ``transactions ...`` has it."""
        return conform(self.schema, json.loads(self.out))


def command(*arguments: str) -> EndingResult:
    """Run the program with these arguments, to its end."""
    argv = [sys.executable, "-m", "exporter", *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240, check=False)
    look = next((word for word in ("stalled", "hanging", "recent") if word in arguments), "open")
    return EndingResult(done.returncode, done.stdout, done.stderr, f"transactions-{look}")


def run(*arguments: str) -> EndingResult:
    return command("transactions", *arguments)


def looks(
    look: Callable[..., EndingResult], *options: str, forms: Sequence[str] = ("text", "json")
) -> list[EndingResult]:
    """Each of LOOKS in each form of output, all at once: what may hang is looked at for 30 s."""
    every = [(*words, *options, "--output", form) for words in LOOKS for form in forms]
    with ThreadPoolExecutor(len(every)) as pool:
        return list(pool.map(lambda words: look(*words), every))


def explained(bootstrap: str, topic: str, partition: int, offset: int) -> tuple[int, dict[str, Any]]:
    """The exit code of ``transactions explain`` and the record that it prints."""
    place = ("--topic", topic, "--partition", str(partition), "--offset", str(offset))
    done = run("explain", "--bootstrap-server", bootstrap, *place, "--output", "json")
    document = conform("transactions-explain", json.loads(done.out))
    assert document["not_asked"] == []
    (record,) = document["records"]
    return done.code, record


def rolled(bootstrap: str, broker: int) -> tuple[int, dict[str, Any]]:
    """The exit code of ``check roll`` and the answer that it prints."""
    done = command("check", "roll", "--bootstrap-server", bootstrap, "--broker", str(broker), "--output", "json")
    (cluster,) = conform("check-roll", json.loads(done.out))["clusters"]
    (answer,) = cluster["brokers"]
    return done.code, answer


def ends_something(*texts: str) -> bool:
    """Whether any of it has a line that ends a transaction."""
    return any(word in text for text in texts for word in (" abort --topic ", "forceTerminateTransaction"))


def pages(agent: AgentProcess) -> list[str]:
    return [agent.get(path).text for path in ("/", "/api/v1/status", "/metrics")]


def never(agent: AgentProcess, topic: str, seconds: float) -> set[str]:
    """Watch for so long that no page ends anything; gives back the kinds of holder that were shown."""
    kinds: set[str] = set()
    until = Deadline.after(seconds)
    while poll(until, 0.5):
        assert not ends_something(*pages(agent))
        kinds |= {sample.labels["kind"] for sample in agent.metrics().samples(catalogue.LSO_BLOCKER_INFO, topic=topic)}
    return kinds


def committed(bootstrap: str, topic: str, partitions: int) -> int:
    """How many records of the topic's partitions a read_committed consumer sees."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "counts",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    seen, ended = 0, 0
    until = Deadline.after(180)
    while ended < partitions and not until.over:
        for message in consumer.consume(100, 1.0):
            ended += message.error() is not None
            seen += message.error() is None
    consumer.close()
    return seen
