"""The runbooks' commands, typed on a real broker that has what they are for: they show it, and the way to mend it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from exporter import alerts
from testkit.cluster import KafkaCluster
from testkit.kafka_tools import CLASSES
from testkit.orphan import make_orphan
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.conftest import EnterContext

TOOLS = ("kafka-transactions.sh", "kafka-topics.sh", "kafka-get-offsets.sh")
OURS = "kafka-eos-exporter"
ELSEWHERE = {
    f"{OURS} audit": "needs Spark, and is tried with the audits",
    "curl": "of a Connect worker, tried with the pages; of the agent, tried with its server",
    "ls": "of a Spark checkpoint",
}
"""Lines that are not tried here, by how they begin, and why."""
IN_A_HURRY = {"stalled": ("--stall-after", "2s"), "hanging": ("--older-than", "0s")}
"""Flags that shorten a wait, by command."""
COMMAND_SECONDS = 120


class RunbookResult(NamedTuple):
    """A command that ended."""

    code: int
    out: str


def commands() -> Iterator[str]:
    """Every line to type, once. What begins otherwise is PromQL, tried with the rules."""
    texts = (path.read_text() for path in sorted((Path(alerts.__file__).parent / "runbooks").glob("*.md")))
    lines = dict.fromkeys(line for text in texts for line in re.findall(r"^    (\S.*)$", text, re.MULTILINE))
    yield from (line for line in lines if line.split()[0] in {*TOOLS, OURS} and not line.startswith(tuple(ELSEWHERE)))


def typed(kafka: KafkaCluster, line: str, words: Mapping[str, str]) -> RunbookResult:
    program, *arguments = (words.get(word, word) for word in shlex.split(line))
    if program == OURS:
        argv = [sys.executable, "-m", "exporter", *arguments, *IN_A_HURRY.get(arguments[1], ())]
        run = subprocess.run(argv, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
    else:
        at = arguments.index("--bootstrap-server")  # the tool's runner gives its own
        run = kafka.tool(CLASSES[program], *arguments[:at], *arguments[at + 2 :])
    return RunbookResult(run.returncode, run.stdout + run.stderr)


@pytest.mark.parametrize("begins", ELSEWHERE)
def test_what_is_left_out_is_there(begins: str) -> None:
    folder = Path(alerts.__file__).parent / "runbooks"
    assert any(re.search(rf"^    {begins} ", path.read_text(), re.MULTILINE) for path in folder.glob("*.md"))


def test_every_command_shows_or_mends_what_it_is_for(
    kafka_4: KafkaCluster, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    orders, ledger = fresh("orders"), fresh("ledger")
    for topic in (orders, ledger):
        kafka_4.create_topic(topic)
    stuck_id = f"{fresh('stuck')}-1"
    stuck = keep(RdkafkaProducer(kafka_4, stuck_id, timeout=600.0))
    stuck.init()
    stuck.begin()
    stuck.send(orders)
    stuck.flush()
    orphan = make_orphan(kafka_4, ledger)
    words = {"HOST:PORT": kafka_4.bootstrap, "TOPIC": ledger, "N": "0", "OFFSET": str(orphan.start_offset)}
    words |= {"ID": stuck_id, "BROKER": str(kafka_4.brokers[0].id)}

    lines = list(commands())
    with ThreadPoolExecutor(4) as pool:  # none changes anything
        said = dict(zip(lines, pool.map(lambda line: typed(kafka_4, line, words), lines), strict=True))

    found = {line.removeprefix(f"{OURS} ").split(" --")[0]: done for line, done in said.items() if OURS in line}
    assert {name: done.code for name, done in found.items()} == {
        "transactions stalled": 1,
        "transactions recent": found["transactions recent"].code,
        "applications": found["applications"].code,
        "check posture": 1,
        "check connection": 0,
    }
    assert found["transactions recent"].code in {0, 1}
    assert found["applications"].code in {0, 1}
    assert stuck_id in found["transactions stalled"].out
    line = f" abort --topic {ledger} --partition 0 --start-offset {orphan.start_offset}"
    hanging = typed(kafka_4, f"{OURS} transactions hanging --bootstrap-server HOST:PORT", words)
    assert line in hanging.out
    tools = {line: done for line, done in said.items() if OURS not in line}
    assert {line: done for line, done in tools.items() if done.code != 0} == {}
    assert "Ongoing" in next(done.out for line, done in tools.items() if " describe " in line)
    assert str(orphan.producer_id) in next(done.out for line, done in tools.items() if " describe-producers " in line)
    assert ledger in next(done.out for line, done in tools.items() if " find-hanging " in line)

    # No runbook ends anything by itself; the line that our command shows does.
    stuck.abort()
    ending = next(shown for shown in hanging.out.splitlines() if shown.endswith(line))
    assert typed(kafka_4, ending.strip(), {}).code == 0
    after = typed(kafka_4, f"{OURS} transactions stalled --bootstrap-server HOST:PORT", words).out
    assert orders not in after
    assert ledger not in after
