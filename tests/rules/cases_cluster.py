"""Internal topics, brokers, posture."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import (
    BROKER_REQUEST_ERRORS_TOTAL,
    INTERNAL_TOPIC_BROKEN_SINCE_TIMESTAMP_SECONDS,
    POSTURE_CHECK,
    POSTURE_INFORMATION,
)
from tests.rules.promtool import Case, Series, case, scraped, spread

ISR, POSTURE = "KafkaEosTransactionLogUnderMinIsr", "KafkaEosPostureFailed"
NOT_MADE = "KafkaEosTransactionLogNotMade"


def cases() -> Iterator[Case]:
    yield from _transaction_log()
    yield from _posture()
    yield from _not_made()


def _transaction_log() -> Iterator[Case]:
    def broken(
        values: str,
        condition: str = "under_min_isr",
        topic: str = "__transaction_state",
        cluster: str = "prod",
        agent: str = "a",
    ) -> Series:
        return scraped(
            INTERNAL_TOPIC_BROKEN_SINCE_TIMESTAMP_SECONDS, cluster, topic, condition, values=values, agent=agent
        )

    ours = {"severity": "critical", "kafka_cluster": "prod"}
    for condition in ("under_min_isr", "offline"):
        yield case(ISR, f"{condition} for four minutes", [broken("-1x60", condition)], {"3m": [], "4m": [ours]})
    yield case(ISR, "four minutes are not more", [broken("0x60")], {"4m": [], "5m": [ours]})
    yield case(
        ISR,
        "a cluster, not a condition or a replica, is what is paged for",
        [broken("0x60"), broken("0x60", "offline"), broken("60x60", agent="b"), broken("0x60", cluster="other")],
        {"5m": [ours, {**ours, "kafka_cluster": "other"}]},
    )
    yield case(
        ISR,
        "one replica has just started, and one condition is new",
        [broken("0x60"), broken("290x60", "offline"), broken("290x60", agent="b")],
        {"5m": [ours]},
    )
    yield case(
        ISR,
        "under_replicated is no reason, other topics neither",
        [broken("0x60", "under_replicated"), broken("0x60", topic="__consumer_offsets")],
        {"30m": []},
    )
    yield case(
        ISR,
        "brokers restart one after the other: three gaps of two minutes, each of other partitions",
        [broken("0 0 120 120 240 240 stale _x20")],
        {f"{at}m": [] for at in range(25)},
    )
    yield case(ISR, "a failed scrape begins nothing anew", [broken("0 0 0 stale 0x60")], {"5m": [ours]})
    yield case(
        ISR, "an agent that restarts keeps the page", [broken("0x6 stale _ 500x60")], {"7m": [ours], "13m": [ours]}
    )
    yield case(ISR, "seven minutes without data are over", [broken("0x8 stale")], {"15m": [ours], "16m": []})


def _posture() -> Iterator[Case]:
    def check(values: str, who: tuple[str, ...] = ("prod", "min_isr", "log"), agent: str = "a") -> Series:
        return scraped(POSTURE_CHECK, *who, values=values, agent=agent)

    def ours(cluster: str = "prod", name: str = "min_isr") -> dict[str, str]:
        return {"severity": "warning", "kafka_cluster": cluster, "check": name}

    yield case(POSTURE, "failed for a quarter of an hour", [check("0x60")], {"14m": [], "15m": [ours()]})
    yield case(POSTURE, "passed", [check("1x60")], {"30m": []})
    yield case(POSTURE, "unknown is not failed", [check("1x5 stale")], {"30m": []})
    information = scraped(POSTURE_INFORMATION, "prod", "transaction_clients", "pay", values="1x60")
    yield case(POSTURE, "what no setting can mend is no ticket", [information], {"30m": [], "60m": []})
    yield case(
        POSTURE,
        "a ticket for each check, not for each subject",
        [check("0x60", who) for who in spread(("prod", "min_isr", "log"))],
        {"15m": [ours(), ours("other"), ours(name="other")]},
    )
    yield case(
        POSTURE,
        "one subject of two is mended",
        [check("0x20 1x60"), check("0x60", ("prod", "min_isr", "orders"))],
        {"30m": [ours()]},
    )
    yield case(
        POSTURE,
        "two replicas, one of which read it before",
        [check("0x60"), check("1x60", agent="b")],
        {"15m": [ours()]},
    )
    yield case(POSTURE, "one alert for two replicas", [check("0x60"), check("0x60", agent="b")], {"15m": [ours()]})
    yield case(POSTURE, "one failed scrape does not begin anew", [check("0 0 0 stale 0x60")], {"15m": [ours()]})
    yield case(POSTURE, "mended for a moment", [check("0x8 1 0x60")], {"15m": [], "24m": [], "25m": [ours()]})
    yield case(
        POSTURE, "after the last data it goes on for ten minutes", [check("0x20 stale")], {"30m": [ours()], "31m": []}
    )
    yield case(
        POSTURE,
        "a check that takes long to be made again",
        [check("0 0 stale stale stale stale 0x60")],
        {"16m": [], "21m": [ours()]},
    )


def _not_made() -> Iterator[Case]:
    def check(
        values: str = "0x60", name: str = "internal_topic_creation", of: str = "__transaction_state", **who: str
    ) -> Series:
        return scraped(POSTURE_CHECK, who.get("cluster", "prod"), name, of, values=values, agent=who.get("agent", "a"))

    def refused(
        values: str, request: str = "FindCoordinator", error: str = "COORDINATOR_NOT_AVAILABLE", **who: str
    ) -> Series:
        place = (who.get("cluster", "prod"), who.get("broker", "1"), request, error)
        return scraped(BROKER_REQUEST_ERRORS_TOTAL, *place, values=values, agent=who.get("agent", "a"))

    def ticket(cluster: str = "prod") -> dict[str, str]:
        return {"severity": "warning", "kafka_cluster": cluster}

    def page(cluster: str = "prod") -> dict[str, str]:
        return {"severity": "critical", "kafka_cluster": cluster}

    def of(title: str, series: list[Series], checks: dict[str, list[dict[str, str]]]) -> Case:
        return case(NOT_MADE, title, series, checks)

    both = [page(), ticket()]
    yield of("the setting alone", [check()], {"4m": [], "5m": [ticket()]})
    yield of("it can be made", [check("1x60"), refused("0+9x60")], {"30m": []})
    yield of("nothing is known", [check("0x1 stale"), refused("0+9x60")], {"30m": []})
    others = [check(name="transaction_log_isr"), check(of="__consumer_offsets"), refused("0+9x60")]
    yield of("other checks, and the other topic", others, {"30m": []})
    yield of("clients are refused", [check(), refused("0+1x60")], {"4m": [], "5m": [ticket()], "6m": both})
    yield of("they were, long ago", [check(), refused("7x60")], {"30m": [ticket()]})
    single = {"14m": [ticket()], "20m": both, "31m": both, "32m": [ticket()]}
    yield of("a single refusal is looked back at for ten minutes", [check(), refused("0x14 1x60")], single)
    others = [check(), refused("0+9x60", "InitProducerId"), refused("0+9x60", error="NOT_COORDINATOR")]
    yield of("other requests and errors", others, {"4m": [], "30m": [ticket()]})
    two = [check(), check(cluster="other"), refused("0+1x60", cluster="other"), refused("0x60")]
    yield of("two clusters, one of which has clients", two, {"12m": [ticket(), ticket("other"), page("other")]})
    replicas = [check(), check("1x60", agent="b"), refused("0+1x60", broker="2")]
    replicas += [refused("0x60"), refused("0x60", broker="2", agent="b")]
    yield of("two replicas and two brokers, one of which saw it", replicas, {"12m": both})
    many = refused("0+1x60")
    yield of("a short gap", [check("0 0 stale stale 0x60"), many], {"4m": [], "5m": [ticket()], "6m": both})
    long = [check("0 0 stale stale stale stale 0x60"), many]
    yield of("a long gap", long, {"5m": [], "10m": [], "11m": both})
    yield of("it could be made for a moment", [check("0x3 1 0x60"), many], {"8m": [], "9m": [], "10m": both})
    yield of("a failed scrape begins nothing anew", [check("0 0 0 stale 0x60")], {"5m": [ticket()]})
    yield of("after the last data it goes on for ten minutes", [check("0x20 stale")], {"30m": [ticket()], "31m": []})
