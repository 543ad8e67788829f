"""Torn transactions, by decisions of the log and markers of partitions; none in what a healthy cluster writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.kafka.log.batches import Marker
from exporter.kafka.log.markers import PartitionMarkers
from exporter.model import Fault, Reason, TopicPartition
from exporter.transactions.decided import torn
from exporter.transactions.decided.shared_epoch import CLOCK_SLACK_MS
from exporter.transactions.decided.torn import (
    ComparisonStopped,
    DecidedLog,
    MarkerComparison,
    Torn,
    clocks_apart_ms,
    judge,
)
from exporter.transactions.machine.records import Status
from exporter.transactions.transaction import Transaction
from tests.helpers.marker_comparison import compare_all
from tests.helpers.strategies import encode_key, encode_value, kafka_tags

A, B = TopicPartition("orders", 0), TopicPartition("payments", 1)
START = 1_000_000
PID = 7


@dataclass
class TornCluster:
    """The records and markers of one producer's transactions. ``v2``: every one has an epoch."""

    v2: bool = True
    now: int = START
    epoch: int = 0
    skew: int = 0
    log: DecidedLog = field(default_factory=DecidedLog)
    records: int = 0
    markers: dict[TopicPartition, list[Marker]] = field(default_factory=lambda: {A: [], B: []})

    def record(self, status: Status, epoch: int, started: int, partitions: Iterable[TopicPartition] = ()) -> None:
        topics = [(place.topic, [place.partition]) for place in partitions]
        tags = kafka_tags(0, -1, 2 if self.v2 else 0)
        value = encode_value(1, PID, epoch, 60_000, status, topics, self.now, started, tags)
        self.log.take(0, self.records, self.now, encode_key("pay-1"), value)
        self.records += 1

    def begin(self, *partitions: TopicPartition) -> int:
        started = self.now
        self.record(Status.ONGOING, self.epoch, started, partitions)
        self.now += 100
        return started

    def end(
        self,
        started: int,
        *partitions: TopicPartition,
        commit: bool = True,
        left_out: tuple[TopicPartition, ...] = (),
    ) -> None:
        marked = self.epoch + 1 if self.v2 else self.epoch
        prepare, complete = (
            (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT) if commit else (Status.PREPARE_ABORT, Status.COMPLETE_ABORT)
        )
        self.record(prepare, marked, started, partitions)
        for partition in partitions:
            if partition not in left_out:
                self.mark(partition, commit=commit, epoch=marked)
        self.now += 10
        self.record(complete, marked, started)
        self.epoch = marked
        self.now += 10

    def mark(self, partition: TopicPartition, *, commit: bool, epoch: int | None = None) -> Marker:
        own = self.markers[partition]
        marker = Marker(len(own), self.now + self.skew, PID, self.epoch if epoch is None else epoch, commit, 3)
        own.append(marker)
        return marker

    def judged(self, **read: PartitionMarkers) -> MarkerComparison:
        known = {place: PartitionMarkers(0, markers=found) for place, found in self.markers.items()}
        return judge(
            self.log.transactions(), {**known, **{{"a": A, "b": B}[key]: markers for key, markers in read.items()}}, 0
        )


@pytest.fixture(params=[True, False], ids=["v2", "older"])
def cluster(request: pytest.FixtureRequest) -> TornCluster:
    return TornCluster(v2=request.param)


def places(judged: MarkerComparison) -> list[tuple[str, TopicPartition, bool | None]]:
    return [
        (torn.decision.transactional_id, torn.partition, torn.marker and torn.marker.commit) for torn in judged.torn
    ]


@given(v2=st.booleans(), skew=st.integers(-2000, 2000), ends=st.lists(st.tuples(st.booleans(), st.integers(1, 3))))
def test_nothing_is_torn_in_what_a_healthy_cluster_writes(v2: bool, skew: int, ends: list[tuple[bool, int]]) -> None:
    cluster = TornCluster(v2=v2, skew=skew)
    for commit, which in ends:
        partitions = [place for bit, place in ((1, A), (2, B)) if which & bit]
        cluster.end(cluster.begin(*partitions), *partitions, commit=commit)
        cluster.now += 5000  # a client of before V2 shares its epoch, and clocks differ by up to two seconds
    judged = cluster.judged()
    assert judged == MarkerComparison((), len(ends), ())


def test_an_abort_by_hand_into_an_open_transaction_that_commits_is_found_in_its_partition(cluster: TornCluster) -> None:
    cluster.end(cluster.begin(A, B), A, B)
    cluster.now += 60_000
    started = cluster.begin(A, B)
    by_hand = cluster.mark(A, commit=False)
    cluster.now += 500
    cluster.end(started, A, B)
    cluster.now += 60_000
    cluster.end(cluster.begin(A, B), A, B, commit=False)
    (torn,) = cluster.judged().torn
    assert (torn.partition, torn.marker, torn.decision.commit) == (A, by_hand, True)
    assert torn.decision.begun_ms == started
    assert torn.found == f"ABORT at offset {by_hand.offset}"


def test_an_abort_by_hand_before_the_clients_own_abort_tears_nothing(cluster: TornCluster) -> None:
    started = cluster.begin(A, B)
    cluster.mark(A, commit=False)
    cluster.now += 10
    cluster.end(started, A, B, commit=False)
    assert cluster.judged().torn == ()


def test_a_marker_that_was_never_written_is_found(cluster: TornCluster) -> None:
    cluster.end(cluster.begin(A, B), A, B, left_out=(B,))
    (torn,) = cluster.judged().torn
    assert (torn.partition, torn.marker, torn.found) == (B, None, "no marker")


def test_a_marker_that_is_written_twice_after_a_failover_is_no_finding(cluster: TornCluster) -> None:
    cluster.end(cluster.begin(A, B), A, B)
    cluster.mark(A, commit=True)
    assert cluster.judged().torn == ()


def test_markers_of_another_producer_or_of_a_transaction_the_log_does_not_know_give_no_finding(
    cluster: TornCluster,
) -> None:
    cluster.mark(A, commit=False, epoch=99)
    cluster.now += 60_000
    cluster.end(cluster.begin(A), A)
    assert cluster.judged().torn == ()


def test_a_transaction_that_is_not_completed_or_before_the_window_is_not_judged(cluster: TornCluster) -> None:
    cluster.end(cluster.begin(A), A, left_out=(A,))
    started = cluster.begin(A)
    cluster.record(Status.PREPARE_COMMIT, 1, started, (A,))
    assert judge(cluster.log.transactions(), {A: PartitionMarkers(0)}, cluster.now) == MarkerComparison((), 0, ())


def test_what_was_not_read_in_full_is_a_question_and_no_missing_marker(cluster: TornCluster) -> None:
    cluster.end(cluster.begin(A, B), A, B)
    refused = Fault(Reason.AUTHORIZATION, "grant READ on Topic:payments")
    judged = cluster.judged(b=PartitionMarkers(0, fault=refused))
    assert judged == MarkerComparison((), 0, ("grant READ on Topic:payments",))
    cut = cluster.judged(b=PartitionMarkers(5, cut=True, first_ms=cluster.now - CLOCK_SLACK_MS))
    assert cut.torn == ()
    assert "retention" in cut.open_questions[0]


def test_a_missing_marker_in_a_compacted_topic_proves_nothing(cluster: TornCluster) -> None:
    cluster.end(cluster.begin(A), A, left_out=(A,))
    judged = judge(cluster.log.transactions(), {A: PartitionMarkers(0)}, 0, frozenset({"orders"}))
    assert judged.torn == ()
    assert judged.judged == 0
    assert "proves nothing" in judged.open_questions[0]


def test_markers_that_are_in_a_compacted_topic_are_compared(cluster: TornCluster) -> None:
    cluster.end(cluster.begin(A), A)
    judged = judge(
        cluster.log.transactions(), {A: PartitionMarkers(0, markers=cluster.markers[A])}, 0, frozenset({"orders"})
    )
    assert judged == MarkerComparison((), 1, ())


def test_a_prepare_that_is_written_twice_with_a_raised_epoch_may_be_marked_with_either() -> None:
    cluster = TornCluster(v2=False)
    started = cluster.begin(A)
    cluster.record(Status.PREPARE_ABORT, 1, started, (A,))
    cluster.end(started, A, commit=False)
    assert cluster.judged() == MarkerComparison((), 1, ())


def test_a_complete_record_whose_prepare_was_compacted_is_counted() -> None:
    cluster = TornCluster()
    cluster.record(Status.COMPLETE_COMMIT, 1, START)
    assert cluster.log.transactions() == ()
    assert cluster.log.without_partitions == 1


def test_what_is_found_has_one_row_for_each_place(cluster: TornCluster) -> None:
    started = cluster.begin(A, B)
    cluster.mark(A, commit=False)
    cluster.mark(B, commit=False)
    cluster.now += 10
    cluster.end(started, A, B)
    assert places(cluster.judged()) == [("pay-1", A, False), ("pay-1", B, False)]
    assert all(isinstance(torn, Torn) for torn in cluster.judged().torn)


# --- Clients of before Transactions V2: transactions within seconds of each other share an epoch ---


def busy(cluster: TornCluster, count: int, lost: int, pause: int = 50) -> None:
    for number in range(count):
        cluster.end(cluster.begin(A), A, left_out=(A,) if number == lost else ())
        cluster.now += pause * (1 + number % 3)


@pytest.mark.parametrize("lost", [0, 7, 19], ids=["the first", "in the middle", "the last"])
def test_a_lost_marker_is_not_hidden_by_others_of_its_producer_within_seconds(lost: int) -> None:
    cluster = TornCluster(v2=False)
    busy(cluster, 20, lost)
    judged = cluster.judged()
    decision = cluster.log.transactions()[lost]
    assert judged == MarkerComparison((Torn(decision, A, None),), 20, ())


def test_where_brokers_clocks_differ_a_marker_that_may_be_lost_is_a_question_and_no_finding() -> None:
    cluster = TornCluster(v2=False, skew=130)
    busy(cluster, 20, 7)
    judged = cluster.judged()
    assert judged.torn == ()
    assert judged.judged == 19
    assert "a commit of 'pay-1' may be that of these records" in judged.open_questions[0]


@given(
    skew=st.integers(-4_900, 4_900),
    shape=st.lists(st.tuples(st.booleans(), st.integers(1, 400)), min_size=1, max_size=40),
)
def test_nothing_is_torn_in_a_busy_healthy_producer_whatever_the_clocks_show(
    skew: int, shape: list[tuple[bool, int]]
) -> None:
    cluster = TornCluster(v2=False, skew=skew)
    for commit, pause in shape:
        cluster.end(cluster.begin(A), A, commit=commit)
        cluster.now += pause
    assert [found_torn for found_torn in cluster.judged().torn if found_torn.marker is None] == []


# --- The same findings as by comparing everything with everything ---

TIMES = st.integers(0, 30_000)
EPOCHS = st.frozensets(st.integers(0, 3), min_size=1, max_size=2)
MARKERS = st.builds(Marker, st.integers(0, 99), TIMES, st.integers(1, 2), st.integers(0, 3), st.booleans(), st.just(1))
READ = st.builds(
    PartitionMarkers,
    st.just(0),
    st.booleans(),
    st.lists(MARKERS, max_size=12, unique_by=lambda marker: marker.offset).map(sorted),
    st.one_of(st.just(-1), TIMES),
    st.just(0),
    st.one_of(st.none(), st.just(Fault(Reason.AUTHORIZATION, "grant READ"))),
    begins=st.lists(st.tuples(st.integers(1, 2), st.integers(0, 3), TIMES), max_size=3),
)


@st.composite
def decided(draw: st.DrawFn) -> Transaction:
    begun, prepared, completed = sorted(draw(st.tuples(TIMES, TIMES, TIMES)))
    return Transaction(
        draw(st.sampled_from(("pay-1", "pay-2"))),
        draw(st.integers(1, 2)),
        draw(EPOCHS),
        draw(EPOCHS),
        draw(st.booleans()),
        begun_ms=begun,
        prepared_ms=prepared,
        completed_ms=draw(st.sampled_from((completed, None))),
        partitions=draw(st.frozensets(st.sampled_from((A, B)))),
        client_version=draw(st.sampled_from((0, 2))),
    )


def one_place(
    epochs: tuple[frozenset[int], frozenset[int]], times_ms: tuple[int, int, int], *, commit: bool = True, v2: bool
) -> Transaction:
    """A transaction of one partition; the epochs are those of its records and of its markers."""
    begun, prepared, completed = times_ms
    version = 2 if v2 else 0
    made = Transaction("pay-1", PID, *epochs, commit, client_version=version, partitions=frozenset({A}))
    return made._replace(begun_ms=begun, prepared_ms=prepared, completed_ms=completed)


@given(
    decisions=st.lists(decided(), max_size=12),
    read=st.dictionaries(st.sampled_from((A, B)), READ),
    since_ms=st.sampled_from((0, 15_000)),
    compacted=st.frozensets(st.just("orders")),
)
def test_the_findings_are_those_of_comparing_every_marker_with_every_decision(
    decisions: list[Transaction],
    read: dict[TopicPartition, PartitionMarkers],
    since_ms: int,
    compacted: frozenset[str],
) -> None:
    found, expected = judge(decisions, read, since_ms, compacted), compare_all(decisions, read, since_ms, compacted)
    assert (found.torn, found.judged) == (expected.torn, expected.judged)
    assert set(expected.open_questions) <= set(found.open_questions)


FEW_TIMES = st.sampled_from((0, 1_000, 6_500, 13_000))
FEW_EPOCHS = st.frozensets(st.integers(0, 1), min_size=1)


@given(
    times=st.tuples(FEW_TIMES, FEW_TIMES, FEW_TIMES),
    epochs=st.tuples(FEW_EPOCHS, FEW_EPOCHS),
    markers=st.lists(
        st.builds(Marker, st.integers(0, 9), FEW_TIMES, st.just(PID), st.integers(0, 1), st.booleans(), st.just(1)),
        max_size=3,
        unique_by=lambda marker: marker.offset,
    ).map(sorted),
    commit=st.booleans(),
    v2=st.booleans(),
)
def test_the_only_transaction_of_a_producer_is_judged_as_by_the_index(
    times: tuple[int, int, int],
    epochs: tuple[frozenset[int], frozenset[int]],
    markers: list[Marker],
    commit: bool,
    v2: bool,
) -> None:
    begun, prepared, completed = sorted(times)
    one = one_place(epochs, (begun, prepared, completed), commit=commit, v2=v2)
    read = {A: PartitionMarkers(0, markers=markers)}
    found = judge([one], read, 0)
    with patch.object(torn, "_has_only_its_own", return_value=False):
        assert found == judge([one], read, 0)


@pytest.mark.parametrize("v2", [True, False], ids=["v2", "older"])
def test_the_time_of_a_comparison_grows_with_the_number_of_transactions_not_with_its_square(v2: bool) -> None:
    decisions, markers = [], []
    for number in range(20_000):
        at = START + 10 * number
        epoch = number % 30_000 if v2 else 0
        one = frozenset({epoch})
        decisions.append(one_place((one, one), (at, at + 4, at + 8), v2=v2))
        markers.append(Marker(number, at + 5, PID, epoch, True, 1))
    judged = judge(decisions, {A: PartitionMarkers(0, markers=markers)}, 0)  # the slow form takes minutes
    assert judged == MarkerComparison((), 20_000, ())


def test_a_comparison_that_is_stopped_says_what_was_not_compared() -> None:
    one = frozenset({1})
    decisions = [one_place((one, one), (0, 1, 2), v2=True)] * 10_000

    def over() -> None:
        raise ComparisonStopped("the time is over")

    judged = judge(decisions, {A: PartitionMarkers(0)}, 0, check=over)
    assert judged == MarkerComparison((), 0, ("the time is over: 1 partitions were not compared",))


@pytest.mark.parametrize("skew", [-90_000, 0, 90_000])
def test_markers_of_v2_show_how_far_the_clocks_of_a_leader_and_a_coordinator_are_apart(skew: int) -> None:
    cluster = TornCluster(skew=skew)
    for commit in (True, False, True):
        cluster.end(cluster.begin(A, B), A, B, commit=commit)
    cluster.end(cluster.begin(A, B), A, B, left_out=(B,))
    read = {place: PartitionMarkers(0, markers=own) for place, own in cluster.markers.items()}
    assert abs(clocks_apart_ms(cluster.log.transactions(), read) - abs(skew)) <= 10


def test_a_client_that_falls_back_to_the_older_protocol_shows_no_distance_of_clocks_and_nothing_torn() -> None:
    cluster = TornCluster()
    cluster.end(cluster.begin(A), A)
    cluster.v2 = False
    for commit in (True, False, True):
        cluster.now += 60_000
        cluster.end(cluster.begin(A), A, commit=commit)
    read = {place: PartitionMarkers(0, markers=own) for place, own in cluster.markers.items()}
    assert clocks_apart_ms(cluster.log.transactions(), read) == 0
    assert cluster.judged() == MarkerComparison((), 4, ())


def test_markers_of_an_older_client_do_not_show_the_distance_of_clocks() -> None:
    """Its transactions share an epoch: a marker that is late may be that of another one."""
    cluster = TornCluster(v2=False, skew=90_000)
    cluster.end(cluster.begin(A), A)
    read = {place: PartitionMarkers(0, markers=own) for place, own in cluster.markers.items()}
    assert clocks_apart_ms(cluster.log.transactions(), read) == 0
