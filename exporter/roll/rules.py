"""Judge whether a broker may be stopped now: the rows of all rules, and the answer. Pure, no I/O."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.roll.coordination import ORDER, coordination_rows, limited
from exporter.roll.facts import BrokerRoll, RollAnswer, RollEvidence, RollReason, RollRow
from exporter.roll.partitions import partition_rows, unmade_rows


def roll_of(evidence: RollEvidence, broker: int, outage: float) -> BrokerRoll:
    """The answer for one broker that is away for ``outage`` seconds."""
    rows = tuple(sorted(_rows(evidence, broker, outage), key=lambda row: (ORDER[row.effect], -(row.seconds or 0.0))))
    answer = min((row.effect for row in rows), key=ORDER.__getitem__, default=RollAnswer.SAFE)
    waits = [row.seconds for row in rows if row.effect is RollAnswer.WAIT and row.seconds is not None]
    return BrokerRoll(broker, answer, max(waits) if answer is RollAnswer.WAIT and waits else None, rows)


def _rows(evidence: RollEvidence, broker: int, outage: float) -> Iterator[RollRow]:
    if broker not in evidence.brokers:
        text = (
            f"the cluster shows no running broker {broker}; there are {', '.join(map(str, sorted(evidence.brokers)))}"
        )
        yield RollRow(RollAnswer.UNKNOWN, RollReason.NOT_READ, f"broker {broker}", text)
        return
    by_reason: dict[RollReason, list[RollRow]] = {}
    for row in partition_rows(evidence, broker):
        by_reason.setdefault(row.reason, []).append(row)
    for rows in by_reason.values():
        yield from limited(rows, "topics")
    yield from unmade_rows(evidence)
    yield from coordination_rows(evidence, broker, outage)
    for text in evidence.not_read:
        yield RollRow(RollAnswer.UNKNOWN, RollReason.NOT_READ, "cluster", text)
