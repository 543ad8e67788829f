"""Cases for ``promtool test rules``, written over the catalogue's handles: a misspelt metric is an error.

A test starts at Unix time 0, so an instant is also an age: at 5m, what began at -1 is 301 seconds old.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.catalogue import (
    APPLICATION_THRESHOLD_RATIO,
    APPLICATION_THRESHOLD_SECONDS,
    AUDIT_THRESHOLD_SECONDS,
    CONNECTOR_THRESHOLD_RATIO,
    QUERY_THRESHOLD_SECONDS,
)
from exporter.core.durations import parse_duration
from exporter.core.thresholds import DEFAULTS, RATIOS
from exporter.model import Metric

Labels = Mapping[str, str]
RUN_SECONDS = 240


@dataclass(frozen=True)
class Series:
    """One scraped series; ``values`` in promtool's notation, a value each step, ``stale`` for a failed scrape."""

    metric: str
    labels: Labels
    values: str

    def __str__(self) -> str:
        return f"{self.metric}{{{', '.join(f'{key}={_quoted(value)}' for key, value in self.labels.items())}}}"


@dataclass(frozen=True)
class Check:
    """The alerts of this name that fire at this time: their labels, those of severity and reason included."""

    at: str
    alerts: tuple[Labels, ...]


@dataclass(frozen=True)
class Case:
    """A case of an alert: some series, and whether it fires. ``step`` is the interval of scrape and evaluation."""

    alert: str
    title: str
    series: tuple[Series, ...]
    checks: tuple[Check, ...]
    step: str = "1m"

    @property
    def fires(self) -> bool:
        return any(check.alerts for check in self.checks)


def scraped(metric: Metric, *labels: str, values: str, agent: str = "a", suffix: str = "", **more: str) -> Series:
    """A series of this family as Prometheus has it after scraping one agent."""
    named = dict(zip(metric.labels, labels, strict=True))
    target = {"job": "kafka-eos", "instance": f"{agent}:10618", "pod": f"exporter-{agent}"}
    return Series(f"{metric.name}{suffix}", {**named, **more, **target}, values)


def spread(labels: Sequence[str], other: str = "other") -> list[tuple[str, ...]]:
    """These label values, and for each of them a set that differs in it alone: no rule may take two for one."""
    variants = [
        tuple(other if place == at else value for place, value in enumerate(labels)) for at in range(len(labels))
    ]
    return [tuple(labels), *variants]


def case(
    alert: str, title: str, series: Iterable[Series], checks: Mapping[str, Sequence[Labels]], step: str = "1m"
) -> Case:
    """A case; ``checks`` are the alerts that fire by time. The agent's default thresholds are beside its series."""
    series = list(series)
    return Case(
        alert, title, (*series, *beside(series)), tuple(Check(at, tuple(check)) for at, check in checks.items()), step
    )


_SUBJECTS: Mapping[str, tuple[tuple[str, ...], Metric, Metric]] = {
    "application": (("application",), APPLICATION_THRESHOLD_SECONDS, APPLICATION_THRESHOLD_RATIO),
    "query": (("spark_application", "query"), QUERY_THRESHOLD_SECONDS, QUERY_THRESHOLD_SECONDS),
    "audit": (("audit",), AUDIT_THRESHOLD_SECONDS, AUDIT_THRESHOLD_SECONDS),
    "connector": (("connect", "connector"), CONNECTOR_THRESHOLD_RATIO, CONNECTOR_THRESHOLD_RATIO),
}


def beside(series: Iterable[Series]) -> list[Series]:
    """The default thresholds of every subject that these series name, but those that they set themselves."""
    every = list(series)
    made: dict[tuple[str, ...], Series] = {}
    for one_case in every:
        for kind, (labels, seconds, ratio) in _SUBJECTS.items():
            if "alertname" in one_case.labels or not {"instance", *labels} <= {*one_case.labels}:
                continue
            for name, value in DEFAULTS[kind].items():
                metric = ratio if name in RATIOS else seconds
                who = {key: one_case.labels[key] for key in ("kafka_cluster", *labels)}
                agent = {key: one_case.labels[key] for key in ("job", "instance", "pod")}
                whole = {**who, "threshold": name, **agent}
                written = "9999999999" if value == float("inf") else f"{value:g}"  # promtool has no Inf
                made[metric.name, *whole.values()] = Series(metric.name, whole, f"{written}x1500")
    given = {
        (
            series.metric,
            series.labels["threshold"],
            *(series.labels[key] for key in ("application", "audit") if key in series.labels),
        )
        for series in every
        if "threshold" in series.labels
    }
    return [
        series
        for series in made.values()
        if (
            series.metric,
            series.labels["threshold"],
            *(series.labels[key] for key in ("application", "audit") if key in series.labels),
        )
        not in given
    ]


def size(case: Case) -> float:
    """Series times evaluations: what it costs."""
    return len(case.series) * max(parse_duration(check.at) for check in case.checks) / parse_duration(case.step)


def small(cases: Iterable[Case], most: float) -> list[Case]:
    """The cases of this size at most, and always the smallest that fires and the smallest that does not.

    Most cases are small, and most of the work is in those that are not.
    """
    ordered = sorted(cases, key=size)
    smallest = {tested.fires: tested for tested in reversed(ordered)}
    return [tested for tested in ordered if size(tested) <= most or tested is smallest[tested.fires]]


def large(cases: Sequence[Case], most: float) -> list[Case]:
    """All but the ``small`` ones."""
    others = {id(tested) for tested in small(cases, most)}
    return [tested for tested in cases if id(tested) not in others]


def bare(rules: Mapping[str, Any]) -> dict[str, Any]:
    """The rules without their annotations, which have tests of their own and cost most of the time.

    Variants with a label of their own get a name of their own, ``NAME LABEL``: each is looked at alone.
    """
    stripped: dict[str, Any] = copy.deepcopy(dict(rules))
    for group in stripped["groups"]:
        for rule in group["rules"]:
            rule.pop("annotations", None)
            if variant := variant_of(rule.get("labels", {})):
                rule["alert"] += f" {variant}"
    return stripped


def variant_of(labels: Labels) -> str:
    """The label that distinguishes variants of an alert; "" without one."""
    return labels.get("reason", "")


def run(rules: Mapping[str, Any], cases: Iterable[Case]) -> str:
    """Run the cases against the rules that they are about. Returns "" when all hold, else what promtool says."""
    cases = list(cases)
    steps = itertools.groupby(sorted(cases, key=lambda tested: tested.step), key=lambda tested: tested.step)
    documents = [_document(step, [_test(step, tested) for tested in same]) for step, same in steps]
    return _run(_concerned(rules, {tested.alert for tested in cases}), documents)


def counted(rules: Mapping[str, Any], case: Case, at: str, counts: Mapping[str, int], **labels: str) -> str:
    """Return "" when so many alerts with these labels fire in each cluster at this time, else what promtool says."""
    matchers = "".join(f', {name}="{value}"' for name, value in labels.items())
    query = f'count by (kafka_cluster) (ALERTS{{alertname="{case.alert}", alertstate="firing"{matchers}}})'
    samples = [{"labels": f'{{kafka_cluster="{name}"}}', "value": count} for name, count in counts.items()]
    tests = {**_test(case.step, case), "alert_rule_test": []}
    tests["promql_expr_test"] = [{"expr": query, "eval_time": at, "exp_samples": samples}]
    return _run(_concerned(rules, {case.alert}), [_document(case.step, [tests])])


def _run(rules: Mapping[str, Any], documents: Iterable[Mapping[str, Any]]) -> str:
    with tempfile.TemporaryDirectory(prefix="kafka-eos-rules-") as name:
        folder = Path(name)
        (folder / "rules.yaml").write_text(json.dumps(rules))  # which is YAML, and written in no time
        paths = []
        for number, document in enumerate(documents):
            path = folder / f"test-{number}.yaml"
            path.write_text(json.dumps(document))
            paths.append(str(path))
        tool = ["promtool", "test", "rules", *paths]
        lazy = {**os.environ, "GOGC": "400"}  # a third less CPU
        done = subprocess.run(tool, capture_output=True, text=True, timeout=RUN_SECONDS, check=False, env=lazy)
        return "" if done.returncode == 0 else done.stdout + done.stderr


def _concerned(rules: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    """The alerts of these names, and the records that they or their descriptions read: the others cost time."""
    alerts = [rule for group in rules["groups"] for rule in group["rules"] if rule.get("alert") in names]
    records: list[Any] = []
    every = [rule for group in rules["groups"] for rule in group["rules"] if "record" in rule]
    for rule in reversed(every):  # a record stands before those that read it
        if any(
            rule["record"] in reader["expr"] + reader.get("annotations", {}).get("description", "")
            for reader in (*alerts, *records)
        ):
            records.insert(0, rule)
    return {"groups": [{"name": "records", "rules": records}, {"name": "alerts", "rules": alerts}]}


def _document(step: str, tests: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": step,
        "group_eval_order": ["records", "alerts"],  # else in any order: a step more or less until a record is seen
        "tests": [*tests],
    }


def _test(step: str, tested: Case) -> dict[str, Any]:
    return {
        "interval": step,
        "input_series": [{"series": str(series), "values": series.values} for series in tested.series],
        "alert_rule_test": [
            {
                "eval_time": check.at,
                "alertname": tested.alert,
                "exp_alerts": [{"exp_labels": dict(labels)} for labels in check.alerts],
            }
            for check in tested.checks
        ],
    }


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
