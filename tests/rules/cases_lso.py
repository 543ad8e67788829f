"""Stalled and hanging."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import (
    LSO_BLOCKER_INFO,
    LSO_STALLED_SINCE_TIMESTAMP_SECONDS,
    OPEN_TRANSACTION_TIMEOUT_SECONDS,
    STALLED_PARTITIONS,
    TOPIC_LSO_LAG_OFFSETS,
)
from tests.rules.promtool import Case, Series, case, scraped, spread

STALLED, HANGING = "KafkaEosLsoStalled", "KafkaEosHangingTransaction"
PLACE = ("prod", "orders", "0")
NAMES = ("kafka_cluster", "topic", "partition")


def where(severity: str, place: tuple[str, ...] = PLACE) -> dict[str, str]:
    return {"severity": severity, **dict(zip(NAMES, place, strict=True))}


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


WARNING, CRITICAL = where("warning"), where("critical")


def cases() -> Iterator[Case]:
    yield from _tickets()
    yield from _pages()
    yield from _false_alarms()
    yield from _hanging()


def _tickets() -> Iterator[Case]:
    yield case(STALLED, "a ticket after more than five minutes", [since("-1x60")], {"4m": [], "5m": [WARNING]})
    yield case(STALLED, "five minutes are not more than five", [since("0x60")], {"5m": [], "6m": [WARNING]})
    places = spread(PLACE)
    yield case(
        STALLED,
        "one ticket for each partition",
        [since("-1x60", place) for place in places],
        {"5m": [where("warning", place) for place in places]},
    )
    yield case(
        STALLED,
        "two replicas that date a stall differently give one ticket, by the earlier date",
        [since("-1x60"), since("100x60", agent="b")],
        {"5m": [WARNING]},
    )
    yield case(
        STALLED,
        "seven minutes without data neither resolve it nor hold it longer",
        [since("-1x8 stale")],
        {"8m": [WARNING], "15m": [WARNING], "16m": []},
    )
    yield case(
        STALLED,
        "both scrapes fail for five minutes while it fires, and come back",
        [since("-1x8 stale stale stale stale stale -1x10", agent=agent) for agent in "ab"],
        {f"{minute}m": [WARNING] for minute in (8, 9, 13, 14)},
    )
    yield case(
        STALLED,
        "a Prometheus that starts into a stall tells of it at once",
        [since("-301x60")],
        {"0m": [WARNING]},
    )


def _pages() -> Iterator[Case]:
    yield case(
        STALLED,
        "a page after fifteen minutes whoever holds it",
        [since("-1x60"), timeout(3600), blocker("open")],
        {"14m": [WARNING], "15m": [WARNING, CRITICAL]},
    )
    yield case(
        STALLED,
        "fifteen minutes are not more than fifteen",
        [since("0x60"), timeout(3600), blocker("open")],
        {"15m": [WARNING], "16m": [WARNING, CRITICAL]},
    )
    yield case(
        STALLED, "a page after fifteen minutes by whom nobody knows", [since("-1x60")], {"15m": [WARNING, CRITICAL]}
    )
    yield case(STALLED, "exactly fifteen minutes by whom nobody knows", [since("0x60")], {"15m": [WARNING]})
    yield case(
        STALLED,
        "a holder of whom it is not known whether it hangs does not page at once",
        [since("0x60"), blocker("unknown")],
        {"1m": [], "5m": []},
    )
    yield case(
        STALLED,
        "two replicas that agree on a hanging one page once",
        [*(since("0x60", agent=agent) for agent in "ab"), *(blocker("hanging", agent=agent) for agent in "ab")],
        {"1m": [CRITICAL]},
    )
    yield case(
        STALLED,
        "two replicas page once for whom nobody knows",
        [since("-1x60", agent=agent) for agent in "ab"],
        {"15m": [WARNING, CRITICAL]},
    )
    yield case(
        STALLED,
        "a page a minute beyond the holder's own timeout, joined on producer id though the epochs differ",
        [since("-1x60"), timeout(420), blocker("open"), timeout(60, pid="8"), timeout(60, cluster="other")],
        {"7m": [WARNING], "8m": [WARNING, CRITICAL]},
    )
    yield case(
        STALLED,
        "not before its timeout and a minute",
        [since("0x60"), timeout(420), blocker("open")],
        {"8m": [WARNING], "9m": [WARNING, CRITICAL]},
    )
    yield case(
        STALLED,
        "a holder with a timeout of seconds pages with the ticket, not before",
        [since("0x60"), timeout(5), blocker("completing")],
        {"5m": [], "6m": [WARNING, CRITICAL]},
    )
    yield case(
        STALLED,
        "just beyond five minutes with a timeout of seconds",
        [since("-1x60"), timeout(5), blocker("completing")],
        {"5m": [WARNING, CRITICAL]},
    )
    yield case(
        STALLED,
        "replicas that disagree who holds it page by the more patient one",
        [
            since("-1x60"),
            timeout(60),
            blocker("open"),
            timeout(480, pid="8", agent="b"),
            blocker("open", pid="8", agent="b"),
        ],
        {"8m": [WARNING], "9m": [WARNING, CRITICAL]},
    )
    yield case(
        STALLED,
        "two replicas that agree page once, at the right time",
        [
            *(since("-1x60", agent=agent) for agent in "ab"),
            *(timeout(420, agent=agent) for agent in "ab"),
            *(blocker("open", agent=agent) for agent in "ab"),
        ],
        {"7m": [WARNING], "8m": [WARNING, CRITICAL]},
    )
    yield case(
        STALLED,
        "replicas that disagree on a timeout take the longer",
        [since("-1x60"), timeout(60), timeout(420, agent="b", epoch="5"), blocker("open")],
        {"7m": [WARNING], "8m": [WARNING, CRITICAL]},
    )
    places = spread(PLACE)
    yield case(
        STALLED,
        "one holder of many partitions pages for each",
        [
            *(since("-1x60", place) for place in places),
            *(blocker("open", place=place) for place in places),
            timeout(300),
            timeout(300, cluster="other"),
        ],
        {"6m": [where(severity, place) for place in places for severity in ("warning", "critical")]},
    )
    yield case(
        STALLED,
        "each partition has its own holder's patience",
        [
            *(since("-1x60", place) for place in places),
            *(blocker("open", place=place, pid=str(at)) for at, place in enumerate(places)),
            timeout(300, pid="0"),
            *(timeout(780, pid=str(at), cluster=place[0]) for at, place in enumerate(places) if at),
        ],
        {"6m": [*(where("warning", place) for place in places), CRITICAL]},
    )
    yield case(
        STALLED,
        "a hanging one pages at once, and only where it hangs",
        [
            *(since("0x60", place) for place in places),
            blocker("hanging"),
            *(blocker("open", place=place) for place in places[1:]),
        ],
        {"1m": [CRITICAL]},
    )
    yield case(
        STALLED,
        "a page stays as long as a ticket without data",
        [since("-1000x8 stale")],
        {"15m": [WARNING, CRITICAL], "16m": []},
    )
    yield case(STALLED, "at once is after the first second", [since("59x60"), blocker("hanging")], {"1m": [CRITICAL]})
    yield case(STALLED, "a stall of no length is none", [since("60x60"), blocker("hanging")], {"1m": []})
    for kind in ("open", "completing"):
        yield case(
            STALLED,
            f"hanging by one replica and {kind} by the other is no page yet",
            [since("0x60"), blocker("hanging"), blocker(kind, agent="b")],
            {"1m": [], "5m": []},
        )
    yield case(
        STALLED,
        "replicas that date a stall differently page by the earlier date",
        [since("-1x60"), since("200x60", agent="b")],
        {"15m": [WARNING, CRITICAL]},
    )
    yield case(
        STALLED,
        "what is open elsewhere does not make a hanging one wait",
        [
            *(since("0x60", place) for place in places),
            blocker("hanging"),
            *(blocker("open", place=place) for place in places[1:]),
        ],
        {"1m": [CRITICAL]},
    )


def _false_alarms() -> Iterator[Case]:
    yield case(
        STALLED,
        "a quiet topic is not stalled, though its last stable offset never moves",
        [
            scraped(STALLED_PARTITIONS, "prod", "quiet", values="0x60"),
            scraped(TOPIC_LSO_LAG_OFFSETS, "prod", "quiet", values="0x60"),
        ],
        {"30m": [], "60m": []},
    )
    yield case(
        STALLED,
        "a coordinator that moves completes late, and nobody is called",
        [since("0x3 stale"), blocker("completing", "1x3 stale"), timeout(60)],
        {"3m": [], "10m": []},
    )
    yield case(
        STALLED,
        "a stall that moves on every four minutes begins anew",
        [since("0x3 240x3 480x3 720x3")],
        {f"{minute}m": [] for minute in range(16)},
    )
    yield case(
        STALLED,
        "an agent that restarts and dates a stall anew does not delay the other's page",
        [since("-1x4 stale stale 360x20"), since("-1x60", agent="b")],
        {"5m": [WARNING], "8m": [WARNING]},
    )


def _hanging() -> Iterator[Case]:
    places = spread(PLACE)
    yield case(HANGING, "pages at once", [blocker("hanging")], {"0m": [CRITICAL]})
    yield case(
        HANGING,
        "one page a partition",
        [blocker("hanging", place=place) for place in places],
        {"0m": [where("critical", place) for place in places]},
    )
    yield case(
        HANGING,
        "two replicas give one page, though they read it by different producer epochs",
        [blocker("hanging"), blocker("hanging", agent="b", epoch="4")],
        {"1m": [CRITICAL]},
    )
    for kind in ("open", "completing", "unknown"):
        yield case(HANGING, f"silent for kind {kind}", [blocker(kind)], {"1m": [], "30m": []})
    for kind in ("open", "completing"):
        yield case(
            HANGING,
            f"silent while the other replica says {kind}",
            [blocker("hanging"), blocker(kind, agent="b")],
            {"1m": [], "30m": []},
        )
    yield case(
        HANGING,
        "what is open elsewhere does not silence it",
        [blocker("hanging"), *(blocker("open", place=place) for place in places[1:])],
        {"1m": [CRITICAL]},
    )
    yield case(
        HANGING,
        "a replica that cannot ask does not silence the one that could",
        [blocker("hanging"), blocker("unknown", agent="b")],
        {"1m": [CRITICAL]},
    )
    yield case(
        HANGING,
        "it goes on for seven minutes without data, and ends then",
        [blocker("hanging", "1x8 stale")],
        {"8m": [CRITICAL], "15m": [CRITICAL], "16m": []},
    )
