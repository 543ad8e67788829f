"""The table of clusters: the worst first, what is wrong in one line, and a link to the cluster's own page."""

from __future__ import annotations

import json
from typing import Any

from exporter.core.runner import GroupState
from exporter.core.source_state import SourceState
from exporter.lso.facts import Stalls
from exporter.model import Fact, Facts
from exporter.status.filters import Filter
from exporter.status.json_lines import json_lines
from exporter.status.verdict import by_cluster
from exporter.views.status import ClusterSettings, document
from tests.helpers.pages import page
from tests.unit.views.test_status import DOWN, FINE, NOW, STALL, UP

DEAD = SourceState("lso", "prod", "", up=False, duration=5.0)


def group(name: str, *facts: Fact, source: SourceState = UP) -> GroupState:
    return GroupState(name, Facts({type(fact): fact for fact in facts}, facts), (source,))


def status(*groups: GroupState) -> dict[str, Any]:
    settings = {state.key: ClusterSettings(state.key, "b1:9092") for state in groups}
    made = document(groups, settings, now=NOW, ready=True, version="1")
    found: dict[str, Any] = json.loads(json_lines(made, 4))
    return found


SEVERAL = status(
    group("a-dead", source=DEAD),
    group("b-fine", *FINE),
    group("c-stalled", *FINE[:1], Stalls((STALL,)), *FINE[2:]),
    group("d-refused", *FINE, source=DOWN),
    group("e-worse", *FINE[:1], Stalls((STALL, STALL)), *FINE[2:]),
)


def test_the_cluster_with_most_stalled_partitions_is_first_and_one_that_is_fine_last() -> None:
    rows = [row for row, _ in by_cluster(SEVERAL)]
    assert [row.name for row in rows] == ["e-worse", "c-stalled", "a-dead", "d-refused", "b-fine"]
    assert [row.level for row in rows] == ["bad", "bad", "blind", "blind", "good"]


def test_the_line_of_a_cluster_is_what_is_wrong_there() -> None:
    rows = {row.name: row for row, _ in by_cluster(SEVERAL)}
    assert rows["c-stalled"].text == "1 partition stalled"
    assert rows["d-refused"].text == "txnlog is refused: a grant or a password is missing"
    assert (rows["a-dead"].text, rows["a-dead"].others) == ("lso does not answer in full", 1)
    assert rows["b-fine"].text == "All fine"


def test_a_cluster_that_does_not_answer_has_no_number_of_stalled_partitions() -> None:
    rows = {row.name: row for row, _ in by_cluster(SEVERAL)}
    assert (rows["a-dead"].stalled, rows["b-fine"].stalled) == (None, 0)


def test_a_cluster_that_has_answered_is_not_starting_because_another_one_is() -> None:
    several = status(group("new", source=SourceState("lso", "new", "")), group("fine", *FINE))
    several["ready"] = False
    assert {row.name: row.text for row, _ in by_cluster(several)}["fine"] == "All fine"


def test_the_page_begins_with_the_table_and_has_the_worst_clusters_in_full() -> None:
    html = page(SEVERAL)
    assert html.index("5 clusters, worst first") < html.index("<h3>Stalled partitions</h3>")
    assert html.count("<h3>Stalled partitions</h3>") == 3
    assert html.index('<a href="/?cluster=e-worse">') < html.index('<a href="/?cluster=b-fine">')


def test_the_page_of_one_cluster_has_no_table() -> None:
    html = page(SEVERAL, shown=Filter(frozenset({"b-fine"})))
    assert "worst first" not in html
    assert html.count("<h3>Stalled partitions</h3>") == 1
