"""The abort ratio: four burn rates, each in steps of a fifth or so of its short window."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from exporter.catalogue import TRANSACTIONS_TOTAL
from tests.rules.promtool import Case, Series, case, scraped, spread

ABORTS = "KafkaEosAbortRatioHigh"
APP = ("prod", "pay")
# window, severity, minutes of a step, steps of: long window, short window, for; share, and steps that it goes on firing
VARIANTS = (
    ("1h", "critical", 1, 60, 5, 2, 0.72, 7),
    ("6h", "critical", 5, 72, 6, 3, 0.3, 0),
    ("1d", "warning", 20, 72, 6, 3, 0.15, 0),
    ("3d", "warning", 60, 72, 6, 3, 0.05, 0),
)


def finished(phases: Sequence[tuple[int, float, float]], app: tuple[str, ...] = APP, agent: str = "a") -> list[Series]:
    """The outcomes of an application. A phase is so many steps, with so many committed and timed out in each."""
    rows: dict[str, list[float]] = {"committed": [0.0], "timed_out": [0.0], "aborted": [0.0], "fenced": [0.0]}
    for steps, committed, lost in phases:
        for _ in range(steps):
            for outcome, more in (("committed", committed), ("timed_out", lost), ("aborted", 0.0), ("fenced", 0.0)):
                rows[outcome].append(rows[outcome][-1] + more)
    return [
        scraped(TRANSACTIONS_TOTAL, *app, outcome, values=" ".join(f"{value:.3f}" for value in row), agent=agent)
        for outcome, row in rows.items()
    ]


def cases() -> Iterator[Case]:
    for variant in VARIANTS:
        yield from _variant(*variant)


def _variant(
    window: str, severity: str, minutes: int, long: int, short: int, hold: int, share: float, keep: int
) -> Iterator[Case]:
    apps = spread(APP)

    def ours(app: tuple[str, ...] = APP) -> dict[str, str]:
        return {"severity": severity, "window": window, "kafka_cluster": app[0], "application": app[1]}

    def of(title: str, series: Iterable[Series], checks: Mapping[int, Sequence[Mapping[str, str]]]) -> Case:
        step = f"{minutes}m" if minutes < 60 else f"{minutes // 60}h"
        return case(f"{ABORTS} {window}", title, series, {f"{at * minutes}m": now for at, now in checks.items()}, step)

    def part(steps: int, of_share: float, traffic: float = 1) -> tuple[int, float, float]:
        return steps, 1000 * traffic * (1 - of_share * share), 1000 * traffic * of_share * share

    over, under = [part(40, 1.02)], [part(40, 0.98)]
    none, fires = (), [ours()]
    yield of("more than its share", finished(over), {hold: none, hold + 1: fires})
    yield of("no more than its share", finished(under), {hold + 1: none, 40: none})
    yield of(
        "a short burst in a time that was well",
        finished([part(long + 10, 0.97), part(short + hold + 2, 1.05)]),
        {long + 10 + short + hold + 2: none},
    )
    yield of(
        "a bad time that is over",
        finished([part(long, 1.05), part(short + 10, 0.97)]),
        {long: fires, long + short + 10: none},
    )
    # What commits and what finishes are counted over the same time, also while there is more and more of it.
    yield of(
        "a short burst while traffic grows",
        finished([part(long // 2, 0.97, 0.01), part(long // 2, 0.97), part(short + hold + 2, 1.05)]),
        dict.fromkeys(range(long // 2 + 2, 2 * (long // 2) + short + hold + 2), none),
    )
    growing = range(long + short + 10, long + short + 10 + short // 2 + hold + 2)
    yield of(
        "a bad time that is over while traffic grows",
        finished([part(long, 1.05), part(short + 10, 0.97), part(len(growing), 0.97, 4)]),
        dict.fromkeys(growing, none),
    )
    crossing = int(share * long) + 1
    yield of(
        "all is lost after a time that was well",
        finished([(2 * long, 1, 0), (long, 0, 1)]),
        {2 * long + crossing + hold - 1: none, 2 * long + crossing + hold: fires},
    )
    well = long + math.ceil(short * (1 - share))
    yield of(
        "it ends when the short window is well",
        finished([(long, 0, 1), (30, 1, 0)]),
        {well + keep - 1: fires, well + keep: none},
    )
    yield of("twenty finished are enough to judge", finished([(40, 0, 1)]), {19 + hold: none, 20 + hold: fires})
    yield of("twenty, in the long window", finished([(2 * long, 0, 0.34)]), {2 * long: fires})
    yield of("fewer than twenty in the long window", finished([(2 * long, 0, 0.25)]), {2 * long: none})
    yield of("nothing finishes", finished([(40, 0, 0)]), {40: none})
    yield of(
        "each application", [each for app in apps for each in finished(over, app)], {20: [ours(app) for app in apps]}
    )
    yield of(
        "each application by its own share",
        [*finished(over), *(each for app in apps[1:] for each in finished(under, app))],
        {20: fires},
    )
    yield of(
        "two replicas see one truth, one alert",
        [*finished(over), *finished(over, agent="b")],
        {hold: none, hold + 1: fires},
    )
    yield of("two replicas do not add up", [*finished(under), *finished(under, agent="b")], {40: none})
    few = [(15, 0, 1), (20, 0, 0)]
    yield of("two replicas count the same fifteen", [*finished(few), *finished(few, agent="b")], {15: none})
    yield of(
        "a replica that has just started knows of nothing",
        [*finished([(40, 0, 1)]), *finished([(40, 0, 0)], agent="b")],
        {20 + hold: fires},
    )
    yield of("replicas that differ go by the worse", [*finished(over), *finished(under, agent="b")], {hold + 1: fires})
    restarted = [(20, *part(1, 0.9)[1:])]
    yield of(
        "an agent that restarts counts from nothing, and adds what it missed",
        [
            *finished([part(60, 0.9)]),
            *(
                replace(each, values=" ".join([*each.values.split()[:15], "stale", *other.values.split()]))
                for each, other in zip(finished(restarted, agent="b"), finished(restarted, agent="b"), strict=True)
            ),
        ],
        dict.fromkeys((15, 16, 17, 18, 25, 35), none),
    )
