"""What is said when the subject of a page is absent: PromQL over no series is empty, so the page is silent.

Then another alert has to say that its source is not read. A page that took what is absent for zero, or for fine, would
have to write so in its expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

from exporter import catalogue
from exporter.alerts.rule import Alert, Severity
from exporter.alerts.table import alerts, records
from exporter.model import Metric


class Witness(NamedTuple):
    """What says that a source is not read: the metric of an alert, and the severity of that alert."""

    metric: Metric
    severity: Severity
    of_source: bool = False
    """Whether the alert has a condition for this source alone."""


REFUSED = Witness(catalogue.SOURCE_UP, Severity.WARNING)
BLIND = Witness(catalogue.SOURCE_BLIND, Severity.CRITICAL, of_source=True)
SAID_BY: Mapping[str, Witness] = {
    # absent: not configured, and nothing is said. Refused, unreachable, empty answer: the witness.
    "lso": BLIND,
    "txnlog": BLIND,
    "transactions": REFUSED,
    "groups": REFUSED,
    "brokers": REFUSED,
    "posture": REFUSED,
    "connect": REFUSED,
    "streams": REFUSED,
    "spark": REFUSED,
    "audits": Witness(catalogue.AUDIT_LAST_RUN_TIMESTAMP_SECONDS, Severity.WARNING),
    "canary": Witness(catalogue.CANARY_LAST_SUCCESS_TIMESTAMP_SECONDS, Severity.WARNING),
    "agent": Witness(catalogue.SOURCE_UP, Severity.CRITICAL),
}
ENDED = {"ingest", "producers"}
"""Clients that push: one that is silent cannot be told from one that was ended, and nothing is said."""
ALL = alerts()
PAGES = [alert for alert in ALL if alert.severity is Severity.CRITICAL]
SOURCES = {row.name: row.source for row in catalogue.rows()}
RECORDED = {record.name: record.expr for record in records()}
WORD = re.compile(r"[a-zA-Z_:][\w:]*")
TEXT = re.compile(r'"[^"]*"')


def expressions(expr: str, known: frozenset[str] = frozenset()) -> Iterator[str]:
    """An expression, and those of the recording rules that it reads. A rule may read its own older values."""
    yield expr
    for name in WORD.findall(TEXT.sub("", expr)):
        if name in RECORDED and name not in known:
            yield from expressions(RECORDED[name], known | {name})


def selected(expr: str) -> set[str]:
    """The metrics that an expression reads, those of its recording rules included."""
    words = {word for part in expressions(expr) for word in WORD.findall(TEXT.sub("", part))}
    return {word for word in words if word.startswith("kafka_eos_")}


def sources(alert: Alert) -> set[str]:
    return {SOURCES[metric] for metric in selected(alert.expr)}


def title(alert: Alert) -> str:
    return f"{alert.name}-{alert.reason}" if alert.reason else alert.name


def test_there_are_pages_and_every_metric_of_theirs_has_a_source() -> None:
    assert PAGES
    assert all(sources(alert) for alert in PAGES)
    assert set().union(*map(sources, PAGES)) <= SAID_BY.keys() | ENDED


@pytest.mark.parametrize("alert", PAGES, ids=title)
def test_a_page_does_not_take_what_is_absent_for_a_value(alert: Alert) -> None:
    absent = [
        part
        for part in expressions(alert.expr)
        if re.search(r"\b(absent|absent_over_time|vector)\b *\(", TEXT.sub("", part))
    ]
    assert not absent or sources(alert) == {"agent"}, absent


@pytest.mark.parametrize("alert", PAGES, ids=title)
def test_another_alert_says_that_the_source_of_a_page_is_not_read(alert: Alert) -> None:
    for source in sources(alert) - ENDED:
        witness = SAID_BY[source]
        said = [
            other
            for other in ALL
            if other.severity is witness.severity
            and any(
                str(witness.metric) in expr
                for expr in (other.expr, *map(RECORDED.get, WORD.findall(other.expr)))
                if expr
            )
            and (not witness.of_source or f'{witness.metric}{{source="{source}"}}' in other.expr)
        ]
        assert said, (source, witness)
