"""The share that does not commit, judged plainly or as a budget that burns, and applications that stopped."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
FAST, SLOW = f"{ABORTS} fast", f"{ABORTS} slow"
PAGE = {"severity": "critical", "reason": "fast", "kafka_cluster": "prod", "application": "pay"}
TICKET = {"severity": "warning", "reason": "slow", "kafka_cluster": "prod", "application": "pay"}
SHORT, LONG, HOLD = 15, 60, 2
"""The fast windows, in steps of a minute."""


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
    for share, allowed in ((0.10, 0.05), (0.144, 0.01)):
        yield from _fast(share, allowed)
    yield from _budgets()
    yield from _pods()
    yield from _slow()
    yield from _new()
    yield from _many()
    yield from _silent()
    yield from _first_day()
    yield from _weeks()


def _fast(share: float, allowed: float) -> Iterator[Case]:
    def of(title: str, series: Iterable[Series], checks: Mapping[int, bool], apps: Sequence[Who] = (APP,)) -> Case:
        series = list(series)
        given = any(given_series.metric == APPLICATION_THRESHOLD_RATIO.name for given_series in series)
        budgets = [] if given else [budget(allowed, app) for app in apps]
        pages = [{**PAGE, "kafka_cluster": app[0], "application": app[1]} for app in apps]
        times = {f"{at}m": (pages if now else []) for at, now in checks.items()}
        return case(FAST, f"{allowed:g}: {title}", [*series, *budgets], times)

    def part(steps: int, of_share: float, traffic: float = 1000) -> Phase:
        return steps, traffic * (1 - of_share * share), traffic * of_share * share

    replicas = [budget(allowed, agent=agent) for agent in "ab"]
    yield of("two replicas with one budget", [*finished([part(LONG + 40, 1.5)]), *replicas], {HOLD + 2: True})
    more, less = [part(LONG + 40, 1.02)], [part(LONG + 40, 0.98)]
    yield of("more than its share", finished(more), {HOLD: False, HOLD + 2: True})
    yield of("no more than its share", finished(less), {HOLD + 1: False, LONG: False})
    over = [part(LONG, 1.05), part(SHORT + 20, 0.0)]
    yield of("a bad time that is over", finished(over), {LONG: True, LONG + SHORT + 15: False})
    apps = spread(APP)
    yield of("each application", [series for app in apps for series in finished(more, app)], {20: True}, apps)
    few = [(4, 0, 1.0), (200, 0, 0)]
    yield of("four finished are too few to judge", finished(few), {4: False, 8: False, 20: False})
    both = [(12, 0, 1.0), (200, 0, 0)]
    twice = [*finished(both), *finished(both, agent="b")]
    yield of("two replicas count the same few", twice, {12: False, 16: False, 20: False})
    yield of("nothing finishes", finished([(80, 0, 0)]), {40: False})
    if allowed < 0.02:
        yield of("twenty finished are enough to judge", finished([(60, 0, 1)]), {19 + HOLD: False, 20 + HOLD: True})
        well = LONG + math.ceil(SHORT * (1 - share)) + 7
        over = [(LONG, 0, 1), (40, 1, 0)]
        yield of("it ends when the short window is well", finished(over), {well - 1: True, well: False})
        yield from _windows(of, SHORT, LONG, HOLD, share, 8)


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
    yield from _no_more(of, short, long, hold, 14.4, keeps)
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


def _no_more(
    of: Callable[[str, Iterable[Series], Mapping[int, bool]], Case],
    short: int,
    long: int,
    hold: int,
    times: float,
    keeps: int,
) -> Iterator[Case]:
    """One window is beyond its limit, and the other exactly at it, to the last bit."""
    for words, around, ends, between, steps in (
        ("long", short + hold + 2, (700, 300), (1000, 0), long),
        ("short", short + keeps + hold + 2, (960, 40), (0, 1000), short),
    ):
        inside = long - around
        inner = inside if words == "long" else 0
        rate = 1 / (steps * 60)  # Prometheus multiplies by this
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
        return case(FAST, title, [*mixed(around, long, hold, *lost), given], {f"{at}m": alerts})

    three = finished([(10, 0, 0), (29, 1, 0), (3, 0, 1), (40, 0, 0)])
    yield case(FAST, "three lost of thirty-two", [*three, budget(0.04)], {"46m": [PAGE]})
    ten = (0.1, 0.1)
    yield of("2% is judged plainly", 0.02, ten, [PAGE], 15, 75)
    yield of("2.1% is judged plainly", 0.021, ten, [PAGE], 15, 75)
    yield of("1.9% is judged as a budget that burns", 0.019, ten, [], 15, 75)
    yield of("1.9%, of which the short window alone is beyond 14.4 times", 0.019, (0.3, 0.1), [])
    yield of("1.9%, of which the long window alone is beyond 14.4 times", 0.019, (0.1, 0.5), [])
    yield of("60% may be lost, and all is", 0.6, (1.0, 1.0), [PAGE], 15, 75)
    yield of("60% may be lost, of which the short window lost nearly all", 0.6, (0.9895, 0.992), [], 15, 75)
    yield of("60% may be lost, of which the long window lost nearly all", 0.6, (1.0, 0.95), [], 15, 75)
    yield of("twice what may be lost, and no more, in the long window", 0.25, (0.75, 0.5), [], 15, 75)
    yield of("twice what may be lost, and no more, in the short window", 0.25, (0.5, 0.65), [], 15, 75)
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
        FAST,
        "a budget that is lowered counts at once",
        [*all_lost, changed("0.5x60 0.05x60")],
        {"62m": [], "63m": [PAGE]},
    )
    yield case(
        FAST,
        "a budget that is raised counts at once",
        [*all_lost, changed("0.05x60 0.5x60")],
        {"67m": [PAGE], "68m": []},
    )
    yield case(
        FAST,
        "failed scrapes do not end it",
        [*all_lost, changed("0.05x60 stale stale 0.05x60")],
        {f"{at}m": [PAGE] for at in range(60, 75)},
    )
    yield case(
        FAST,
        "an agent that is away ends it seven minutes later",
        [*all_lost, changed("0.05x60 stale")],
        {"70m": [PAGE], "71m": []},
    )
    newer = scraped(APPLICATION_THRESHOLD_RATIO, *APP, "another", values="0.9x120")
    series = [*all_lost, changed("0.05x120"), newer]
    yield case(FAST, "a newer agent has another share beside it", series, {"80m": [PAGE]})
    twice = [changed("0.05x120"), changed("0.05x120", "b")]
    yield case(FAST, "two replicas have one budget", [*finished([(120, 92, 8)]), *twice], {"80m": []})
    unread = [changed("0.05x120"), changed("0.5x120", "b")]
    yield case(FAST, "a replica has not reread a lower budget yet", [*all_lost, *unread], {"80m": []})


def _pods() -> Iterator[Case]:
    well = finished([(120, 100, 1)])
    young = finished([(3, 0, 1), (60, 100, 1)], agent="new", after=60)
    yield case(
        FAST,
        "a pod that lived for minutes and saw three aborts is no page",
        [*well, *young],
        {f"{at}m": [] for at in range(60, 100, 2)},
    )
    alone = finished([(3, 0, 1)], agent="new", after=60)
    yield case(FAST, "and goes away", [*well, *alone], {f"{at}m": [] for at in range(60, 80, 2)})
    lost = finished([(40, 20, 80)])
    yield case(FAST, "two replicas see one truth", [*lost, *finished([(40, 20, 80)], agent="b")], {"20m": [PAGE]})
    yield case(
        FAST,
        "a replica that has just started knows of little",
        [*finished([(80, 20, 80)]), *finished([(30, 1, 0)], agent="b", after=50)],
        {"60m": [PAGE]},
    )
    half = [(15, 0, 1), (30, 0, 0)]
    yield case(FAST, "two replicas count the same fifteen", [*finished(half), *finished(half, agent="b")], {"16m": []})
    yield case(FAST, "twenty are enough", finished([(60, 0, 1)]), {"18m": [], "25m": [PAGE]})
    third = finished([(1, 0, 1), (2, 0, 0)] * 40)
    yield case(FAST, "one in three minutes: twenty in any hour", third, {"100m": [PAGE]})
    fewer = finished([(1, 0, 19 * at // 60 - 19 * (at - 1) // 60) for at in range(1, 120)])
    yield case(FAST, "nineteen in any hour", fewer, {"100m": []})
    yield case(FAST, "70% for ten minutes", finished([(60, 100, 0), (12, 30, 70)]), {"60m": [], "71m": [PAGE]})
    yield case(FAST, "a burst in an hour that was well", finished([(60, 100, 0), (6, 60, 40)]), silent(range(60, 75)))
    both = [PAGE]
    over = finished([(60, 0, 100), (40, 100, 0)])
    yield case(FAST, "it ends with the short window", over, {"50m": both, "77m": both, "83m": []})
    bad = [*over, *finished([(40, 0, 1)], agent="new", after=60)]
    yield case(FAST, "though a young pod sees a few bad ones", bad, {"50m": both, "84m": [], "95m": []})
    burst = [*finished([(60, 100, 0), (6, 60, 40)]), *finished([(6, 0, 1)], agent="new", after=60)]
    yield case(FAST, "a burst that a young pod alone sees", burst, silent(range(60, 75)))
    part = [(60, 96, 4)]
    yield case(
        FAST, "two replicas do not add up", [*finished(part), *finished(part, agent="b")], {"20m": [], "50m": []}
    )
    seldom = [(60, 0, 1), (90, 0, 0.15)]
    ends = {"65m": both, "105m": []}
    yield case(FAST, "too few of late", finished(seldom), ends)
    three = finished([(60, 0, 1), *[(4, 0, 0), (1, 0, 1)] * 8])
    yield case(FAST, "three of late are enough", three, {"90m": both})
    yield case(FAST, "too few of late, by two", [*finished(seldom), *finished(seldom, agent="b")], ends)
    few = [(60, 0, 1), (90, 0, 0.22)]
    idle = finished([(150, 0, 0)], agent="b")
    yield case(FAST, "enough of late, and a replica that knows of none", [*finished(few), *idle], {"95m": both})
    late = [(60, 100, 0), (1, 0, 700), (14, 0.01, 0.01), (20, 0, 0)]
    yield case(FAST, "nothing since: the share of a few is none", finished(late), {"90m": []})


def _slow() -> Iterator[Case]:
    """Applications of few transactions, and budgets that burn slowly, as two agents see them."""

    def of(
        title: str, phases: Sequence[Phase], share: float, checks: Mapping[int, bool], minutes: int = 60, app: Who = APP
    ) -> Case:
        series = [one for agent in "ab" for one in (*finished(phases, app, agent), budget(share, app, agent))]
        times = {f"{at}m": [TICKET] if now else [] for at, now in checks.items()}
        return case(SLOW, title, series, times, f"{minutes}m")

    hourly = [(1, 1, 0), (1, 0, 1)] * 60
    yield of("one an hour, half of them lost", hourly, 0.05, {480: False, 2400: True, 5400: True})
    well = [(1, 1, 0)] * 30 + [(1, 0, 1)] + [(1, 1, 0)] * 10 + [(1, 0, 1)] + [(1, 1, 0)] * 40
    yield of("two lost in a day are no trend", well, 0.001, dict.fromkeys(range(0, 4800, 300), False))
    yield of("one in three hours is too few to judge", [(2, 0, 0), (1, 0, 1)] * 30, 0.05, {4000: False, 5000: False})
    yield of("one in two hours is enough", [(1, 0, 0), (1, 0, 1)] * 40, 0.05, {3600: True})
    burns = [(48, 1000, 0), (60, 998, 2)]
    yield of("twice a budget of 0.1%, for a day", burns, 0.001, {3000: False, 3300: False, 4500: True})
    yield of("less than a budget of 0.1%", [(100, 999.1, 0.9)], 0.001, dict.fromkeys(range(0, 6000, 300), False))
    over = [(72, 998, 2), (40, 1000, 0)]
    yield of("and then it is well", over, 0.001, {4200: True, 4560: False})
    idle = [(72, 998, 2), (60, 0, 0)]
    yield of(
        "and then it is idle: a ticket for the rest of the day", idle, 0.001, {4200: True, 5400: True, 5880: False}
    )
    short = [(72, 1000, 0), (2, 980, 20), (10, 1000, 0)]
    yield of("the short window alone is bad", short, 0.005, {4380: False, 4440: False})
    yield of("a bad hour in a good day", [(72, 1000, 0), (5, 900, 100)], 0.001, {4560: True})
    yield of("exactly its budget", [(60, 75, 25)], 0.25, {2400: False, 3000: False})
    yield of("6% where 5% may be lost, from the start", [(200, 94, 6)], 0.05, {10: False, 25: True, 600: True}, 5)
    moment = [(288, 100, 0), (1, 0, 28800), (1, 100, 0), (300, 0, 0)]
    yield of(
        "not for less than ten minutes", [(288, 1, 0), (1, 0, 30), (60, 30, 0)], 0.05, {1450: False, 1600: False}, 5
    )
    yield of("lost in one burst, and nothing since", moment, 0.05, {1440: False, 1600: True, 2400: True}, 5)
    unjudged = [*finished([(60, 0, 10)]), budget(9999999999)]
    yield case(SLOW, "nothing is judged of what is ignored", unjudged, {"40h": []}, "1h")


def _new() -> Iterator[Case]:
    """An application that was not known before: its first sample has its first transactions."""

    def ended(values: str, outcome: str, app: Who = APP, agent: str = "a") -> Series:
        return scraped(TRANSACTIONS_TOTAL, *app, outcome, values=values, agent=agent)

    def new(lost: str, committed: str = "0x2000", app: Who = APP, agent: str = "a") -> list[Series]:
        return [ended(lost, "aborted", app, agent), ended(committed, "committed", app, agent), budget(0.05, app, agent)]

    fires = {"10m": [], "15m": [TICKET], "60m": [TICKET]}
    first = [*new("_ _ _ 40x90"), *new("_ _ _ 40x90", agent="b")]
    yield case(SLOW, "its first forty are lost, in one sample, and it stands still", first, fires)
    some = new("_ _ _ 40x90", "_ _ _ 60x90")
    yield case(SLOW, "its first sample has forty lost and sixty committed", some, fires)
    yield case(SLOW, "ten", new("9x5 10x90"), {"15m": [], "16m": [TICKET]})
    kinds = [ended("4x60", "fenced"), ended("6x60", "timed_out"), ended("0x60", "committed"), budget(0.05)]
    yield case(SLOW, "of all kinds together", kinds, {"15m": [TICKET]})
    yield case(SLOW, "as many committed as needed", new("2x60", "38x60"), {"15m": [], "30m": []})


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

    def alike(phases: Sequence[Phase], share: float) -> list[Series]:
        whos = [("prod", f"app-{number}") for number in range(21)]
        return [series for who in whos for series in (*finished(phases, who)[:2], budget(share, who))]

    yield case(name, "twenty-one exactly at what they may", alike([(80, 75, 25)], 0.25), {"40m": [], "70m": []})
    three = alike([(10, 0, 0), (3, 0, 1), (100, 0, 0)], 0.05)
    yield case(name, "twenty-one, three lost each", three, {"68m": [page]})
    yield case(FAST, "twenty-one are not named one by one", apps(21), {"10m": [], "40m": []})
    yield case(SLOW, "and are no tickets", apps(21), {"20m": [], "40m": []})
    page, ticket = ({**named, "kafka_cluster": "other", "application": "app-0"} for named in (PAGE, TICKET))
    for name, alert in ((FAST, page), (SLOW, ticket)):
        yield case(name, "one elsewhere is", [*apps(21), *apps(1, "other")], {"40m": [alert]})


def last(values: str, app: Who = APP, outcome: str = "committed", agent: str = "a") -> Series:
    return scraped(LAST_TRANSACTION_TIMESTAMP_SECONDS, *app, outcome, values=values, agent=agent)


def quiet(severity: str, app: Who = APP) -> dict[str, str]:
    return {"severity": severity, "kafka_cluster": app[0], "application": app[1]}


def commits(instants: Iterable[float]) -> str:
    return " ".join(f"{instant:.12g}" for instant in instants)


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
    going = commits(600 * at for at in range(400))
    yield case(SILENT, "it goes on", [last(going)], {f"{at}h": [] for at in range(24, 60, 5)}, "10m")
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
    yield case(SILENT, "it stops after one hour", stops(60), {"110m": [], "185m": [ticket], "300m": [ticket]})
    yield case(SILENT, "it stops after ten hours", stops(600), {"640m": [], "665m": [ticket]})
    yield case(SILENT, "it stops after ten commits", stops(120, 10), {"185m": [ticket]})
    yield case(SILENT, "it stops after nine commits", stops(120, 9), {"185m": [], "500m": []})
    half = stops(300, every=30)
    yield case(SILENT, "it commits every half hour, and stops", half, {f"{at}m": [] for at in range(150, 420, 10)})


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
    after = {f"{(2 * paused - 1) * 10 + minutes}m": alerts for minutes, alerts in ((60, []), (70, [ticket]))}
    yield case(SILENT, "a pause that is as long as one a week ago", [last(commits(weekly))], after, "10m")
    longer = [*instants[:-1], *[instants[-1] - 1] * 10]
    at = f"{(2 * paused - 1) * 10 + 60}m"
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

    yield of("its limit is not passed, and is passed", 0, {5: False, 6: False, 7: True})
    yield of("passed by half a second", 149.5, {6: False, 7: True})
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
