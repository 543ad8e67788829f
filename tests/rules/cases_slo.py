"""Readers that are late: by an objective, and compared with the day before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from exporter.catalogue import IGNORED_INFO, TOPIC_THRESHOLD_SECONDS, TOPIC_WITHHELD_RECORD_AGE_SECONDS
from tests.rules.promtool import Case, Series, case, scraped

LATE = "KafkaEosReadersLate"
TOPIC = ("prod", "orders")
SAWTOOTH = "0 60 120 180 "
"""A step is a minute: transactions of four minutes, one after the other."""


def cases() -> Iterator[Case]:
    yield from _objective()
    yield from _unusual()
    yield from _nights()


def age(values: str, topic: tuple[str, ...] = TOPIC, agent: str = "a") -> Series:
    return scraped(TOPIC_WITHHELD_RECORD_AGE_SECONDS, *topic, values=values, agent=agent)


def within(seconds: int, topic: tuple[str, ...] = TOPIC, agent: str = "a", threshold: str = "fresh_within") -> Series:
    return scraped(TOPIC_THRESHOLD_SECONDS, *topic, threshold, values=f"{seconds}x2000", agent=agent)


def late(topic: tuple[str, ...] = TOPIC) -> dict[str, str]:
    return {"severity": "warning", "kafka_cluster": topic[0], "topic": topic[1]}


def ignored(kind: str = "topic", subject: str = "orders", cluster: str = "prod") -> Series:
    return scraped(IGNORED_INFO, cluster, kind, subject, "a playground", values="1x2000")


def silent(times: Iterable[int]) -> dict[str, list[dict[str, str]]]:
    return {f"{at}m": [] for at in times}


def _objective() -> Iterator[Case]:
    """A step is a minute; ages stay below a minute where the comparison with the day before must not judge them."""
    ours = late()
    steady = [age("21x300"), within(20)]
    both = [*steady, age("21x300", agent="b"), within(20, agent="b")]
    yield case(LATE, "later than its threshold", both, {"4m": [], "5m": [ours], "200m": [ours]})
    yield case(LATE, "as late as its threshold", [age("20x300"), within(20)], {"9m": [], "200m": []})
    yield case(LATE, "it has no threshold", [age("50x300"), within(20, threshold="stall_warning")], {"200m": []})
    yield case(LATE, "it is ignored", [*steady, ignored()], {"200m": []})
    rare = [age("0x99 21 " * 12), within(20)]
    yield case(LATE, "for a minute in a hundred: as often as it may", rare, silent(range(105, 1100, 90)))
    fast = [age("0x1500 21x12 0x100"), within(20)]
    yield case(LATE, "for thirteen minutes of an hour", fast, {"1505m": [], "1516m": [ours], "1545m": []})
    days = [age("0 0 0 0 0 0 0 0 0 0 0 21 " * 70), within(20)]
    yield case(LATE, "in one of twelve looks, for days", days, {"100h": [ours]}, "10m")


def _unusual() -> Iterator[Case]:
    ours = late()
    before = "5x1499 "
    hours = [age(before + SAWTOOTH * 150, agent=agent) for agent in "ab"]
    yield case(
        LATE, "four-minute transactions back to back, for hours", hours, {"1500m": [], "1600m": [ours], "2090m": [ours]}
    )
    yield case(LATE, "as every day", [age(SAWTOOTH * 900)], silent(range(100, 3500, 150)))
    yield case(LATE, "on a first day, as ever", [age(SAWTOOTH * 200)], silent(range(60, 800, 60)))
    new = [age("5x299 " + SAWTOOTH * 150)]
    yield case(LATE, "on a first day, after five hours", new, {"300m": [], "400m": [ours], "450m": [ours]})
    yield case(LATE, "a minute", [age(before + "60x400")], {"1600m": [], "1800m": []})
    yield case(LATE, "more than a minute", [age(before + "61x400")], {"1600m": [ours]})
    yield case(LATE, "three times as late as before", [age("30x1499 90x400")], {"1600m": [], "1800m": []})


def _nights() -> Iterator[Case]:
    """One long transaction a day, which withholds records for 20 minutes. A step is ten minutes."""
    last = 3 * 1440
    night = "0x140 300 600 0 "
    minutes = range(1410, 1490, 10)
    yield case(
        LATE,
        "every night",
        [age(night * 5)],
        silent(1440 * day + minute for day in (1, 2, 3) for minute in minutes),
        "10m",
    )
    earlier = [age(night * 3 + "0x128 300 600 0x60")]
    yield case(LATE, "two hours earlier than every night", earlier, silent(range(last + 1320, last + 1360, 10)), "10m")
