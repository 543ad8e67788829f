"""Cases of what became of transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from exporter.catalogue import (
    APPLICATION_THRESHOLD_SECONDS,
    BROKER_REQUEST_ERRORS_TOTAL,
    LAST_TRANSACTION_TIMESTAMP_SECONDS,
    LSO_HOLDER_DUE_TIMESTAMP_SECONDS,
    OLDEST_COMPLETION_START_TIMESTAMP_SECONDS,
    OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    OVERDUE_TRANSACTIONS,
    PRODUCER_FENCES_TOTAL,
    PRODUCER_INITS_TOTAL,
    RECENT_PRODUCER_FENCES,
    TRANSACTION_COMPLETION_SECONDS,
    TRANSACTIONS_TOTAL,
)
from tests.rules.promtool import Case, Series, case, scraped, spread

LONG, FENCED, STORM = "KafkaEosLongRunningTransaction", "KafkaEosProducerFenced", "KafkaEosProducerFenceStorm"
TIMEOUTS, ABORTS, SLOW = "KafkaEosTransactionTimeouts", "KafkaEosAbortRatioHigh", "KafkaEosCompletionSlow"
APP = ("prod", "pay")


def of(severity: str, app: tuple[str, ...] = APP, **more: str) -> dict[str, str]:
    return {"severity": severity, "kafka_cluster": app[0], "application": app[1], **more}


WARNING, CRITICAL = of("warning"), of("critical")


def cases() -> Iterator[Case]:
    yield from _long()
    yield from _events(FENCED, "fenced", "timed_out")
    yield from _events(TIMEOUTS, "timed_out", "fenced")
    yield from _restarts()
    yield from _persistent()
    yield from _storms()
    yield from _many()
    yield from _persistent_timeouts()
    yield from _completions()


def _long() -> Iterator[Case]:
    def oldest(values: str, app: tuple[str, ...] = APP, agent: str = "a") -> Series:
        return scraped(OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, *app, values=values, agent=agent)

    def overdue(values: str, app: tuple[str, ...] = APP, agent: str = "a") -> Series:
        return scraped(OVERDUE_TRANSACTIONS, *app, values=values, agent=agent)

    apps = spread(APP)
    yield case(LONG, "open for more than fifteen minutes", [oldest("-1x60")], {"14m": [], "15m": [WARNING]})
    yield case(LONG, "fifteen minutes are not more", [oldest("0x60"), overdue("0x60")], {"15m": [], "16m": [WARNING]})
    yield case(
        LONG,
        "overdue for three minutes, long before fifteen, and only that application",
        [*(oldest("0x60", app) for app in apps), overdue("0x2 1x60"), *(overdue("0x60", app) for app in apps[1:])],
        {"5m": [], "6m": [WARNING]},
    )
    yield case(
        LONG,
        "a coordinator that moves ends them late: overdue for two minutes",
        [oldest("0x5 stale"), overdue("0x2 1 1 0x60")],
        {f"{minute}m": [] for minute in range(12)},
    )
    yield case(
        LONG,
        "an application that commits all the time has no old transaction",
        [oldest("0+60x60"), overdue("0x60")],
        {"30m": [], "60m": []},
    )
    yield case(LONG, "overdue after the first second", [oldest("359x60"), overdue("1x60")], {"6m": [WARNING]})
    yield case(LONG, "of no age at all", [oldest("360x60"), overdue("1x60")], {"6m": []})
    yield from _own_topics(oldest, overdue)


def _own_topics(oldest: Callable[..., Series], overdue: Callable[..., Series]) -> Iterator[Case]:
    """An application that holds topics with longer thresholds, as a nightly batch does."""

    def due(values: str, app: tuple[str, ...] = APP, severity: str = "warning", agent: str = "a") -> Series:
        who = (app[0], app[1], "pay-1", "7", "open", severity)
        return scraped(LSO_HOLDER_DUE_TIMESTAMP_SECONDS, *who, values=values, agent=agent)

    def threshold(seconds: int) -> Series:
        return scraped(APPLICATION_THRESHOLD_SECONDS, *APP, "open_warning", values=f"{seconds}x300")

    old = oldest("0x300")
    waits = [due("7200x300"), due("14400x300", severity="critical")]
    times = {"16m": [], "119m": [], "121m": [WARNING]}
    yield case(LONG, "its topic may be held for two hours, and it has no threshold of its own", [old, *waits], times)
    own = [old, *waits, threshold(600)]
    yield case(LONG, "its own threshold is shorter than that of its topic", own, {"10m": [], "11m": [WARNING]})
    late = [old, *waits, overdue("0x20 1x300")]
    yield case(LONG, "it is longer open than its own timeout", late, {"22m": [], "24m": [WARNING]})
    yield case(LONG, "its topic has a shorter threshold", [old, due("300x300")], {"14m": [], "16m": [WARNING]})
    two = [old, due("300x300"), due("7200x300", agent="b")]
    yield case(LONG, "of two replicas one has the longer threshold", two, {"16m": [], "121m": [WARNING]})
    others = [old, *(due("7200x300", app) for app in spread(APP)[1:]), due("7200x300", severity="critical")]
    yield case(LONG, "others hold such topics", others, {"16m": [WARNING]})


def _events(alert: str, outcome: str, other: str) -> Iterator[Case]:
    def last(values: str, app: tuple[str, ...] = APP, agent: str = "a", outcome: str = outcome) -> Series:
        return scraped(LAST_TRANSACTION_TIMESTAMP_SECONDS, *app, outcome, values=values, agent=agent)

    yield case(
        alert,
        "the first one of an application whose series did not exist before",
        [last("_ _ _ 170x60")],
        {"2m": [], "3m": [WARNING], "12m": [WARNING]},
    )
    yield case(
        alert,
        "for ten minutes after it, and as long as data could be missing",
        [last("0x60")],
        {"9m": [WARNING], "10m": [WARNING], "16m": [WARNING], "17m": []},
    )
    yield case(alert, "ten minutes after it are over", [last("-600x60")], {"0m": []})
    yield case(alert, "just within ten minutes", [last("-599x60")], {"0m": [WARNING]})


def _restarts() -> Iterator[Case]:
    yield case(
        FENCED,
        "ordinary restarts initialise producers and fence none",
        [
            scraped(PRODUCER_INITS_TOTAL, *APP, values="0+10x60"),
            scraped(PRODUCER_FENCES_TOTAL, *APP, values="0x60"),
            scraped(LAST_TRANSACTION_TIMESTAMP_SECONDS, *APP, "committed", values="0+60x60"),
        ],
        {"30m": []},
    )
    yield case(
        FENCED,
        "Transactions V2 bumps the epoch with every transaction, and clients retry on CONCURRENT_TRANSACTIONS",
        [
            scraped(LAST_TRANSACTION_TIMESTAMP_SECONDS, *APP, "committed", values="0+60x60"),
            scraped(
                BROKER_REQUEST_ERRORS_TOTAL, "prod", "1", "InitProducerId", "CONCURRENT_TRANSACTIONS", values="0+100x60"
            ),
        ],
        {"30m": []},
    )


def _storms() -> Iterator[Case]:
    def recent(values: str, who: tuple[str, ...] = (*APP, "pay-3"), agent: str = "a") -> Series:
        return scraped(RECENT_PRODUCER_FENCES, *who, values=values, agent=agent)

    def storm(who: tuple[str, ...] = (*APP, "pay-3")) -> dict[str, str]:
        return of("critical", who[:2])

    ids = spread((*APP, "pay-3"))
    once = [recent("_ _ 3x9 stale")]
    yield case(STORM, "three fences of one id", [recent("_ _ 1 2 3x60")], {"3m": [], "4m": [storm()], "13m": [storm()]})
    yield case(STORM, "three in one sample are a clean-up", once, {f"{at}m": [] for at in range(30)})
    yield case(STORM, "which runs out one by one", [recent("_ _ 6x8 4 stale")], {f"{at}m": [] for at in range(20)})
    yield case(STORM, "three in one sample, and one more", [recent("_ _ 3 3 4x9 stale")], {"3m": [], "4m": [storm()]})
    steady = recent("3x60")
    yield case(
        STORM, "one goes, another comes: as many for long", [steady], {"10m": [], "11m": [storm()], "40m": [storm()]}
    )
    yield case(STORM, "two for long", [recent("2x60")], {"11m": [], "40m": []})
    yield case(STORM, "each id", [recent("1 3x9", who) for who in ids], {"1m": [storm(who) for who in ids[:3]]})
    yield case(
        STORM,
        "a rolling restart that crashes each id twice",
        [recent("1 2x9", who) for who in ids],
        {"5m": [], "9m": []},
    )
    yield case(STORM, "two replicas count the same fences", [recent("1 2x9"), recent("1 2x9", agent="b")], {"5m": []})
    behind = [recent("1 3x9"), recent("1x9", agent="b")]
    yield case(STORM, "a replica that has caught up less", behind, {"5m": [storm()]})
    both = [recent("1 3x9"), recent("1 3x9", agent="b")]
    yield case(STORM, "two replicas are one page", both, {"5m": [storm()]})
    fewer = [recent("1 3x9"), recent("1 2x9", agent="b")]
    yield case(STORM, "a replica that knows of two", fewer, {"5m": [storm()]})
    again = [recent("1 stale " + "_ " * 12 + "3x3 stale")]
    yield case(STORM, "one long ago, and three at once", again, {f"{at}m": [] for at in range(30)})
    gone = [recent("1 5x7 stale")]
    yield case(STORM, "it outlives seven minutes without data", gone, {"15m": [storm()], "16m": []})
    yield case(STORM, "ten minutes after it grew", [recent("1 3x60")], {"10m": [storm()], "11m": [storm()]})
    seldom = [recent("_ 1 3x9 stale")]
    yield case(STORM, "it was well eleven minutes ago", seldom, {"2m": [storm()], "18m": [storm()], "19m": []})


def _many() -> Iterator[Case]:
    """Fences of many ids of an application."""
    name, page = STORM, CRITICAL

    def of_ids(title: str, series: list[Series], checks: Mapping[str, Sequence[Mapping[str, str]]]) -> Case:
        """A case in which an id of each application is fenced twice in ten minutes."""
        apps = dict.fromkeys((made.labels["kafka_cluster"], made.labels["application"]) for made in series)
        return case(name, title, [*series, *(recent("2x90", app) for app in apps)], checks)

    def recent(values: str, app: tuple[str, ...] = APP, who: str = "pay-1") -> Series:
        return scraped(RECENT_PRODUCER_FENCES, *app, who, values=values)

    def fences(values: str, app: tuple[str, ...] = APP, agent: str = "a") -> Series:
        return scraped(PRODUCER_FENCES_TOTAL, *app, values=values, agent=agent)

    def inits(values: str, app: tuple[str, ...] = APP, agent: str = "a") -> Series:
        return scraped(PRODUCER_INITS_TOTAL, *app, values=values, agent=agent)

    storm = [fences("0x5 50+50x60"), inits("0x5 50+50x60")]
    yield of_ids("fifty a minute", storm, {"6m": [], "15m": [], "18m": [page], "60m": [page]})
    apps = spread(APP)
    yield of_ids(
        "each application",
        [series for app in apps for series in (fences("0+50x60", app), inits("0+50x60", app))],
        {"20m": [of("critical", app) for app in apps]},
    )
    crash = [fences("0x9 100x60"), inits("0x9 100x60")]
    yield of_ids("one crash of all instances", crash, {f"{at}m": [] for at in range(30)})
    slow = [fences("0x9 20 40 60x60"), inits("0x9 20 40 60x60")]
    yield of_ids("a crash that takes three minutes to clean up", slow, {f"{at}m": [] for at in range(30)})
    clean = [fences("0+4x60"), inits("0+9x60")]
    yield of_ids("most starts are clean", clean, {"20m": [], "40m": []})
    yield of_ids("exactly half of them", [fences("0+4x60"), inits("0+8x60")], {"20m": []})
    yield of_ids("more than half of them", [fences("0+5x60"), inits("0+9x60")], {"20m": [page]})
    few = [fences("0+1x60"), inits("0+1x60")]
    yield of_ids("five in five minutes", few, {"20m": [], "40m": []})
    yield of_ids("ten in five minutes", [fences("0+2x60"), inits("0+2x60")], {"20m": [page]})
    late = [fences("0+1x20 22+2x60"), inits("0+1x20 22+2x60")]
    yield of_ids("ten in five minutes, five in those before", late, {"30m": [], "38m": [page]})
    less = [fences("0+2x20 41+1x60"), inits("0+2x20 41+1x60")]
    yield of_ids("it gets less", less, {"20m": [page], "36m": []})
    yield of_ids(
        "it ends after seven minutes",
        [fences("0+50x20 1000x60"), inits("0+50x20 1000x60")],
        {"24m": [page], "31m": [page], "32m": []},
    )
    nine = " ".join(str(9 * (at // 5) + 2 * (at % 5)) for at in range(21))  # nine in any five minutes
    rises = f"{nine} 38+2x60"
    yield of_ids("nine, and then ten", [fences(rises), inits(rises)], {"30m": [], "36m": [page]})
    falls = "0+2x20 " + " ".join(str(40 + 9 * (at // 5) + 2 * (at % 5)) for at in range(1, 40))
    yield of_ids("ten, and then nine", [fences(falls), inits(falls)], {"26m": [page], "33m": [], "40m": []})
    two = [series for agent in "ab" for series in (fences("0+1x60", agent=agent), inits("0+1x60", agent=agent))]
    yield of_ids("two replicas count the same five", two, {"20m": []})
    other = [*(series for agent in "ab" for series in (fences("0+50x60", agent=agent), inits("0+50x60", agent=agent)))]
    yield of_ids("two replicas are one page", other, {"20m": [page]})
    young = [*clean, fences("_x20 0+50x60", agent="b"), inits("_x20 0+50x60", agent="b")]
    yield of_ids("one of two counts more", young, {"20m": [], "40m": [page]})
    rolls = [fences("0+4x25 100x60"), inits("0+4x25 100x60")]
    distinct = [
        recent("_ " * at + "1 1 1 1 1 1 1 1 1 1 stale " + "_ " * 60, who=f"pay-{at}-{number}")
        for at in range(25)
        for number in range(4)
    ]
    one_pass = [*rolls, *distinct]
    yield case(
        name, "a rollout of a hundred instances, each id fenced once", one_pass, {f"{at}m": [] for at in range(40)}
    )
    yield case(name, "and one id of them twice", [*one_pass, recent("_x15 1 2x9 stale")], {"20m": [page]})
    elsewhere = [recent("2x60", app, "pay-1") for app in spread(APP)[1:]]
    yield case(name, "and ids of other applications twice", [*one_pass, *elsewhere], {"20m": []})
    slowly = recent("_ _ _ 1x9 stale _ _ _ 1x30")
    yield case(name, "and one id again after a quarter of an hour", [*one_pass, slowly], {"15m": [], "20m": [page]})


def _persistent() -> Iterator[Case]:
    def fences(values: str, app: tuple[str, ...] = APP, agent: str = "a") -> Series:
        return scraped(PRODUCER_FENCES_TOTAL, *app, values=values, agent=agent)

    ticket = of("warning")
    slow = "0 0 0 1 1 1 1 1 1 2 2 2 2 2 2 3 3 3 3 3 3 4x40"  # a step is ten minutes: one in an hour
    yield case(FENCED, "one an hour", [fences(slow)], {"90m": [], "200m": [ticket], "230m": [ticket]}, "10m")
    every = range(60, 250, 10)
    yield case(FENCED, "two hours of it", [fences("0 0 0 1 1 1 1 1 1 2x20")], {f"{at}m": [] for at in every}, "10m")
    pause = fences("0 0 0 3 3 3 3 3 3 3 3 3 3 3 3 6x20")
    yield case(FENCED, "an hour without any", [pause], {f"{at}m": [] for at in every}, "10m")
    begins = fences("0x10 1 1 1 1 1 1 2x20")
    yield case(FENCED, "two hours of it, and well before", [begins], {"190m": [], "210m": []}, "10m")
    gap = fences("0 0 1x12 2 2 2 2 2 3x20")
    yield case(FENCED, "two hours of it, and one more four hours ago", [gap], {"240m": []}, "10m")
    over = fences("0 0 0 1 1 1 1 1 1 2 2 2 2 2 2 3x40")
    yield case(FENCED, "and then none", [over], {"140m": [], "150m": [ticket], "240m": []}, "10m")
    mixed = [fences("0 0 0 1x40"), fences("0x8 1x40", ("prod", "other")), fences("0x14 1x40", ("other", "pay"))]
    yield case(FENCED, "three applications, once each", mixed, {"190m": []}, "10m")


def _persistent_timeouts() -> Iterator[Case]:
    def ended(
        instants: Sequence[int], app: tuple[str, ...] = APP, agent: str = "a", outcome: str = "timed_out"
    ) -> Series:
        """So many minutes after the start a transaction ends."""
        counts = " ".join(str(sum(instant <= 10 * at for instant in instants)) for at in range(180))
        return scraped(TRANSACTIONS_TOTAL, *app, outcome, values=counts, agent=agent)

    ticket = of("warning")
    hourly = range(20, 1500, 61)
    stays = {f"{at}m": [ticket] for at in range(270, 1500, 30)}
    both = [ended(hourly), ended(hourly, agent="b")]
    yield case(TIMEOUTS, "one in 61 minutes, for a day", both, {"200m": [], **stays}, "10m")
    gap = [ended([*range(150, 300, 50), *range(420, 900, 50)])]
    times: dict[str, list[Mapping[str, str]]] = {f"{at}m": [] for at in (370, 390, 410, 510, 520, 530)}
    yield case(TIMEOUTS, "two hours and more without any", gap, times, "10m")
    new = [ended([130, 140, 250])]
    yield case(TIMEOUTS, "four hours of it", new, {f"{at}m": [] for at in range(130, 380, 10)}, "10m")
    mixed = [ended([50]), ended([170], ("prod", "other")), ended([290], ("other", "pay"))]
    yield case(TIMEOUTS, "three applications, once each", mixed, {f"{at}m": [] for at in range(290, 400, 20)}, "10m")
    missing = [ended([80, 320, 440])]
    yield case(TIMEOUTS, "one before the first period", missing, {f"{at}m": [] for at in range(450, 540, 10)}, "10m")
    over = [ended(range(20, 400, 61))]
    yield case(TIMEOUTS, "and then none", over, {"400m": [ticket], "480m": [ticket], "520m": []}, "10m")


def _completions() -> Iterator[Case]:
    def prepared(values: str, app: tuple[str, ...] = APP, agent: str = "a") -> Series:
        return scraped(OLDEST_COMPLETION_START_TIMESTAMP_SECONDS, *app, values=values, agent=agent)

    def histogram(quick: str, slow: str, app: tuple[str, ...] = APP, agent: str = "a") -> list[Series]:
        family = TRANSACTION_COMPLETION_SECONDS
        return [
            scraped(family, *app, values=quick, agent=agent, suffix="_bucket", le="10"),
            scraped(family, *app, values=slow, agent=agent, suffix="_bucket", le="30"),
            scraped(family, *app, values=slow, agent=agent, suffix="_bucket", le="+Inf"),
            scraped(family, *app, values=slow, agent=agent, suffix="_count"),
        ]

    apps = spread(APP)
    yield case(SLOW, "markers missing for more than five minutes", [prepared("-1x60")], {"4m": [], "5m": [CRITICAL]})
    yield case(SLOW, "two replicas", [prepared("-1x60"), prepared("-1x60", agent="b")], {"5m": [CRITICAL]})
    limits = [
        scraped(APPLICATION_THRESHOLD_SECONDS, *APP, "completion_critical", values=f"{seconds}x60", agent=agent)
        for seconds, agent in ((300, "a"), (400, "b"))
    ]
    yield case(
        SLOW, "a replica has not reread a larger threshold", [prepared("0x60"), *limits], {"6m": [], "7m": [CRITICAL]}
    )
    yield case(SLOW, "five minutes are not more", [prepared("0x60")], {"5m": [], "6m": [CRITICAL]})
    yield case(
        SLOW,
        "each application",
        [prepared("-1x60", app) for app in apps],
        {"5m": [of("critical", app) for app in apps]},
    )
    yield case(SLOW, "replicas go by the older", [prepared("-1x60"), prepared("60x60", agent="b")], {"5m": [CRITICAL]})
    yield case(SLOW, "a broker restarts and its markers wait for it", [prepared("0x4 stale")], {"4m": [], "9m": []})
    yield case(SLOW, "it outlives seven minutes without data", [prepared("-1x8 stale")], {"15m": [CRITICAL], "16m": []})
    slow, fine = histogram("0+0x90", "0+2x90"), histogram("0+200x90", "0+201x90")
    yield case(SLOW, "slow for half an hour", slow, {"20m": [], "35m": [WARNING]})
    yield case(
        SLOW,
        "slow for half an hour, then quick: its window ends it, then its seven minutes",
        histogram("0+0x40 20+20x60", "0+2x40 100+20x60"),
        {"41m": [WARNING], "56m": [WARNING], "57m": []},
    )
    yield case(
        SLOW,
        "each application by its own percentile",
        [*slow, *(series for app in apps[1:] for series in histogram("0+0x90", "0+2x90", app))],
        {"40m": [of("warning", app) for app in apps]},
    )
    yield case(SLOW, "ten in ten minutes are enough", histogram("0+0x90", "0+1x90"), {"29m": [], "40m": [WARNING]})
    beyond = [series for series in slow if series.labels.get("le") != "30"]
    yield case(SLOW, "exactly ten seconds: the last bound of the buckets", beyond, {"60m": []})
    yield case(SLOW, "just more than ten seconds", histogram("0+9897x90", "0+10000x90"), {"60m": [WARNING]})
    yield case(
        SLOW,
        "two replicas that see it quick enough",
        [*fine, *histogram("0+200x90", "0+201x90", agent="b")],
        {"60m": []},
    )
    yield case(
        SLOW, "two replicas, one just started", [*slow, *histogram("0x90", "0x90", agent="b")], {"60m": [WARNING]}
    )
    quick = histogram("0+20x90", "0+20x90", agent="b")
    yield case(SLOW, "two replicas, one of which sees it quick", [*slow, *quick], {"60m": [WARNING]})
    few = histogram("0+0x90", "0+0.6x90")
    yield case(SLOW, "six in ten minutes are too few", few, {"60m": []})
    yield case(
        SLOW, "two replicas count the same six", [*few, *histogram("0+0x90", "0+0.6x90", agent="b")], {"60m": []}
    )
    yield case(SLOW, "one in two hundred is not one in a hundred", fine, {"60m": []})
    yield case(SLOW, "more than one in a hundred", histogram("0+98x90", "0+100x90"), {"60m": [WARNING]})
    yield case(
        SLOW,
        "too few to judge",
        histogram("0+0x90", "0 0 0 0 0 1 1 1 1 1 2 2 2 2 2 3 3 3 3 3" + " 4" * 60),
        {"60m": []},
    )
