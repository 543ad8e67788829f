"""Checks of Flink jobs: what their timeouts leave for a late checkpoint and for a restart. Pure.

A transaction of KafkaSink is open from one checkpoint to the completion of the next, and, where the job fails in
between, until the restarted job commits it. If its timeout passes before that, what it wrote is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from exporter.flink.facts import JobTimes
from exporter.posture.check import PostureCheck, Rule

INTERVALS = 2
"""Checkpoint intervals that a transaction is open for at least, when one checkpoint is late by a whole interval."""
RESTART_SECONDS = 300.0
"""Time to notice a failed job, start it anew and restore its state, which a timeout should leave."""

FLINK_TIMEOUT = Rule(
    "flink_transaction_timeout",
    "A precommitted transaction that times out before the job commits it is lost, checkpoint or not.",
    "transaction.timeout.ms of the KafkaSink above the longest restart and two checkpoint intervals, and"
    " transaction.max.timeout.ms of the brokers no lower",
)


def flink_checks(jobs: Sequence[JobTimes], most: float | None) -> Iterator[PostureCheck]:
    """Judge the jobs whose interval and timeout are known. ``most`` is the brokers' transaction.max.timeout.ms in
    seconds, None where it is not known.

    Less than two intervals fails. Less than a restart beside them is information: how long a restart takes is not seen.
    """
    for job in jobs:
        if job.interval is None or job.timeout is None:
            continue
        left = job.timeout - INTERVALS * job.interval
        found = f"transactions time out after {job.timeout:g} s, a checkpoint is made every {job.interval:.0f} s"
        if most is not None:
            found += f", the brokers allow {most:g} s"
        if left < 0:
            yield FLINK_TIMEOUT.says(job.prefix, passed=False, found=found)
        elif left < RESTART_SECONDS:
            yield FLINK_TIMEOUT.notes(job.prefix, f"{found}: {left:.0f} s are left for a restart")
        else:
            yield FLINK_TIMEOUT.says(job.prefix, passed=True, found=found)
