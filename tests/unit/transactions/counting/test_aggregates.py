"""The aggregates: what happened, counted by application, and the caps that bound the series."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import catalogue
from exporter.applications.applications import Grouping
from exporter.model import Distribution, Metric, Sample, TopicPartition
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.counting.aggregates import MOST_NAMES, Aggregates
from exporter.transactions.counting.application_counters import application_samples, counter_samples, last_samples
from exporter.transactions.facts import CommitDurations
from exporter.transactions.machine.entries import Entry, Forgotten, Initialised
from exporter.words import Outcome
from tests.helpers.calls import calls_of
from tests.helpers.transactions import finished

NOW = 1_790_000_000.0


def aggregates_of(caps: TransactionsConfig | None = None) -> Aggregates:
    return Aggregates(Grouping(), caps or TransactionsConfig())


def entry_of(aggregates: Aggregates, transactional_id: str) -> Entry:
    entry = Entry(transactional_id, 0)
    aggregates.appeared(entry)
    return entry


def finish(aggregates: Aggregates, entry: Entry, outcome: Outcome, *, ago: float = 0.0, new: bool = True) -> None:
    end = NOW - ago
    who = entry.transactional_id, entry.application, outcome, 7
    aggregates.take(finished(*who, end - 0.7, end, prepared=end - 0.2, version=2), new=new)


def values(samples: Sequence[Sample], metric: Metric) -> dict[tuple[str, ...], object]:
    return {sample.labels[1:]: sample.value for sample in samples if sample.metric is metric}


def counters(aggregates: Aggregates, metric: Metric) -> dict[tuple[str, ...], object]:
    return values(counter_list(aggregates), metric)


def counter_list(aggregates: Aggregates) -> list[Sample]:
    return list(counter_samples("prod", aggregates.counted()))


def gauges(aggregates: Aggregates, metric: Metric, now: float = NOW) -> dict[tuple[str, ...], object]:
    return values(gauge_list(aggregates, now), metric)


def gauge_list(aggregates: Aggregates, now: float = NOW) -> list[Sample]:
    last = last_samples("prod", aggregates.dated())
    return [
        *last,
        *application_samples("prod", aggregates.applications.described, aggregates.applications.seen),
        *aggregates.recent("prod", now),
    ]


def test_an_application_counts_every_outcome_from_zero() -> None:
    aggregates = aggregates_of()
    entry = entry_of(aggregates, "pay-1")
    zero = {("pay", outcome.value): 0.0 for outcome in Outcome}
    assert counters(aggregates, catalogue.TRANSACTIONS_TOTAL) == zero
    assert counters(aggregates, catalogue.PRODUCER_FENCES_TOTAL) == {("pay",): 0.0}
    finish(aggregates, entry, Outcome.FENCED)
    aggregates.take(Initialised(entry, 1), new=True)
    assert counters(aggregates, catalogue.TRANSACTIONS_TOTAL) == zero | {("pay", "fenced"): 1.0}
    assert counters(aggregates, catalogue.PRODUCER_FENCES_TOTAL) == {("pay",): 1.0}
    assert counters(aggregates, catalogue.PRODUCER_INITS_TOTAL) == {("pay",): 1.0}


def test_what_is_not_counted_is_dated_all_the_same() -> None:
    aggregates = aggregates_of()
    finish(aggregates, entry_of(aggregates, "pay-1"), Outcome.TIMED_OUT, new=False)
    assert counters(aggregates, catalogue.TRANSACTIONS_TOTAL)["pay", "timed_out"] == 0
    assert gauges(aggregates, catalogue.LAST_TRANSACTION_TIMESTAMP_SECONDS) == {("pay", "timed_out"): NOW}
    assert gauges(aggregates, catalogue.LAST_UNCLEAN_END_TIMESTAMP_SECONDS) == {
        ("pay", "pay-1", "7", "1", "timed_out"): NOW
    }


def appear(aggregates: Aggregates, transactional_id: str, ago: float) -> None:
    entry = Entry(transactional_id, 0)
    entry.record_ms = round((NOW - ago) * 1000)
    aggregates.appeared(entry)


def test_applications_that_appear_count_for_an_hour_once_those_before_are_known() -> None:
    aggregates = aggregates_of(TransactionsConfig(applications=2))
    appear(aggregates, "early-1", ago=3000)
    assert gauges(aggregates, catalogue.RECENT_APPLICATIONS) == {}
    aggregates.applications.new.complete_since(NOW - 2000)
    aggregates.applications.new.complete_since(NOW)  # known before
    appear(aggregates, "old-1", ago=2500)
    assert gauges(aggregates, catalogue.RECENT_APPLICATIONS) == {(): 0.0}
    appear(aggregates, "early-2", ago=1000)
    appear(aggregates, "new-1", ago=1000)  # beyond the cap
    appear(aggregates, "new-2", ago=500)
    appear(aggregates, "newer-1", ago=500)
    assert gauges(aggregates, catalogue.RECENT_APPLICATIONS) == {(): 2.0}
    assert gauges(aggregates, catalogue.RECENT_APPLICATIONS, NOW + 3000) == {(): 1.0}


def test_a_flink_job_is_fenced_only_while_it_starts_and_does_not_commit() -> None:
    aggregates = aggregates_of()
    entries = [entry_of(aggregates, f"sums-0-{number}") for number in range(12)]
    for number, entry in enumerate(entries[:8]):  # each id is initialised while the one before is open
        begun = NOW - 600 + 60 * number
        following = entries[number + 1]
        following.record_ms = round((begun + 60) * 1000)
        aggregates.take(Initialised(following, 1), new=True)
        who = entry.transactional_id, entry.application, Outcome.COMMITTED, 7
        aggregates.take(finished(*who, begun + 0.1, begun + 60.5, prepared=begun + 60.4), new=True)
    last = -600 + 60 * 8 + 0.5
    for restart in range(3):
        finish(aggregates, entries[8 + restart], Outcome.FENCED, ago=-last - 20 * (restart + 1))
    # The last start is 60 s old and had no time to commit yet: three checkpoints are 180 s.
    assert gauges(aggregates, catalogue.RECENT_PRODUCER_FENCES) == {("sums", "sums-*"): 2.0}
    assert gauges(aggregates, catalogue.RECENT_PRODUCER_FENCES, NOW + 140) == {("sums", "sums-*"): 3.0}
    finish(aggregates, entries[11], Outcome.COMMITTED, ago=10)
    assert gauges(aggregates, catalogue.RECENT_PRODUCER_FENCES) == {}
    assert counters(aggregates, catalogue.PRODUCER_FENCES_TOTAL) == {("sums",): 3.0}


def test_an_older_end_that_is_reported_later_does_not_set_a_date_back() -> None:
    aggregates = aggregates_of()
    entry = entry_of(aggregates, "pay-1")
    finish(aggregates, entry, Outcome.COMMITTED)
    finish(aggregates, entry, Outcome.COMMITTED, ago=30)
    assert gauges(aggregates, catalogue.LAST_TRANSACTION_TIMESTAMP_SECONDS) == {("pay", "committed"): NOW}


def test_how_long_it_was_open_and_how_long_its_markers_took() -> None:
    aggregates = aggregates_of()
    finish(aggregates, entry_of(aggregates, "pay-1"), Outcome.COMMITTED)
    opened = counters(aggregates, catalogue.TRANSACTION_OPEN_SECONDS)
    completed = counters(aggregates, catalogue.TRANSACTION_COMPLETION_SECONDS)
    assert opened.keys() == {("pay", "committed")}
    assert (total(opened["pay", "committed"]), total(completed["pay",])) == (0.5, 0.2)


def total(value: object) -> float | None:
    assert isinstance(value, Distribution)
    return value.total


@given(st.lists(st.integers(0, 40), min_size=1, max_size=80), st.integers(1, 12))
def test_above_the_cap_applications_are_folded_and_sums_stay_true(numbers: list[int], cap: int) -> None:
    aggregates = aggregates_of(TransactionsConfig(applications=cap))
    entries: dict[int, Entry] = {}
    for number in numbers:
        if number not in entries:
            entries[number] = entry_of(aggregates, f"app{'x' * number}-1")
        finish(aggregates, entries[number], Outcome.COMMITTED)
    committed = {labels: value for labels, value in counters(aggregates, catalogue.TRANSACTIONS_TOTAL).items() if value}
    assert sum(float(str(value)) for value in committed.values()) == len(numbers)
    assert len(committed) <= cap + 1
    dropped = {
        sample.labels: sample.value for sample in gauge_list(aggregates) if sample.metric is catalogue.SERIES_DROPPED
    }
    folded = max(0, len(entries) - cap)
    assert dropped == ({(catalogue.TRANSACTIONS_TOTAL.name,): folded * 4.0} if folded else {})
    assert ((catalogue.OVERFLOW, "committed") in committed) == (folded > 0)


def test_applications_beyond_the_cap_that_have_no_id_any_more_are_no_longer_counted() -> None:
    aggregates = aggregates_of(TransactionsConfig(applications=1))
    aggregates.applications.new.complete_since(0)
    entry_of(aggregates, "pay-1")
    stays = entry_of(aggregates, "stays-1")
    for number in range(100):
        entries = [entry_of(aggregates, f"gone{number}x-{task}") for task in range(2)]
        for entry in entries:
            assert entry.application == catalogue.OVERFLOW
            aggregates.take(Forgotten(entry), new=True)
    dropped = {
        sample.labels: sample.value for sample in gauge_list(aggregates) if sample.metric is catalogue.SERIES_DROPPED
    }
    assert dropped == {(catalogue.TRANSACTIONS_TOTAL.name,): 4.0}
    aggregates.take(Forgotten(stays), new=True)
    assert catalogue.SERIES_DROPPED not in {sample.metric for sample in gauge_list(aggregates)}


def test_an_application_goes_with_its_last_id_and_leaves_nothing_behind() -> None:
    aggregates = aggregates_of()
    entries = [entry_of(aggregates, f"pay-{number}") for number in range(2)]
    for entry in entries:
        finish(aggregates, entry, Outcome.FENCED)
    aggregates.take(Forgotten(entries[0]), new=True)
    assert counters(aggregates, catalogue.PRODUCER_FENCES_TOTAL) == {("pay",): 2.0}
    aggregates.take(Forgotten(entries[1]), new=True)
    assert counter_list(aggregates) == []
    later = NOW + 7_200
    assert gauge_list(aggregates, later) == []


def test_the_ids_fenced_most_in_ten_minutes_are_shown() -> None:
    aggregates = aggregates_of(TransactionsConfig(fenced_ids=2))
    for number in range(4):
        entry = entry_of(aggregates, f"pay-{number}")
        finish(aggregates, entry, Outcome.FENCED, ago=700)
        for _ in range(number + 1):
            finish(aggregates, entry, Outcome.FENCED, ago=10)
    assert gauges(aggregates, catalogue.RECENT_PRODUCER_FENCES) == {("pay", "pay-3"): 4.0, ("pay", "pay-2"): 3.0}
    assert gauges(aggregates, catalogue.RECENT_PRODUCER_FENCES, NOW + 600) == {}


def test_the_latest_unclean_ends_of_the_last_hour_are_shown_newest_first() -> None:
    aggregates = aggregates_of(TransactionsConfig(unclean_ends=3))
    for number in range(5):
        finish(aggregates, entry_of(aggregates, f"pay-{number}"), Outcome.TIMED_OUT, ago=number * 60)
    finish(aggregates, entry_of(aggregates, "own-1"), Outcome.ABORTED)
    ends = aggregates.ends.latest(NOW)
    assert [end.transactional_id for end in ends] == ["pay-0", "pay-1", "pay-2"]
    assert {end.outcome for end in ends} == {"timed_out"}
    assert aggregates.ends.latest(NOW + 3_601) == ()


def test_one_id_that_is_fenced_again_and_again_takes_one_place_for_each_epoch() -> None:
    aggregates = aggregates_of(TransactionsConfig(unclean_ends=3))
    loop, other = entry_of(aggregates, "loop-1"), entry_of(aggregates, "pay-1")
    finish(aggregates, other, Outcome.TIMED_OUT, ago=60)
    for _ in range(50):
        finish(aggregates, loop, Outcome.FENCED)
    assert [end.transactional_id for end in aggregates.ends.latest(NOW)] == ["loop-1", "pay-1"]


def test_ids_seen_in_the_last_hour_are_counted() -> None:
    aggregates = aggregates_of()
    for name in ("pay-1", "pay-2", "pay-3", "order-1"):
        entry_of(aggregates, name)
    aggregates.applications.census({"pay": 1, "order": 1, "gone": 7})
    assert gauges(aggregates, catalogue.TRANSACTIONAL_IDS) == {("pay",): 2.0, ("order",): 0.0}


def test_counters_go_on_where_they_were_saved() -> None:
    aggregates = aggregates_of()
    entry = entry_of(aggregates, "pay-1")
    finish(aggregates, entry, Outcome.COMMITTED)
    finish(aggregates, entry, Outcome.FENCED)
    aggregates.take(Initialised(entry, 1), new=True)
    again = aggregates_of()
    again.restore(json.loads(json.dumps(aggregates.saved(everything=True))))
    assert counter_list(again) == counter_list(aggregates)
    assert gauges(again, catalogue.APPLICATION_INFO) == gauges(aggregates, catalogue.APPLICATION_INFO)
    entry = entry_of(again, "pay-1")
    finish(again, entry, Outcome.COMMITTED)
    assert counters(again, catalogue.TRANSACTIONS_TOTAL)["pay", "committed"] == 2


def test_only_what_changed_is_saved_again() -> None:
    aggregates = aggregates_of()
    entries = [entry_of(aggregates, name) for name in ("pay-1", "ship-1")]
    assert aggregates.saved(everything=False)["applications"].keys() == {"pay", "ship"}
    assert aggregates.saved(everything=False) == {}
    finish(aggregates, entries[0], Outcome.COMMITTED)
    aggregates.take(Forgotten(entries[1]), new=True)
    changed = aggregates.saved(everything=False)["applications"]
    assert (changed.keys(), changed["ship"]) == ({"pay", "ship"}, None)


def test_what_was_given_away_does_not_change_with_later_transactions() -> None:
    aggregates = aggregates_of()
    entry = entry_of(aggregates, "pay-1")
    finish(aggregates, entry, Outcome.COMMITTED, ago=10)
    counted, dated = aggregates.counted(), aggregates.dated()
    before = json.dumps(counted), json.dumps(dated), list(counter_samples("prod", counted))
    finish(aggregates, entry, Outcome.COMMITTED)
    finish(aggregates, entry, Outcome.FENCED)
    aggregates.take(Initialised(entry, 1), new=True)
    assert (json.dumps(counted), json.dumps(dated), list(counter_samples("prod", counted))) == before
    assert aggregates.counted() != counted
    assert aggregates.dated() != dated


def test_what_is_saved_is_what_is_exposed() -> None:
    aggregates = aggregates_of()
    entries = [entry_of(aggregates, name) for name in ("pay-1", "ship-1")]
    finish(aggregates, entries[0], Outcome.COMMITTED)
    exposed = aggregates.counted()
    assert aggregates.counted() is exposed
    saved = aggregates.saved(everything=False)["applications"]
    assert all(saved[name] is exposed[name] for name in ("pay", "ship"))
    finish(aggregates, entries[1], Outcome.COMMITTED)
    assert aggregates.counted()["pay"] is exposed["pay"]
    assert aggregates.saved(everything=False)["applications"] == {"ship": aggregates.counted()["ship"]}


def test_an_application_that_was_kept_stays_until_its_ids_are_known() -> None:
    aggregates = aggregates_of()
    finish(aggregates, entry_of(aggregates, "pay-1"), Outcome.COMMITTED)
    again = aggregates_of()
    again.restore(aggregates.saved(everything=True))
    again.take(Forgotten(entry_of(again, "pay-2")), new=True)
    assert list(again.applications.by_name) == ["pay"]
    again.ids_are_known()
    assert list(again.applications.by_name) == []


@pytest.mark.parametrize("broken", [{"applications": {"a": [1]}}, {"applications": 3}, {"tasks": {"t": "x"}}])
def test_counters_that_cannot_be_used_restore_nothing(broken: dict[str, object]) -> None:
    aggregates = aggregates_of()
    with pytest.raises((ValueError, TypeError, AttributeError)):
        aggregates.restore(broken)
    assert aggregates.applications.by_name == {}


UUID = "6f1d2c3e-0b1a-4c5d-8e9f-001122334455"
IDS = st.sampled_from(
    [
        f"{name}{end}"
        for name in ("a", "a-b", "a-b-c", "b")
        for end in ("", "-0", "-x", "-1-2", f"-{UUID}-1", f"-{UUID}-0")
    ]
    + ["connect-cluster-a", "connect-cluster-a-b", "connect-cluster-b"]
)


@given(st.lists(IDS, max_size=12, unique=True), st.sampled_from(["", "(?P<application>a-b)-.*"]))
def test_what_is_learned_describes_the_applications_that_are_known_already(ids: list[str], pattern: str) -> None:
    grouping = Grouping([pattern] if pattern else [])
    aggregates = Aggregates(grouping, TransactionsConfig())
    examples: dict[str, str] = {}
    for transactional_id in ids:
        examples.setdefault(entry_of(aggregates, transactional_id).application, transactional_id)
    described = gauges(aggregates, catalogue.APPLICATION_INFO)
    for name, example in examples.items():
        if (now := grouping.of(example)).name == name:
            assert described[name, now.kind, now.connect, now.connector] == 1.0


def test_what_a_client_has_learned_does_not_cost_a_pass_over_all_applications() -> None:
    aggregates = aggregates_of()
    for number in range(300):
        entry_of(aggregates, f"app{number:03}x")
    for learned in ("connect-cluster-etl", f"etl-{UUID}-0"):
        found = calls_of(partial(entry_of, aggregates, learned))
        assert found["Grouping.explain"] <= 2
        assert found["form_of"] <= 1


def test_lists_of_thousands_of_partitions_are_not_all_remembered() -> None:
    aggregates = aggregates_of()
    entry = entry_of(aggregates, "pay-1")
    same = [TopicPartition("orders", number) for number in range(2000)]
    places = frozenset(same)
    for number in range(2 * MOST_NAMES // len(same)):
        places = frozenset([*same, TopicPartition("orders", 3000 + number)])
        who = entry.transactional_id, entry.application, Outcome.COMMITTED, 7
        aggregates.take(finished(*who, NOW, NOW, places=places), new=True)
    kept = sum(len(known) for _, known in aggregates._lists.known)
    assert kept <= MOST_NAMES + len(places)
    assert aggregates.topics == {"orders"}


def test_durations_are_the_bucket_of_999_of_1000_commits() -> None:
    own = aggregates_of()
    entry = entry_of(own, "pay-1")
    for _ in range(999):
        finish(own, entry, Outcome.COMMITTED)
    finish(own, entry, Outcome.TIMED_OUT)
    [found] = own.durations().values()
    assert found == CommitDurations(999, 0.5)
    for _ in range(2):
        own.take(finished("pay-1", entry.application, Outcome.COMMITTED, 7, NOW - 5000, NOW), new=True)
    [longer] = own.durations().values()
    assert longer == CommitDurations(1001, None), "two of a thousand are above the last bound"
