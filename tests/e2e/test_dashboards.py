"""Every panel's query on a real Prometheus that scrapes two replicas of the agent on a stack that goes wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from dashboards.generate import files
from demo.panorama import Panorama, PrometheusServer
from demo.processes import poll
from exporter.catalogue import STREAMS_THREAD_COMMITS_TOTAL, TRANSACTION_OPEN_SECONDS
from exporter.model import Deadline

SHOWN_SECONDS = 120.0
# Windows of 15 minutes and rates over one need no more than a few scrapes to have an answer.
RATE_INTERVAL = "1m"
pytestmark = pytest.mark.timeout(420)

MAY_BE_EMPTY = {
    "Brokers: Ids without coordinator, by application": "the internal topics are whole",
    "Brokers: Coordinator loads": "no coordinator moved in the last 30 seconds",
    "Brokers: Errors in answers": "what is in it depends on the instant",
    "Connect: Tasks that do not run": "all run until one fails",
    "The exporter itself: Series kept out by a cap": "no cap is reached",
    "The exporter itself: Kept out by a cap": "no cap is reached",
    "The exporter itself: Faults by reason": "everything answers",
    "Transactions: Oldest decision without all its markers": "markers take milliseconds here",
}
"""Panels without data on this stack, each with its reason."""


class Asked(NamedTuple):
    """A query, and whose it is."""

    panel: str
    expr: str


@pytest.fixture(scope="module")
def prometheus() -> Iterator[PrometheusServer]:
    """Asked once the slowest of what is shown is there: a stall, a hanging transaction, commits of Kafka Streams."""
    with Panorama() as panorama:
        server = panorama.prometheus
        server.wait_for("count(kafka_eos_lso_blocker_info{kind='hanging'}) > 1", SHOWN_SECONDS)
        server.wait_for(f"count(rate({STREAMS_THREAD_COMMITS_TOTAL}[1m])) > 1", SHOWN_SECONDS)
        server.wait_for(f"count(rate({TRANSACTION_OPEN_SECONDS}_bucket[1m])) > 1", SHOWN_SECONDS)
        yield server


def test_every_panel_has_data_and_no_query_has_a_warning(prometheus: PrometheusServer) -> None:
    empty: dict[str, str] = {}
    until = Deadline.after(SHOWN_SECONDS)
    while True:
        empty = {asked.panel: asked.expr for asked in _panels() if not _result(prometheus, asked)}
        if not empty.keys() - MAY_BE_EMPTY.keys() or not poll(until, 5):
            break
    assert not {panel: expr for panel, expr in empty.items() if panel not in MAY_BE_EMPTY}


def test_the_panels_that_may_be_empty_exist() -> None:
    assert MAY_BE_EMPTY.keys() <= {asked.panel for asked in _panels()}


def test_every_choice_has_values(prometheus: PrometheusServer) -> None:
    for dashboard in _dashboards():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
                assert match
                found = prometheus.ask(f"label/{match[2]}/values", **{"match[]": _plain(match[1])})
                assert found["status"] == "success", found
                assert found["data"], variable["query"]["query"]


def test_annotations_are_at_the_instants_of_the_transaction_log(prometheus: PrometheusServer) -> None:
    now = float(prometheus.wait_for("vector(time())", 5)[0]["value"][1])
    for dashboard in _dashboards():
        for note in dashboard["annotations"]["list"]:
            if "target" in note:
                found = _result(prometheus, Asked(note["name"], note["target"]["expr"]))
                if note["useValueForTime"]:
                    assert found, note["name"]
                    ages = [now - float(series["value"][1]) / 1000 for series in found]
                    assert all(-60 < age < 3600 for age in ages), ages


def test_two_replicas_are_one_truth(prometheus: PrometheusServer) -> None:
    assert len(prometheus.ask("query", query="up == 1")["data"]["result"]) == 2
    stalled = next(asked for asked in _panels() if asked.panel == "Overview: Stalled partitions, and who holds them")
    found = _result(prometheus, stalled)
    places = [(series["metric"]["topic"], series["metric"]["partition"]) for series in found]
    assert sorted(places) == sorted(set(places))
    assert {("orders", "0"), ("ledger", "0")} <= set(places)


def _result(prometheus: PrometheusServer, asked: Asked) -> list[dict[str, Any]]:
    answer = prometheus.ask("query", query=_plain(asked.expr))
    assert answer["status"] == "success", (asked, answer)
    assert not answer.get("warnings"), (asked, answer)
    assert not answer.get("infos"), (asked, answer)
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def _plain(expr: str) -> str:
    """Every variable set to all."""
    return re.sub(r"\$\w+", ".*", expr.replace("$__rate_interval", RATE_INTERVAL))


def _dashboards() -> list[dict[str, Any]]:
    return [json.loads(text) for text in files().values()]


def _panels() -> list[Asked]:
    return [
        Asked(f"{dashboard['title'].removeprefix('Kafka EOS / ')}: {panel['title']}", target["expr"])
        for dashboard in _dashboards()
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    ]
