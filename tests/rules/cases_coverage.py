"""Caps and grants that are missing."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import (
    LSO_STALLED_SINCE_TIMESTAMP_SECONDS,
    OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    SERIES_DROPPED,
    TRANSACTION_LOG_LOST_RECORDS_TOTAL,
    TRANSACTION_LOG_TAIL_LAG_RECORDS,
    TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL,
    TRANSACTIONS_TOTAL,
)
from exporter.model import Metric
from tests.rules.promtool import Case, Series, case, scraped

INCOMPLETE, DROPPED = "KafkaEosTransactionLogIncomplete", "KafkaEosSeriesDropped"


def cases() -> Iterator[Case]:
    yield from _more(TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL)
    yield from _more(TRANSACTION_LOG_LOST_RECORDS_TOTAL)
    yield from _behind()
    yield from _dropped()


def _ours(cluster: str = "prod") -> dict[str, str]:
    return {"severity": "warning", "kafka_cluster": cluster}


def _more(metric: Metric) -> Iterator[Case]:
    name, ours = INCOMPLETE, _ours()

    def counter(values: str, cluster: str = "prod", agent: str = "a") -> Series:
        return scraped(metric, cluster, values=values, agent=agent)

    yield case(name, "one record", [counter("0x9 1x120")], {"9m": [], "11m": [ours], "65m": [ours], "80m": []})
    yield case(
        name,
        "in each cluster",
        [counter("0x9 1x60", text) for text in ("prod", "other")],
        {"11m": [ours, _ours("other")]},
    )
    yield case(name, "of two replicas one", [counter("0x9 1x60"), counter("0x60", agent="b")], {"11m": [ours]})
    first = [counter("_ _ 5x120")]
    yield case(name, "what the first sample has", first, {"1m": [], "2m": [ours], "60m": [ours], "75m": []})
    both = [counter("_ _ 5x120", agent=agent) for agent in "ab"]
    yield case(name, "of both", both, {"2m": [ours], "75m": []})
    one = [counter("_ _ 5x120"), counter("0x120", agent="b")]
    yield case(name, "of one, and the other finds none", one, {"1m": [], "2m": [ours], "60m": [ours], "75m": []})
    moved = [counter("5x100 stale"), counter("_x110 5x200", agent="new")]
    yield case(
        name, "another agent that reads the same log finds the same", moved, {"100m": [], "115m": [], "140m": []}
    )
    found = [counter("5x100 stale"), counter("_x110 6x200", agent="new")]
    yield case(name, "or one more", found, {"100m": [], "111m": [ours], "200m": []})
    more = [counter("5x100 " + "stale " * 65 + "6x100", agent=agent) for agent in "ab"]
    yield case(name, "or one more of both", more, {"100m": [], "170m": [ours], "260m": []})
    away = [counter("5x100 " + "stale " * 100 + "5x100")]
    yield case(name, "an agent that was away counts on", away, {"201m": [], "250m": []})
    fewer = [counter("9x100 stale"), counter("_x110 2x60 3x60", agent="new")]
    grown = {"120m": [], "172m": [ours], "220m": [ours], "236m": [ours], "238m": []}
    yield case(name, "a count that began anew grows", fewer, grown)
    other = counter("_x110 2x140", agent="b")
    yield case(name, "which one of two replicas sees", [*fewer, other], {"120m": [], "172m": [ours]})
    yield case(name, "the first sample has one record", [counter("_ _ 1x120")], {"1m": [], "2m": [ours]})
    old = [counter("5x10 stale"), counter("_x180 5x20", agent="new")]  # a step is ten minutes
    yield case(name, "what was found more than a day ago is found again", old, {"28h": [], "30h10m": [ours]}, "10m")
    half = [counter("5x10 stale"), counter("_x100 5x20", agent="new")]
    yield case(name, "half a day ago is known", half, {"17h": []}, "10m")
    yield case(name, "none at all", [counter("0x120")], {"1m": [], "60m": [], "100m": []})


def _behind() -> Iterator[Case]:
    name, ours = INCOMPLETE, _ours()

    def lag(values: str, cluster: str = "prod", agent: str = "a") -> Series:
        return scraped(TRANSACTION_LOG_TAIL_LAG_RECORDS, cluster, values=values, agent=agent)

    yield case(name, "for ten minutes", [lag("0x5 10001x60")], {"14m": [], "15m": [], "16m": [ours]})
    yield case(name, "ten thousand are not more", [lag("10000x60")], {"30m": []})
    moment = [lag("20000x9 0 20000x9 0 20000x9")]
    yield case(name, "caught up for a moment", moment, {f"{at}m": [] for at in range(29)})
    scrapes = [lag("20000x4 stale stale 20000x20")]
    yield case(name, "failed scrapes begin nothing anew", scrapes, {"9m": [], "10m": [ours]})
    lags = [lag("20000x60"), lag("20000x60", "other"), lag("5x60", "third")]
    yield case(name, "each cluster", lags, {"20m": [ours, _ours("other")]})
    two = [lag("20000x60"), lag("0x60", agent="b")]
    yield case(name, "one replica of two", two, {"20m": [ours]})
    yield case(name, "two replicas, some thousands each", [lag("6000x60"), lag("6000x60", agent="b")], {"20m": []})
    yield case(name, "it catches up", [lag("20000x15 0x60")], {"15m": [ours], "22m": [ours], "23m": []})


def _dropped() -> Iterator[Case]:
    def dropped(values: str, metric: str = TRANSACTIONS_TOTAL.name, agent: str = "a") -> Series:
        return scraped(SERIES_DROPPED, metric, values=values, agent=agent)

    def ours(metric: str = TRANSACTIONS_TOTAL.name) -> dict[str, str]:
        return {"severity": "warning", "metric": metric}

    yield case(DROPPED, "for half an hour", [dropped("0x5 1x60")], {"40m": [], "41m": [ours()]})
    yield case(DROPPED, "none for a moment", [dropped("5x29 0 5x29")], {"30m": [], "40m": [], "58m": []})
    yield case(DROPPED, "each family", [dropped("1x60"), dropped("1x60", "other")], {"40m": [ours(), ours("other")]})
    yield case(DROPPED, "one replica of two", [dropped("1x60"), dropped("0x60", agent="b")], {"40m": [ours()]})
    yield case(DROPPED, "two replicas", [dropped("1x60"), dropped("1x60", agent="b")], {"40m": [ours()]})
    yield case(DROPPED, "it ends", [dropped("1x40 0x60")], {"47m": [ours()], "48m": []})
    for metric in (OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, LSO_STALLED_SINCE_TIMESTAMP_SECONDS):
        yield case(DROPPED, f"{metric} has the worst by design", [dropped("9x60", metric.name)], {"40m": []})
