"""Questions that the endpoint answers by asking a cluster: which cluster, and what is said where it does not answer."""

from __future__ import annotations

import pytest

from exporter.agent.cluster_answers import ClusterAnswers, WatchedCluster
from exporter.applications.applications import Grouping
from exporter.cluster import Cluster
from exporter.core.state import StateDir
from exporter.core.thresholds import Owners
from exporter.journal.query import QueryError
from exporter.kafka.client import ClusterClient
from exporter.kafka.properties.client import Properties
from exporter.model import Facts
from exporter.status.query_pages import ClusterQuery, RefusedQueryError
from tests.helpers.schemas import conform


def answers(*names: str) -> ClusterAnswers:
    """Looks at clusters of which none answers."""
    properties = Properties.parse({"bootstrap.servers": "127.0.0.1:1"})
    clusters = [Cluster(properties, ClusterClient(properties), Grouping([]), StateDir(None), name) for name in names]
    return ClusterAnswers(lambda: {cluster.name: WatchedCluster(cluster, Facts()) for cluster in clusters}, Owners)


@pytest.mark.parametrize(
    ("names", "cluster"), [(("prod", "test"), None), (("prod",), "test"), ((), None), (("prod",), "")]
)
def test_one_of_the_clusters_has_to_be_named(names: tuple[str, ...], cluster: str | None) -> None:
    every = len(names) > 1 and cluster is None  # which is what an inventory may be of
    for answer in (answers(*names).roll, *([] if every else [answers(*names).inventory])):
        with pytest.raises(QueryError, match=f"cluster is one of {', '.join(sorted(names))}"):
            answer(ClusterQuery(cluster))


def test_the_only_cluster_is_asked_by_its_name_whether_it_was_named_or_not() -> None:
    assert {answers("prod").named(ClusterQuery(cluster)) for cluster in (None, "prod")} == {ClusterQuery("prod")}


def test_a_cluster_that_does_not_answer_has_no_answers_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.agent.cluster_answers.ANSWER_SECONDS", 0.5)
    (roll,) = conform("check-roll", answers("prod").roll(ClusterQuery()))["clusters"]
    assert roll["brokers"] == []
    assert len(roll["not_asked"]) == 1
    with pytest.raises(RefusedQueryError) as refused:
        answers("prod").inventory(ClusterQuery())
    (inventory,) = conform("applications", refused.value.document)["clusters"]
    assert inventory["applications"] == []
    assert len(inventory["not_asked"]) == 1


def test_an_inventory_of_no_named_cluster_is_of_all_and_says_which_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("exporter.agent.cluster_answers.ANSWER_SECONDS", 0.5)
    monkeypatch.setattr("exporter.agent.cluster_answers.MOST_INVENTORIES", 2)
    with pytest.raises(RefusedQueryError) as refused:
        answers("prod", "test", "more").inventory(ClusterQuery())
    found = conform("applications", refused.value.document)
    assert [cluster["kafka_cluster"] for cluster in found["clusters"]] == ["prod", "test", "more"]
    assert found["clusters"][2]["not_asked"] == ["too many clusters for one answer: ask with cluster="]
