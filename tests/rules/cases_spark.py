"""Spark's streaming queries: that do not get on, and that an error ended."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import (
    SPARK_INPUT_ROWS_TOTAL,
    SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS,
    SPARK_QUERY_STATE,
    SPARK_QUERY_TERMINATIONS_TOTAL,
    SPARK_SOURCE_BLOCKED_OFFSETS,
    SPARK_SOURCE_LAG_OFFSETS,
    SPARK_UNCOMMITTED_BATCHES,
)
from tests.rules.promtool import Case, Series, case, scraped, spread

SLOW = "KafkaEosSparkQueryStalled"
ENDED = "KafkaEosSparkQueryTerminated"
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
    yield from _ended()
    yield from _pages()


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


def ended(values: str, reason: str = "other", who: Who = QUERY, agent: str = "a") -> Series:
    return scraped(SPARK_QUERY_TERMINATIONS_TOTAL, who[0], "log", *who[1:], reason, values=values, agent=agent)


def is_over(severity: str, who: Who = QUERY) -> dict[str, str]:
    return {"severity": severity, **named(who)}


TICKET, PAGE = is_over("warning"), is_over("critical")


def _ended() -> Iterator[Case]:
    yield case(
        ENDED,
        "it came back between two reads: its first end is not missed, and is a ticket for ten minutes",
        [ended("0 0 1x60"), state("1x60")],
        {"1m": [], "2m": [TICKET], "11m": [TICKET], "12m": []},
    )
    yield case(
        ENDED,
        "it had failed when it was first seen",
        [ended("_ 1 1 1 1"), state("_ 1 1 stale", "failed"), state("_ _ _ 1x60")],
        {"0m": [], "1m": [TICKET], "3m": [TICKET], "12m": [TICKET], "13m": []},
    )
    for reason in ("data_loss", "concurrent_run", "fenced", "kafka", "checkpoint", "user_code", "other"):
        yield case(ENDED, f"by {reason}", [ended("0x5 1x60", reason)], {"5m": [], "6m": [TICKET]})
    yield case(
        ENDED, "stopped on purpose", [ended("0x5 1x60", "stopped"), state("1x60", "terminated")], {"6m": [], "30m": []}
    )
    for other in ("running", "idle", "terminated"):
        yield case(ENDED, f"a query that is {other}", [ended("7x60"), state("1x60", other)], {"0m": [], "30m": []})
    yield case(
        ENDED,
        "each query",
        [*(ended("0x5 1x60", who=who) for who in spread(QUERY)), ended("0x5 1x60", "kafka")],
        {"6m": [is_over("warning", who) for who in spread(QUERY)]},
    )
    yield case(
        ENDED,
        "one ticket for two replicas, one of which restarts",
        [ended("0x5 1x60"), ended("0x5 1 1 stale stale 1x40", agent="b")],
        {"6m": [TICKET], "15m": [TICKET], "16m": []},
    )
    yield case(ENDED, "an agent that restarts counts on", [ended("0x5 1x20 stale stale 1x40")], {"27m": [], "30m": []})


def _pages() -> Iterator[Case]:
    both = [TICKET, PAGE]
    yield case(
        ENDED,
        "failed, and not started again: a page after five minutes",
        [state("_ 1x60", "failed")],
        {"1m": [TICKET], "5m": [TICKET], "6m": both},
    )
    yield case(
        ENDED,
        "each query that stays failed",
        [state("1x60", "failed", who) for who in spread(QUERY)],
        {"5m": [is_over(severity, who) for who in spread(QUERY) for severity in ("warning", "critical")]},
    )
    yield case(
        ENDED,
        "one page",
        [state("1x60", "failed"), state("1x60", "failed", agent="b", target="listener")],
        {"5m": both},
    )
    yield case(
        ENDED,
        "a loop of restarts pages though it runs most of the time",
        [state("1 stale stale " * 10, "failed"), state("_ 1 1 " * 10)],
        {"4m": [TICKET], "5m": both, "20m": both},
    )
    yield case(
        ENDED,
        "failing every fifth minute is a ticket",
        [state("1 stale stale stale stale " * 10, "failed")],
        {"12m": [TICKET], "20m": [TICKET], "30m": [TICKET]},
    )
    gone = state("1x8 stale", "failed")
    yield case(ENDED, "its driver is gone: the page stays", [gone], {"18m": both, "19m": [PAGE], "90m": [PAGE]})
    for claimed in ("running", "idle", "terminated"):
        yield case(ENDED, f"it is {claimed} again", [gone, state("_x20 1x60", claimed)], {"26m": [PAGE], "28m": []})
    whos = spread(QUERY)
    yield case(ENDED, "another one runs", [gone, *(state("1x60", who=who) for who in whos[1:])], {"40m": [PAGE]})
    yield case(
        ENDED,
        "for a day",
        [
            *(state("1x4 stale", "failed", who) for who in whos),
            state("_x40 1x4 stale", "failed", ("new", "new", "new")),
        ],
        {
            "20h": [is_over("critical", who) for who in (*whos, ("new", "new", "new"))],
            "25h": [is_over("critical", ("new", "new", "new"))],
        },
        step="4m",
    )
    late = [state("1x4 stale", "failed"), *(state("_x200 1x4 stale", "failed", who) for who in whos[1:])]
    theirs = [is_over("critical", who) for who in whos[1:]]
    yield case(ENDED, "each for a day of its own", late, {"20h": [PAGE, *theirs], "25h": theirs}, step="4m")
    labels = {"alertname": "Other", "alertstate": "firing", **PAGE}
    yield case(ENDED, "another alert", [Series("ALERTS", labels, "1x90"), state("1 stale", "failed")], {"30m": []})
    once = state("_x20 1x2 stale", "running")
    yield case(ENDED, "it ran again for a moment", [gone, once], {"29m": [], "40m": []})
    yield case(ENDED, "a ticket stays none", [state("1 stale", "failed")], {"12m": []})
