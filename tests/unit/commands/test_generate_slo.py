"""Objectives for sloth and OpenSLO."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from exporter.cli import main


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[Any]:
    assert main(["generate", "slo", *words]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def test_sloth_gets_an_objective_for_each_application_and_topic(capsys: pytest.CaptureFixture[str]) -> None:
    [spec] = printed(
        capsys, "--application", "pay=99.9", "--application", "billing", "--topic", "orders", "--cluster=prod"
    )
    assert spec["version"] == "prometheus/v1"
    assert {slo["name"]: slo["objective"] for slo in spec["slos"]} == {
        "transactions-prod-pay": 99.9,
        "transactions-prod-billing": 95,
        "freshness-prod-orders": 99,
    }
    events = spec["slos"][0]["sli"]["events"]
    selector = 'kafka_cluster="prod", application="pay"'
    assert events["total_query"] == f"sum(rate(kafka_eos_transactions_total{{{selector}}}[{{{{.window}}}}]))"
    assert events["error_query"] == events["total_query"].replace(selector, f'{selector}, outcome!="committed"')


def test_openslo_gets_a_document_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    pay, orders = printed(capsys, "--format", "openslo", "--application", "pay=99.9", "--topic", "orders")
    assert (pay["apiVersion"], pay["kind"], pay["spec"]["objectives"][0]["target"]) == ("openslo/v1", "SLO", 0.999)
    assert set(pay["spec"]["indicator"]["spec"]["ratioMetric"]) == {"counter", "bad", "total"}
    assert orders["spec"]["indicator"]["spec"]["ratioMetric"]["rawType"] == "failure"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "at least one"),
        (("--application", "pay=100"), "below 100"),
        (("--topic", "=9"), "needs NAME"),
        (("--topic", "orders=x"), "needs NAME"),
        (("--topic", "a{{.b}}"), "braces"),
        (("--topic", "a.b", "--topic", "a-b"), "freshness-a-b"),
    ],
)
def test_what_is_no_objective_is_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], problem: str
) -> None:
    assert main(["generate", "slo", *words]) == 2
    said = capsys.readouterr()
    assert (said.out, problem in said.err) == ("", True)
