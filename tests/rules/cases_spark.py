"""Spark's streaming queries that do not get on."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import (
    SPARK_INPUT_ROWS_TOTAL,
    SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS,
    SPARK_QUERY_STATE,
    SPARK_SOURCE_BLOCKED_OFFSETS,
    SPARK_SOURCE_LAG_OFFSETS,
    SPARK_UNCOMMITTED_BATCHES,
)
from tests.rules.promtool import Case, Series, case, scraped

SLOW = "KafkaEosSparkQueryStalled"
Who = tuple[str, ...]
QUERY: Who = ("prod", "etl", "orders")
NAMES = ("kafka_cluster", "spark_application", "query")


def named(who: Who) -> dict[str, str]:
    return dict(zip(NAMES, who, strict=True))


def progress(values: str, who: Who = QUERY, agent: str = "a", target: str = "log") -> Series:
    metric = SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS
    return scraped(metric, who[0], target, *who[1:], values=values, agent=agent)


def state(values: str, state: str = "running", who: Who = QUERY, agent: str = "a", target: str = "log") -> Series:
    return scraped(SPARK_QUERY_STATE, who[0], target, *who[1:], state, values=values, agent=agent)


def rows(values: str, who: Who = QUERY, agent: str = "a") -> Series:
    return scraped(SPARK_INPUT_ROWS_TOTAL, who[0], "log", *who[1:], values=values, agent=agent)


def uncommitted(values: str, who: Who = QUERY, agent: str = "a") -> Series:
    return scraped(SPARK_UNCOMMITTED_BATCHES, who[0], "checkpoint", *who[1:], values=values, agent=agent)


def lag(values: str, topic: str = "in", who: Who = QUERY, agent: str = "a") -> Series:
    return scraped(SPARK_SOURCE_LAG_OFFSETS, who[0], "log", *who[1:], topic, values=values, agent=agent)


def blocked(values: str, topic: str = "in", who: Who = QUERY, agent: str = "a", target: str = "log") -> Series:
    return scraped(SPARK_SOURCE_BLOCKED_OFFSETS, who[0], target, *who[1:], topic, values=values, agent=agent)


def cases() -> Iterator[Case]:
    yield from _slow()
    yield from _idle()


def _slow() -> Iterator[Case]:
    def ours(who: Who = QUERY) -> dict[str, str]:
        return {"severity": "warning", **named(who)}

    for claimed in ("running", "idle"):
        yield case(
            SLOW,
            f"{claimed}, and silent for more than ten minutes",
            [progress("-1x60"), state("1x60", claimed)],
            {"9m": [], "10m": [ours()]},
        )
    yield case(SLOW, "ten minutes are not more", [progress("0x60"), state("1x60")], {"10m": [], "11m": [ours()]})
    yield case(
        SLOW,
        "a batch that was begun and not committed, by the checkpoint alone",
        [progress("-1x60", target="checkpoint"), uncommitted("1x60")],
        {"9m": [], "10m": [ours()]},
    )
    yield case(
        SLOW,
        "a driver that was killed while there was nothing to read",
        [progress("-1x60"), state("1 1 1 stale"), rows("0x60"), lag("0x60"), blocked("0x60")],
        {"9m": [], "10m": [ours()], "50m": [ours()]},
    )
    yield case(
        SLOW,
        "a driver that was killed: no state any more, and records to read",
        [progress("-1x60"), state("1 1 stale"), lag("0x5 3x60"), blocked("0x60")],
        {"10m": [ours()]},
    )
    yield case(
        SLOW, "a query of uncommitted reads has nothing blocked", [progress("-1x60"), lag("1x60")], {"10m": [ours()]}
    )
    yield case(
        SLOW,
        "of two topics one has more than what is blocked",
        [progress("-1x60"), lag("5x60"), blocked("5x60"), lag("3x60", "more"), blocked("2x60", "more")],
        {"10m": [ours()]},
    )


def _idle() -> Iterator[Case]:
    yield case(
        SLOW, "progress every five minutes", [progress("0x4 300x4 600x4 900x4 1200x4"), state("1x30")], {"20m": []}
    )
    yield case(
        SLOW,
        "an idle query, by its checkpoint alone, has no newer batch",
        [progress("-1x60", target="checkpoint"), uncommitted("0x60"), lag("0x60"), blocked("0x60")],
        {"10m": [], "50m": []},
    )
    for over in ("terminated", "failed"):
        yield case(
            SLOW,
            f"a query that is {over}",
            [progress("-1x60"), state("1x60", over), uncommitted("1x60"), lag("9x60")],
            {"10m": [], "50m": []},
        )
    yield case(
        SLOW, "a query of uncommitted reads at the end of its topic", [progress("-1x60"), lag("0x60")], {"10m": []}
    )
