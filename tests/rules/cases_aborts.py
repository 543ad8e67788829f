"""The share that does not commit, judged plainly or as a budget that burns, and applications that stopped."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from exporter.catalogue import (
    APPLICATION_THRESHOLD_RATIO,
    APPLICATION_THRESHOLD_SECONDS,
    IGNORED_INFO,
    LAST_TRANSACTION_TIMESTAMP_SECONDS,
    TRANSACTIONS_TOTAL,
)
from tests.rules.promtool import Case, Series, case, scraped, spread

ABORTS, SILENT = "KafkaEosAbortRatioHigh", "KafkaEosApplicationSilent"
APP = ("prod", "pay")
Who = tuple[str, ...]
Phase = tuple[int, float, float]
# window, severity, minutes of a step, steps of the short and of the long window, for in steps, share, budget
VARIANTS = (
    ("1h", "critical", 1, 15, 60, 2, 0.10, 0.05),
    ("1h", "critical", 1, 15, 60, 2, 0.144, 0.01),
    ("1h", "warning", 1, 15, 60, 15, 0.05, 0.05),
    ("6h", "critical", 5, 6, 72, 3, 0.06, 0.01),
    ("1d", "warning", 20, 6, 72, 3, 0.03, 0.01),
    ("6h", "warning", 5, 6, 72, 3, 0.10, 0.05),
    ("1d", "warning", 20, 6, 72, 3, 0.10, 0.05),
    ("3d", "warning", 60, 6, 72, 1, 0.05, 0.05),
)


def finished(phases: Sequence[Phase], app: Who = APP, agent: str = "a", after: int = 0) -> list[Series]:
    """The outcomes of an application. A phase is so many steps, with so many committed and timed out in each."""
    rows: dict[str, list[float]] = {"committed": [0.0], "timed_out": [0.0], "aborted": [0.0], "fenced": [0.0]}
    for steps, committed, lost in phases:
        for _ in range(steps):
            for outcome, more in (("committed", committed), ("timed_out", lost), ("aborted", 0.0), ("fenced", 0.0)):
                rows[outcome].append(rows[outcome][-1] + more)
    return [
        scraped(
            TRANSACTIONS_TOTAL,
            *app,
            outcome,
            values="_ " * after + " ".join(f"{value:.3f}" for value in row),
            agent=agent,
        )
        for outcome, row in rows.items()
    ]


def budget(share: float, app: Who = APP, agent: str = "a") -> Series:
    return scraped(APPLICATION_THRESHOLD_RATIO, *app, "unclean", values=f"{share:g}x500", agent=agent)


def mixed(
    short: int, long: int, hold: int, of_short: float, of_long: float, app: Who = APP, agent: str = "a"
) -> list[Series]:
    """So many are lost of the short and of the long window, from step ``long`` on for ``hold`` steps."""
    around = short + hold + 2
    inside = long - around
    lost = (of_long * long - of_short * around) / inside
    assert 0 <= lost <= 1
    ends = (2800.0 * (1 - of_short), 2800.0 * of_short)
    return finished(
        [(hold + 2, *ends), (inside, 2800.0 * (1 - lost), 2800.0 * lost), (short + hold, *ends), (40, 2800.0, 0)],
        app,
        agent,
    )


def silent(times: Iterable[int]) -> dict[str, list[dict[str, str]]]:
    return {f"{at}m": [] for at in times}


def cases() -> Iterator[Case]:
    for variant in VARIANTS:
        yield from _variant(*variant)
    yield from _budgets()
    yield from _pods()
    yield from _small()
    yield from _many()
    yield from _never()
    yield from _silent()
    yield from _first_day()
    yield from _weeks()


def _variant(
    window: str, severity: str, minutes: int, short: int, long: int, hold: int, share: float, allowed: float
) -> Iterator[Case]:
    def ours(app: Who = APP) -> dict[str, str]:
        return {"severity": severity, "window": window, "kafka_cluster": app[0], "application": app[1]}

    def of(title: str, series: Iterable[Series], checks: Mapping[int, bool], apps: Sequence[Who] = (APP,)) -> Case:
        """Return what fires of this severity; of the other severity of the window there are cases of its own."""
        series = list(series)
        given = any(given_series.metric == APPLICATION_THRESHOLD_RATIO.name for given_series in series)
        budgets = [] if given else [budget(allowed, app) for app in apps]
        times = {f"{at * minutes}m": ([ours(app) for app in apps] if now else []) for at, now in checks.items()}
        words = f"{severity} {allowed:g}: {title}"
        return case(
            f"{ABORTS} {window}", words, [*series, *budgets], _both(times, severity, share, title), f"{minutes}m"
        )

    def part(steps: int, of_share: float, traffic: float = 1000) -> Phase:
        return steps, traffic * (1 - of_share * share), traffic * of_share * share

    more, less = [part(long + 40, 1.02)], [part(long + 40, 0.98)]
    yield of("more than its share", finished(more), {hold: False, hold + 2: True})
    if severity == "critical" or window != "1h":
        yield of("no more than its share", finished(less), {hold + 1: False, long: False})
    yield of(
        "a bad time that is over",
        finished([part(long, 1.05), part(short + 20, 0.0)]),
        {long: True, long + short + 15: False},
    )
    apps = spread(APP)
    yield of("each application", [series for app in apps for series in finished(more, app)], {20: True}, apps)
    few = [(4, 0, 1.0), (200, 0, 0)]
    yield of("four finished are too few to judge", finished(few), {4: False, 8: False, 20: False})
    both = [(12 if window != "3d" else 8, 0, 1.0), (200, 0, 0)]
    twice = [*finished(both), *finished(both, agent="b")]
    yield of("two replicas count the same few", twice, {12: False, 16: False, 20: False})
    if allowed < 0.02:  # else both severities are judged
        yield of("twenty finished are enough to judge", finished([(60, 0, 1)]), {19 + hold: False, 20 + hold: True})
        keep = 7 if window == "1h" else 0
        well = long + math.ceil(short * (1 - share)) + keep
        yield of(
            "it ends when the short window is well", finished([(long, 0, 1), (40, 1, 0)]), {well - 1: True, well: False}
        )
    yield of("nothing finishes", finished([(80, 0, 0)]), {40: False})
    if allowed < 0.02:
        yield from _windows(of, short, long, hold, share, 8 if window == "1h" else 1)


def _windows(
    of: Callable[[str, Iterable[Series], Mapping[int, bool]], Case],
    short: int,
    long: int,
    hold: int,
    share: float,
    keeps: int,
) -> Iterator[Case]:
    """Both windows must be bad, each by its own events, whatever the traffic does."""
    after = range(long + hold, long + hold + 1)
    yield of(
        "the short window is not bad",
        mixed(short + keeps, long, hold, 0.95 * share, 1.5 * share),
        dict.fromkeys(after, False),
    )
    yield of(
        "the long window is not bad", mixed(short, long, hold, 1.5 * share, 0.95 * share), dict.fromkeys(after, False)
    )
    yield from _no_more(of, short, long, hold, {0.144: 14.4, 0.06: 6.0, 0.03: 3.0}[share], keeps)
    well = range(long + short + keeps, long + 2 * short + 10)
    for words, before, then in (("more", 10, 100), ("less", 100, 10)):
        series = finished([(long, 0, 1000), (short + 10, before, 0), (short + 10, then, 0)])
        yield of(f"{words} of late, which is well", series, dict.fromkeys(well, False))
    a_sixth, half = long // 6, long // 2
    grown = finished([(long + half, 1, 0), (a_sixth, 1000, 0), (short + 6, 0, 1)])
    bad = range(long + half + a_sixth, long + half + a_sixth + short + 6)
    yield of("a long window with most of it late is well", grown, dict.fromkeys(bad, False))
    fell = finished([(a_sixth, 100000, 0), (half, 100, 0), (short + 20, 0, 0.3)])
    bad = range(half + a_sixth, half + a_sixth + short + 20)
    yield of("a long window with most of it early is well", fell, dict.fromkeys(bad, False))
    grows = [(1, 0, 2 ** (at / 20)) for at in range(long + 10)]
    yield of("all is lost of what gets more and more", finished(grows), {long + 5: True})
    less = 0.7 * share
    phases = [(long, 0, 1000), (short + 20, 1000 * (1 - less), 1000 * less)]
    two = [*finished(phases), *finished(phases, agent="b")]
    yield of("two short windows do not add up", two, dict.fromkeys(range(well[0], well[0] + 8), False))
    phases = [(long + 20, 1000 * (1 - less), 1000 * less), (short + 5, 0, 1)]
    two = [*finished(phases), *finished(phases, agent="b")]
    late = range(long + 20 + hold, long + 20 + short + 5)
    yield of("two long windows do not add up", two, dict.fromkeys(late, False))
    differ = [*finished([(long, 0, 1)]), *finished([(long, 1, 0)], agent="b")]
    yield of("two that counted as many, and differ: the worse", differ, {long - 1: True})
    enough, few = finished([(2 * long, 0, 0.4)]), finished([(2 * long, 0, 0.25)])
    idle = finished([(2 * long, 0, 0)], agent="b")
    yield of("twenty in the long window, and a replica that knows of none", [*enough, *idle], {long + 5: True})
    lost = finished([(2 * long, 0, 0.5)], agent="b")
    series = [*finished([(long, 0, 1000), (short + 20, 1000, 0)]), *lost]
    yield of(
        "of the short window, the one that counted most", series, dict.fromkeys(range(well[0], well[0] + 8), False)
    )
    series = [*finished([(long + 20, 1000, 0), (short + 5, 0, 1)]), *lost]
    yield of("of the long window, the one that counted most", series, dict.fromkeys(late, False))
    yield of("twenty in twice the long window", few, {long + 5: False, 2 * long: False})


def _both(
    times: dict[str, list[dict[str, str]]], severity: str, share: float, title: str
) -> dict[str, list[dict[str, str]]]:
    """A share beyond a page is a ticket as well, where both are judged plainly."""
    if share != 0.10 or severity != "critical":
        return times
    if title == "no more than its share":
        return {at: [] for at in list(times)[:1]}
    return {
        at: [*alerts, *({**alert, "severity": "warning"} for alert in alerts if int(at[:-1]) >= 17)]
        for at, alerts in times.items()
    }


def _no_more(
    of: Callable[[str, Iterable[Series], Mapping[int, bool]], Case],
    short: int,
    long: int,
    hold: int,
    times: float,
    keeps: int,
) -> Iterator[Case]:
    """One window is beyond its limit, and the other exactly at it, to the last bit."""
    seconds = {60: 60, 72: 300 if times == 6.0 else 1200}[long]
    for words, around, ends, between, steps in (
        ("long", short + hold + 2, (700, 300), (1000, 0), long),
        ("short", short + keeps + hold + 2, (960, 40), (0, 1000), short),
    ):
        inside = long - around
        inner = inside if words == "long" else 0
        rate = 1 / (steps * seconds)  # Prometheus multiplies by this
        committed, lost = (
            ((steps - inner) * at_ends + inner * at_middle) * rate
            for at_ends, at_middle in zip(ends, between, strict=True)
        )
        ratio = 1 - committed / (committed + lost)
        allowed = ratio / times
        assert times * allowed == ratio
        assert allowed < 0.02
        series = finished([(hold + 2, *ends), (inside, *between), (around, *ends)])
        exact = scraped(APPLICATION_THRESHOLD_RATIO, *APP, "unclean", values=f"{allowed!r}x500")
        yield of(f"the {words} window is at its limit", [*series, exact], {long + hold: False})


def _budgets() -> Iterator[Case]:
    """Yield what may be lost decides what is judged, and by what."""
    name = f"{ABORTS} 1h"
    page = {"severity": "critical", "window": "1h", "kafka_cluster": "prod", "application": "pay"}
    ticket = {**page, "severity": "warning"}
    short, long = 15, 60

    def of(
        title: str,
        share: float | Series,
        lost: tuple[float, float],
        alerts: Sequence[Mapping[str, str]],
        hold: int = 2,
        at: int = long + 2,
    ) -> Case:
        given = share if isinstance(share, Series) else budget(share)
        around = short + 8 if lost[0] < lost[1] else short  # what fired before has ended
        return case(name, title, [*mixed(around, long, hold, *lost), given], {f"{at}m": alerts})

    ten = (0.1, 0.1)
    yield of("2% is judged plainly", 0.02, ten, [page, ticket], 15, 75)
    yield of("2.1% is judged plainly", 0.021, ten, [page, ticket], 15, 75)
    yield of("1.9% is judged as a budget that burns", 0.019, ten, [], 15, 75)
    yield of("1.9%, of which the short window alone is beyond 14.4 times", 0.019, (0.3, 0.1), [])
    yield of("1.9%, of which the long window alone is beyond 14.4 times", 0.019, (0.1, 0.5), [])
    for window, minutes in (("6h", 5), ("1d", 20)):
        for share, words in ((0.02, "2% is"), (0.021, "2.1% is"), (0.0201, "a bit above 2% is")):
            for times, fires in ((1.9, False), (2.1, True)):
                told = [{**ticket, "window": window}] if fires else []
                yield case(
                    f"{ABORTS} {window}",
                    f"{words} a ticket at twice of it: {times} times",
                    [*finished([(90, 1000 * (1 - times * share), 1000 * times * share)]), budget(share)],
                    {f"{at * minutes}m": told for at in range(70, 90, 4)},
                    f"{minutes}m",
                )
        burns = {"severity": "critical" if window == "6h" else "warning", "window": window}
        yield case(
            f"{ABORTS} {window}",
            "1.9% is a budget that burns",
            [*finished([(90, 0, 1000)]), budget(0.019)],
            {f"{80 * minutes}m": [{**burns, "kafka_cluster": "prod", "application": "pay"}]},
            f"{minutes}m",
        )
    yield of("60% may be lost, and all is", 0.6, (1.0, 1.0), [page, ticket], 15, 75)
    yield of("60% may be lost, of which the short window lost nearly all", 0.6, (0.9895, 0.992), [ticket], 15, 75)
    yield of("60% may be lost, of which the long window lost nearly all", 0.6, (1.0, 0.95), [ticket], 15, 75)
    yield of("twice what may be lost, and no more, in the long window", 0.25, (0.75, 0.5), [ticket], 15, 75)
    yield of("twice what may be lost, and no more, in the short window", 0.25, (0.5, 0.65), [ticket], 15, 75)
    yield of("what may be lost, and no more, in the long window", 0.5, (0.75, 0.5), [], 15, 75)
    yield of("what may be lost, and no more, in the short window", 0.5, (0.5, 0.65), [], 15, 75)
    yield of("less than what may be lost in the long window", 0.05, (0.075, 0.0475), [], 15, 75)
    yield of("less than what may be lost in the short window", 0.05, (0.0475, 0.075), [], 15, 75)
    yield of("all may be lost", 1.0, (1.0, 1.0), [], 15, 75)
    yield of("nothing is judged of what is ignored", 9999999999, (1.0, 1.0), [], 15, 75)
    all_lost = finished([(120, 80, 20)])

    def changed(values: str, agent: str = "a") -> Series:
        return scraped(APPLICATION_THRESHOLD_RATIO, *APP, "unclean", values=values, agent=agent)

    yield case(
        name,
        "a budget that is lowered counts at once",
        [*all_lost, changed("0.5x60 0.05x60")],
        {"62m": [], "63m": [page]},
    )
    yield case(
        name,
        "a budget that is raised counts at once",
        [*all_lost, changed("0.05x60 0.5x60")],
        {"67m": [page, ticket], "68m": []},
    )
    yield case(
        name,
        "failed scrapes do not end it",
        [*all_lost, changed("0.05x60 stale stale 0.05x60")],
        {f"{at}m": [page, ticket] for at in range(60, 75)},
    )
    yield case(
        name,
        "an agent that is away ends it seven minutes later",
        [*all_lost, changed("0.05x60 stale")],
        {"70m": [page, ticket], "71m": []},
    )
    newer = scraped(APPLICATION_THRESHOLD_RATIO, *APP, "another", values="0.9x120")
    series = [*all_lost, changed("0.05x120"), newer]
    yield case(name, "a newer agent has another share beside it", series, {"80m": [page, ticket]})
    twice = [changed("0.05x120"), changed("0.05x120", "b")]
    yield case(name, "two replicas have one budget", [*finished([(120, 92, 8)]), *twice], {"80m": [ticket]})
    unread = [changed("0.05x120"), changed("0.5x120", "b")]
    yield case(name, "a replica has not reread a lower budget yet", [*all_lost, *unread], {"80m": []})


def _pods() -> Iterator[Case]:
    name = f"{ABORTS} 1h"
    page = {"severity": "critical", "window": "1h", "kafka_cluster": "prod", "application": "pay"}
    ticket = {**page, "severity": "warning"}
    well = finished([(120, 100, 1)])
    young = finished([(3, 0, 1), (60, 100, 1)], agent="new", after=60)
    yield case(
        name,
        "a pod that lived for minutes and saw three aborts is no page",
        [*well, *young],
        {f"{at}m": [] for at in range(60, 100, 2)},
    )
    alone = finished([(3, 0, 1)], agent="new", after=60)
    yield case(name, "and goes away", [*well, *alone], {f"{at}m": [] for at in range(60, 80, 2)})
    lost = finished([(40, 20, 80)])
    yield case(
        name, "two replicas see one truth", [*lost, *finished([(40, 20, 80)], agent="b")], {"20m": [page, ticket]}
    )
    yield case(
        name,
        "a replica that has just started knows of little",
        [*finished([(80, 20, 80)]), *finished([(30, 1, 0)], agent="b", after=50)],
        {"60m": [page, ticket]},
    )
    half = [(15, 0, 1), (30, 0, 0)]
    yield case(name, "two replicas count the same fifteen", [*finished(half), *finished(half, agent="b")], {"16m": []})
    yield case(name, "twenty are enough", finished([(60, 0, 1)]), {"18m": [], "25m": [page]})
    third = finished([(1, 0, 1), (2, 0, 0)] * 40)
    yield case(name, "one in three minutes: twenty in any hour", third, {"100m": [page, ticket]})
    fewer = finished([(1, 0, 19 * at // 60 - 19 * (at - 1) // 60) for at in range(1, 120)])
    yield case(name, "nineteen in any hour", fewer, {"100m": []})
    yield case(name, "70% for ten minutes", finished([(60, 100, 0), (12, 30, 70)]), {"60m": [], "71m": [page]})
    yield case(name, "a burst in an hour that was well", finished([(60, 100, 0), (6, 60, 40)]), silent(range(60, 75)))
    both = [page, ticket]
    over = finished([(60, 0, 100), (40, 100, 0)])
    yield case(name, "it ends with the short window", over, {"50m": both, "77m": both, "83m": []})
    bad = [*over, *finished([(40, 0, 1)], agent="new", after=60)]
    yield case(name, "though a young pod sees a few bad ones", bad, {"50m": both, "84m": [], "95m": []})
    burst = [*finished([(60, 100, 0), (6, 60, 40)]), *finished([(6, 0, 1)], agent="new", after=60)]
    yield case(name, "a burst that a young pod alone sees", burst, silent(range(60, 75)))
    part = [(60, 96, 4)]
    yield case(
        name, "two replicas do not add up", [*finished(part), *finished(part, agent="b")], {"20m": [], "50m": []}
    )
    seldom = [(60, 0, 1), (90, 0, 0.15)]
    ends = {"65m": both, "105m": []}
    yield case(name, "too few of late", finished(seldom), ends)
    three = finished([(60, 0, 1), *[(4, 0, 0), (1, 0, 1)] * 8])
    yield case(name, "three of late are enough", three, {"90m": both})
    yield case(name, "too few of late, by two", [*finished(seldom), *finished(seldom, agent="b")], ends)
    few = [(60, 0, 1), (90, 0, 0.22)]
    idle = finished([(150, 0, 0)], agent="b")
    yield case(name, "enough of late, and a replica that knows of none", [*finished(few), *idle], {"95m": both})
    late = [(60, 100, 0), (1, 0, 700), (14, 0.01, 0.01), (20, 0, 0)]
    yield case(name, "nothing since: the share of a few is none", finished(late), {"90m": []})


def _small() -> Iterator[Case]:
    """Applications of few transactions, and budgets that burn slowly, as two agents see them."""

    def ticket(window: str, app: Who = APP) -> dict[str, str]:
        return {"severity": "warning", "window": window, "kafka_cluster": app[0], "application": app[1]}

    def both(phases: Sequence[Phase], share: float) -> list[Series]:
        return [series for agent in "ab" for series in (*finished(phases, agent=agent), budget(share, agent=agent))]

    hourly = [(1, 1, 0), (1, 0, 1)] * 60  # a step is an hour
    day = {"8h": [], "40h": [ticket("3d")], "60h": [ticket("3d")], "90h": [ticket("3d")]}
    yield case(f"{ABORTS} 3d", "one an hour, half of them lost", both(hourly, 0.05), day, "1h")
    well = [(1, 1, 0)] * 30 + [(1, 0, 1)] + [(1, 1, 0)] * 39 + [(1, 0, 1)] + [(1, 1, 0)] * 40
    yield case(f"{ABORTS} 3d", "one an hour, two of them lost", both(well, 0.001), silent(range(0, 6600, 300)), "1h")
    third = [(1, 1, 0)] * 30 + [(1, 0, 1)] * 3 + [(1, 1, 0)] * 60
    three = {"31h": [], "35h": [ticket("3d")], "50h": []}
    yield case(f"{ABORTS} 3d", "three of them", both(third, 0.001), three, "1h")
    few = [(8, 0, 0), (1, 0, 1)] * 12
    yield case(
        f"{ABORTS} 3d", "one in nine hours are too few to judge", both(few, 0.05), silent(range(0, 6000, 300)), "1h"
    )
    more = [(5, 0, 0), (1, 0, 1)] * 20
    yield case(
        f"{ABORTS} 3d", "one in six hours are enough", both(more, 0.05), {"50h": [], "70h": [ticket("3d")]}, "1h"
    )
    burns = [(48, 1000, 0), (60, 998, 2)]
    slow = {"50h": [], "60h": [], "90h": [ticket("3d")], "100h": [ticket("3d")]}
    yield case(f"{ABORTS} 3d", "twice a budget of 0.1%, for days", both(burns, 0.001), slow, "1h")
    just = [(100, 999.1, 0.9)]
    yield case(
        f"{ABORTS} 3d", "less than a budget of 0.1%, for days", both(just, 0.001), silent(range(0, 6000, 300)), "1h"
    )
    over = [(72, 998, 2), (40, 1000, 0)]
    ends = {"70h": [ticket("3d")], "82h": []}
    yield case(f"{ABORTS} 3d", "and then it is well", both(over, 0.001), ends, "1h")
    late = [(72, 1000, 0), (5, 900, 100)]
    yield case(
        f"{ABORTS} 3d", "the short window alone is bad", both([(72, 1000, 0), (7, 998, 2)], 0.001), {"78h": []}, "1h"
    )
    yield case(f"{ABORTS} 3d", "a bad day in a bad week", both(late, 0.001), {"77h": [ticket("3d")]}, "1h")
    quarter = [(1, 7.5, 7.5)] * 90
    six = {"1h": [], "3h": [ticket("6h")], "20h": [ticket("6h")]}
    yield case(f"{ABORTS} 6h", "fifteen an hour, half of them lost", both([(600, 0.625, 0.625)], 0.05), six, "5m")
    yield case(f"{ABORTS} 3d", "and over three days", both(quarter, 0.05), {"40h": [ticket("3d")]}, "1h")
    two = both([(1, 0, 1), (1, 0, 1), (70, 1, 0)], 0.01)
    yield case(f"{ABORTS} 6h", "two lost of many are no trend", two, silent(range(0, 350, 25)), "5m")
    two = both([(10, 1, 0), (1, 0, 1), (1, 0, 1), (10, 1, 0)], 0.05)
    yield case(f"{ABORTS} 1h", "two lost of twenty are no trend", two, silent(range(22)))
    two = both([(12, 1, 0), (1, 0, 1), (1, 0, 1), (30, 1, 0)], 0.01)
    yield case(f"{ABORTS} 1d", "two lost in a day are no trend", two, silent(range(0, 800, 60)), "20m")


def _many() -> Iterator[Case]:
    """A trouble of the cluster that hits many applications is one alert."""
    name = f"{ABORTS} many"
    page = {"severity": "critical", "reason": "many", "kafka_cluster": "prod"}

    def apps(count: int, cluster: str = "prod", lost: float = 50) -> list[Series]:
        whos = [(cluster, f"app-{number}") for number in range(count)]
        return [
            series
            for who in whos
            for agent in "ab"
            for series in (*finished([(60, 100 - lost, lost)], who, agent)[:2], budget(0.05, who, agent))
        ]

    yield case(name, "twenty-one", apps(21), {"2m": [], "4m": [page], "40m": [page]})
    yield case(name, "twenty, and one elsewhere", [*apps(20), *apps(1, "other")], {"5m": [], "40m": []})
    yield case(name, "twenty-one that lose what they may", apps(21, lost=4.9), {"40m": []})
    yield case(
        name,
        "twenty-one, two lost each",
        [
            series
            for number in range(21)
            for series in (
                *finished([(2, 0, 1), (60, 0, 0)], ("prod", f"app-{number}"))[:2],
                budget(0.05, ("prod", f"app-{number}")),
            )
        ],
        {"40m": []},
    )
    own = f"{ABORTS} 1h"
    yield case(own, "twenty-one are not named one by one", apps(21), {"10m": [], "40m": []})
    named = [
        {"severity": severity, "window": "1h", "kafka_cluster": "other", "application": "app-0"}
        for severity in ("critical", "warning")
    ]
    yield case(own, "one elsewhere is", [*apps(21), *apps(1, "other")], {"40m": named})


def _never() -> Iterator[Case]:
    name = f"{ABORTS} never"
    ticket = {"severity": "warning", "reason": "never", "kafka_cluster": "prod", "application": "pay"}

    def ended(values: str, outcome: str, app: Who = APP, agent: str = "a") -> Series:
        return scraped(TRANSACTIONS_TOTAL, *app, outcome, values=values, agent=agent)

    def new(
        lost: str, committed: str = "0x2000", app: Who = APP, agent: str = "a", at: str = "0+60x2000"
    ) -> list[Series]:
        aborted = last(at, app, "aborted", agent)
        return [
            ended(lost, "aborted", app, agent),
            ended(committed, "committed", app, agent),
            aborted,
            budget(0.05, app, agent),
        ]

    first = [*new("_ _ _ 40x90"), *new("_ _ _ 40x90", agent="b")]
    yield case(name, "its first forty are lost, in one sample", first, {"2m": [], "3m": [ticket], "60m": [ticket]})
    yield case(name, "ten", new("9x5 10x90"), {"5m": [], "6m": [ticket]})
    kinds = [ended("5x60", "fenced"), ended("5x60", "timed_out"), last("0+60x60", outcome="fenced"), budget(0.05)]
    yield case(name, "of all kinds together", kinds, {"5m": [ticket]})
    seldom = new("0x3 1 1 1 1 2 2 2 2 3 3 3 3 4 4 4 4 5 5 5 5 6 6 6 6 7 7 7 7 8 8 8 8 9 9 9 9 10x300")
    yield case(name, "fifteen an hour, all lost", seldom, {"30m": [], "42m": [ticket]})
    yield case(name, "one committed", new("40x60", "1x60"), {"30m": []})
    yield case(name, "another agent saw one commit", [*new("40x60"), *new("40x60", "1x60", agent="b")], {"30m": []})
    apps = spread(APP)
    every = [{**ticket, "kafka_cluster": app[0], "application": app[1]} for app in apps]
    yield case(name, "each application", [one for app in apps for one in new("40x60", app=app)], {"5m": every})
    other = [*new("40x60"), *(one for app in apps[1:] for one in new("0x60", "9x60", app))]
    yield case(name, "others commit", other, {"5m": [ticket]})
    yield case(name, "two agents counted six each", [*new("6x60"), *new("6x60", agent="b")], {"5m": []})
    over = new("40x2000", at="0x2000")
    yield case(name, "the last one a day ago", over, {"23h": [ticket], "25h": []}, "5m")
    ignored_now = [*new("40x60")[:3], budget(9999999999)]
    yield case(name, "it is ignored", ignored_now, {"5m": []})
    nine = [*new("9x60"), ended("9x60", "aborted", agent="b")]
    yield case(name, "nine", nine, {"30m": []})


def last(values: str, app: Who = APP, outcome: str = "committed", agent: str = "a") -> Series:
    return scraped(LAST_TRANSACTION_TIMESTAMP_SECONDS, *app, outcome, values=values, agent=agent)


def quiet(severity: str, app: Who = APP) -> dict[str, str]:
    return {"severity": severity, "kafka_cluster": app[0], "application": app[1]}


def commits(instants: Iterable[float]) -> str:
    return " ".join(f"{instant:g}" for instant in instants)


def ignored(subject: str, values: str, kind: str = "application", cluster: str = "prod") -> Series:
    return scraped(IGNORED_INFO, cluster, kind, subject, "played with", values=values)


def _silent() -> Iterator[Case]:
    ticket = quiet("warning")
    # A step is ten minutes: 36 hours of commits at every step, and then none.
    regular = commits(600 * at for at in range(216))
    stopped = f"{regular} {600 * 215}x600"
    every_day = {"36h": [], "37h": [ticket], "50h": [ticket], "72h": [ticket], "100h": [ticket], "134h": [ticket]}
    yield case(SILENT, "it stopped, and is silent for days", [last(stopped)], {"30h": [], **every_day}, "10m")
    # The last id of it expired at the coordinator, so that the agent drops its series.
    yield case(
        SILENT,
        "no agent knows it any more: that it is silent is not known",
        [last(f"{regular} {600 * 215}x30 stale")],
        {"40h": [ticket], "41h40m": []},
        "10m",
    )
    down = last(f"{regular} {600 * 215}x200 {'_ ' * 60}{600 * 215}x200")
    yield case(
        SILENT,
        "the agent is down for ten hours of a silence of days",
        [down],
        {"69h": [ticket], "75h": [], "81h": [ticket], "100h": [ticket]},
        "10m",
    )
    busy = commits([600.0 * at for at in range(216)]) + " stale" + " _" * 40
    back = f"{busy} {600 * 257}+600x60"
    yield case(
        SILENT, "the agent is down, the application is not", [last(back)], silent(range(36 * 60, 52 * 60, 60)), "10m"
    )
    apps = spread(APP)
    yield case(
        SILENT,
        "each application",
        [last(stopped, app) for app in apps],
        {"40h": [quiet("warning", app) for app in apps]},
        "10m",
    )
    going = commits(600 * at for at in range(400))
    yield case(SILENT, "it goes on", [last(going)], {f"{at}h": [] for at in range(24, 60, 5)}, "10m")
    yield case(SILENT, "one replica knows of later ones", [last(stopped), last(going, agent="b")], {"40h": []}, "10m")
    nightly = commits(86400 * (at // 144) for at in range(600))
    yield case(SILENT, "every night", [last(nightly)], {f"{at}h": [] for at in range(24, 96, 5)}, "10m")
    yield case(SILENT, "it is new", [last("0x100")], {"5h": [], "16h": []}, "10m")
    yield case(
        SILENT,
        "it commits no more, and aborts go on",
        [last(stopped), last(going, outcome="aborted")],
        {"40h": [ticket]},
        "10m",
    )
    yield case(SILENT, "two replicas", [last(stopped), last(stopped, agent="b")], {"40h": [ticket]}, "10m")
    again = f"{regular} {600 * 215}x200 " + commits(600 * at for at in range(417, 500))
    yield case(SILENT, "it commits again after a day and a half", [last(again)], {"69h": [ticket], "71h": []}, "10m")
    for minutes, title, alerts in (
        (60 * 18, "Prometheus was down for eighteen hours of the silence", [ticket]),
        (60 * 30, "Prometheus was down for thirty hours: what the rhythm was is not known", []),
    ):
        # Evaluated once in so many minutes. The rhythm is of two hours, and the silence lasts for eight of these steps.
        step = minutes * 60
        rhythm = commits([max(0, step * at - 7200) for at in range(4)] + [step * 3 - 7200] * 9)
        yield case(SILENT, title, [last(rhythm)], {f"{11 * minutes}m": alerts}, f"{minutes}m")
    yield from _limits()
    yield from _ignored()
    yield from _own_threshold()


def _first_day() -> Iterator[Case]:
    """A rhythm that is known for hours only. A step is a minute, in which it commits."""
    ticket = quiet("warning")

    def stops(minutes: int, count: int = 100, agent: str = "a", every: int = 1) -> list[Series]:
        instants = commits(60 * (at - at % every) for at in range(minutes))
        committed = scraped(TRANSACTIONS_TOTAL, *APP, "committed", values=f"{count}x700", agent=agent)
        return [last(f"{instants} {60 * (minutes - 1)}x600", agent=agent), committed]

    both = [*stops(120), *stops(120, agent="b")]
    hours = {"160m": [], "185m": [ticket], "240m": [ticket], "500m": [ticket]}
    yield case(SILENT, "it stops after two hours", both, hours)
    yield case(SILENT, "it stops after ten hours", stops(600), {"640m": [], "665m": [ticket]})
    yield case(SILENT, "it stops after ten commits", stops(120, 10), {"185m": [ticket]})
    yield case(SILENT, "it stops after nine commits", stops(120, 9), {"185m": [], "500m": []})
    half = stops(300, every=30)
    yield case(SILENT, "it commits every half hour, and stops", half, {f"{at}m": [] for at in range(150, 420, 10)})
    elsewhere = [stops(120)[0], *(replace(stops(120)[1], labels={**stops(120)[1].labels, "application": "other"}),)]
    yield case(SILENT, "another application has the commits", elsewhere, {"185m": []})


def _weeks() -> Iterator[Case]:
    """Office hours: it commits on working days from 9 to 17, at every step of half an hour."""
    ticket, step = quiet("warning"), 1800

    def works(at: int) -> bool:
        day, hour = at // 48 % 7, at % 48 / 2
        return day < 5 and 9 <= hour < 17

    def office(until: int, late: int = 0) -> list[Series]:
        instants, now = [], 0
        for at in range(48 * 26):
            monday_late = at // (48 * 7) == 2 and at // 48 % 7 == 0 and at % 48 / 2 < 9 + late
            now = step * at if works(at) and at < until and not monday_late else now
            instants.append(now)
        return [last(commits(instants), agent=agent) for agent in "ab"]

    def on(week: int, day: int, hour: float) -> str:
        return f"{round(((week * 7 + day) * 24 + hour) * 60)}m"

    always = office(10**9)
    quiet_hours: dict[str, list[dict[str, str]]] = {
        on(2, day, hour): [] for day in range(7) for hour in (0, 4.5, 8.5, 9, 12, 16.5, 20)
    }
    yield case(SILENT, "office hours, in the third week", always, quiet_hours, "30m")
    monday = office(10**9, late=2)
    yield case(SILENT, "two hours late on a Monday", monday, {on(2, 0, hour): [] for hour in (8, 9, 10, 11, 12)}, "30m")
    stopped = office(48 * 17 + 24)  # on the Thursday of the third week, at noon
    yield case(SILENT, "stopped on a Thursday", stopped, {on(2, 3, 11): [], on(3, 1, 9): [ticket]}, "30m")
    # A week ago it paused for 40 minutes: a pause of up to 60 at this time of the day is no news.
    paused = 7 * 144
    instants = [600 * (paused - 4) if paused - 4 <= at <= paused else 600 * at for at in range(2 * paused)]
    weekly = [*instants, *[instants[-1]] * 9]
    after = {f"{(2 * paused - 1) * 10 + minutes}m": alerts for minutes, alerts in ((60, []), (70, []), (80, [ticket]))}
    yield case(SILENT, "a pause that is as long as one a week ago", [last(commits(weekly))], after, "10m")
    longer = [*instants[:-1], *[instants[-1] - 1] * 10]
    at = f"{(2 * paused - 1) * 10 + 70}m"
    yield case(SILENT, "a second longer than that", [last(commits(longer))], {at: [ticket]}, "10m")
    yield case(SILENT, "not started on a Monday", office(48 * 14), {on(2, 0, 8.5): [], on(2, 0, 14): [ticket]}, "30m")


def _limits() -> Iterator[Case]:
    """A step is 150 s, and each commit is seen when it is 300 s old: the limit is twice that, and ten minutes."""
    ticket, step = quiet("warning"), 150
    start = 26 * 3600 // step

    def of(title: str, after: float, checks: Mapping[int, bool], until: int = 40, then: Sequence[float] = ()) -> Case:
        """It goes silent at 26 h, with a last commit that is so many seconds later than usual."""
        instants = [step * at - 300 for at in range(start)]
        ends = [instants[-1] + step + after] * until
        whole = [last(commits([*instants, *ends, *then]))]
        times = {f"{(start + at) * step}s": ([ticket] if now else []) for at, now in checks.items()}
        return case(SILENT, title, whole, times, f"{step}s")

    yield of("its limit is not passed, and is passed", 0, {6: False, 8: False, 9: True})
    yield of("passed by half a second", 149.5, {8: False, 9: True})
    commit = [step * (start + 20 + at) - 300 for at in range(20)]
    yield of(
        "commits end it, when seven minutes without data could be over",
        0,
        {19: True, 20: True, 22: True, 23: False},
        20,
        commit,
    )
    # Its pauses: 5 minutes, and once in three hours 55.
    pauses = [step * at - (3300 if at % 72 < 4 else 300) for at in range(27 * 3600 // step)]
    seen = 27 * 3600 // step
    yield case(
        SILENT,
        "a pause that is seldom and not a rarity is part of the rhythm",
        [last(commits([*pauses, *[pauses[-1]] * 60]))],
        {f"{(seen + 10) * step}s": [], f"{(seen + 55) * step}s": [ticket]},
        f"{step}s",
    )


def _ignored() -> Iterator[Case]:
    ticket = quiet("warning")
    stopped = commits(600 * at for at in range(216)) + f" {600 * 215}x200"
    for title, series, alerts in (
        ("it is ignored", [ignored("pay", "1x400")], []),
        ("a topic of its name is ignored", [ignored("pay", "1x400", kind="topic")], [ticket]),
        ("another application is ignored", [ignored("other", "1x400")], [ticket]),
        ("it is ignored on another cluster", [ignored("pay", "1x400", cluster="other")], [ticket]),
    ):
        yield case(SILENT, title, [last(stopped), *series], {"40h": alerts, "60h": alerts}, "10m")
    yield case(
        SILENT,
        "it is ignored while it is silent, and no more",
        [last(stopped), ignored("pay", "_x240 1x30 stale")],
        {"39h": [ticket], "42h": [], "46h": [ticket]},
        "10m",
    )


def _own_threshold() -> Iterator[Case]:
    page = quiet("critical")

    def limit(seconds: int, agent: str = "a", app: Who = APP) -> Series:
        return scraped(APPLICATION_THRESHOLD_SECONDS, *app, "silent_critical", values=f"{seconds}x60", agent=agent)

    yield case(SILENT, "longer than its own threshold", [last("0x60"), limit(600)], {"10m": [], "11m": [page]})
    yield case(SILENT, "its own threshold is another's", [last("0x60", ("prod", "other")), limit(600)], {"30m": []})
    yield case(
        SILENT,
        "the agent is gone: whether it commits is not known",
        [last("0+60x20 stale"), limit(600)],
        silent(range(20, 50)),
    )
    ends = {"18m": [page], "25m": [page], "26m": []}
    yield case(SILENT, "it commits again", [last("0x18 1140+60x30"), limit(600)], ends)
    later = [last("0x60"), last("0x60", agent="b"), limit(600), limit(1200, "b")]
    yield case(SILENT, "a replica has not reread a lower threshold yet", later, {"15m": [], "20m": [], "21m": [page]})
