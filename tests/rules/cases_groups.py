"""Lag of consumer groups, against the thresholds that the settings give them."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import GROUP_READ_COMMITTED_LAG_OFFSETS, GROUP_THRESHOLD_OFFSETS
from tests.rules.promtool import Case, Series, case, scraped, spread

LAG = "KafkaEosGroupLagHigh"
WHO = ("prod", "billing", "orders")


def lag(values: str, who: tuple[str, ...] = WHO, agent: str = "a") -> Series:
    return scraped(GROUP_READ_COMMITTED_LAG_OFFSETS, *who, values=values, agent=agent)


def limit(
    value: str, threshold: str = "lag_warning", who: tuple[str, ...] = WHO[:2], agent: str = "a", more: str = "x60"
) -> Series:
    return scraped(GROUP_THRESHOLD_OFFSETS, *who, threshold, values=f"{value}{more}", agent=agent)


def of(severity: str, who: tuple[str, ...] = WHO) -> dict[str, str]:
    return {"severity": severity, "kafka_cluster": who[0], "group": who[1], "topic": who[2]}


def cases() -> Iterator[Case]:
    for severity in ("warning", "critical"):
        name = f"lag_{severity}"
        ours = of(severity)
        yield case(LAG, f"{severity}, for five minutes", [lag("11x60"), limit("10", name)], {"4m": [], "5m": [ours]})
        yield case(LAG, f"{severity}, no more than it", [lag("10x60"), limit("10", name)], {"30m": []})
        yield case(
            LAG,
            f"{severity}, each group and topic, by its own threshold",
            [
                *(lag("11x60", who) for who in spread(WHO)),
                limit("10", name),
                limit("100", name, ("prod", "other")),
                limit("1", name, ("other", "billing")),
            ],
            {"6m": [ours, of(severity, ("prod", "billing", "other")), of(severity, ("other", *WHO[1:]))]},
        )
        yield case(
            LAG,
            f"{severity}, a failed scrape does not begin anew",
            [lag("11 11 stale stale 11x60"), limit("10", name)],
            {"5m": [ours]},
        )
        yield case(
            LAG,
            f"{severity}, a failed scrape of the threshold does not either",
            [lag("11x60"), limit("10", name, more=" 10 stale stale 10x60")],
            {"5m": [ours]},
        )
        yield case(
            LAG,
            f"{severity}, a threshold that is lowered counts at once",
            [lag("50x60"), limit("100", name, more="x10 10x60")],
            {"15m": [], "16m": [ours]},
        )
        yield case(
            LAG,
            f"{severity}, a threshold that is raised counts at once",
            [lag("50x60"), limit("10", name, more="x10 100x60")],
            {"17m": [ours], "18m": []},
        )
        yield case(
            LAG,
            f"{severity}, three minutes of failed scrapes do",
            [lag("11 11 stale stale stale stale 11x60"), limit("10", name)],
            {"10m": [], "11m": [ours]},
        )
        yield case(
            LAG,
            f"{severity}, an agent that is away for three minutes",
            [lag("11x60"), limit("10", name, more=" 10 stale stale stale stale 10x60")],
            {"10m": [], "11m": [ours]},
        )
        yield case(
            LAG,
            f"{severity}, two replicas, one of which read it before",
            [lag("11x60"), lag("3x60", agent="b"), limit("10", name), limit("10", name, agent="b")],
            {"6m": [ours]},
        )
        yield case(
            LAG,
            f"{severity}, two replicas do not add up",
            [lag("9x60"), lag("9x60", agent="b"), limit("10", name), limit("10", name, agent="b")],
            {"6m": [], "30m": []},
        )
        yield case(
            LAG,
            f"{severity}, a replica has not reread a larger threshold yet",
            [lag("11x60"), limit("10", name), limit("12", name, agent="b")],
            {"6m": [], "30m": []},
        )
        yield case(
            LAG,
            f"{severity}, it grew, and is less again",
            [lag("3x5 11x9 3x60"), limit("10", name)],
            {"10m": [], "11m": [ours], "22m": [ours], "23m": []},
        )
        yield case(
            LAG,
            f"{severity}, two thresholds of one group add up to nothing",
            [lag("11x60"), limit("10", name), limit("10", name, agent="b")],
            {"6m": [ours]},
        )
    yield case(LAG, "no threshold", [lag("1000000x60")], {"30m": []})
