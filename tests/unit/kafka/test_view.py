"""The combined view of brokers: the newest leaders, and which broker answers from an older view."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.view import CONTRADICTION_SECONDS, STALE_SECONDS, ClusterView, NewestLeaders, Views
from exporter.model import TopicPartition
from tests.helpers.kafka import cluster_of

T0 = TopicPartition("t", 0)


def said(leader: int, epoch: int, *, topic_id: str = "one", cluster: str = "c") -> Metadata:
    return replace(cluster_of({"t": [leader]}, epoch=epoch), topic_ids={"t": topic_id}, cluster_id=cluster)


def test_a_leader_of_an_older_epoch_is_refused() -> None:
    leaders = NewestLeaders()
    assert leaders.merge(said(1, 4), 10.0).older == ()
    assert leaders.merge(said(2, 5), 11.0).older == ()
    merged = leaders.merge(said(1, 4), 12.0)
    assert merged.older == (T0,)
    assert merged.metadata.leader("t", 0) == 2
    assert merged.metadata.leader_epoch(T0) == 5
    assert leaders.elected(T0) == 11.0


def test_the_other_partitions_of_an_old_answer_are_believed() -> None:
    leaders = NewestLeaders()
    leaders.merge(said(1, 4), 10.0)
    merged = leaders.merge(replace(said(2, 3), topics={**said(2, 3).topics, **cluster_of({"u": [7]}).topics}), 11.0)
    assert (merged.metadata.leader("t", 0), merged.metadata.leader("u", 0)) == (1, 7)


@pytest.mark.parametrize("anew", [said(2, 0, topic_id="two"), said(2, 0, cluster="d")])
def test_a_topic_made_again_and_another_cluster_begin_anew(anew: Metadata) -> None:
    leaders = NewestLeaders()
    leaders.merge(said(1, 9), 10.0)
    merged = leaders.merge(anew, 11.0)
    assert (merged.metadata.leader("t", 0), merged.older) == (2, ())


def test_what_is_gone_is_forgotten() -> None:
    leaders = NewestLeaders()
    leaders.merge(said(1, 9), 10.0)
    leaders.keep({"u": {}})
    assert leaders.merge(said(2, 3), 11.0).older == ()


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 5)), min_size=1))
def test_the_leader_epoch_that_is_believed_never_goes_back(answers: list[tuple[int, int]]) -> None:
    leaders = NewestLeaders()
    epochs = [
        leaders.merge(said(leader, epoch), float(at)).metadata.leader_epoch(T0)
        for at, (leader, epoch) in enumerate(answers)
    ]
    assert epochs == sorted(epochs)
    assert epochs[-1] == max(epoch for _, epoch in answers)


def test_a_broker_that_reads_no_metadata_while_another_one_does_is_behind_by_the_time_since() -> None:
    views = Views()
    views.saw({1: 100, 2: 100}, 10.0, 10.0)
    views.saw({1: 110, 2: 100}, 15.0, 15.0)
    assert (views.behind(1), views.behind(2)) == (0.0, 0.0)
    views.saw({1: 120, 2: 100}, 20.0, 20.0)
    assert (views.behind(1), views.behind(2)) == (0.0, 5.0)
    views.saw({1: 130, 2: 128}, 25.0, 25.0)
    assert views.behind(2) == 0.0


def test_an_answer_that_was_long_on_its_way_gives_no_finding() -> None:
    views = Views()
    views.saw({1: 110}, 20.0, 20.0)
    views.saw({2: 100}, 10.0, 30.0)  # a broker that was stopped for 20 s, and answers what it was asked before
    assert views.behind(2) == 0.0


def test_where_positions_do_not_move_everywhere_nobody_is_behind() -> None:
    views = Views()
    for at in range(100):
        views.saw({1: 3, 2: 3}, float(at), float(at))
    assert (views.behind(1), views.behind(2)) == (0.0, 0.0)


def test_a_broker_that_repeats_an_old_leader_is_stale_and_not_one_that_lagged_for_a_moment() -> None:
    view = ClusterView()
    view.merge(said(1, 4), 1, 0.0, 0.0)
    view.merge(said(2, 5), 2, 10.0, 10.0)
    view.merge(said(1, 4), 1, 10.4, 10.5)
    assert not view.is_stale(1)
    assert view.merge(said(1, 4), 1, 10.0 + STALE_SECONDS, 16.0)[1]
    assert view.is_stale(1)
    view.merge(said(2, 5), 1, 20.0, 20.0)
    assert not view.is_stale(1)


def contradicting() -> ClusterView:
    """Broker 1 gave an old leader 6 seconds after the new one was known."""
    view = ClusterView()
    view.merge(said(2, 5), 2, 0.0, 0.0)
    view.merge(said(1, 4), 1, 6.0, 6.0)
    assert view.is_stale(1)
    return view


def test_a_stale_broker_that_is_not_asked_about_leaders_again_is_cleared_by_how_far_it_has_read() -> None:
    view = contradicting()
    view.saw({1: 100, 2: 100}, 7.0, 7.0)
    assert not view.is_stale(1)


def test_an_old_answer_about_leaders_counts_for_a_while_where_brokers_do_not_say_how_far_they_have_read() -> None:
    view = contradicting()
    view.saw({}, 5.0 + CONTRADICTION_SECONDS, 5.0 + CONTRADICTION_SECONDS)
    assert view.is_stale(1)
    view.saw({}, 6.0 + CONTRADICTION_SECONDS, 6.0 + CONTRADICTION_SECONDS)
    assert not view.is_stale(1)
