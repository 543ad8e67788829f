"""A wall clock may be set at any time: it dates what is shown, and decides nowhere when something is done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.ingest.latest import BURST, LatestBySender, RefusedError
from exporter.model import Clock

ROOT = Path(__file__).parents[3] / "exporter"

READS_WALL = re.compile(r"\.wall\(\)|\btime\.time\(\)|\btime\.time\b|datetime\.now|date\.today|time_ns\(")

WALL = {
    "agent/clusters.py": "the instant of the status document",
    "agent/cluster_answers.py": "dates an answer, and the coordinators' clock beside it",
    "agent/with_thresholds.py": "the window of the day of a threshold",
    "canary/canary.py": "kafka_eos_canary_last_success_timestamp_seconds",
    "groups/source/early_commits.py": "which commits are of the last half hour",
    "groups/source/holder_groups.py": "since when a group is seen without a member",
    "inventory/source.py": "dates the document and the hour that it is about",
    "core/reading.py": "kafka_eos_source_last_success_timestamp_seconds",
    "producers/source/librdkafka.py": "dates a client's states",
    "telemetry/clients.py": "refuses points that are dated later than now; what is kept goes by the monotonic clock",
    "spark/posts.py": "dates a query's progress",
    "kafka/auth/msk.py": "the life of a token, which its signer dates; it is kept by the monotonic clock",
    "kafka/auth/oauth.py": "the end of a token's life as librdkafka takes it; it is kept by the monotonic clock",
    "kafka/auth/tls.py": "the end of a certificate's life",
    "model.py": "the clock itself",
    "audit_results/posts.py": "refuses a run that ends after now",
    "journal/keeper.py": "dates events; how long something lasted is the difference of two such dates",
    "lso/source/lso.py": "dates stalls; ages go by the monotonic clock or the coordinators'",
    "posture/source.py": "which offset commits are of the last hour",
    "lso/proof/rounds.py": "dates a proof that is shown",
    "spark/source.py": "compares with Spark's timestamps, of its own clock; nothing is forgotten for good by it",
    "transactions/source/internal_topics.py": "dates a broken partition",
    "transactions/source/log_partitions.py": "from when on the log is read at the start; dates elections",
    "transactions/source/transactions.py": "the distance of the clocks",
    "transactions/source/log_facts.py": "the distance of the clocks",
    "transactions/known_log.py": "the clock of instants from when on those of brokers are found to be apart",
    "transactions/log_records.py": "as well",
}
"""Modules of the agent that read the wall clock, and what for."""

OF_PEOPLE = ("commands/", "jobs/", "standalone/")
"""Runs that somebody starts, and a file for drivers: they date what they print or send."""


def test_the_wall_clock_is_read_only_to_date_what_is_shown() -> None:
    files = {file.relative_to(ROOT).as_posix(): file.read_text() for file in ROOT.rglob("*.py")}
    found = {name for name, text in files.items() if not name.startswith(OF_PEOPLE) and READS_WALL.search(text)}
    assert found == WALL.keys()


@pytest.mark.parametrize("jump", [86_400.0, -86_400.0])
def test_what_is_posted_is_kept_and_limited_whatever_the_wall_clock_shows(jump: float) -> None:
    now = {"monotonic": 1000.0, "wall": 1_790_000_000.0}
    clock = Clock(lambda: now["monotonic"], lambda: now["wall"])
    latest = LatestBySender[str, int](10, 60.0, clock, lambda *_: 1)
    for _ in range(int(BURST)):
        latest.admit()
    latest.put("a", lambda _: 39)
    now["wall"] += jump
    assert latest.latest() == {"a": 39}
    with pytest.raises(RefusedError, match="too much"):
        latest.admit()
    now["monotonic"] += 61.0
    assert latest.latest() == {}
