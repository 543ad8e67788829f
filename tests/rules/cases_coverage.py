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
    first = [counter("_ _ 5x120")]
    yield case(name, "what the first sample has", first, {"1m": [], "2m": [ours], "60m": [ours], "75m": []})
    found = [counter("5x100 stale"), counter("_x110 6x200", agent="new")]
    yield case(name, "or one more", found, {"100m": [], "111m": [ours], "200m": []})
    fewer = [counter("9x100 stale"), counter("_x110 2x60 3x60", agent="new")]
    grown = {"120m": [], "172m": [ours], "220m": [ours], "236m": [ours], "238m": []}
    yield case(name, "a count that began anew grows", fewer, grown)
    yield case(name, "the first sample has one record", [counter("_ _ 1x120")], {"1m": [], "2m": [ours]})
    old = [counter("5x10 stale"), counter("_x180 5x20", agent="new")]  # a step is ten minutes
    yield case(name, "what was found more than a day ago is found again", old, {"28h": [], "30h10m": [ours]}, "10m")
    half = [counter("5x10 stale"), counter("_x100 5x20", agent="new")]
    yield case(name, "half a day ago is known", half, {"17h": []}, "10m")


def _behind() -> Iterator[Case]:
    name, ours = INCOMPLETE, _ours()

    def lag(values: str, cluster: str = "prod", agent: str = "a") -> Series:
        return scraped(TRANSACTION_LOG_TAIL_LAG_RECORDS, cluster, values=values, agent=agent)

    yield case(name, "for ten minutes", [lag("0x5 10001x60")], {"14m": [], "15m": [], "16m": [ours]})
    yield case(name, "ten thousand are not more", [lag("10000x60")], {"30m": []})
    moment = [lag("20000x9 0 20000x9 0 20000x9")]
    yield case(name, "caught up for a moment", moment, {f"{at}m": [] for at in range(29)})
    yield case(name, "it catches up", [lag("20000x15 0x60")], {"15m": [ours], "22m": [ours], "23m": []})


def _dropped() -> Iterator[Case]:
    def dropped(values: str, metric: str = TRANSACTIONS_TOTAL.name, agent: str = "a") -> Series:
        return scraped(SERIES_DROPPED, metric, values=values, agent=agent)

    def ours(metric: str = TRANSACTIONS_TOTAL.name) -> dict[str, str]:
        return {"severity": "warning", "metric": metric}

    yield case(DROPPED, "for half an hour", [dropped("0x5 1x60")], {"40m": [], "41m": [ours()]})
    yield case(DROPPED, "none for a moment", [dropped("5x29 0 5x29")], {"30m": [], "40m": [], "58m": []})
    yield case(DROPPED, "it ends", [dropped("1x40 0x60")], {"47m": [ours()], "48m": []})
    for metric in (OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, LSO_STALLED_SINCE_TIMESTAMP_SECONDS):
        yield case(DROPPED, f"{metric} has the worst by design", [dropped("9x60", metric.name)], {"40m": []})
