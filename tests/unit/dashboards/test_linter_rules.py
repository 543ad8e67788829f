"""The rules of Grafana's dashboard-linter, as tests of our own: it cannot be had as a binary.

Its two rules for LogQL have nothing to look at here; that queries are PromQL (target-promql, template-label-promql) is
shown by a real Prometheus in tests/e2e/test_dashboards.py.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

Json = dict[str, Any]
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Of Grafana's value formats (packages/grafana-data/src/valueFormats/categories.ts), those in use.
UNITS = {"short", "none", "locale", "s", "ops", "reqps", "percentunit", "bytes"}
SHOWS_NO_NUMBER = {"row"}
RECORDED = r"\w+:kafka_eos_\w+:\w+(?=\{)"
"""A recorded series: it is of no job and no instance."""


def panels(dashboard: Json) -> list[Json]:
    return [panel for panel in dashboard["panels"] if panel["type"] not in SHOWS_NO_NUMBER]


def queries(dashboard: Json) -> list[str]:
    return [target["expr"] for panel in panels(dashboard) for target in panel["targets"]]


def variable(dashboard: Json, name: str) -> Json:
    return next(setting for setting in dashboard["templating"]["list"] if setting["name"] == name)


def test_the_data_source_is_a_choice(dashboard: Json) -> None:
    chosen = variable(dashboard, "datasource")
    assert (chosen["type"], chosen["query"], chosen["label"]) == ("datasource", "prometheus", "Data source")


@pytest.mark.parametrize(("name", "label"), [("job", "Job"), ("instance", "Instance")])
def test_job_and_instance_are_choices_that_allow_all(dashboard: Json, name: str, label: str) -> None:
    chosen = variable(dashboard, name)
    assert (chosen["datasource"], chosen["type"], chosen["label"]) == (SOURCE, "query", label)
    assert (chosen["multi"], chosen["includeAll"], chosen["allValue"]) == (True, True, ".+")


def test_choices_are_made_anew_when_the_time_range_changes(dashboard: Json) -> None:
    assert {setting["refresh"] for setting in dashboard["templating"]["list"] if setting["type"] == "query"} == {2}


def test_a_choice_is_of_the_values_of_a_label(dashboard: Json) -> None:
    for setting in dashboard["templating"]["list"]:
        if setting["type"] == "query":
            assert re.fullmatch(rf"label_values\(\w+(\{{.+\}})?, {setting['name']}\)", setting["query"])


def test_panels_and_targets_ask_the_chosen_data_source(dashboard: Json) -> None:
    for panel in panels(dashboard):
        assert panel["datasource"] == SOURCE
        assert [target["datasource"] for target in panel["targets"]] == [SOURCE] * len(panel["targets"])


def test_panels_have_targets(dashboard: Json) -> None:
    assert all(panel["targets"] for panel in panels(dashboard))


def test_panels_have_a_title_and_a_description_of_one_sentence(dashboard: Json) -> None:
    for panel in panels(dashboard):
        assert panel["title"]
        assert re.fullmatch(r"(?!.*\. [A-Z]).+\.", panel["description"]), panel["title"]


def test_panels_have_a_known_unit(dashboard: Json) -> None:
    for panel in panels(dashboard):
        if panel["type"] != "state-timeline":  # its values are words
            assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]


def test_every_selector_has_the_chosen_job_and_instance(dashboard: Json) -> None:
    for query in queries(dashboard):
        assert re.findall(r"\{[^{}]*\}", query), query
        selectors = re.findall(r"\{[^{}]*\}", re.sub(rf"{RECORDED}\{{[^{{}}]*\}}", "", query))
        for selector in selectors:
            ruler = selector.startswith("{alertname=~")  # what Prometheus says of its alerts is of no agent
            assert ruler or selector.startswith('{job=~"$job", instance=~"$instance"'), query


def test_rates_are_over_the_rate_interval(dashboard: Json) -> None:
    for query in queries(dashboard):
        assert set(re.findall(r"\brate\([^\[]*\[([^\]]+)\]", query)) <= {"$__rate_interval"}, query


def test_counters_are_seen_by_their_rate_or_increase(dashboard: Json) -> None:
    for query in queries(dashboard):
        for metric in re.findall(r"\w+_total(?=\{)", query):
            bare = re.findall(rf"(\w+)\({metric}\{{", query)
            # The two that must stay at zero are shown as they are on one dashboard.
            wrapped = {"rate", "increase"} if "transaction_log" not in metric else {"rate", "increase", "instance"}
            assert bare or "transaction_log" in metric, query
            assert set(bare) <= wrapped, query


def test_nobody_edits_it_in_grafana(dashboard: Json) -> None:
    assert dashboard["editable"] is False
