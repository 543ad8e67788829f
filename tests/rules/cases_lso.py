"""Stalled and hanging, by the transaction that holds the partitions. When each is due is the agent's to say."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from exporter.catalogue import (
    AUDIT_FINDINGS,
    AUDIT_LAST_RUN_TIMESTAMP_SECONDS,
    LSO_BLOCKER_INFO,
    LSO_HOLDER_DUE_TIMESTAMP_SECONDS,
    LSO_HOLDER_PARTITIONS,
    LSO_STALLED_SINCE_TIMESTAMP_SECONDS,
    MARKERS_AUDIT,
    OPEN_TRANSACTION_TIMEOUT_SECONDS,
    OWNER_INFO,
    STALLED_PARTITIONS,
    TOPIC_LSO_LAG_OFFSETS,
    TRANSACTION_OPEN_SECONDS,
)
from tests.rules.promtool import Case, Series, case, scraped, spread

TORN = "KafkaEosTornTransaction"
STALLED, HANGING, UNMARKED = "KafkaEosLsoStalled", "KafkaEosHangingTransaction", "KafkaEosUnmarkedTransaction"
PLACE = ("prod", "orders", "0")
HOLDER = ("prod", "7")
NAMES = ("kafka_cluster", "producer_id")


def by(severity: str, holder: tuple[str, ...] = HOLDER) -> dict[str, str]:
    return {"severity": severity, **dict(zip(NAMES, holder, strict=True))}


def due(
    severity: str,
    values: str,
    holder: tuple[str, ...] = HOLDER,
    kind: str = "open",
    agent: str = "a",
    who: str = "pay-1",
) -> Series:
    cluster, pid = holder
    labels = (cluster, "pay" if who else "", who, pid, kind, severity)
    return scraped(LSO_HOLDER_DUE_TIMESTAMP_SECONDS, *labels, values=values, agent=agent)


def holds(
    kind: str, values: str = "1x60", holder: tuple[str, ...] = HOLDER, agent: str = "a", who: str = "pay-1"
) -> Series:
    cluster, pid = holder
    who = "" if kind == "hanging" else who
    return scraped(LSO_HOLDER_PARTITIONS, cluster, "pay" if who else "", who, pid, kind, values=values, agent=agent)


def since(values: str, place: tuple[str, ...] = PLACE, agent: str = "a") -> Series:
    return scraped(LSO_STALLED_SINCE_TIMESTAMP_SECONDS, *place, values=values, agent=agent)


def blocker(
    kind: str, values: str = "1x60", place: tuple[str, ...] = PLACE, pid: str = "7", agent: str = "a", epoch: str = "3"
) -> Series:
    cluster, topic, partition = place
    who = ("", "") if kind == "hanging" else ("pay", "pay-1")
    labels = (cluster, who[0], topic, partition, who[1], pid, epoch, "42", kind)
    return scraped(LSO_BLOCKER_INFO, *labels, values=values, agent=agent)


def timeout(
    seconds: float, pid: str = "7", cluster: str = "prod", agent: str = "a", epoch: str = "4", values: str = ""
) -> Series:
    labels = (cluster, "pay", "pay-1", pid, epoch, "ongoing")
    return scraped(OPEN_TRANSACTION_TIMEOUT_SECONDS, *labels, values=values or f"{seconds}x60", agent=agent)


WARNING, CRITICAL = by("warning"), by("critical")


def cases() -> Iterator[Case]:
    yield from _stalls("warning", WARNING)
    yield from _stalls("critical", CRITICAL)
    yield from _habits()
    yield from _pages()
    yield from _endless(HANGING, "hanging", ("open", "completing", "unmarked"), ("unknown",))
    yield from _torn()
    yield from _endless(UNMARKED, "unmarked", ("open", "completing"), ("hanging", "unknown"))
    yield from _flood()
    owned = scraped(OWNER_INFO, "prod", "holder", "7", "payments", values="1x60")
    other = scraped(OWNER_INFO, "prod", "holder", "8", "fraud", values="1x60")
    yield case(
        STALLED,
        "the owner of its holder is a label",
        [due("warning", "-1x60"), owned, other],
        {"1m": [{**WARNING, "owner": "payments"}]},
    )


def _stalls(severity: str, ours: dict[str, str]) -> Iterator[Case]:
    other = due("critical" if severity == "warning" else "warning", "90000x60")
    yield case(STALLED, f"{severity}: after it is due", [due(severity, "299x60"), other], {"4m": [], "5m": [ours]})
    yield case(STALLED, f"{severity}: not when it is due", [due(severity, "300x60"), other], {"5m": [], "6m": [ours]})
    holders = spread(HOLDER)
    yield case(
        STALLED,
        f"{severity}: each holder, whatever it holds",
        [due(severity, "-1x60", holder) for holder in holders],
        {"0m": [by(severity, holder) for holder in holders]},
    )
    yield case(
        STALLED,
        f"{severity}: two replicas go by the earlier date, though they name it differently",
        [due(severity, "299x60"), due(severity, "900x60", agent="b", kind="unknown", who="")],
        {"4m": [], "5m": [ours]},
    )
    yield case(
        STALLED,
        f"{severity}: seven minutes without data neither resolve it nor hold it longer",
        [due(severity, "-1x8 stale")],
        {"8m": [ours], "15m": [ours], "16m": []},
    )
    yield case(
        STALLED,
        f"{severity}: both scrapes fail for five minutes, and come back",
        [due(severity, "-1x8 stale stale stale stale stale -1x10", agent=agent) for agent in "ab"],
        {f"{minute}m": [ours] for minute in (8, 9, 13, 14)},
    )
    yield case(STALLED, f"{severity}: ignored", [due(severity, "9999999999x60")], {"60m": []})
    yield case(
        STALLED,
        f"{severity}: a stall that moves on begins anew",
        [due(severity, "300x3 540x3 780x3 1020x3")],
        {f"{minute}m": [] for minute in range(16)},
    )
    quiet = [
        scraped(STALLED_PARTITIONS, "prod", "quiet", values="0x60"),
        scraped(TOPIC_LSO_LAG_OFFSETS, "prod", "quiet", values="0x60"),
    ]
    yield case(STALLED, f"{severity}: a quiet topic", quiet, {"30m": [], "60m": []})


def _habits() -> Iterator[Case]:
    """An application whose transactions are usually open for ten minutes is judged by that."""

    def lasts(
        within: int,
        count: int = 24,
        application: str = "pay",
        agent: str = "a",
        outcome: str = "committed",
        cluster: str = "prod",
        grows: str = "",
        shorter: str = "0x400",
    ) -> list[Series]:
        """In a day ``count`` transactions end, all of them within so many seconds. ``grows`` are the values of the
        counts instead, and ``shorter`` those of transactions below the bucket.
        """
        family, who = TRANSACTION_OPEN_SECONDS, (cluster, application, outcome)
        grows = grows or f"0+{count / 288:.6f}x400"
        bounds = ("60", "300", "900", "3600")
        below = [bound for bound in bounds if int(bound) < within]
        buckets = {bound: shorter if bound == below[-1] else "0x400" if bound in below else grows for bound in bounds}
        return [
            *(
                scraped(family, *who, values=values, agent=agent, suffix="_bucket", le=le)
                for le, values in (buckets | {"+Inf": grows}).items()
            ),
            scraped(family, *who, values=grows, agent=agent, suffix="_count"),
        ]

    def stalls(agent: str = "a", who: str = "pay-1") -> Series:
        """From 25 h on it is due at 25 h and 5 min."""
        return due("warning", "_x299 " + f"{25 * 3600 + 300}x90", agent=agent, who=who)

    both = [series for agent in "ab" for series in (*lasts(900, agent=agent), stalls(agent))]
    ten_minutes = {"1506m": [], "1510m": [], "1514m": [], "1515m": [WARNING], "1600m": [WARNING]}
    yield case(STALLED, "open for up to a quarter of an hour as usual", both, {"1505m": [], **ten_minutes}, "5m")
    paged = [*both, due("critical", "_x299 1x90")]
    yield case(STALLED, "a page does not wait", paged, {"1506m": [CRITICAL], "1515m": [CRITICAL, WARNING]}, "5m")
    yield from _habit_seconds(lasts)
    at_once = {"1505m": [], "1510m": [WARNING]}
    yield case(STALLED, "its transactions usually take less", [*lasts(300), stalls()], at_once, "5m")
    yield case(STALLED, "four transactions in a day are no habit", [*lasts(900, 4), stalls()], at_once, "5m")
    yield case(STALLED, "six are", [*lasts(900, 6), stalls()], {"1510m": [], "1515m": [WARNING]}, "5m")
    for title, other in (
        ("another application's habit", lasts(900, application="other")),
        ("the habit on another cluster", lasts(900, cluster="other")),
        ("those that were aborted took long", lasts(900, outcome="aborted")),
    ):
        yield case(STALLED, title, [*other, stalls()], at_once, "5m")
    yield case(STALLED, "whose transaction it is, is not known", [*lasts(900), stalls(who="")], at_once, "5m")


def _habit_seconds(lasts: Callable[..., list[Series]]) -> Iterator[Case]:
    """To a second, a ticket is later by what is usual: nine of ten transactions are open for 5 minutes and so much."""

    def waits(title: str, usual: list[Series], seconds: float, minutes: int = 1510, step: str = "5m") -> Iterator[Case]:
        for off, tickets in ((-0.5, [WARNING]), (0.5, [])):
            stall = due("warning", f"{minutes * 60 - seconds + off:.1f}x400")
            yield case(STALLED, f"{title}, {off:+g} s", [*usual, stall], {f"{minutes}m": tickets}, step)

    yield from waits("no longer than five minutes", lasts(300), 0)
    yield from waits("up to a quarter of an hour", lasts(900), 540)
    yield from waits("an hour waits just below a quarter", lasts(3600), 590)
    yield from waits("five transactions in a day", lasts(900, grows="0x100 5x300"), 540)
    yield from waits("another agent knows of shorter ones", [*lasts(900), *lasts(300, agent="b")], 540)
    yield from waits("another agent saw fewer", [*lasts(900, 6), *lasts(900, 3, agent="b")], 540)
    yield from waits("too few for each of two agents", [*lasts(900, 3), *lasts(900, 3, agent="b")], 0)
    yield from waits("those that are aborted are longer", [*lasts(300), *lasts(900, outcome="aborted")], 0)
    yield from waits("few commit, many are aborted", [*lasts(900, 3), *lasts(900, outcome="aborted")], 0)
    half = lasts(900, grows="0+1x400", shorter="0x158 1+1x300")
    stall = due("warning", f"{1510 * 60 - 100}x400")
    yield case(STALLED, "longer ones half a day ago", [*half, stall], {"1510m": []}, "5m")
    yield from waits(
        "longer ones more than a day ago", lasts(900, grows="0+1x400", shorter="0x150 1+1x300"), 0, 3000, "10m"
    )
    yield from waits("many more than a day ago", lasts(900, grows="0+1x150 150x50 154x200"), 0, 3000, "10m")


def _pages() -> Iterator[Case]:
    def page(kind: str, agent: str = "a", holder: tuple[str, ...] = HOLDER) -> list[Series]:
        """One that never ends is due at once, the others in a quarter of an hour."""
        when = "0x60" if kind in {"hanging", "unmarked"} else "900x60"
        who = "" if kind == "hanging" else "pay-1"
        return [due("critical", when, holder, kind, agent, who), holds(kind, holder=holder, agent=agent)]

    for endless in ("hanging", "unmarked"):
        yield case(STALLED, f"{endless}, at once", page(endless), {"1m": [CRITICAL]})
        for kind in ("open", "completing"):
            yield case(
                STALLED,
                f"{endless} by one replica and {kind} by the other is no page yet",
                [*page(endless), *page(kind, "b")],
                {"1m": [], "15m": [], "16m": [CRITICAL]},
            )
            yield case(
                STALLED,
                f"what is {kind} elsewhere does not make what is {endless} wait",
                [*page(endless), *(series for holder in spread(HOLDER)[1:] for series in page(kind, "b", holder))],
                {"1m": [CRITICAL]},
            )
        unasked = [*page(endless), *page("unknown", "b")]
        yield case(STALLED, f"{endless}, and the other replica cannot ask", unasked, {"1m": [CRITICAL]})


def endless(
    values: str = "1x60", at: float = 0, holder: tuple[str, ...] = HOLDER, agent: str = "a", kind: str = "hanging"
) -> list[Series]:
    """A transaction that never ends by itself, which is due at once; never where its topics are ignored."""
    instants = values.replace("1", f"{at:g}", 1) if at else values.replace("1x", "0x", 1)
    who = "" if kind == "hanging" else "pay-1"
    return [holds(kind, values, holder, agent), due("critical", instants, holder, kind, agent, who)]


def _flood() -> Iterator[Case]:
    """Of many holders the twenty that are due longest: one notification has them all."""
    many = [("prod", str(100 + number)) for number in range(25)]
    for severity in ("warning", "critical"):
        series = [due(severity, f"{-number}x60", holder) for number, holder in enumerate(many)]
        oldest = [by(severity, holder) for holder in many[5:]]
        yield case(STALLED, f"{severity}: twenty-five holders", series, {"5m": oldest})
        other = due(severity, "-1x60", ("other", "7"))
        yield case(
            STALLED, f"{severity}: and one elsewhere", [*series, other], {"5m": [*oldest, by(severity, ("other", "7"))]}
        )
    for alert, kind in ((HANGING, "hanging"), (UNMARKED, "unmarked")):
        series = [
            series for number, holder in enumerate(many) for series in endless(at=-1 - number, holder=holder, kind=kind)
        ]
        oldest = [by("critical", holder) for holder in many[5:]]
        yield case(alert, f"twenty-five that are {kind}", series, {"5m": oldest})
        one_more = [*series, *endless(at=-1, holder=("other", "7"), kind=kind)]
        elsewhere = [*oldest, by("critical", ("other", "7"))]
        yield case(alert, f"{kind}: and one elsewhere", one_more, {"5m": elsewhere})
        again = [*series, *endless(at=-4, holder=many[3], kind=kind, agent="b")]
        again += endless(at=-25, holder=many[24], kind=kind, agent="b")
        yield case(alert, f"{kind}: two of them seen by two replicas", again, {"5m": oldest})
        earlier = [*series, *endless(at=-100, holder=many[0], kind=kind, agent="b")]
        first = [by("critical", holder) for holder in (many[0], *many[6:])]
        yield case(alert, f"{kind}: one that another replica saw earlier", earlier, {"5m": first})


def _endless(alert: str, ours: str, known: tuple[str, ...], others: tuple[str, ...]) -> Iterator[Case]:
    """A kind that never ends by itself; ``known`` are the kinds of another replica that silence it."""
    holders = spread(HOLDER)

    def found(values: str = "1x60", at: float = 0, holder: tuple[str, ...] = HOLDER, agent: str = "a") -> list[Series]:
        return endless(values, at, holder, agent, ours)

    yield case(alert, "pages at once", found(), {"0m": [CRITICAL]})
    yield case(alert, "in an ignored topic", found(at=9999999999), {"0m": [], "30m": []})
    part = [*found(at=9999999999), *found(agent="b")]
    yield case(alert, "in an ignored topic by one agent, and in another topic by another", part, {"0m": [CRITICAL]})
    yield case(alert, "due in a day", found(at=86400), {"0m": [], "1m": [CRITICAL]})
    yield case(alert, "due in less than a day", found(at=86399.5), {"0m": [CRITICAL]})
    yield case(alert, "a ticket alone", [holds(ours), due("warning", "0x60", kind=ours)], {"1m": [], "30m": []})
    for kind in others:
        yield case(alert, f"due, and {kind}", endless(kind=kind), {"1m": [], "30m": []})
    yield case(alert, "the agent's clock is ten minutes ahead", found(at=600), {"0m": [CRITICAL]})
    yield case(
        alert,
        "each holder",
        [series for holder in holders for series in found(holder=holder)],
        {"0m": [by("critical", holder) for holder in holders]},
    )
    both = [series for agent in "ab" for series in found(agent=agent)]
    yield case(alert, "two replicas give one page", both, {"1m": [CRITICAL]})
    for kind in (*known, *others):
        yield case(alert, f"silent for kind {kind}", [holds(kind)], {"1m": [], "30m": []})
    for kind in known:
        yield case(
            alert,
            f"silent while the other replica says {kind}",
            [*found(), holds(kind, agent="b")],
            {"1m": [], "30m": []},
        )
        yield case(
            alert,
            f"what is {kind} elsewhere does not silence it",
            [*found(), *(holds(kind, holder=holder) for holder in holders[1:])],
            {"1m": [CRITICAL]},
        )
    yield case(
        alert,
        "a replica that cannot ask does not silence the one that could",
        [*found(), holds("unknown", agent="b")],
        {"1m": [CRITICAL]},
    )
    yield case(
        alert,
        "it goes on for seven minutes without data, and ends then",
        found("1x8 stale"),
        {"8m": [CRITICAL], "15m": [CRITICAL], "16m": []},
    )


def _torn() -> Iterator[Case]:
    def audited(
        values: str = "1x60",
        place: tuple[str, ...] = ("prod", "orders"),
        kind: str = "torn_commit",
        agent: str = "a",
        ended: int = 0,
    ) -> list[Series]:
        cluster, topic = place
        who = (cluster, "prod", MARKERS_AUDIT, topic)
        at = f"{ended}x60"
        return [
            scraped(AUDIT_FINDINGS, *who, kind, values=values, agent=agent),
            scraped(AUDIT_LAST_RUN_TIMESTAMP_SECONDS, *who, values=at, agent=agent),
        ]

    def fires(place: tuple[str, ...] = ("prod", "orders")) -> dict[str, str]:
        cluster, topic = place
        return {"severity": "critical", "kafka_cluster": cluster, "topic": topic}

    places = spread(("prod", "orders"))
    yield case(TORN, "a torn commit pages at once", audited(), {"0m": [fires()]})
    yield case(TORN, "0 is silent", audited("0x60"), {"0m": [], "30m": []})
    yield case(
        TORN,
        "each topic of each cluster",
        [series for place in places for series in audited(place=place)],
        {"0m": [fires(place) for place in places]},
    )
    yield case(
        TORN,
        "two replicas give one page, also where they count differently",
        [*audited("0x60"), *audited("2x60", agent="b")],
        {"1m": [fires()]},
    )
    yield case(
        TORN,
        "a newer audit without it ends the page, also where another replica has an older one",
        [*audited("1x60"), *audited("0x60", agent="b", ended=60)],
        {"1m": []},
    )
    yield case(TORN, "a torn abort has no page", audited(kind="torn_abort"), {"1m": []})
    yield case(
        TORN,
        "it goes on for seven minutes without data, and ends then",
        audited("1x8 stale"),
        {"8m": [fires()], "15m": [fires()], "16m": []},
    )
