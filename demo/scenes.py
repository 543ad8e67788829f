"""The scenes of the demo: each situation, and the sample of /metrics that shows it. Data, pure tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from exporter.catalogue import (
    BROKER_REQUEST_ERRORS_TOTAL,
    GROUP_BLOCKED_OFFSETS,
    HANGING_TRANSACTIONS,
    LSO_BLOCKER_INFO,
    LSO_STALLED_SINCE_TIMESTAMP_SECONDS,
    PRODUCER_FENCES_TOTAL,
    PRODUCER_RECORDS_SENT_TOTAL,
    PRODUCER_TXN_SECONDS_TOTAL,
    PRODUCER_TXN_STATE,
    RECENT_PRODUCER_FENCES,
    TRANSACTIONS_OPEN,
    TRANSACTIONS_TOTAL,
)
from exporter.model import Metric
from testkit.agent import Metrics

STALLED_TOPIC, STALLED_PARTITION = "orders", 0
ORPHAN_TOPIC = "ledger"
GROUP = "orders-reader"


class Scene(NamedTuple):
    """A situation is seen once a sample of this metric has these labels and at least this value."""

    title: str
    metric: Metric
    labels: Mapping[str, str]
    at_least: float = 1

    def evidence(self, metrics: Metrics) -> str | None:
        """The line that shows it, or None."""
        found = (sample for sample in metrics.samples(self.metric, **self.labels) if sample.value >= self.at_least)
        return next(map(str, found), None)

    def instead(self, metrics: Metrics) -> str:
        """Write what the metric shows while it does not show this."""
        return "; ".join(map(str, metrics.samples(self.metric)[:6])) or f"{self.metric} is absent"


def _outcome(title: str, application: str, outcome: str) -> Scene:
    return Scene(title, TRANSACTIONS_TOTAL, {"application": application, "outcome": outcome})


SCENES = (
    _outcome("transactions commit (librdkafka, V1)", "checkout", "committed"),
    _outcome("transactions commit (Java, V2)", "billing", "committed"),
    _outcome("an application aborts (V1)", "importer", "aborted"),
    _outcome("an application aborts (V2)", "crawler", "aborted"),
    _outcome("a transaction times out (V1)", "reports", "timed_out"),
    _outcome("a transaction times out (V2)", "nightly", "timed_out"),
    _outcome("a producer is fenced (V1)", "pay", "fenced"),
    _outcome("a producer is fenced (V2)", "ship", "fenced"),
    Scene("fences are counted (V1)", PRODUCER_FENCES_TOTAL, {"application": "pay"}),
    Scene("fences are counted (V2)", PRODUCER_FENCES_TOTAL, {"application": "ship"}),
    Scene("an id is fenced again and again", RECENT_PRODUCER_FENCES, {"transactional_id": "pay-3"}, at_least=2),
    Scene("a transaction stays open", TRANSACTIONS_OPEN, {"application": "stuck", "state": "ongoing"}),
    Scene(
        "the last stable offset stalls",
        LSO_STALLED_SINCE_TIMESTAMP_SECONDS,
        {"topic": STALLED_TOPIC, "partition": str(STALLED_PARTITION)},
    ),
    Scene(
        "its blocker is named, of kind open",
        LSO_BLOCKER_INFO,
        {"topic": STALLED_TOPIC, "transactional_id": "stuck-1", "kind": "open"},
    ),
    Scene("a hanging transaction is found", LSO_BLOCKER_INFO, {"topic": ORPHAN_TOPIC, "kind": "hanging"}),
    Scene("hanging transactions are counted", HANGING_TRANSACTIONS, {"topic": ORPHAN_TOPIC}),
    Scene("a consumer group is blocked", GROUP_BLOCKED_OFFSETS, {"group": GROUP, "topic": STALLED_TOPIC}),
    Scene("the broker counts fenced requests (Jolokia)", BROKER_REQUEST_ERRORS_TOTAL, {"request": "EndTxn"}),
    Scene(
        "a Java producer's commits take their time (Jolokia)",
        PRODUCER_TXN_SECONDS_TOTAL,
        {"client_id": "producer-billing-1", "operation": "commit"},
        at_least=0.001,
    ),
    Scene(
        "a Java producer sends records (jmx_exporter)",
        PRODUCER_RECORDS_SENT_TOTAL,
        {"client_id": "producer-payouts-1"},
    ),
    Scene("a librdkafka producer reports its state", PRODUCER_TXN_STATE, {"client_id": "checkout-1"}),
)


class PrintedStep(NamedTuple):
    """The command that /api/v1/status gives for a stalled partition."""

    topic: str
    kind: str
    command: str


def next_steps(status: Any) -> Sequence[PrintedStep]:  # noqa: ANN401 - JSON as it came
    """Return what to do about each stalled partition, as the status document says."""
    return [
        PrintedStep(stalled["topic"], stalled["blocker"]["kind"], stalled["next_step"]["command"] or "")
        for cluster in status["clusters"]
        for stalled in cluster["stalled_partitions"]
    ]


def abort_line(steps: Sequence[PrintedStep], start_offset: int) -> str | None:
    """The line that ends the orphan, once it is given."""
    wanted = f" abort --topic {ORPHAN_TOPIC} --partition 0 --start-offset {start_offset}"
    return next((step.command for step in steps if step.command.endswith(wanted)), None)


def torn(steps: Sequence[PrintedStep]) -> str | None:
    """An abort line where it would tear a transaction that its coordinator has. Must not occur."""
    return next((step.command for step in steps if step.kind != "hanging" and " abort " in step.command), None)
