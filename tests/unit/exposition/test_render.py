"""/metrics from snapshots: one form, no series twice, no sample older than three intervals."""

from __future__ import annotations

import gzip
import logging
import tracemalloc
from dataclasses import dataclass, replace
from functools import partial

import pytest

from exporter.exposition.render import SHARED_SECONDS, Exposition
from exporter.exposition.text_format import Format
from exporter.model import Clock, Distribution, Fault, Kind, LateBatch, Metric, Reason, Sample, SampleBatch, Snapshot

AGE = Metric("test_age_seconds", Kind.GAUGE, "An age.", ("who",))
EVENTS = Metric("test_events_total", Kind.COUNTER, 'Events, "all" of them\nwith a \\ in the help.', ("who",))
OPEN = Metric("test_open_seconds", Kind.HISTOGRAM, "How long.", ("who",), buckets=(0.1, 1))
LATENCY = Metric("test_latency_seconds", Kind.SUMMARY, "Quantiles.", ("who",))
PLAIN = Metric("test_plain", Kind.GAUGE, "No labels.")
FAMILIES = (AGE, EVENTS, OPEN, LATENCY, PLAIN)
FAULT = Fault(Reason.TIMEOUT, "no answer")
MEGABYTE = 1_000_000


@dataclass
class RenderClock:
    """A clock that tests move."""

    now: float = 1000.0

    def clock(self) -> Clock:
        return Clock(lambda: self.now, lambda: 1.8e9 + self.now)


@pytest.fixture
def hands() -> RenderClock:
    return RenderClock()


@pytest.fixture
def exposition(hands: RenderClock) -> Exposition:
    return Exposition(hands.clock(), FAMILIES)


def snapshot(hands: RenderClock, *samples: Sample, faults: tuple[Fault, ...] = (), interval: float = 5.0) -> Snapshot:
    return Snapshot("lso", "prod", "prod", interval, samples, faults, (), 0.1, hands.now, 1.8e9 + hands.now)


def text(exposition: Exposition) -> str:
    return exposition.body(Format.TEXT).decode()


def series(exposition: Exposition) -> list[str]:
    return [line for line in text(exposition).splitlines() if not line.startswith("#")]


def test_every_kind_is_written_as_prometheus_expects(exposition: Exposition, hands: RenderClock) -> None:
    exposition.swap({
        ("a",): snapshot(
            hands,
            PLAIN(7),
            AGE(1.5, "x"),
            EVENTS(2, "x"),
            OPEN(Distribution(((0.1, 1), (1.0, 3)), 4, 2.5), "x"),
            LATENCY(Distribution(((0.5, 0.25), (0.99, 1.0)), 10, None), "x"),
        )
    })  # fmt: skip
    assert text(exposition) == (
        "# HELP test_age_seconds An age.\n"
        "# TYPE test_age_seconds gauge\n"
        'test_age_seconds{who="x"} 1.5\n'
        '# HELP test_events_total Events, "all" of them\\nwith a \\\\ in the help.\n'
        "# TYPE test_events_total counter\n"
        'test_events_total{who="x"} 2.0\n'
        "# HELP test_open_seconds How long.\n"
        "# TYPE test_open_seconds histogram\n"
        'test_open_seconds_bucket{who="x",le="0.1"} 1.0\n'
        'test_open_seconds_bucket{who="x",le="1.0"} 3.0\n'
        'test_open_seconds_bucket{who="x",le="+Inf"} 4.0\n'
        'test_open_seconds_count{who="x"} 4.0\n'
        'test_open_seconds_sum{who="x"} 2.5\n'
        "# HELP test_latency_seconds Quantiles.\n"
        "# TYPE test_latency_seconds summary\n"
        'test_latency_seconds{who="x",quantile="0.5"} 0.25\n'
        'test_latency_seconds{who="x",quantile="0.99"} 1.0\n'
        'test_latency_seconds_count{who="x"} 10.0\n'
        "# HELP test_plain No labels.\n"
        "# TYPE test_plain gauge\n"
        "test_plain 7.0\n"
    )


def test_openmetrics_names_a_counter_without_its_suffix_and_ends(exposition: Exposition, hands: RenderClock) -> None:
    exposition.swap({("a",): snapshot(hands, EVENTS(2, "x"))})
    assert exposition.body(Format.OPENMETRICS).decode() == (
        '# HELP test_events Events, \\"all\\" of them\\nwith a \\\\ in the help.\n'
        "# TYPE test_events counter\n"
        'test_events_total{who="x"} 2.0\n'
        "# EOF\n"
    )


def test_the_compressed_body_is_the_same_text(exposition: Exposition, hands: RenderClock) -> None:
    exposition.swap({(name,): snapshot(hands, AGE(1, name), EVENTS(1, name)) for name in "abc"})
    for fmt in Format:
        assert gzip.decompress(exposition.body(fmt, gzip=True)) == exposition.body(fmt)


def test_the_compressed_body_follows_when_one_source_of_many_changes(
    exposition: Exposition, hands: RenderClock
) -> None:
    exposition.swap({(name,): snapshot(hands, AGE(1, name)) for name in "abc"})
    exposition.body(Format.TEXT, gzip=True)
    exposition.swap({("b",): snapshot(hands, AGE(2, "b"))})
    assert b'who="b"} 2.0' in gzip.decompress(exposition.body(Format.TEXT, gzip=True))


def test_families_stand_in_the_order_of_the_catalogue_and_never_apart(
    exposition: Exposition, hands: RenderClock
) -> None:
    exposition.swap(
        {
            ("b",): snapshot(hands, PLAIN(1), AGE(1, "b"), EVENTS(1, "b"), AGE(1, "b2")),
            ("a",): snapshot(hands, EVENTS(1, "a"), AGE(1, "a")),
        }
    )
    assert [line.split(" ")[0] for line in series(exposition)] == [
        'test_age_seconds{who="a"}', 'test_age_seconds{who="b"}', 'test_age_seconds{who="b2"}',
        'test_events_total{who="a"}', 'test_events_total{who="b"}', "test_plain",
    ]  # fmt: skip


def test_gauges_of_a_source_are_replaced_as_a_whole(exposition: Exposition, hands: RenderClock) -> None:
    exposition.swap({("a",): snapshot(hands, AGE(1, "x"), AGE(1, "y"))})
    exposition.swap({("a",): snapshot(hands, AGE(2, "y"))})
    assert series(exposition) == ['test_age_seconds{who="y"} 2.0']


def test_a_source_without_an_answer_exposes_no_gauge_and_keeps_its_counters(
    exposition: Exposition, hands: RenderClock
) -> None:
    histogram = OPEN(Distribution((), 1, 0.5), "x")
    exposition.swap({("a",): snapshot(hands, AGE(1, "x"), EVENTS(4, "x"), histogram)})
    exposition.swap({("a",): snapshot(hands, faults=(FAULT,))})
    assert series(exposition) == [
        'test_events_total{who="x"} 4.0',
        'test_open_seconds_bucket{who="x",le="+Inf"} 1.0',
        'test_open_seconds_count{who="x"} 1.0',
        'test_open_seconds_sum{who="x"} 0.5',
    ]


def test_a_counter_that_a_source_without_faults_no_longer_gives_is_gone(
    exposition: Exposition, hands: RenderClock
) -> None:
    exposition.swap({("a",): snapshot(hands, EVENTS(4, "x"))})
    exposition.swap({("a",): snapshot(hands)})
    assert series(exposition) == []


def test_a_counter_family_is_replaced_whole_even_when_something_else_had_a_fault(
    exposition: Exposition, hands: RenderClock
) -> None:
    exposition.swap({("a",): snapshot(hands, EVENTS(4, "x"), EVENTS(5, "y"))})
    exposition.swap({("a",): snapshot(hands, EVENTS(6, "y"), faults=(FAULT,))})
    assert series(exposition) == ['test_events_total{who="y"} 6.0']


def test_gauges_end_three_intervals_after_their_read_and_counters_stay(
    exposition: Exposition, hands: RenderClock
) -> None:
    summary = LATENCY(Distribution(((0.5, 1.0),), 3, None), "x")
    exposition.swap({("a",): snapshot(hands, AGE(1, "x"), EVENTS(4, "x"), summary)})
    exposition.body(Format.TEXT, gzip=True)
    hands.now += 14.9
    assert 'test_age_seconds{who="x"} 1.0' in series(exposition)
    hands.now += 0.2
    assert series(exposition) == ['test_events_total{who="x"} 4.0']
    assert b"test_age" not in gzip.decompress(exposition.body(Format.TEXT, gzip=True))


def test_what_is_kept_from_an_older_read_does_not_expire_with_it(exposition: Exposition, hands: RenderClock) -> None:
    exposition.swap({("a",): snapshot(hands, EVENTS(4, "x"))})
    hands.now += 100
    exposition.swap({("a",): snapshot(hands, faults=(FAULT,))})
    hands.now += 1000
    assert series(exposition) == ['test_events_total{who="x"} 4.0']


def test_a_dropped_source_takes_its_counters_with_it(exposition: Exposition, hands: RenderClock) -> None:
    exposition.swap({("a",): snapshot(hands, EVENTS(4, "x")), ("b",): snapshot(hands, EVENTS(1, "y"))})
    exposition.drop([("a",), ("never seen",)])
    assert series(exposition) == ['test_events_total{who="y"} 1.0']


def test_of_two_equal_label_sets_in_one_read_the_later_wins(
    exposition: Exposition, hands: RenderClock, caplog: pytest.LogCaptureFixture
) -> None:
    exposition.swap({("a",): snapshot(hands, AGE(1, "x"), AGE(2, "y"), AGE(3, "x"))})
    assert series(exposition) == ['test_age_seconds{who="x"} 3.0', 'test_age_seconds{who="y"} 2.0']
    assert "two samples of test_age_seconds had the same labels" in caplog.text


def test_two_sources_that_agree_on_a_sample_expose_it_once_without_a_warning(
    exposition: Exposition, hands: RenderClock, caplog: pytest.LogCaptureFixture
) -> None:
    exposition.swap({("a",): snapshot(hands, AGE(1, "x")), ("b",): snapshot(hands, AGE(1, "x"))})
    assert series(exposition) == ['test_age_seconds{who="x"} 1.0']
    assert not caplog.text


def test_a_source_that_gives_a_sample_twice_exposes_it_once_and_is_logged_and_counted(
    exposition: Exposition, hands: RenderClock, caplog: pytest.LogCaptureFixture
) -> None:
    opened = OPEN(Distribution(((0.1, 1), (1.0, 3)), 4, 2.5), "x")
    exposition.swap({("a",): snapshot(hands, AGE(1, "x"), AGE(1, "y"), AGE(1, "x"), opened, opened)})
    lines = series(exposition)
    assert lines.count('test_age_seconds{who="x"} 1.0') == 1
    assert lines.count('test_open_seconds_count{who="x"} 4.0') == 1
    assert len(lines) == len(set(lines))
    assert [record.getMessage() for record in caplog.records] == [
        f"two samples of {metric} had the same labels; the later one is exposed (1 so far)" for metric in (AGE, OPEN)
    ]


def test_of_two_sources_with_one_series_the_greater_key_wins_whatever_came_first(
    exposition: Exposition, hands: RenderClock
) -> None:
    for order in ("ab", "ba"):
        for name in order:
            value = {"a": 1.0, "b": 2.0}[name]
            exposition.swap({(name,): snapshot(hands, AGE(value, "x"), AGE(value, name))})
        assert series(exposition) == [
            'test_age_seconds{who="x"} 2.0', 'test_age_seconds{who="a"} 1.0', 'test_age_seconds{who="b"} 2.0',
        ]  # fmt: skip


def test_a_lasting_duplicate_does_not_fill_the_log(
    exposition: Exposition, hands: RenderClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(1000):
        exposition.swap({("a",): snapshot(hands, AGE(1, "x"), AGE(2, "x"))})
        exposition.body(Format.TEXT)
    assert 5 < len(caplog.records) < 15


def test_what_several_sources_dropped_adds_up(hands: RenderClock) -> None:
    from exporter.catalogue import SERIES_DROPPED  # noqa: PLC0415

    exposition = Exposition(hands.clock())
    exposition.swap(
        {
            ("a",): snapshot(hands, SERIES_DROPPED(3, "m"), SERIES_DROPPED(1, "n")),
            ("b",): snapshot(hands, SERIES_DROPPED(4, "m"), SERIES_DROPPED(2, "m")),
        }
    )
    assert series(exposition) == [
        'kafka_eos_series_dropped{metric="m"} 9.0', 'kafka_eos_series_dropped{metric="n"} 1.0'
    ]  # fmt: skip


def test_a_histogram_that_changed_is_written_anew_and_one_that_did_not_stays(
    exposition: Exposition, hands: RenderClock
) -> None:
    before, after = Distribution(((0.1, 0),), 1, 5.0), Distribution(((0.1, 1),), 2, 5.0)
    exposition.swap({("a",): snapshot(hands, OPEN(before, "x"), OPEN(before, "y"))})
    exposition.swap({("a",): snapshot(hands, OPEN(before, "x"), OPEN(after, "y"))})
    assert 'test_open_seconds_count{who="x"} 1.0' in series(exposition)
    assert 'test_open_seconds_count{who="y"} 2.0' in series(exposition)


def test_an_id_that_has_no_utf8_costs_nobody_the_scrape(exposition: Exposition, hands: RenderClock) -> None:
    exposition.swap({("a",): snapshot(hands, AGE(1, "lone \ud800"), AGE(2, "x"))})
    assert len(series(exposition)) == 2


def test_numbers_of_the_process_end_the_body_in_both_formats(hands: RenderClock) -> None:
    exposition = Exposition(hands.clock(), FAMILIES, own=lambda fmt: f"own {fmt}\n".encode())
    exposition.swap({("a",): snapshot(hands, PLAIN(1))})
    assert exposition.body(Format.TEXT).endswith(b"test_plain 1.0\nown text\n")
    assert exposition.body(Format.OPENMETRICS).endswith(b"test_plain 1.0\nown openmetrics\n# EOF\n")


def test_numbers_of_the_process_are_never_older_than_ten_seconds(hands: RenderClock) -> None:
    exposition = Exposition(hands.clock(), FAMILIES, own=lambda _: f"seconds {hands.now}\n".encode())
    assert exposition.body(Format.TEXT) == b"seconds 1000.0\n"
    hands.now += 10
    assert exposition.body(Format.TEXT) == b"seconds 1010.0\n"


def test_nothing_is_kept_of_series_that_vanished(exposition: Exposition, hands: RenderClock) -> None:
    for generation in range(50):
        names = [f"id-{generation}-{number}" for number in range(20)]
        exposition.swap({("a",): snapshot(hands, *(AGE(1, name) for name in names))})
        exposition.body(Format.TEXT)
    known = exposition._slots["a",].parts[0].latest()[AGE].prefixes
    assert len(known) == 20
    assert len(series(exposition)) == 20


def batched(hands: RenderClock, *batches: SampleBatch, faults: tuple[Fault, ...] = ()) -> Snapshot:
    return replace(snapshot(hands, PLAIN(1), faults=faults), batches=batches)


def test_a_batch_is_written_once_and_is_in_each_body(exposition: Exposition, hands: RenderClock) -> None:
    kept = SampleBatch((AGE(1, "a"), AGE(2, "b"), EVENTS(3, "a")))
    exposition.swap({("a",): batched(hands, kept)})
    written = exposition._slots["a",].parts[1]
    hands.now += 5
    exposition.swap({("a",): batched(hands, SampleBatch((AGE(9, "c"),)), kept)})
    assert exposition._slots["a",].parts[2] is written
    exposition.swap({("a",): batched(hands, kept)})
    assert exposition._slots["a",].parts[1] is written
    hands.now += 14
    assert series(exposition) == [
        'test_age_seconds{who="a"} 1.0',
        'test_age_seconds{who="b"} 2.0',
        'test_events_total{who="a"} 3.0',
        "test_plain 1.0",
    ]


def test_a_batch_expires_like_other_samples_and_its_counters_stay(exposition: Exposition, hands: RenderClock) -> None:
    kept = SampleBatch((AGE(1, "a"), EVENTS(3, "a")))
    exposition.swap({("a",): batched(hands, kept)})
    hands.now += 15
    assert series(exposition) == ['test_events_total{who="a"} 3.0']
    for _ in range(3):
        exposition.swap({("a",): batched(hands, faults=(FAULT,))})
        assert series(exposition) == ['test_events_total{who="a"} 3.0', "test_plain 1.0"]
    exposition.swap({("a",): batched(hands)})
    assert series(exposition) == ["test_plain 1.0"]


def test_one_family_in_two_batches_is_one_family(exposition: Exposition, hands: RenderClock) -> None:
    exposition.swap({("a",): batched(hands, SampleBatch((AGE(1, "a"),)), SampleBatch((AGE(2, "b"), AGE(3, "a"))))})
    assert series(exposition) == ['test_age_seconds{who="a"} 3.0', 'test_age_seconds{who="b"} 2.0', "test_plain 1.0"]


def test_the_samples_of_a_late_batch_are_made_for_the_first_body_and_once(
    exposition: Exposition, hands: RenderClock
) -> None:
    made: list[int] = []

    def make(value: int) -> tuple[Sample, ...]:
        made.append(value)
        return AGE(value, "a"), EVENTS(value, "a")

    batches = [LateBatch(frozenset({AGE, EVENTS}), partial(make, value)) for value in range(4)]
    for batch in batches:
        exposition.swap({("a",): batched(hands, batch)})
        assert batch.of_families((OPEN,)) == ()
    assert made == []
    assert series(exposition) == ['test_age_seconds{who="a"} 3.0', 'test_events_total{who="a"} 3.0', "test_plain 1.0"]
    exposition.body(Format.OPENMETRICS, gzip=True)
    assert batches[3].of_families((AGE,)) == (AGE(3, "a"),)
    assert made == [3]


def test_a_late_batch_that_cannot_be_made_takes_nothing_else_from_the_page(
    exposition: Exposition, hands: RenderClock
) -> None:
    bad = LateBatch(frozenset({AGE}), lambda: [Sample(AGE, (), 1.0)])
    exposition.swap({("a",): batched(hands, bad, SampleBatch((EVENTS(3, "a"),)))})
    assert series(exposition) == ['test_events_total{who="a"} 3.0', "test_plain 1.0"]
    with pytest.raises(ValueError, match="takes the labels"):
        _ = bad.samples


def test_a_batch_takes_no_sample_that_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="takes the labels"):
        SampleBatch((Sample(AGE, (), 1.0),))
    with pytest.raises(TypeError, match="cannot hold"):
        SampleBatch((Sample(OPEN, ("a",), 1.0),))


def test_a_body_is_made_for_each_scrape_and_not_for_each_change_between_two(hands: RenderClock) -> None:
    made: list[Format] = []

    def own(fmt: Format) -> bytes:
        made.append(fmt)
        return b""

    exposition = Exposition(hands.clock(), FAMILIES, own=own)
    for second in range(60):
        hands.now += 1.0
        exposition.swap({("a",): snapshot(hands, AGE(second, "x"))})
        if second % 15 == 14:
            assert exposition.ready(Format.TEXT) is None
            assert f'{{who="x"}} {second}.0' in text(exposition)
    assert len(made) == 4


def test_a_body_is_given_to_further_requests_for_half_a_second(exposition: Exposition, hands: RenderClock) -> None:
    exposition.swap({("a",): snapshot(hands, AGE(1, "x"))})
    made = exposition.body(Format.TEXT)
    exposition.swap({("a",): snapshot(hands, AGE(2, "x"))})
    hands.now += SHARED_SECONDS - 0.01
    assert exposition.ready(Format.TEXT) is made
    hands.now += 0.01
    assert exposition.ready(Format.TEXT) is None
    assert b'{who="x"} 2.0' in exposition.body(Format.TEXT)
    assert b'{who="x"} 2.0' in (exposition.ready(Format.TEXT) or b"")


def test_a_body_that_was_begun_after_the_request_came_answers_it(exposition: Exposition, hands: RenderClock) -> None:
    exposition.swap({("a",): snapshot(hands, AGE(1, "x"))})
    made = exposition.body(Format.TEXT)
    exposition.swap({("a",): snapshot(hands, AGE(2, "x"))})
    assert exposition.body(Format.TEXT, asked=hands.now) is made
    assert b'{who="x"} 2.0' in exposition.body(Format.TEXT, asked=hands.now + 0.01)


def test_a_body_that_is_not_given_any_more_is_not_kept_over_a_change(hands: RenderClock) -> None:
    exposition = Exposition(hands.clock(), FAMILIES, own=lambda _: b"#" * MEGABYTE)
    tracemalloc.start()
    try:
        for fmt in Format:
            assert exposition.ready(fmt) is None
            exposition.body(fmt)
        assert tracemalloc.get_traced_memory()[0] > len(Format) * MEGABYTE
        hands.now += SHARED_SECONDS
        exposition.swap({("a",): snapshot(hands, AGE(2, "x"))})
        assert tracemalloc.get_traced_memory()[0] < MEGABYTE
    finally:
        tracemalloc.stop()
