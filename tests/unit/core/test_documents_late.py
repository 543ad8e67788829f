"""Documents that are made when they are looked at."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

from exporter.core.documents import LateDocuments
from exporter.core.runner import GroupState
from exporter.lso.facts import Stalls
from exporter.model import Facts, TopicPartition
from exporter.status.json_lines import json_lines
from exporter.transactions.facts import OpenTransactions
from exporter.views.status import ClusterSettings, document
from tests.helpers.pages import page
from tests.unit.views.test_status import NOW, OPEN, STALL

LEVELS = 4
MANY = 1000
STALLS = Stalls(tuple(STALL._replace(partition=TopicPartition("orders", number)) for number in range(MANY)))
OPENED = OpenTransactions("txnlog", tuple(OPEN._replace(producer_id=number) for number in range(MANY)), complete=True)
GROUPS = [GroupState("prod", Facts({Stalls: STALLS, OpenTransactions: OPENED}, (STALLS, OPENED)), ())]
SETTINGS = {"prod": ClusterSettings("prod", "b1:9092")}


def status(*, late: bool) -> dict[str, Any]:
    """The document as it is, or with all of it made."""
    found = document(GROUPS, SETTINGS, now=NOW, ready=True, version="1.2.3")
    made: list[dict[str, Any]] = [dict(cluster) for cluster in found["clusters"]]
    for fact in () if late else made:
        fact.update({key: list(fact[key]) for key in ("stalled_partitions", "open_transactions", "spark", "audits")})
    return {**found, "clusters": made}


WHOLE, LATE = status(late=False), status(late=True)


def test_a_late_document_is_written_and_shown_as_any_other() -> None:
    assert json.loads(json_lines(LATE, LEVELS)) == WHOLE
    assert json.loads(json_lines(LATE, 1)) == WHOLE
    assert page(LATE) == page(WHOLE)


def test_a_late_document_takes_hardly_more_memory_than_its_text() -> None:
    size = len(json_lines(LATE, LEVELS))
    assert memory_of(late=True) < 2 * size < memory_of(late=False)


def memory_of(*, late: bool) -> int:
    """The peak while a document is made and written."""
    tracemalloc.start()
    try:
        json_lines(status(late=late), LEVELS)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_each_item_is_made_when_it_is_looked_at() -> None:
    made: list[int] = []

    def make(value: int) -> str:
        made.append(value)
        return str(value)

    documents = LateDocuments([1, 2, 3], make)
    assert (len(documents), len(documents[1:]), made) == (3, 2, [])
    assert documents[1:][0] == documents[-2] == "2"
    assert made == [2, 2]
    assert list(documents) == ["1", "2", "3"]
