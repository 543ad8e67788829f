"""Tests of what is recorded for descriptions, to the series: no expression reads it, so that no case of an alert is
about it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from exporter.alerts import lso
from exporter.alerts.evidence import WAITING_GROUPS, WORST
from exporter.alerts.rule import Record
from exporter.catalogue import GROUP_BLOCKED_OFFSETS
from tests.rules.cases_lso import blocker, since
from tests.rules.mutation import expressions
from tests.rules.promtool import Series, scraped

Recorded = Mapping[str, float]


def _written(record: Record, names: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs = ", ".join(f'{name}="{value}"' for name, value in zip(names, values, strict=True))
    return f"{record}{{{pairs}}}"


def stalls(cluster: str, pid: str, ages: Mapping[tuple[str, int], int], agent: str = "a") -> Iterator[Series]:
    """Partitions of one holder, by since when they are stalled."""
    for (topic, number), instant in ages.items():
        place = (cluster, topic, str(number))
        yield since(f"{instant}x9", place, agent)
        yield blocker("open", "1x9", place, pid, agent)


def waiting(cluster: str, topic: str, withheld: Mapping[str, int], agent: str = "a") -> Iterator[Series]:
    for group, offsets in withheld.items():
        yield scraped(GROUP_BLOCKED_OFFSETS, cluster, group, topic, values=f"{offsets}x9", agent=agent)


def worst() -> tuple[list[Series], Recorded]:
    """Seven partitions of a holder of which five are kept, replicas that differ, and others of the same names."""
    ages = {("orders", number): number for number in range(6)} | {("refunds", 0): 100}
    series = [
        *stalls("prod", "7", ages),
        *stalls("prod", "7", {place: instant + 1 for place, instant in ages.items()}, "b"),
        *stalls("prod", "8", {("orders", 10): 50}),
        *stalls("stage", "7", {("orders", 0): 60}),
        blocker("open", "1x9", ("stage", "orders", "0"), "9"),  # one partition, two holders
        since("0x9", ("prod", "orders", "50")),  # its holder is not known
        blocker("open", "1x9", ("prod", "gone", "0"), "7"),
    ]
    kept = {
        **{("prod", "7", "orders", str(number)): float(number) for number in range(5)},
        ("prod", "8", "orders", "10"): 50.0,
        ("stage", "7", "orders", "0"): 60.0,
        ("stage", "9", "orders", "0"): 60.0,
    }
    names = ("kafka_cluster", "producer_id", "topic", "partition")
    return series, {_written(WORST, names, values): value for values, value in kept.items()}


def groups() -> tuple[list[Series], Recorded]:
    """The five groups of each stalled topic from which most is withheld, and none from which nothing is."""
    many = {f"group-{number}": 10 + number for number in range(6)}
    series = [
        *stalls("prod", "7", {("orders", 0): 0, ("refunds", 0): 0}),
        *stalls("stage", "7", {("quiet", 0): 0, ("refunds", 0): 0}),
        *waiting("prod", "orders", many),
        *waiting("prod", "orders", {place: offsets + 100 for place, offsets in many.items()}, "b"),
        *waiting("prod", "refunds", {"one": 1, "two": 2, "none": 0}),
        *waiting("prod", "quiet", {"one": 3}),  # stalled on stage, and not here
        *waiting("stage", "quiet", {"one": 4}),
        *waiting("stage", "orders", {"one": 5}),
        *waiting("stage", "refunds", {f"group-{number}": 50 for number in range(5)}),
    ]
    kept = {
        **{("prod", f"group-{number}", "orders"): 110.0 + number for number in range(1, 6)},
        ("prod", "one", "refunds"): 1.0,
        ("prod", "two", "refunds"): 2.0,
        ("stage", "one", "quiet"): 4.0,
        **{("stage", f"group-{number}", "refunds"): 50.0 for number in range(5)},
    }
    names = ("kafka_cluster", "group", "topic")
    return series, {_written(WAITING_GROUPS, names, values): value for values, value in kept.items()}


TABLE = {WORST.name: (WORST, *worst()), WAITING_GROUPS.name: (WAITING_GROUPS, *groups())}


def holds(folder: Path, record: Record, expr: str, series: list[Series], expected: Recorded) -> bool:
    """Whether this expression records these series and no other, by promtool."""
    (folder / "rules.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": "one", "rules": [{"record": record.name, "expr": expr}]}]})
    )
    document = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": str(one_series), "values": one_series.values} for one_series in series],
                "promql_expr_test": [
                    {
                        "expr": record.name,
                        "eval_time": "5m",
                        "exp_samples": [{"labels": labels, "value": value} for labels, value in expected.items()],
                    }
                ],
            }
        ],
    }
    (folder / "test.yaml").write_text(yaml.safe_dump(document))
    tool = ["promtool", "test", "rules", str(folder / "test.yaml")]
    return subprocess.run(tool, capture_output=True, timeout=60, check=False).returncode == 0


def test_every_record_that_only_descriptions_read_is_in_the_table() -> None:
    assert set(TABLE) == {record.name for record in lso.records()}


@pytest.mark.parametrize("name", TABLE)
def test_what_is_recorded_is_the_worst_of_each(name: str, tmp_path: Path) -> None:
    record, series, expected = TABLE[name]
    assert holds(tmp_path, record, record.expr, series, expected)


@pytest.mark.parametrize("name", TABLE)
def test_a_mutant_records_something_else(name: str, tmp_path: Path) -> None:
    record, series, expected = TABLE[name]
    alive = [what for what, expr in expressions(record.expr) if holds(tmp_path, record, expr, series, expected)]
    assert alive == []
