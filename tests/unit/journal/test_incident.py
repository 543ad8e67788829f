"""Stalls, gaps and the report, from the events alone; equal events of two agents once."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.journal.documents import EventDocument
from exporter.journal.incident import IncidentDocument, Wanted, incident
from exporter.journal.keeper import slept
from exporter.journal.rebuild import Gap, KeptJournal, common_gaps, gaps_of, merged, stalls_of
from tests.helpers.journal_events import document_of_event
from tests.helpers.schemas import conform

NOW = 1_795_255_200.0


def event(kind: str, at: float, key: str = "", **more: Any) -> EventDocument:
    found = {"recorded_timestamp": NOW + at + 1, "timestamp": NOW + at, "kind": kind, "key": key or f"{kind}:{at}"}
    return document_of_event({**found, "cluster": "prod", "agent": "a", "what": kind, "subject": {}, **more})


def held(*partitions: int, seconds: float = 0.0, since: float = 0.0, records: int = 42) -> list[Any]:
    common = {"topic": "orders", "offset": 100, "since_timestamp": NOW + since, "records": records, "seconds": seconds}
    return [{**common, "partition": partition} for partition in partitions]


PAY = {"application": "pay", "transactional_id": "pay-3", "producer_id": 4711, "producer_epoch": 5}
STARTED = event("agent_started", -1000, evidence={"not_seen_from_timestamp": NOW - 1000})
BEGUN = event("stall_begun", 0, "b", subject=PAY, partitions=held(7, 8), evidence={"holder": "open"})
ENDED = event(
    "stall_ended", 60, "e", subject=PAY, partitions=held(7, 8, seconds=60), how="committed", duration_seconds=60.0
)
OTHER = [
    event("stall_begun", 2, "b7", subject=PAY, partitions=held(7, since=2), agent="b"),
    event("stall_begun", 4, "b8", subject=PAY, partitions=held(8, since=4), agent="b"),
    event("stall_ended", 63, "e7", subject=PAY, partitions=held(7, 8, seconds=61, since=2), how="unknown", agent="b"),
]


def report(
    *journals: list[EventDocument],
    begin: float = -10,
    end: float = 600,
    of: str = "",
    since: float | None = None,
    until: float | None = None,
) -> IncidentDocument:
    wanted = Wanted("prod", NOW + begin, NOW + end, frozenset({of} if of else ()))
    last = None if until is None else NOW + until
    kept = [KeptJournal(journal, None if since is None else NOW + since, last) for journal in journals]
    found = incident(kept, wanted)
    conform("incident", dict(found))
    return found


def test_stalls_are_rebuilt_with_holder_and_end() -> None:
    first, second = stalls_of([BEGUN, ENDED])
    assert (first.partition, second.partition) == (7, 8)
    assert (first.transactional_id, first.how, first.end, first.kind) == ("pay-3", "committed", NOW + 60, "open")


def test_a_holder_that_was_named_later_is_that_of_the_stall() -> None:
    nameless = document_of_event({**BEGUN, "subject": {}})
    named = event("stall_named", 20, subject=PAY, partitions=held(7, 8), evidence={"holder": "open"})
    assert {stall.transactional_id for stall in stalls_of([nameless, named, ENDED])} == {"pay-3"}


def test_two_agents_tell_a_stall_once_with_the_end_that_is_known_best() -> None:
    stalls = stalls_of([*OTHER, BEGUN, ENDED])
    assert [(stall.partition, stall.since, stall.how, stall.end) for stall in stalls] == [
        (7, NOW, "committed", NOW + 60),
        (8, NOW, "committed", NOW + 60),
    ]


def test_equal_events_of_two_journals_are_one() -> None:
    fenced = event("fenced", 5, "fenced:pay-1:1:1:5", subject=PAY)
    journal = [BEGUN, fenced, ENDED]
    later = [document_of_event({**found, "agent": "b", "timestamp": found["timestamp"] + 2}) for found in journal]
    assert merged([journal, later]) == journal
    assert [found_event["kind"] for found_event in merged([journal, OTHER])] == [
        *("stall_begun", "stall_begun", "stall_begun", "fenced", "stall_ended", "stall_ended")
    ]  # of the other agent they have other partitions, or another end
    found = report(journal, OTHER)
    assert [(stall["partition"], stall["how"]) for stall in found["blocked"]] == [(7, "committed"), (8, "committed")]


def test_a_task_that_fails_again_within_minutes_has_failed_twice() -> None:
    journal = [event(kind, at, f"{kind}:sink/0") for at in (0, 120) for kind in ("task_failed", "task_back")]
    other = [document_of_event({**found, "agent": "b", "timestamp": found["timestamp"] + 2}) for found in journal]
    assert merged([journal, other]) == journal
    fenced = event("fenced", 5, "fenced:pay-1:1:1:5")
    assert merged([[fenced, {**fenced, "recorded_timestamp": NOW + 400}]]) == [fenced]


def test_ends_that_two_agents_only_counted_may_be_counted_twice_and_the_report_says_so() -> None:
    def more(agent: str, at: float, count: int) -> EventDocument:
        found = event("fenced", at, key=f"fenced:more:pay:{at}", evidence={"since_timestamp": NOW})
        return document_of_event({**found, "agent": agent, "count": count, "subject": {"application": "pay"}})

    twice = "Some ends were only counted, and by more than one agent: the numbers may have them twice."
    both, one = report([more("one", 500, 40)], [more("two", 510, 50)]), report([more("one", 500, 40)])
    assert both["unclean_ends"] == {"pay": {"fenced": 90}}
    assert twice in both["unknown"]
    assert twice not in one["unknown"]


def test_a_partition_that_stands_again_is_another_stall() -> None:
    again = event("stall_begun", 100, partitions=held(7, since=100))
    assert [stall.end for stall in stalls_of([BEGUN, ENDED, again]) if stall.partition == 7] == [NOW + 60, None]
    ended = event("stall_ended", 130, partitions=held(7, since=100, seconds=30), how="committed")
    journal = [BEGUN, ENDED, again, ended]
    other = [document_of_event({**found, "agent": "b"}) for found in journal]
    blocked = [stall["ended_timestamp"] for stall in report(journal, other)["blocked"] if stall["partition"] == 7]
    assert blocked == [NOW + 60, NOW + 130]
    assert merged([journal, other]) == journal


def test_a_stall_that_was_dated_by_a_clock_ahead_is_the_one_that_ended() -> None:
    """The agent had just started, and learned later by how much its clock was off."""
    ahead = event("stall_begun", 90, "b", subject=PAY, partitions=held(7, since=90), recorded_timestamp=NOW + 40)
    (stall,) = stalls_of([ahead, {**ENDED, "partitions": held(7, seconds=60)}])
    assert (stall.since, stall.end) == (NOW, NOW + 60)
    (seven, _) = report([BEGUN, ENDED], [{**ahead, "agent": "b"}])["blocked"]
    assert seven["ended_timestamp"] == NOW + 60


def test_an_end_whose_begin_is_no_longer_kept_is_a_stall() -> None:
    (first, _) = stalls_of([ENDED])
    assert (first.since, first.end) == (NOW, NOW + 60)


# --- Gaps ---

DOWN = event("source_down", 10, subject={"source": "lso", "target": "prod"})
BACK = event("source_back", 40, subject={"source": "lso", "target": "prod"})


def test_a_gap_is_where_an_agent_did_not_run_or_could_not_read() -> None:
    restart = event("agent_started", 100, evidence={"not_seen_from_timestamp": NOW + 80})
    groups = event("source_down", 20, subject={"source": "groups", "target": "prod"})
    assert gaps_of(KeptJournal([STARTED, DOWN, groups, BACK, restart]), NOW + 600) == [
        Gap(NOW + 10, NOW + 40, "the source lso did not answer in full"),
        Gap(NOW + 80, NOW + 100, "the agent did not run"),
    ]


def test_a_source_that_is_down_and_an_agent_that_stopped_are_gaps_up_to_the_end() -> None:
    assert [gap.end for gap in gaps_of(KeptJournal([STARTED, DOWN, event("agent_stopped", 50)]), NOW + 600)] == [
        NOW + 600
    ] * 2


def test_the_time_in_which_the_process_did_not_run_is_a_gap() -> None:
    paused = slept(NOW + 40, 25.0).document()
    assert paused["what"] == "The agent's process did not run for 25s: what happened then was not seen"
    recorded = document_of_event({"recorded_timestamp": NOW + 40, **paused})
    assert gaps_of(KeptJournal([STARTED, recorded]), NOW + 600) == [Gap(NOW + 15, NOW + 40, "the agent did not run")]
    assert merged([[recorded], [{**recorded, "recorded_timestamp": NOW + 41}]]) != [recorded]


def test_nothing_is_known_from_before_the_oldest_event_that_is_kept() -> None:
    gap = {"begin_timestamp": NOW - 10, "end_timestamp": NOW + 5, "why": "no event from before is kept"}
    (found,) = report([BEGUN, ENDED], since=5)["gaps"]
    assert {key: found[key] for key in gap} == gap  # type: ignore[literal-required]  # keys of the document
    assert report([BEGUN, ENDED], since=-20)["gaps"] == []


def test_a_start_that_does_not_know_of_the_process_before_ends_the_gap_of_its_stop() -> None:
    journal = [STARTED, event("agent_stopped", 50), event("agent_started", 80)]
    assert gaps_of(KeptJournal(journal), NOW + 600) == [Gap(NOW + 50, NOW + 80, "the agent did not run")]


@pytest.mark.parametrize(
    ("other", "common"),
    [([], []), ([Gap(0, 9, "x")], [(5, 9)]), ([Gap(0, 6, "x"), Gap(8, 20, "x")], [(5, 6), (8, 10)])],
)
def test_only_what_no_agent_saw_is_a_gap_of_several(other: list[Gap], common: list[tuple[float, float]]) -> None:
    assert [gap[:2] for gap in common_gaps([[Gap(5, 10, "y")], other])] == common


# --- The report ---


def test_the_report_says_who_was_blocked_how_long_and_how_it_ended() -> None:
    found = report([STARTED, BEGUN, ENDED])
    assert found["summary"][0].startswith("2 stalls of 2 partitions, the longest for 1m (orders-7).")
    assert found["summary"][1] == "In one of them 42 records or more waited (orders-7)."
    assert [(blocked["partition"], blocked["seconds"], blocked["how"]) for blocked in found["blocked"]] == [
        (7, 60.0, "committed"),
        (8, 60.0, "committed"),
    ]
    assert (found["ends"], found["gaps"], found["unknown"]) == ({"committed": 2}, [], [])


def test_a_stall_that_began_before_or_lasts_still_is_in_the_report() -> None:
    found = report([STARTED, BEGUN], begin=30, end=90)
    assert [(blocked["ended"], blocked["seconds"]) for blocked in found["blocked"]] == [(None, 90.0)] * 2
    assert report([STARTED, BEGUN, ENDED], begin=61, end=90)["blocked"] == []


def test_the_report_of_an_application_has_its_own_and_what_no_application_is_known_of() -> None:
    other = event("fenced", 5, subject={"application": "billing"})
    found = report([STARTED, BEGUN, ENDED, other, DOWN, BACK], of="billing")
    assert found["blocked"] == []
    assert [event["kind"] for event in found["timeline"]] == ["fenced", "source_down", "source_back"]
    assert found["unclean_ends"] == {"billing": {"fenced": 1}}
    assert len(found["gaps"]) == 1


def test_what_is_not_known_is_said() -> None:
    nameless = document_of_event({**BEGUN, "subject": {}})
    ended = document_of_event({**ENDED, "subject": {}, "how": "unknown", "evidence": {"end_seen": False}})
    found = report([STARTED, nameless, ended])
    assert [blocked["end_seen"] for blocked in found["blocked"]] == [False, False]
    assert len(found["unknown"]) == 2
    assert report([], [])["unknown"] == ["No journal has any event of this time."]


@pytest.mark.parametrize(
    ("events", "until", "seconds", "gaps"),
    [
        ([], None, 600.0, []),
        ([], 590.0, 600.0, []),
        ([], 90.0, 90.0, ["the agent did not run, as far as its journal shows"]),
        ([event("agent_stopped", 70)], 70.0, 70.0, ["the agent has stopped"]),
        (
            [event("source_down", 50, subject={"source": "lso", "target": "prod"})],
            None,
            50.0,
            ["the source lso did not answer in full"],
        ),
    ],
)
def test_a_stall_without_an_end_is_counted_up_to_when_an_agent_looked_last(
    events: list[EventDocument], until: float | None, seconds: float, gaps: list[str]
) -> None:
    found = report([STARTED, BEGUN, *events], until=until)
    assert {found_event["seconds"] for found_event in found["blocked"]} == {seconds}
    assert [gap["why"] for gap in found["gaps"]] == gaps
    assert found["summary"][2] == "Of 2 stalls no end is told: when they were looked at last, they lasted."


def test_a_stall_that_follows_on_another_is_no_further_partition_and_its_records_no_further_ones() -> None:
    again = event("stall_begun", 70, "b2", subject=PAY, partitions=held(7, since=70, records=9))
    again["partitions"][0]["offset"] = 200
    assert report([STARTED, BEGUN, ENDED, again])["summary"][0].startswith("3 stalls of 2 partitions")


def test_a_torn_transaction_is_one_whatever_its_partitions() -> None:
    torn = [event("torn", 5, f"t{n}", subject={**PAY, "topic": "orders", "partition": n}) for n in (1, 2)]
    assert "1 torn transaction, in 2 partitions." in report([STARTED, *torn])["summary"]
    more = event("torn", 6, "t3", subject={"application": "pay"}, count=7)
    assert "At least 2 torn transactions, in 9 partitions." in report([STARTED, *torn, more])["summary"]
