"""Readers that are late: by an objective, and compared with the day before."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import IGNORED_INFO, TOPIC_THRESHOLD_SECONDS, TOPIC_WITHHELD_RECORD_AGE_SECONDS
from tests.rules.promtool import Case, Series, case, scraped, spread

OBJECTIVE, UNUSUAL = "KafkaEosReadersLate objective", "KafkaEosReadersLate unusual"
TOPIC = ("prod", "orders")
SAWTOOTH = "0 60 120 180 "
"""A step is a minute: transactions of four minutes, one after the other."""


def cases() -> Iterator[Case]:
    yield from _objective()
    yield from _unusual()


def age(values: str, topic: tuple[str, ...] = TOPIC, agent: str = "a") -> Series:
    return scraped(TOPIC_WITHHELD_RECORD_AGE_SECONDS, *topic, values=values, agent=agent)


def within(seconds: int, topic: tuple[str, ...] = TOPIC, agent: str = "a", threshold: str = "fresh_within") -> Series:
    return scraped(TOPIC_THRESHOLD_SECONDS, *topic, threshold, values=f"{seconds}x2000", agent=agent)


def late(reason: str, topic: tuple[str, ...] = TOPIC) -> dict[str, str]:
    return {"severity": "warning", "reason": reason, "kafka_cluster": topic[0], "topic": topic[1]}


def ignored(kind: str = "topic", subject: str = "orders", cluster: str = "prod", values: str = "1x2000") -> Series:
    return scraped(IGNORED_INFO, cluster, kind, subject, "a playground", values=values)


def _objective() -> Iterator[Case]:
    ours = late("objective")
    steady = [age("61x300"), within(60)]
    both = [*steady, age("61x300", agent="b"), within(60, agent="b")]
    yield case(OBJECTIVE, "later than its threshold", both, {"1m": [], "2m": [ours], "200m": [ours]})
    yield case(OBJECTIVE, "as late as its threshold", [age("60x300"), within(60)], {"5m": [], "200m": []})
    yield case(OBJECTIVE, "it has no threshold", [age("9999x300"), within(60, threshold="stall_warning")], {"200m": []})
    one = [age("0x300"), within(60), age("61x300", agent="b"), within(60, agent="b")]
    yield case(OBJECTIVE, "by one of two agents", one, {"9m": [ours]})
    halves = [series for agent in "ab" for series in (age("40x300", agent=agent), within(60, agent=agent))]
    yield case(OBJECTIVE, "two agents, whose sum is later than its threshold", halves, {"9m": [], "200m": []})
    unread = [age("61x300"), within(60), within(90, agent="b")]
    yield case(OBJECTIVE, "an agent has another threshold yet", unread, {"9m": []})
    topics = spread(TOPIC)
    every = [series for topic in topics for series in (age("61x300", topic), within(60, topic))]
    yield case(OBJECTIVE, "each topic", every, {"9m": [late("objective", topic) for topic in topics]})
    yield case(OBJECTIVE, "it is ignored", [*steady, ignored()], {"200m": []})
    other = [ignored("application"), ignored(subject="refunds"), ignored(cluster="other")]
    yield case(OBJECTIVE, "others are ignored", [*steady, *other], {"9m": [ours]})
    rare = [age("0x99 61 " * 12), within(60)]
    yield case(
        OBJECTIVE, "for a minute in a hundred: as often as it may", rare, {f"{at}m": [] for at in range(105, 1100, 90)}
    )
    fast = [age("0x1500 61x9 0x100"), within(60)]
    yield case(OBJECTIVE, "for nine minutes of an hour", fast, {"1505m": [], "1511m": [ours], "1530m": []})
    short = [age("0x1500 61x6 0x100"), within(60)]
    yield case(OBJECTIVE, "for seven minutes of an hour, once", short, {f"{at}m": [] for at in range(1500, 1540)})
    six = [age("0x720 " + ("61 61 " + "0x17 ") * 40), within(60)]
    yield case(OBJECTIVE, "for a tenth of six hours", six, {"740m": [], "1100m": [ours]})
    days = [age("0 0 0 0 0 0 61 " * 120), within(60)]
    yield case(OBJECTIVE, "in one of seven looks, for days", days, {"100h": [ours]}, "10m")
    rare = [age("0x440 " + "61 0 0 0 0 0 " * 3 + "0x30"), within(60)]
    yield case(OBJECTIVE, "for three of 37 looks in six hours, after days", rare, {"4540m": [ours]}, "10m")
    hour = [age("0x440 61x5 0x60"), within(60)]
    yield case(OBJECTIVE, "for an hour, eight hours ago", hour, {"4460m": [ours], "4940m": []}, "10m")


def _unusual() -> Iterator[Case]:
    ours = late("unusual")
    before = "5x1499 "
    hours = [series for agent in "ab" for series in (age(before + SAWTOOTH * 150, agent=agent),)]
    times = {"1500m": [], "1530m": [], "1600m": [ours], "1800m": [ours], "2090m": [ours]}
    yield case(UNUSUAL, "four-minute transactions back to back, for hours", hours, times)
    yield case(UNUSUAL, "as every day", [age(SAWTOOTH * 900)], {f"{at}m": [] for at in range(100, 3500, 150)})
    yield case(UNUSUAL, "on a first day, as ever", [age(SAWTOOTH * 200)], {f"{at}m": [] for at in range(60, 800, 60)})
    new = [age("5x299 " + SAWTOOTH * 150)]
    yield case(UNUSUAL, "on a first day, after five hours", new, {"300m": [], "400m": [ours], "450m": [ours]})
    yield case(UNUSUAL, "a minute", [age(before + "60x400")], {"1600m": [], "1800m": []})
    yield case(UNUSUAL, "more than a minute", [age(before + "61x400")], {"1600m": [ours]})
    three = [age("30x1499 90x400")]
    yield case(UNUSUAL, "three times as late as before", three, {"1600m": [], "1800m": []})
    yield case(UNUSUAL, "more than three times as late as before", [age("30x1499 91x400")], {"1600m": [ours]})
    first = [age("30x299 90x200")]
    yield case(UNUSUAL, "on a first day, three times as late as before", first, {"395m": [], "410m": []})
    burst = [age(before + "200x11 5x200")]
    yield case(UNUSUAL, "for twelve minutes", burst, {f"{at}m": [] for at in range(1500, 1700, 10)})
    topics = spread(TOPIC)
    every = [age(before + "100x400", topic) for topic in topics]
    yield case(UNUSUAL, "each topic", every, {"1700m": [late("unusual", topic) for topic in topics]})
    yield case(UNUSUAL, "it is ignored", [age(before + "100x400"), ignored()], {"1700m": []})
    yield from _nights()
    ends = [age(before + "100x200 5x300")]
    yield case(UNUSUAL, "and then as before", ends, {"1690m": [ours], "1770m": []})


def _nights() -> Iterator[Case]:
    """One long transaction a day, which withholds records for 20 minutes. A step is ten minutes."""
    ours, last = late("unusual"), 3 * 1440
    night = "0x140 300 600 0 "
    minutes = range(1410, 1490, 10)
    every: dict[str, list[dict[str, str]]] = {f"{1440 * day + minute}m": [] for day in (1, 2, 3) for minute in minutes}
    yield case(UNUSUAL, "every night", [age(night * 5)], every, "10m")
    longer = [age(night * 3 + "0x140 1500 2400 0x20")]
    yield case(UNUSUAL, "more than three times as late as in other nights", longer, {f"{last + 1450}m": [ours]}, "10m")
    less = [age(night * 3 + "0x140 900 1799 0x20")]
    yield case(UNUSUAL, "three times as late as in other nights", less, {f"{last + 1450}m": []}, "10m")
    noon = [age(night * 3 + "0x110 300 600 0x60")]
    yield case(UNUSUAL, "at another time than every night", noon, {f"{last + 1150}m": [ours]}, "10m")
    earlier = [age(night * 3 + "0x128 300 600 0x60")]
    silent: dict[str, list[dict[str, str]]] = {f"{last + minute}m": [] for minute in range(1320, 1360, 10)}
    yield case(UNUSUAL, "two hours earlier than every night", earlier, silent, "10m")
