"""Whatever sources give, prometheus_client's own parsers read back exactly that."""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter.bounds.text import printable_identity
from exporter.exposition.render import Exposition
from exporter.exposition.text_format import SERIES_AT_ONCE, Format, block
from exporter.model import Distribution, Kind, Metric, Sample, Snapshot

GAUGE = Metric("t_gauge", Kind.GAUGE, 'A gauge\\n, "quoted"\nand broken.', ("one", "two"))
COUNTER = Metric("t_events_total", Kind.COUNTER, "A counter.", ("one",))
HISTOGRAM = Metric("t_seconds", Kind.HISTOGRAM, "A histogram.", ("one",), buckets=(0.5, 2.5))
SUMMARY = Metric("t_wait_seconds", Kind.SUMMARY, "A summary.", ("one",))
FAMILIES = (GAUGE, COUNTER, HISTOGRAM, SUMMARY)

LABEL = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ['"', "\\", "\n", "\\n", '\\"', "a,b", "}", "{", 'x="y"', "\r", "\x00", "\u2028", "\x85", " "]
)
NUMBER = st.floats() | st.integers() | st.integers(-(2**80), 2**80) | st.just(1.8e9)
COUNT = st.floats(0, 1e300) | st.integers(0, 2**70)


@st.composite
def histograms(draw: st.DrawFn) -> Distribution:
    first, second, rest = (draw(st.integers(0, 10**6)) for _ in range(3))
    total = draw(st.floats(0, 1e9))
    return Distribution(((0.5, first), (2.5, first + second)), first + second + rest, total)


@st.composite
def summaries(draw: st.DrawFn) -> Distribution:
    total = draw(st.none() | st.floats(0, 1e9))
    return Distribution(
        ((0.5, draw(st.floats(0, 1e9))), (0.99, draw(st.floats(0, 1e9)))), draw(st.integers(0, 99)), total
    )


SAMPLES = st.lists(
    st.builds(GAUGE, NUMBER, LABEL, LABEL)
    | st.builds(COUNTER, COUNT, LABEL)
    | st.builds(HISTOGRAM, histograms(), LABEL)
    | st.builds(SUMMARY, summaries(), LABEL),
    max_size=12,
    unique_by=lambda sample: (sample.metric.name, sample.labels),
)


def expected(samples: Iterable[Sample]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return what a parser must find: flat samples by name and labels."""
    found = {}
    for metric, values, value in samples:
        labels = dict(zip(metric.labels, map(printable_identity, values), strict=True))
        for name, extra, number in _flat(metric, value):
            found[name, frozenset((labels | extra).items())] = float(number)
    return found


def _flat(metric: Metric, value: Any) -> Iterable[tuple[str, dict[str, str], float]]:
    if not isinstance(value, Distribution):
        yield metric.name, {}, value
        return
    suffix, label = ("_bucket", "le") if metric.kind is Kind.HISTOGRAM else ("", "quantile")
    for step, reached in value.steps:
        yield metric.name + suffix, {label: str(step)}, reached
    if metric.kind is Kind.HISTOGRAM:
        yield metric.name + suffix, {label: "+Inf"}, value.count
    yield metric.name + "_count", {}, value.count
    if value.total is not None:
        yield metric.name + "_sum", {}, value.total


def parsed(families: Iterable[Any]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, "a series stands there twice"
            found[key] = sample.value
    return found


def same(left: dict[Any, float], right: dict[Any, float]) -> bool:
    return left.keys() == right.keys() and all(
        value == right[key] or (math.isnan(value) and math.isnan(right[key])) for key, value in left.items()
    )


def exposed(samples: Iterable[Sample], fmt: Format) -> str:
    """The body after two swaps, so that what the second takes over from the first is seen too."""
    exposition = Exposition(families=FAMILIES)
    for _ in range(2):
        now = exposition.clock.monotonic()
        exposition.swap({("a",): Snapshot("s", "t", "c", 60.0, tuple(samples), (), (), 0.0, now, now)})
    body = exposition.body(fmt)
    assert gzip.decompress(exposition.body(fmt, gzip=True)) == body
    return body.decode()


@given(SAMPLES)
def test_the_text_parser_reads_back_what_was_given(samples: list[Sample]) -> None:
    assert same(parsed(parse_text(exposed(samples, Format.TEXT))), expected(samples))


@given(SAMPLES)
def test_the_openmetrics_parser_reads_back_what_was_given(samples: list[Sample]) -> None:
    assert same(parsed(parse_openmetrics(exposed(samples, Format.OPENMETRICS))), expected(samples))  # type: ignore[no-untyped-call]


@given(st.lists(SAMPLES, min_size=2, max_size=4))
def test_no_series_stands_there_twice_whatever_several_sources_give(reads: list[list[Sample]]) -> None:
    exposition = Exposition(families=FAMILIES)
    now = exposition.clock.monotonic()
    exposition.swap(
        {
            (str(number),): Snapshot("s", "t", "c", 60.0, tuple(samples), (), (), 0.0, now, now)
            for number, samples in enumerate(reads)
        }
    )
    last_wins = {(sample.metric.name, sample.labels): sample for samples in reads for sample in samples}
    body = exposition.body(Format.OPENMETRICS).decode()
    assert same(parsed(parse_openmetrics(body)), expected(last_wins.values()))  # type: ignore[no-untyped-call]


def test_many_new_series_are_written_in_their_order_whichever_of_them_are_escaped_or_known() -> None:
    series = [(f"{number}%s", "plain") for number in range(3 * SERIES_AT_ONCE)]
    known = block(GAUGE, dict.fromkeys(series[::7], 1.0))
    series[SERIES_AT_ONCE + 1] = ('a "quote"', "plain")
    lines = block(GAUGE, dict.fromkeys(series, 2.0), known).piece.data.decode().splitlines()
    escaped = [one.replace('"', r"\"") for one, _ in series]
    assert lines == [f't_gauge{{one="{one}",two="plain"}} 2.0' for one in escaped]
