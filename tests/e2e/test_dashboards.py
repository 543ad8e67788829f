"""Every panel's query on a real Prometheus that scrapes two replicas of the agent on a stack with failures."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import pytest
import yaml

from demo.full_stack import FullStack, PrometheusServer
from exporter.alerts.files import generated
from exporter.catalogue import LSO_BLOCKER_INFO, STREAMS_THREAD_COMMITS_TOTAL, TRANSACTION_OPEN_SECONDS
from exporter.dashboards.generate import files
from exporter.model import Deadline
from testkit.processes import poll

SHOWN_SECONDS = 300.0
# Windows of 15 minutes and rates over one need no more than a few scrapes to have an answer.
RATE_INTERVAL = "1m"

_NO_CANARY, _NO_DEBEZIUM, _NO_FLINK = "no canary runs here", "no Debezium runs here", "no Flink runs here"
_NO_FRESHNESS = "no topic has fresh_within here"
_NO_BUDGET = "the first budget of 30 days is there at the next full hour"
MAY_BE_EMPTY = {
    "Brokers and the transaction log: Whose ids have no coordinator?": "the internal topics are whole",
    "Brokers and the transaction log: Which coordinators fail the canary?": _NO_CANARY,
    "Brokers and the transaction log: How long do its phases take? (p99)": _NO_CANARY,
    "Brokers and the transaction log: Which errors do clients get?": "what is in it depends on the instant",
    "Clients and engines: Which tasks do not run?": "all run until one fails",
    "Clients and engines: Why did tasks fail in the last hour?": "all run until one fails",
    "Clients and engines: Did snapshots end early?": _NO_DEBEZIUM,
    "Clients and engines: How far is capture behind the database?": _NO_DEBEZIUM,
    "Clients and engines: Is Kafka slower than the database?": _NO_DEBEZIUM,
    "Clients and engines: Which precommitted transactions will time out?": _NO_FLINK,
    "Clients and engines: Which precommitted transactions were lost in the last hour?": _NO_FLINK,
    "Overview: Which alerts fire?": "this Prometheus may have nothing to fire",
    "Overview: Applications without budget": _NO_BUDGET,
    "Overview: Topics without budget": _NO_FRESHNESS,
    "Transactions: Which applications have the least budget left?": _NO_BUDGET,
    "Transactions: Which topics have the least budget left?": _NO_FRESHNESS,
    "Stalls: Torn transactions": "no audit of markers runs here",
    "Stalls: How many members have groups of the newer protocols?": "the groups here are classic",
    "Stalls: What is ignored, and why?": "no threshold ignores anything",
    "The agent: What happened?": "nothing may happen in a minute",
    "The agent: Is the journal whole?": "the agents here have no state.dir",
    "The agent: Why did they not answer?": "everything answers",
}
"""Panels without data on this stack, each with its reason."""

_OBJECTIVES = ("without budget", "least budget left")
EACH_FOR_ITSELF = (
    "The agent: ",
    "Overview: Which agents answer, and where are their pages?",
    "kafka_cluster:kafka_eos_agents:count",
)
"""Panels and records that count agents are meant to differ. Objectives are shown from recorded series, as
their ruler evaluated them last; the rules themselves are compared.
"""
TELLER = {"instance", "pod"}
ONCE = "stuck"
"""An application that commits once, right after its first record: whether a scrape falls between is luck."""
BY_SAMPLING = "group_isolation"
"""A check that an agent proves when it meets a commit beyond the last stable offset: each meets its own, or none."""


class PanelQuery(NamedTuple):
    """A query, and whose it is."""

    panel: str
    expr: str


@contextmanager
def shown(full_stack: FullStack) -> Iterator[FullStack]:
    """Start it, and wait for the slowest values: a stall, a hanging transaction, commits of Kafka Streams."""
    with full_stack:
        server = full_stack.prometheus
        for kind in ("hanging", "open"):
            server.wait_for(f"count({LSO_BLOCKER_INFO}{{kind='{kind}'}}) > 1", SHOWN_SECONDS)
        server.wait_for(f"count(rate({STREAMS_THREAD_COMMITS_TOTAL}[1m])) > 1", SHOWN_SECONDS)
        server.wait_for(f"count(rate({TRANSACTION_OPEN_SECONDS}_bucket[1m])) > 1", SHOWN_SECONDS)
        yield full_stack


@pytest.fixture(scope="module")
def prometheus() -> Iterator[PrometheusServer]:
    """One that scrapes two replicas."""
    with shown(FullStack()) as full_stack:
        yield full_stack.prometheus


def test_every_panel_has_data_and_no_query_has_a_warning(prometheus: PrometheusServer) -> None:
    empty = _panels()
    until = Deadline.after(SHOWN_SECONDS)
    while empty := [asked for asked in empty if not _result(prometheus, asked) and asked.panel not in MAY_BE_EMPTY]:
        assert poll(until, 2), f"no data in {SHOWN_SECONDS:g} s: {empty}"


def test_every_series_has_the_labels_of_its_legend(prometheus: PrometheusServer) -> None:
    legends = 0
    for dashboard in _dashboards():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                labels = set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
                for series in _result(prometheus, PanelQuery(panel["title"], target["expr"])):
                    legends += bool(labels)
                    assert labels <= series["metric"].keys(), (dashboard["title"], panel["title"])
    assert legends > 50


def test_the_panels_that_may_be_empty_exist() -> None:
    assert MAY_BE_EMPTY.keys() <= {asked.panel for asked in _panels()}


def test_every_choice_has_values(prometheus: PrometheusServer) -> None:
    for dashboard in _dashboards():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"])
                assert match
                found = prometheus.ask(f"label/{match[2]}/values", **{"match[]": _plain(match[1])})
                assert found["status"] == "success", found
                assert found["data"], variable["query"]


def test_annotations_are_at_the_instants_of_the_transaction_log(prometheus: PrometheusServer) -> None:
    now = float(prometheus.wait_for("vector(time())", 5)[0]["value"][1])
    for dashboard in _dashboards():
        for note in dashboard["annotations"]["list"]:
            if "target" in note:
                found = _result(prometheus, PanelQuery(note["name"], note["target"]["expr"]))
                if note["useValueForTime"]:
                    assert found, note["name"]
                    ages = [now - float(series["value"][1]) / 1000 for series in found]
                    assert all(-60 < age < 3600 for age in ages), ages


def test_two_replicas_are_one_truth(prometheus: PrometheusServer) -> None:
    assert len(prometheus.ask("query", query="up == 1")["data"]["result"]) == 2
    stalled = next(
        asked for asked in _panels() if asked.panel == "Overview: Which partitions are stalled, and who holds them?"
    )
    found = _result(prometheus, stalled)
    places = [(series["metric"]["topic"], series["metric"]["partition"]) for series in found]
    assert sorted(places) == sorted(set(places))
    assert {("orders", "0"), ("ledger", "0")} <= set(places)


@pytest.mark.proof
def test_one_agent_and_two_replicas_give_the_same_answers() -> None:
    """Values scraped at different instants must agree once nothing is written."""
    with shown(FullStack(one_replica=True)) as full_stack:
        _same_answers(full_stack)


def _same_answers(full_stack: FullStack) -> None:
    assert full_stack.one_replica is not None
    servers = (full_stack.prometheus, full_stack.one_replica)
    asked = [panel for panel in (*_panels(), *_rules()) if not panel.panel.startswith(EACH_FOR_ITSELF)]
    asked = [panel for panel in asked if not any(words in panel.panel for words in _OBJECTIVES)]
    # Which of those that are equal are among the ten is nobody's to say.
    asked = [query._replace(expr=query.expr.replace("topk(10, ", "(")) for query in asked]
    differ = dict.fromkeys(asked, "not asked yet")
    busy, until = Deadline.after(10), Deadline.after(SHOWN_SECONDS)
    resting = False
    while differ and poll(until, 2):
        if busy.over and not resting:
            resting = True
            full_stack.rest()
        at = time.time() - 1
        for query in list(differ):
            truths = [_truth(query, _result(server, query, at)) for server in servers]
            if all(_agree(truths[0], other) for other in truths):
                del differ[query]
            else:
                differ[query] = " and not ".join(_told(truth, truths) for truth in truths)
    assert not differ, "\n".join(f"{query.panel}: {told}" for query, told in differ.items())


Truth = dict[frozenset[tuple[str, str]], float]


def _truth(asked: PanelQuery, result: list[dict[str, Any]]) -> Truth:
    """Values by labels, without the labels of the agent.

    A quantile of the few observations of some minutes jumps with each of them, and cannot double: its series count.
    """
    told = {
        frozenset((name, value) for name, value in series["metric"].items() if name not in TELLER): series["value"][1]
        for series in result
        if not (series["metric"].get("application") == ONCE and "[" in asked.expr)
        and series["metric"].get("check") != BY_SAMPLING
    }
    return (
        dict.fromkeys(told, 1.0) if "_quantile(" in asked.expr else {key: float(value) for key, value in told.items()}
    )


def _told(truth: Truth, truths: list[Truth]) -> str:
    """Return what is in it that is not in all, as a person reads it."""
    apart = [
        labels for labels in truth if not all(_agree({labels: truth[labels]}, _only(value, labels)) for value in truths)
    ]
    return str({" ".join(sorted(value for _, value in labels)): truth[labels] for labels in apart})


def _only(truth: Truth, labels: frozenset[tuple[str, str]]) -> Truth:
    return {labels: truth[labels]} if labels in truth else {}


def _agree(one: Truth, other: Truth) -> bool:
    """Twice as much, or another series, is another answer; what comes of scraping at other instants is not."""
    return one.keys() == other.keys() and all(
        math.isclose(value, other[labels], rel_tol=0.4, abs_tol=0.01)
        or (math.isnan(value) and math.isnan(other[labels]))
        for labels, value in one.items()
    )


def _result(prometheus: PrometheusServer, asked: PanelQuery, at: float | None = None) -> list[dict[str, Any]]:
    when = {} if at is None else {"time": at}
    answer = prometheus.ask("query", query=_plain(asked.expr), **when)
    assert answer["status"] == "success", (asked, answer)
    assert not answer.get("warnings"), (asked, answer)
    assert not answer.get("infos"), (asked, answer)
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def _plain(expr: str) -> str:
    """Every variable set to all; $1 of a label_replace is none."""
    return re.sub(r"\$[a-z_]\w*", ".*", expr.replace("$__rate_interval", RATE_INTERVAL))


@cache
def _dashboards() -> list[dict[str, Any]]:
    return [json.loads(text) for text in files().values()]


def _rules() -> list[PanelQuery]:
    groups = yaml.safe_load(generated()["alerts/generated/rules.yaml"])["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    return [PanelQuery(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules]


@cache
def _panels() -> list[PanelQuery]:
    return [
        PanelQuery(f"{dashboard['title'].removeprefix('Kafka EOS / ')}: {panel['title']}", target["expr"])
        for dashboard in _dashboards()
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    ]
