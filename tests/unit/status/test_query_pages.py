"""Tests of what the endpoints that ask a cluster may be asked for."""

from __future__ import annotations

import pytest

from exporter.journal.query import MOST_CHARACTERS, QueryError
from exporter.status.query_pages import OF_INVENTORY, OF_ROLL, ClusterQuery


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ClusterQuery()),
        ("broker=3", ClusterQuery(broker=3)),
        ("cluster=prod&broker=3&outage=1m30s", ClusterQuery("prod", 3, 90.0)),
        ("cluster=", ClusterQuery("")),
    ],
)
def test_a_query_names_a_cluster_a_broker_and_an_outage(query: str, found: ClusterQuery) -> None:
    assert ClusterQuery.parse(query, OF_ROLL) == found


@pytest.mark.parametrize(
    "query",
    [
        "broker=",
        "broker=-1",
        "broker=99999999999",
        "broker=%D9%A3",
        "outage=60",
        "outage=nan",
        "topic=orders",
        "&".join(["broker=1"] * 4),
        "cluster=" + "x" * MOST_CHARACTERS,
    ],
)
def test_a_query_that_is_not_understood_is_refused(query: str) -> None:
    with pytest.raises(QueryError):
        ClusterQuery.parse(query, OF_ROLL)


def test_an_inventory_is_of_no_broker() -> None:
    with pytest.raises(QueryError, match="'broker' is not known here"):
        ClusterQuery.parse("broker=1", OF_INVENTORY)
