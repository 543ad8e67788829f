"""Every case over again as two replicas of each agent see it: the same alerts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from exporter import catalogue
from tests.rules.promtool import Case, Check, Labels, Series, bare, large, run, small
from tests.rules.table import CASES
from tests.rules.written import written_rules

RULES: dict[str, Any] = bare(written_rules())
FAMILIES = {f"{row.name}{suffix}": row for row in catalogue.rows() for suffix in ("", "_bucket", "_count", "_sum")}
WATCHERS = ("KafkaEosExporterAbsent", "KafkaEosClusterBlind")
"""Alerts about who watches: replicas are what their own cases are about."""


def twice(series: Series) -> Iterator[Series]:
    """As another replica sees it, too, which Prometheus scrapes as another target."""
    yield series
    if "instance" not in series.labels or _of_the_canary(series):  # what Prometheus itself writes, or no agent does
        return
    yield replace(series, labels=_second(series.labels))


def _of_the_canary(series: Series) -> bool:
    """There is one canary for each cluster."""
    metric = FAMILIES.get(series.metric)
    return metric is not None and metric.source == "canary"


def _second(labels: Labels) -> dict[str, str]:
    pod = {"pod": f"{labels['pod']}-2"} if "pod" in labels else {}
    return {**labels, "instance": f"2-{labels['instance']}", **pod}


def _twice_seen(case: Case) -> Case:
    checks = (
        Check(check.at, tuple(told for alert in check.alerts for told in told_twice(alert))) for check in case.checks
    )
    return replace(case, series=tuple(made for one in case.series for made in twice(one)), checks=tuple(checks))


def told_twice(alert: Labels) -> Iterator[Labels]:
    """An agent that is blind says so for itself; all else is said once."""
    yield alert
    if "instance" in alert:
        yield _second(alert)


ALERTS = [*dict.fromkeys(case.alert for case in CASES if not case.alert.startswith(WATCHERS))]
SMALL = 200


def _of(name: str) -> list[Case]:
    return [case for case in CASES if case.alert == name]


@pytest.mark.parametrize("name", ALERTS)
def test_two_replicas_of_each_agent_give_the_same_alerts(name: str) -> None:
    _same_alerts(small(_of(name), SMALL))


@pytest.mark.proof
@pytest.mark.parametrize("name", [name for name in ALERTS if large(_of(name), SMALL)])
def test_two_replicas_give_the_same_alerts_in_large_cases(name: str) -> None:
    _same_alerts(large(_of(name), SMALL))


def _same_alerts(cases: list[Case]) -> None:
    assert run(RULES, [_twice_seen(case) for case in cases]) == ""
