"""The tutorial of docs/start.md, carried out: its commands in order on a real broker, and what it says they show."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from exporter.model import Deadline
from testkit.cluster import KafkaCluster
from testkit.jars import library
from testkit.kafka_tools import CLASSES
from testkit.processes import java, poll
from testkit.settings import free_ports

TEXT = (Path(__file__).parents[2] / "docs" / "start.md").read_text(encoding="utf-8")
WAIT_SECONDS = 120


class Command(NamedTuple):
    words: list[str]
    background: bool


def commands(text: str) -> list[Command]:
    """The lines of the blocks that are marked as shell."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    return [Command(shlex.split(line.removesuffix("&")), line.endswith("&")) for line in lines]


class Shell:
    """Runs the commands: Kafka's tools from the jars of the tests, ours from this checkout."""

    def __init__(self, kafka: KafkaCluster, folder: Path, stack: ExitStack) -> None:
        self._kafka, self._folder, self._stack = kafka, folder, stack
        [self._port] = free_ports(1)

    def argv(self, words: list[str]) -> list[str]:
        program, *rest = (word.replace("localhost:9092", self._kafka.bootstrap) for word in words)
        if program in CLASSES:
            return java(128, library(self._kafka.version), CLASSES[program], *rest)
        assert program == "kafka-eos-exporter"
        # The port that the tutorial uses may be taken here.
        agent = f"http://127.0.0.1:{self._port}"
        more = {
            "run": [f"--web.listen-address=127.0.0.1:{self._port}"],
            "top": [agent],
            "incident": ["--agent", agent],
        }
        return [sys.executable, "-m", "exporter", *rest, *more.get(rest[0], [])]

    def start(self, words: list[str]) -> None:
        log = self._stack.enter_context((self._folder / f"{Path(words[0]).stem}.log").open("w"))
        child = self._stack.enter_context(subprocess.Popen(self.argv(words), stdout=log, stderr=log))
        self._stack.callback(child.kill)

    def run(self, words: list[str], *, until: str = "") -> subprocess.CompletedProcess[str]:
        """Run it; again while what is waited for is not yet in its output, as a reader would."""
        deadline = Deadline.after(WAIT_SECONDS)
        while True:
            done = subprocess.run(self.argv(words), capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
            if until in done.stdout:
                return done
            assert poll(deadline, 1.0), f"{until!r} is not in what {words} prints: {done.stdout}{done.stderr}"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A cluster of its own: the open transaction outlives the test."""
    with KafkaCluster() as kafka, ExitStack() as stack:
        yield Shell(kafka, tmp_path, stack)


def test_the_tutorial_ends_with_the_name_of_the_blocker(shell: Shell) -> None:
    create, produce, look, stalled, run, top, incident, roll = commands(TEXT)
    assert shell.run(create.words).returncode == 0
    assert (produce.background, run.background) == (True, True)
    shell.start(produce.words)
    assert shell.run(look.words, until="billing-1").returncode == 1
    found = shell.run(stalled.words, until="billing-1")
    assert found.returncode == 1
    rows = [line.split() for line in found.stdout.splitlines()]
    assert [row[:5] for row in rows if row[:2] == ["tutorial", "0"]] == [
        ["tutorial", "0", "open", "billing", "billing-1"]
    ]
    assert "abort --topic" not in found.stdout
    shell.start(run.words)
    seen = shell.run(top.words, until="1 partition stalled")
    assert "tutorial-0" in seen.stdout
    assert "billing-1" in seen.stdout
    assert "tutorial" in shell.run(incident.words, until="billing-1").stdout
    answer = shell.run(roll.words)
    assert answer.returncode == 1
    assert "no because" in answer.stdout


def test_only_marked_blocks_are_carried_out() -> None:
    read: Callable[[str], list[Command]] = commands
    assert read("```\nrm -r /\n```\n```sh\na b &\nc\n```") == [Command(["a", "b"], True), Command(["c"], False)]
