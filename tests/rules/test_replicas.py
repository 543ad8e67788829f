"""Every case over again as two replicas of each agent see it, and as shards do: the same alerts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from exporter import catalogue
from exporter.core.shard import Shard
from tests.rules.promtool import Case, Check, Labels, Series, bare, large, run, small
from tests.rules.table import CASES
from tests.rules.written import written_rules

RULES: dict[str, Any] = bare(written_rules())
FAMILIES = {f"{row.name}{suffix}": row for row in catalogue.rows() for suffix in ("", "_bucket", "_count", "_sum")}
WATCHERS = ("KafkaEosExporterAbsent", "KafkaEosClusterBlind")
"""Alerts about who watches: replicas and shards are what their own cases are about."""
SHARDS = [Shard(index, 3) for index in range(3)]
SHARED_OUT = {"lso": "topic", "groups": "group", "txnlog": "application", "transactions": "application"}
"""The label by which the families of a source are shared out; what lacks it is the first shard's."""


def twice(series: Series) -> Iterator[Series]:
    """As another replica sees it, too, which Prometheus scrapes as another target."""
    yield series
    if "instance" not in series.labels or _of_the_canary(series):  # what Prometheus itself writes, or no agent does
        return
    yield replace(series, labels=_elsewhere(series.labels, "2"))


def in_shards(series: Series) -> Iterator[Series]:
    """As the one shard sees it whose it is; what an agent says of itself is said by each."""
    metric = FAMILIES.get(series.metric)
    if metric is None or _of_the_canary(series):
        yield series
        return
    label = SHARED_OUT.get(metric.source, "")
    name = (
        series.labels[label] if label in metric.labels and metric is not catalogue.INTERNAL_TOPIC_PARTITIONS else None
    )
    for shard in SHARDS:
        where = _elsewhere(series.labels, str(shard.index))
        if metric in catalogue.OF_EACH_AGENT or (metric in catalogue.OF_EACH_SHARD and shard.first):
            yield replace(series, labels={**where, "shard": str(shard.index)})
        elif shard.first if name is None else shard.holds(name):
            yield replace(series, labels=where)


def _of_the_canary(series: Series) -> bool:
    """There is one canary for each cluster, and it has no shards."""
    metric = FAMILIES.get(series.metric)
    return metric is not None and metric.source == "canary"


def _elsewhere(labels: Labels, which: str) -> dict[str, str]:
    pod = {"pod": f"{labels['pod']}-{which}"} if "pod" in labels else {}
    return {**labels, "instance": f"{which}-{labels['instance']}", **pod}


def seen(
    case: Case, series: Callable[[Series], Iterator[Series]], alerts: Callable[[Labels], Iterator[Labels]]
) -> Case:
    checks = (Check(check.at, tuple(told for alert in check.alerts for told in alerts(alert))) for check in case.checks)
    return replace(
        case, series=tuple(made for one_series in case.series for made in series(one_series)), checks=tuple(checks)
    )


def told_twice(alert: Labels) -> Iterator[Labels]:
    """An agent that is blind says so for itself; all else is said once."""
    yield alert
    if "instance" in alert:
        yield _elsewhere(alert, "2")


def told_by_each_shard(alert: Labels) -> Iterator[Labels]:
    if "instance" not in alert:
        yield alert
        return
    for shard in SHARDS:
        said = {"shard": str(shard.index)} if "pod" in alert else {}  # alerts that keep the labels of a series
        yield {**_elsewhere(alert, str(shard.index)), **said}


ALERTS = [*dict.fromkeys(case.alert for case in CASES if not case.alert.startswith(WATCHERS))]
SMALL = 200


def _of(name: str) -> list[Case]:
    return [case for case in CASES if case.alert == name]


@pytest.mark.parametrize("name", ALERTS)
def test_two_replicas_of_each_agent_and_shards_of_it_give_the_same_alerts(name: str) -> None:
    _same_alerts(small(_of(name), SMALL))


@pytest.mark.proof
@pytest.mark.parametrize("name", [name for name in ALERTS if large(_of(name), SMALL)])
def test_two_replicas_and_shards_give_the_same_alerts_in_large_cases(name: str) -> None:
    _same_alerts(large(_of(name), SMALL))


def _same_alerts(cases: list[Case]) -> None:
    replicas = [seen(case, twice, told_twice) for case in cases]
    shards = [seen(case, in_shards, told_by_each_shard) for case in cases]
    assert run(RULES, [*replicas, *shards]) == ""


def test_a_stall_its_holder_and_its_topic_come_from_different_shards_in_some_case() -> None:
    stalls = [
        case for case in CASES if any(series.metric == catalogue.LSO_HOLDER_PARTITIONS.name for series in case.series)
    ]
    from_shards = max(
        ({series.labels["instance"] for series in seen(case, in_shards, told_by_each_shard).series} for case in stalls),
        key=len,
    )
    assert len(from_shards) > 1
