"""Replicas and shards merged to clusters, by the rules of the alerts."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.fleet.answer import read_answer
from exporter.fleet.facts import AgentReading, FleetAgent, FleetView
from exporter.fleet.merge import merge
from exporter.model import Fault, Reason
from exporter.words import FleetState
from tests.helpers.fleet_agents import Json, body, cluster, source, stall, status

AT = 1_790_000_000.0


def reading(name: str, document: Json | None, *, age: float = 1.0, fault: Fault | None = None) -> AgentReading:
    agent = FleetAgent(f"http://{name}:10618", {})
    if document is None:
        return AgentReading(agent, None, None, None, fault, AT - 60, 0.1, stale=False)
    answer = read_answer(body(document))
    return AgentReading(agent, answer, AT - age, age, fault, AT - 60, 0.1, stale=age > 45)


def merged(*documents: Json, **given: Any) -> FleetView:
    return merge([reading(f"eos-{place}", document) for place, document in enumerate(documents)], AT, **given)


GONE = Fault(Reason.UNREACHABLE, "connection refused")


def test_a_stall_that_two_replicas_report_is_one() -> None:
    one = status(cluster(stalls=[stall(seconds=300.0, lag_offsets=10)]))
    other = status(cluster(stalls=[stall(seconds=320.0, lag_offsets=8)]))
    [found] = merged(one, other).clusters
    [holder] = found.holders
    assert (found.stalled, holder.seconds, holder.lag) == (1, 321.0, 10)
    assert found.text == "1 partition stalled"
    assert len(found.agents) == 2


def test_shards_are_a_union_and_a_holder_of_several_shards_is_one() -> None:
    shards = [status(cluster(stalls=[stall("pay", place)]), shard={"index": place, "count": 2}) for place in (0, 1)]
    [found] = merged(*shards).clusters
    [holder] = found.holders
    assert (found.stalled, len(holder.partitions), found.shards, found.missing_shards) == (2, 2, 2, ())
    assert (found.state, found.knows_stalls) == (FleetState.BAD, True)


def test_a_shard_that_no_agent_has_is_said_and_is_never_good() -> None:
    [found] = merged(status(cluster(), shard={"index": 0, "count": 3})).clusters
    assert (found.state, found.missing_shards, found.knows_stalls) == (FleetState.BLIND, (1, 2), False)
    assert "No agent that answers has shard 1/3, 2/3" in f"{found.text} {found.details}"


@pytest.mark.parametrize(
    ("kinds", "kind"),
    [
        (("hanging", "open"), "open"),
        (("hanging", "completing"), "completing"),
        (("hanging", "unmarked"), "unmarked"),
        (("unmarked", "open"), "open"),
        (("unknown", "hanging"), "hanging"),
        (("unknown", "unmarked"), "unmarked"),
        (("open", "completing"), "completing"),
    ],
)
def test_a_holder_is_hanging_or_unmarked_only_while_nobody_says_that_a_coordinator_has_it(
    kinds: tuple[str, str], kind: str
) -> None:
    """Also where the two agents report different partitions of it, as in the alerts."""
    for partitions in ((0, 0), (0, 1)):
        documents = [
            status(cluster(stalls=[stall(partition=at, kind=kind)])) for at, kind in zip(partitions, kinds, strict=True)
        ]
        for order in (documents, documents[::-1]):
            [holder] = merged(*order).clusters[0].holders
            assert holder.kind == kind


def test_agents_that_disagree_for_long_contradict_each_other_and_for_a_moment_do_not() -> None:
    documents = status(cluster(stalls=[stall(kind="hanging")])), status(cluster(stalls=[stall(kind="open")]))
    [found] = merged(*documents).clusters
    assert (len(found.disputes), found.contradictions) == (1, ())
    [found] = merged(*documents, lasting=found.disputes).clusters
    assert found.contradictions == (
        "Agents contradict each other about pay-0: eos-1:10618 says open and eos-0:10618 says hanging",
    )


def test_an_old_stall_that_another_replica_does_not_have_is_a_contradiction() -> None:
    documents = status(cluster(stalls=[stall()])), status(cluster())
    [found] = merged(*documents).clusters
    [found] = merged(*documents, lasting=found.disputes).clusters
    assert "eos-0:10618 says that pay-0 is stalled for 5m, eos-1:10618 does not" in found.contradictions[0]
    assert found.state is FleetState.BAD


@pytest.mark.parametrize("known", [{"stalls_watched_seconds": 60.0}, {"stalled_partitions": False}])
def test_a_replica_that_does_not_know_every_stall_contradicts_nobody(known: Json) -> None:
    new = cluster(known={**cluster()["known"], **known})
    [found] = merged(status(cluster(stalls=[stall()])), status(new)).clusters
    assert not found.disputes


def test_a_young_stall_and_one_of_another_shard_are_no_dispute() -> None:
    [found] = merged(status(cluster(stalls=[stall(seconds=40.0)])), status(cluster())).clusters
    assert not found.disputes
    shards = [{"index": place, "count": 2} for place in (0, 1)]
    [found] = merged(status(cluster(stalls=[stall()]), shard=shards[0]), status(cluster(), shard=shards[1])).clusters
    assert not found.disputes


def test_two_clusters_of_one_name_are_two_rows_that_say_so() -> None:
    found = merged(status(cluster()), status(cluster(cluster_id="another"))).clusters
    assert [cluster.state for cluster in found] == [FleetState.BLIND] * 2
    assert all("Two clusters are named prod" in cluster.text for cluster in found)


def test_one_cluster_with_two_names_is_said() -> None:
    found = merged(status(cluster("a", cluster_id="x")), status(cluster("b", cluster_id="x"))).clusters
    assert {cluster.text for cluster in found} == {
        "eos-1:10618 names this cluster b: alerts take it for another one",
        "eos-0:10618 names this cluster a: alerts take it for another one",
    }


def test_an_agent_that_does_not_know_the_cluster_id_yet_is_a_replica_by_name() -> None:
    [found] = merged(status(cluster()), status(cluster(cluster_id=None))).clusters
    assert (len(found.agents), found.cluster_id) == (2, "id-of-prod")


def test_different_numbers_of_shards_are_a_contradiction() -> None:
    whole, half = status(cluster()), status(cluster(), shard={"index": 1, "count": 2})
    [found] = merged(whole, half).clusters
    assert "Agents were started with different numbers of shards: 1, 2" in found.contradictions


def test_an_old_answer_counts_only_where_no_agent_of_its_shard_answers() -> None:
    old = reading("old", status(cluster(stalls=[stall()])), age=600.0, fault=GONE)
    [found] = merge([old, reading("new", status(cluster()))], AT).clusters
    assert (found.stalled, found.stale, found.state) == (0, False, FleetState.GOOD)
    [found] = merge([old], AT).clusters
    assert (found.stalled, found.stale, found.state) == (1, True, FleetState.BAD)
    assert found.text == "No agent answers for 10m. Before: 1 partition stalled"


def test_a_cluster_whose_agents_are_gone_is_not_good() -> None:
    view = merge([reading("old", status(cluster()), age=600.0, fault=GONE)], AT)
    assert (view.clusters[0].state, view.state) == (FleetState.BLIND, FleetState.BLIND)
    assert "1 agent does not answer: old:10618" in view.details


def test_an_agent_that_never_answered_makes_the_fleet_blind() -> None:
    view = merge([reading("eos", status(cluster())), reading("dead", None, fault=GONE)], AT)
    assert (view.state, view.text) == (FleetState.BLIND, "Cannot see everything")
    assert [agent.agent.name for agent in view.agents] == ["dead:10618", "eos:10618"]


def test_the_worst_cluster_is_first() -> None:
    blind = cluster("blind", sources=[source(up=False)])
    warned = cluster("warned", posture={"failed": [{"name": "min_isr", "subject": "pay"}]})
    many = cluster("many", [stall(partition=0, producer_id=1), stall(partition=1, producer_id=2)])
    view = merged(status(cluster("good"), warned, blind, cluster("one", [stall()]), many))
    assert [cluster.name for cluster in view.clusters] == ["many", "one", "blind", "warned", "good"]
    assert view.text == "2 of 5 clusters need attention"


def test_what_is_wrong_is_said_as_on_the_page_of_the_agent() -> None:
    hour = {
        "fence_storms": [{"transactional_id": "a", "fences": 4}],
        "applications": [
            {"application": "billing", "stopped_minutes": 5},
            {"application": "b", "stopped_minutes": None},
        ],
    }
    torn = {"transactional_id": "t", "topic": "pay", "partition": 1, "decided": "commit", "found": "abort"}
    failed = {"name": "c", "failed": [{"connector": "sink", "task": "0"}]}
    one = cluster(last_hour=hour, torn_markers=[torn], connect=[failed])
    [found] = merged(status(one), status(one)).clusters
    assert (found.state, found.text) == (FleetState.BAD, "Fence storm: a, fenced 4 times in 10 minutes")
    assert found.details == (
        "Torn: t was decided COMMIT, and pay-1 has the marker of an abort",
        "Failed in Connect, connectors and tasks: 1",
        "1 application has stopped committing: billing",
    )


def test_what_one_replica_cannot_read_another_one_does_not_hide() -> None:
    down = status(cluster(sources=[source("txnlog", up=False, faults=[{"reason": "authorization"}])]))
    [found] = merged(status(cluster(sources=[source("txnlog")])), down).clusters
    assert (found.state, found.text) == (
        FleetState.BLIND,
        "txnlog is refused: a grant or a password is missing",
    )


def test_stalls_are_known_as_soon_as_one_replica_of_each_shard_knows_them() -> None:
    unknown = cluster(known={**cluster()["known"], "stalled_partitions": False})
    [found] = merged(status(unknown), status(cluster())).clusters
    assert (found.knows_stalls, found.state) == (True, FleetState.GOOD)


def test_ignored_stalls_are_no_alarm_unless_one_agent_does_not_ignore_them() -> None:
    ignored, watched = status(cluster(stalls=[stall(ignored="test topic")])), status(cluster(stalls=[stall()]))
    fleet = merged(ignored, ignored)
    assert fleet.details[0].startswith(
        "No partition of 1 cluster is stalled but 1 partition of topics that are ignored, "
    )
    [found] = fleet.clusters
    assert (found.state, found.stalled, found.holders[0].ignored) == (FleetState.GOOD, 1, True)
    [found] = merged(ignored, watched).clusters
    assert (found.state, found.holders[0].ignored) == (FleetState.BAD, False)


def test_versions_are_counted_of_agents_that_answer() -> None:
    old = reading("old", status(cluster("c"), version="0.1.0"), age=600.0, fault=GONE)
    view = merge([old, *(reading(f"a{n}", status(cluster(), version="0.2.0")) for n in range(2))], AT)
    assert view.versions == {"0.2.0": 2}


def test_nothing_is_said_before_an_agent_has_answered() -> None:
    assert merge([], AT).text == "No agent is listed"
    assert merge([reading("a", None)], AT).text == "Starting: no agent has answered yet"
