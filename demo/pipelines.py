"""The full_stack's part of Spark and of audits: queries that get on, starve and fail, and results of audits."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from demo.scenes import STALLED_TOPIC
from exporter.audit_results.result import AuditResult, Finding, TopicResult, dump_result
from exporter.words import AuditVerdict
from testkit.cluster import KafkaCluster
from testkit.spark import SparkDriver

RUNNING = {"payouts": "payments", "refunds": STALLED_TOPIC}
"""Topics by query; the second one starves behind a transaction that does not end."""
FAILING = ("reconcile", "reports")


class DemoPipelines:
    """A Spark application, and a folder of audits' results; ``settings`` are the agent's for both."""

    def __init__(self, cluster: KafkaCluster, folder: Path) -> None:
        """The application is on its way when this returns; it ends with the cluster's processes."""
        self._driver = SparkDriver(cluster, "settlement")
        self._audits = folder / "audits"
        self._audits.mkdir()
        for result in _results(time.time()):
            (self._audits / f"{result.audit}.json").write_text(dump_result(result))

    @property
    def settings(self) -> Mapping[str, Any]:
        checkpoints = [{"checkpoint": str(self._driver.checkpoints / name)} for name in RUNNING]
        return {
            "spark": [{"event_log": str(self._driver.event_log)}, *checkpoints],
            "audits": [{"path": str(self._audits / "*.json")}],
        }

    def start(self) -> None:
        """Start the queries that run. Raises SparkError."""
        self._driver.wait_ready()
        for name, topic in RUNNING.items():
            self._driver.start(name, topic)

    def fail(self) -> None:
        """Start a query that an error ends in its first batch. Raises SparkError."""
        self._driver.start(*FAILING, "fail")


def _results(now: float) -> tuple[AuditResult, ...]:
    examples = ({"partition": 0, "offset": 17, "first_offset": 3},)
    return (
        AuditResult(
            audit="payments-nightly",
            finished_at=now - 7200,
            verdict=AuditVerdict.CLEAN,
            topics={"payments": TopicResult(AuditVerdict.CLEAN, 184_220)},
            records=184_220,
            checked=("duplicate", "gap", "aborted_visible"),
        ),
        AuditResult(
            audit="imports-hourly",
            finished_at=now - 600,
            verdict=AuditVerdict.FINDINGS,
            topics={
                "imports": TopicResult(AuditVerdict.FINDINGS, 20_114),
                "reports": TopicResult(AuditVerdict.CLEAN, 3_020),
            },
            findings=(Finding("duplicate", "imports", 3, examples), Finding("gap", "imports", 1, examples)),
            records=23_134,
            checked=("duplicate", "gap"),
        ),
        AuditResult(
            audit="ledger-sink",
            finished_at=now - 90_000,
            verdict=AuditVerdict.UNKNOWN,
            topics={"ledger": TopicResult(AuditVerdict.UNKNOWN)},
            unknown=("the topic's oldest records were deleted while it was read",),
            checked=("missing", "repeated"),
        ),
    )
