"""Connect on the status page, and facts of one type from several sources."""

from __future__ import annotations

import json
from typing import Any

from exporter.connect.facts import ConnectState
from exporter.connect.rest import Connector, Task
from exporter.core.fact_store import FactStore
from exporter.core.runner import GroupState
from exporter.core.source_state import SourceState
from exporter.lso.facts import Stalls
from exporter.model import Fact, Facts, Fault, Reason, Snapshot
from exporter.status.json_lines import json_lines
from exporter.status.verdict import verdict
from exporter.transactions.facts import OpenTransactions, UncleanEnds
from exporter.views.status import ClusterSettings, document
from exporter.words import FailureCause
from tests.helpers.pages import page
from tests.helpers.schemas import conform

EVIL = "<script>alert(1)</script>"
FENCED = Task("orders", "0", "failed", "w1:8083", FailureCause.FENCED, f"x.ProducerFencedException: {EVIL}", "mark")
RUNNING = Task("orders", "1", "running", "w2:8083")
STATE = ConnectState(
    "main",
    (
        Connector("orders", "source", "running", "w1:8083", tasks=(FENCED, RUNNING)),
        Connector("broken", "sink", "failed", "w1:8083", "x.ConfigException: no topics"),
    ),
    by_rest=True,
    notes=("workers are not configured",),
)
WELL = ConnectState("other", (Connector("orders", "source", "running", tasks=(RUNNING,)),), by_rest=True)


def status(*states: ConnectState) -> dict[str, Any]:
    fine: tuple[Fact, ...] = (Stalls(()), OpenTransactions("txnlog", (), complete=True), UncleanEnds(()))
    facts = Facts({type(fact): fact for fact in fine}, (*fine, *states))
    group = GroupState("prod", facts, (SourceState("connect", "main", "prod", up=True),))
    made = document([group], {"prod": ClusterSettings("prod", "b1:9092")}, now=1.0, ready=True, version="1")
    return conform("status", json.loads(json_lines(made, 4)))


def test_what_failed_is_listed_with_its_reason() -> None:
    (connect,) = status(STATE)["clusters"][0]["connect"]
    assert connect == {
        "name": "main",
        "connectors": 2,
        "tasks": {"failed": 1, "running": 1},
        "plugins": [],
        "failed": [
            {
                "connector": "broken",
                "task": None,
                "worker": "w1:8083",
                "cause": None,
                "error": "x.ConfigException: no topics",
                "hint": None,
            },
            {
                "connector": "orders",
                "task": "0",
                "worker": "w1:8083",
                "cause": "fenced",
                "error": f"x.ProducerFencedException: {EVIL}",
                "hint": None,
            },
        ],
        "notes": ["workers are not configured"],
    }


def test_states_of_tasks_beyond_those_that_are_listed_are_counted() -> None:
    tasks = tuple(Task("orders", f"{number}", f"state_{number:02}", "w1:8083") for number in range(14))
    html = page(status(ConnectState("main", (Connector("orders", "source", "running", tasks=tasks),), by_rest=True)))
    assert "1 state_11</span> and 2 more: " in html
    assert "state_12" not in html


def test_the_page_shows_it_and_runs_nothing_of_it() -> None:
    html = page(status(STATE))
    assert "Connect main" in html
    assert "x.ProducerFencedException" in html
    assert "workers are not configured" in html
    assert EVIL not in html


def test_what_runs_there_is_reported_by_plugin_and_version() -> None:
    files = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    connectors = (
        Connector("a", "source", plugin=files, version="4.3.1"),
        Connector("b", "source", plugin=files, version="4.3.1"),
        Connector("c", "sink", plugin=EVIL),
    )
    told = status(ConnectState("main", connectors, by_rest=True))
    assert told["clusters"][0]["connect"][0]["plugins"] == [
        {"class": EVIL, "version": None, "connectors": 1},
        {"class": "FileStreamSourceConnector", "version": "4.3.1", "connectors": 2},
    ]
    html = page(told)
    assert "2 FileStreamSourceConnector 4.3.1" in html
    assert EVIL not in html


def test_a_page_with_failures_does_not_say_that_all_is_fine() -> None:
    assert verdict(status(STATE)).level == "bad"
    assert verdict(status(WELL)).level == "good"
    assert verdict(status()).level == "good"


def test_several_connect_clusters_stand_side_by_side() -> None:
    assert [row["name"] for row in status(WELL, STATE)["clusters"][0]["connect"]] == ["main", "other"]


def test_a_board_keeps_a_fact_of_one_type_from_each_source_until_it_expires() -> None:
    board = FactStore()

    def post(source: str, facts: tuple[Fact, ...], ended: float, faults: tuple[Fault, ...] = ()) -> None:
        snapshot = Snapshot("connect", source, "prod", 10.0, (), faults, facts, 0.1, ended, ended)
        board.post(("prod", "connect", source), snapshot)

    post("0", (STATE,), 0.0)
    post("1", (WELL,), 20.0)
    assert set(board.facts(25.0).all(ConnectState)) == {STATE, WELL}
    assert board.facts(35.0).all(ConnectState) == (WELL,), "three intervals after the first"
    post("1", (), 36.0, (Fault(Reason.TIMEOUT, "late"),))
    assert board.facts(37.0).all(ConnectState) == (WELL,), "a fault does not take back what was known"
    post("1", (), 38.0)
    assert board.facts(39.0).all(ConnectState) == ()
