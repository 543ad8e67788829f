"""Scrapes as tests read them, and what a wait that ends in vain tells of the product."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from testkit.agent import Metrics

GOLDEN = Path(__file__).parents[2] / "golden"

PAGE = """\
kafka_eos_lso_blocker_info{topic="orders",kind="unknown"} 1
kafka_eos_stalled_partitions{topic="orders"} 1
kafka_eos_source_up{source="txnlog"} 0
"""


def test_a_wait_in_vain_tells_what_was_asked_and_what_is_there_instead() -> None:
    metrics = Metrics(PAGE)
    assert not metrics.samples("kafka_eos_lso_blocker_info", kind="hanging", topic="orders")
    assert metrics.value("kafka_eos_source_up") == 0
    assert metrics.answers().splitlines() == [
        "asked of /metrics:",
        '  kafka_eos_lso_blocker_info{kind="hanging",topic="orders"}: absent',
        '  kafka_eos_source_up{}: kafka_eos_source_up{source="txnlog"} 0',
        "all samples of these metrics, and source_up:",
        'kafka_eos_lso_blocker_info{kind="unknown",topic="orders"} 1',
        'kafka_eos_source_up{source="txnlog"} 0',
    ]


def test_samples_are_those_of_a_strict_parser() -> None:
    text = (GOLDEN / "stalled.prom").read_text()
    metrics = Metrics(text)
    expected = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert metrics.names == {sample.name for sample in expected}
    found = [sample for name in sorted(metrics.names) for sample in metrics.samples(name)]
    assert found == sorted(
        ((sample.name, sample.labels, sample.value) for sample in expected), key=lambda triple: triple[0]
    )
