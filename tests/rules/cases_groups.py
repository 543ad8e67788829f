"""Lag of consumer groups, against the thresholds that the settings give them, and offsets outside of transactions."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import (
    GROUP_OFFSET_COMMITS_TOTAL,
    GROUP_OFFSET_REWINDS_TOTAL,
    GROUP_READ_COMMITTED_LAG_OFFSETS,
    GROUP_REBALANCES_TOTAL,
    GROUP_THRESHOLD_OFFSETS,
)
from tests.rules.promtool import Case, Series, case, scraped, spread

LAG = "KafkaEosGroupLagHigh"
OUTSIDE = "KafkaEosOffsetsOutsideTransaction"
STORM = "KafkaEosRebalanceStorm"
BACK = "KafkaEosOffsetsMovedBack"
WHO = ("prod", "billing", "orders")


def lag(values: str, who: tuple[str, ...] = WHO, agent: str = "a") -> Series:
    return scraped(GROUP_READ_COMMITTED_LAG_OFFSETS, *who, values=values, agent=agent)


def limit(
    value: str, threshold: str = "lag_warning", who: tuple[str, ...] = WHO[:2], agent: str = "a", more: str = "x60"
) -> Series:
    return scraped(GROUP_THRESHOLD_OFFSETS, *who, threshold, values=f"{value}{more}", agent=agent)


def of(severity: str, who: tuple[str, ...] = WHO) -> dict[str, str]:
    return {"severity": severity, "kafka_cluster": who[0], "group": who[1], "topic": who[2]}


def commits(transactional: str, values: str, who: tuple[str, ...] = WHO, agent: str = "a") -> Series:
    return scraped(GROUP_OFFSET_COMMITS_TOTAL, *who, transactional, values=values, agent=agent)


def outside(*who: str) -> dict[str, str]:
    cluster, group = who or WHO[:2]
    return {"severity": "warning", "kafka_cluster": cluster, "group": group}


def _outside_cases() -> Iterator[Case]:
    inside, plain = commits("true", "0+60x90"), commits("false", "0+12x90")
    yield case(OUTSIDE, "both ways, for a quarter of an hour", [inside, plain], {"15m": [], "16m": [outside()]})
    yield case(OUTSIDE, "in transactions only", [inside, commits("false", "7x90")], {"30m": []})
    yield case(OUTSIDE, "outside only: no group of transactions", [plain, commits("true", "7x90")], {"30m": []})
    yield case(OUTSIDE, "a reset once", [inside, commits("false", "0x20 12x90")], {f"{at}m": [] for at in (29, 31, 36)})
    yield case(
        OUTSIDE,
        "until ten minutes after the last one",
        [inside, commits("false", "0+1x20 20x90")],
        {"29m": [outside()], "31m": []},
    )
    yield case(
        OUTSIDE,
        "an application that commits once in an hour",
        [plain, commits("true", "0x4 0.5x120")],
        {"21m": [outside()], "63m": [outside()], "67m": []},
    )
    others = ("other", WHO[1], WHO[2]), (WHO[0], "other", WHO[2])
    yield case(
        OUTSIDE,
        "two groups, and two clusters, are not one",
        [inside, *(commits("false", "0+12x90", who) for who in others)],
        {"30m": []},
    )
    yield case(
        OUTSIDE,
        "each by itself",
        [commits(text, "0+5x90", who) for text in ("true", "false") for who in ((*WHO,), *others)],
        {"16m": [outside(), outside("other", WHO[1]), outside(WHO[0], "other")]},
    )
    yield case(
        OUTSIDE,
        "another topic, and another agent, count as well",
        [inside, commits("false", "0x90"), commits("false", "0+1x90", (*WHO[:2], "refunds"), agent="b")],
        {"16m": [outside()]},
    )
    yield case(
        OUTSIDE,
        "a failed scrape does not begin anew",
        [inside, commits("false", "0 12 24 stale stale 60+12x90")],
        {"16m": [outside()]},
    )


def _storm() -> Iterator[Case]:
    who = ("prod", "pay", "classic")

    def rebalances(values: str, of_group: tuple[str, ...] = who, agent: str = "a") -> Series:
        return scraped(GROUP_REBALANCES_TOTAL, *of_group, values=values, agent=agent)

    def ticket(cluster: str = "prod", group: str = "pay") -> dict[str, str]:
        return {"severity": "warning", "kafka_cluster": cluster, "group": group}

    yield case(STORM, "one a minute", [rebalances("0+1x60")], {"9m": [], "20m": [ticket()], "60m": [ticket()]})
    yield case(STORM, "every second minute", [rebalances("0 0 1 1 2 2 3 3 4 4 5 5 6 6 7 7x60")], {"15m": [], "20m": []})
    yield case(STORM, "exactly ten", [rebalances("0+0x5 5 10x60")], {"15m": [], "17m": []})
    yield case(STORM, "eleven", [rebalances("0x20 11x60")], {"22m": [ticket()]})
    yield case(STORM, "many before the agent's start", [rebalances("500x60")], {"15m": [], "40m": []})
    rebalanced = [rebalances("0+1x60", ("prod", "ship", "consumer")), rebalances("0+1x60", ("other", *who[1:]))]
    yield case(
        STORM,
        "each group",
        [rebalances("0+1x60"), *rebalanced],
        {"20m": [ticket(), ticket(group="ship"), ticket("other")]},
    )
    two = [rebalances("0 " * 5 + "7x60"), rebalances("0 " * 5 + "7x60", agent="b")]
    yield case(STORM, "two replicas count once", two, {"15m": []})
    late = [rebalances("0x5 12x60"), rebalances("12x60", agent="b")]
    yield case(STORM, "seen by one replica", late, {"10m": [ticket()]})
    yield case(STORM, "over", [rebalances("0x5 50x60")], {"27m": [ticket()], "28m": []})


def _moved_back() -> Iterator[Case]:
    def moves(values: str, who: tuple[str, ...] = WHO, agent: str = "a") -> Series:
        return scraped(GROUP_OFFSET_REWINDS_TOTAL, *who, values=values, agent=agent)

    yield case(BACK, "one in ten minutes", [moves("0 " + "0x9 1x9 2x9 3x9 4x99")], {"39m": [], "42m": [of("warning")]})
    yield case(BACK, "exactly three", [moves("0x5 3x99")], {"10m": [], "40m": []})
    yield case(BACK, "four", [moves("0x5 4x99")], {"7m": [of("warning")], "60m": [of("warning")]})
    yield case(BACK, "over", [moves("0x5 9x120")], {"72m": [of("warning")], "73m": []})
    yield case(BACK, "many before the first scrape", [moves("50x90")], {"30m": []})
    apart = spread(WHO)
    yield case(
        BACK,
        "each group and topic",
        [moves("0x5 4x60", who) for who in apart],
        {"10m": [of("warning", who) for who in apart]},
    )
    yield case(BACK, "few of each", [moves("0x5 2x60", who) for who in apart], {"10m": []})
    yield case(BACK, "two replicas count once", [moves("0x5 2x60"), moves("0x5 2x60", agent="b")], {"10m": []})
    yield case(BACK, "seen by one", [moves("0x5 4x60"), moves("4x60", agent="b")], {"10m": [of("warning")]})
    yield case(BACK, "a restart of the agent", [moves("0x5 2x5 0x5 2x60")], {"25m": [of("warning")]})


def cases() -> Iterator[Case]:
    yield from _outside_cases()
    yield from _storm()
    yield from _moved_back()
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
