"""A marker of an older client is a measure only while the clocks of all brokers are known to be near."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from exporter.kafka.log.batches import Marker
from exporter.kafka.log.markers import OpenTrace
from exporter.lso.proof.rounds import Rounds
from exporter.model import TopicPartition
from exporter.transactions.decided.fate import Fate, ProducerLog
from exporter.transactions.transaction import Transaction
from tests.helpers.cluster import FakeKafka
from tests.helpers.transactions import decision_of

PLACE = TopicPartition("orders", 0)
ONE = frozenset({0})


def committed(offset: int, at: float) -> Transaction:
    made = decision_of("pay-1", 7, ONE, ONE, commit=True, v2=False, begun=at - 20, at=at, completed=at + 0.1)
    return made._replace(partitions=frozenset({PLACE}), offset=offset, leader_epoch=0, sure=True)


@pytest.mark.parametrize(
    ("near", "brokers", "fate"), [(True, 3, Fate.NEVER), (False, 1, Fate.NEVER), (False, 3, Fate.UNKNOWN)]
)
def test_a_marker_that_seems_to_be_that_of_a_lost_one_proves_nothing(near: bool, brokers: int, fate: Fate) -> None:
    """The marker of the first commit, stamped 90 s ahead, is as old as the second one, whose own was dropped."""
    rounds = Rounds(FakeKafka().cluster(), lambda: cast("Any", None))
    log = ProducerLog((committed(1, 100.0), committed(4, 190.0)), whole_from=0)
    rounds._scan = cast("Any", SimpleNamespace(producer_log=lambda *_: log))
    trace = OpenTrace(0, Marker(10, 190_050, 7, 0, True, 0))
    rounds._trace = cast("Any", lambda *_: trace)  # type: ignore[method-assign]
    rounds.follow(None, clocks_near=near)
    held = SimpleNamespace(partition=PLACE, producer_id=7, start_offset=11)
    said = rounds._judged(
        *cast("Any", (held, SimpleNamespace(epoch=0), SimpleNamespace(brokers=range(brokers)), {}, {}, None))
    )
    assert said.fate is fate
