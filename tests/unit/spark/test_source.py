"""All that is known of the queries on a cluster: ways put together, lags, ends counted once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from exporter import catalogue as c
from exporter.model import Deadline, Facts, Fault, Reason, TopicPartition
from exporter.spark.queries import (
    FRESH_SECONDS,
    KEEP_ENDED,
    KEEP_SILENT,
    Origin,
    QueryEnd,
    QueryKey,
    SparkQueries,
    SparkView,
    StreamingQuery,
    merged,
)
from exporter.spark.source import SparkFolderSource, SparkSource, topic_lags
from exporter.words import QueryState, TerminationReason
from tests.helpers.cluster import FakeKafka, SourceRead, read
from tests.helpers.scenes import held_world

NOW = FakeKafka().time.wall
WHO = ("spark", "billing", "orders")
ORDERS = TopicPartition("orders", 0)


FAMILIES = {row for row in c.rows() if row.source == "spark" and "threshold" not in row.labels}


def listener(**fields: object) -> StreamingQuery:
    query = StreamingQuery(
        "id-1", Origin.LISTENER, NOW, "billing", "orders", started=NOW - 600, state=QueryState.RUNNING
    )
    query = replace(query, batches=5, rows=100, last_progress=NOW - 3, phases={"add_batch": 0.4}, offsets={ORDERS: 50})
    return replace(query, **fields)  # type: ignore[arg-type]


def event_log(**fields: object) -> StreamingQuery:
    return replace(listener(), way=Origin.EVENT_LOG, **fields)  # type: ignore[arg-type]


def checkpoint(**fields: object) -> StreamingQuery:
    query = StreamingQuery("id-1", Origin.CHECKPOINT, NOW - 3, name="orders-folder", last_progress=NOW - 2.5, batches=5)
    return replace(query, uncommitted=1, offsets={ORDERS: 50}, **fields)  # type: ignore[arg-type]


def seen(world: FakeKafka, *told: StreamingQuery, source: SparkSource | None = None) -> SourceRead:
    return read(world, source or SparkSource(world.cluster()), SparkQueries(told))


def test_every_family_is_reported_of_a_query_that_all_ways_see() -> None:
    found = seen(held_world(), listener(), event_log(), checkpoint())
    assert not found.faults
    assert {sample.metric for sample in found.samples} == {
        row for row in c.rows() if row.source == "spark" and "threshold" not in row.labels
    }
    assert {sample.labels[:4] for sample in found.samples} == {("prod", *WHO)}, "once, under the names that events tell"


def test_a_checkpoint_alone_is_called_as_it_is_configured() -> None:
    found = seen(held_world(), checkpoint())
    assert found.values(c.SPARK_UNCOMMITTED_BATCHES) == {("spark", "", "orders-folder"): 1}
    assert not found.values(c.SPARK_QUERY_STATE), "no file tells it"
    assert not found.values(c.SPARK_INPUT_ROWS_TOTAL)
    assert not found.values(c.SPARK_QUERY_TERMINATIONS_TOTAL)


def test_lags_are_to_the_high_watermark_and_what_is_blocked_is_behind_the_last_stable_offset() -> None:
    found = seen(held_world(stable=80, end=100), listener(offsets={ORDERS: 80, TopicPartition("orders", 1): 60}))
    assert found.values(c.SPARK_SOURCE_LAG_OFFSETS) == {(*WHO, "orders"): 60}
    assert found.values(c.SPARK_SOURCE_BLOCKED_OFFSETS) == {(*WHO, "orders"): 40}


def test_a_query_that_reads_uncommitted_records_is_not_blocked_by_what_it_has_read() -> None:
    found = seen(held_world(stable=80, end=100), listener(offsets={ORDERS: 100}))
    assert found.value(c.SPARK_SOURCE_BLOCKED_OFFSETS, *WHO, "orders") == 0


def test_a_topic_of_which_a_partition_did_not_answer_is_absent_and_the_query_is_still_told_of() -> None:
    world = held_world()
    world.topics["orders"][1].leader = None
    found = seen(world, listener(offsets={ORDERS: 80, TopicPartition("orders", 1): 60}))
    assert found.reasons == {Reason.NO_LEADER}
    assert not found.values(c.SPARK_SOURCE_LAG_OFFSETS)
    assert found.values(c.SPARK_BATCHES_TOTAL)


def test_a_topic_that_the_cluster_does_not_have_is_no_fault() -> None:
    found = seen(held_world(), listener(offsets={TopicPartition("elsewhere", 0): 7}))
    assert not found.faults
    assert not found.values(c.SPARK_SOURCE_LAG_OFFSETS)


def test_without_offsets_the_cluster_is_not_asked() -> None:
    world = held_world()
    seen(world, listener(offsets={}))
    assert not world.requests("ListOffsets")


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5),
)
def test_what_is_blocked_is_never_more_than_the_lag_and_nothing_is_negative(rows: list[tuple[int, int, int]]) -> None:
    keys = [TopicPartition("orders", number) for number in range(len(rows))]
    completed, stable, ends = (dict(zip(keys, column, strict=True)) for column in zip(*rows, strict=True))
    lag = topic_lags(completed, stable, ends)["orders"]
    assert 0 <= lag.blocked <= lag.lag


# --- Ways put together ------------------------------------------------------------------------------------------------


def one(*told: StreamingQuery, now: float = NOW) -> StreamingQuery:
    (query,) = merged(told, now).values()
    return query


def test_the_furthest_progress_wins_whoever_reports_it() -> None:
    ahead = checkpoint(batches=6, last_progress=NOW)
    ahead = replace(ahead, offsets={ORDERS: 60})
    query = one(listener(), ahead, event_log(batches=4, offsets={ORDERS: 40}))
    assert (query.batches, query.last_progress, query.offsets) == (6, NOW, {ORDERS: 60})


def test_the_run_that_began_last_tells_the_state_and_the_rows() -> None:
    dead = event_log(started=NOW - 900, heard=NOW - 100, rows=7, state=QueryState.IDLE)
    query = one(dead, listener(started=NOW - 60, rows=3, state=QueryState.RUNNING))
    assert (query.state, query.rows) == (QueryState.RUNNING, 3)


def test_a_driver_that_fell_silent_has_no_state_and_the_time_of_its_last_progress_stays() -> None:
    silent = listener(heard=NOW - FRESH_SECONDS[Origin.LISTENER] - 1)
    query = one(silent)
    assert (query.state, query.phases) == (None, {})
    assert (query.last_progress, query.batches) == (NOW - 3, 5)
    assert one(silent, event_log(state=QueryState.IDLE)).state is QueryState.IDLE, "its log is still written to"


def test_a_query_that_ended_keeps_its_state_for_an_hour_and_is_forgotten_then() -> None:
    ended = listener(state=QueryState.FAILED)
    assert one(ended, now=NOW + KEEP_ENDED - 1).state is QueryState.FAILED
    assert not merged([ended], NOW + KEEP_ENDED + 1)
    assert merged([listener()], NOW + KEEP_SILENT - 1)
    assert not merged([listener()], NOW + KEEP_SILENT + 1)
    assert merged([checkpoint()], NOW + KEEP_SILENT + 1), "as long as it is configured"


def test_of_two_queries_with_one_name_the_later_is_reported_of() -> None:
    old, new = listener(started=NOW - 600), listener(id="id-2", started=NOW - 5, batches=1)
    assert one(old, new).batches == 1


def test_a_query_without_a_name_is_called_by_its_id() -> None:
    assert list(merged([listener(name="")], NOW)) == [QueryKey("billing", "id-1")]


# --- Ends -------------------------------------------------------------------------------------------------------------


def ended(source: SparkSource, world: FakeKafka, *told: StreamingQuery) -> dict[str, float]:
    found = seen(world, *told, source=source).values(c.SPARK_QUERY_TERMINATIONS_TOTAL)
    return {key[3]: value for key, value in found.items() if value}


def test_an_end_is_counted_once_however_many_report_it_and_however_often() -> None:
    world = held_world()
    source = SparkSource(world.cluster())
    zero = seen(world, listener(), source=source).values(c.SPARK_QUERY_TERMINATIONS_TOTAL)
    assert zero == {(*WHO, reason): 0 for reason in c.SPARK_TERMINATION_REASONS}
    ends = (QueryEnd("run-1", TerminationReason.KAFKA, NOW + 1),)
    for _ in range(3):
        assert ended(source, world, listener(ends=ends), event_log(ends=ends)) == {"kafka": 1}
    again = (
        *ends,
        QueryEnd("run-2", TerminationReason.KAFKA, NOW + 2),
        QueryEnd("run-3", TerminationReason.STOPPED, NOW + 3),
    )
    assert ended(source, world, listener(ends=again)) == {"kafka": 2, "stopped": 1}
    assert ended(source, world) == {"kafka": 2, "stopped": 1}, "it stays while the query is away"


def test_the_end_of_a_query_that_nobody_knew_is_an_increase_from_0() -> None:
    world = held_world()
    source = SparkSource(world.cluster())
    died = listener(state=QueryState.FAILED, ends=(QueryEnd("run-1", TerminationReason.OTHER, NOW + 1),))
    assert ended(source, world, died) == {}
    assert ended(source, world, died) == {"other": 1}


def test_an_end_before_the_agent_began_is_history() -> None:
    world = held_world()
    source = SparkSource(world.cluster())
    died = listener(state=QueryState.FAILED, ends=(QueryEnd("run-1", TerminationReason.OTHER, NOW - 60),))
    for _ in range(3):
        assert ended(source, world, died) == {}
    assert seen(world, died, source=source).value(c.SPARK_QUERY_STATE, *WHO, "failed") == 1


# --- Limits, folders --------------------------------------------------------------------------------------------------


def test_more_queries_than_are_kept_are_said_and_those_heard_of_last_are_reported() -> None:
    told = [listener(id=f"id-{number}", name=f"q{number}", heard=NOW - number / 10) for number in range(510)]
    found = seen(held_world(), *told)
    names = {key[2] for key in found.values(c.SPARK_BATCHES_TOTAL)}
    assert names == {f"q{number}" for number in range(500)}
    assert [sample.value for sample in found.samples if sample.metric is c.SERIES_DROPPED] == [10]


def test_queries_that_are_handed_in_are_reported_like_those_of_folders() -> None:
    world = held_world()
    source = SparkSource(world.cluster(), posted=lambda: [listener()], left_out=lambda: 2)
    found = seen(world, source=source)
    assert found.value(c.SPARK_INPUT_ROWS_TOTAL, *WHO) == 100
    view = found.facts[SparkView]
    assert isinstance(view, SparkView)
    assert view.lags == {QueryKey("billing", "orders"): (50, 20)}
    assert [sample.value for sample in found.samples if sample.metric is c.SERIES_DROPPED] == [2]


def test_a_folder_s_source_hands_on_what_it_can_read_and_says_what_it_cannot() -> None:
    fault = Fault(Reason.MALFORMED, "a line")

    class SparkFolder:
        left_out = 0

        def read(self, deadline: Deadline, now: float) -> Iterator[Fault | StreamingQuery]:
            yield listener()
            yield fault

    world = held_world()
    source = SparkFolderSource(world.cluster(), "/logs", SparkFolder(), clock=world.time.clock)
    assert source.target == "/logs"
    assert list(source.read(Deadline.after(1), Facts())) == [fault, SparkQueries((listener(),))]


def test_of_many_faults_of_a_folder_the_first_are_told_and_the_others_counted_by_reason() -> None:
    class BrokenFolder:
        left_out = 0

        def read(self, deadline: Deadline, now: float) -> Iterator[Fault | StreamingQuery]:
            del deadline, now
            yield from (Fault(Reason.MALFORMED, f"line {number}") for number in range(2_000))
            yield Fault(Reason.TIMEOUT, "not all were read")
            yield listener()

    source = SparkFolderSource(FakeKafka().cluster(), "/logs", BrokenFolder())
    *faults, queries = source.read(Deadline.after(1), Facts())
    assert queries == SparkQueries((listener(),))
    assert faults[:2] == [Fault(Reason.MALFORMED, "line 0"), Fault(Reason.MALFORMED, "line 1")]
    assert faults[20:] == [
        Fault(Reason.MALFORMED, "/logs: and 1980 more"),
        Fault(Reason.TIMEOUT, "/logs: and 1 more"),
    ]
