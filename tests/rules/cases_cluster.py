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

    yield case(NOT_MADE, "the setting alone", [check()], {"9m": [], "10m": [ticket()]})
    yield case(NOT_MADE, "it can be made", [check("1x60"), refused("0+9x60")], {"30m": []})
    yield case(NOT_MADE, "nothing is known", [check("0x4 stale"), refused("0+9x60")], {"30m": []})
    others = [check(name="transaction_log_isr"), check(of="__consumer_offsets"), refused("0+9x60")]
    yield case(NOT_MADE, "other checks, and the other topic", others, {"30m": []})
    yield case(
        NOT_MADE,
        "clients are refused",
        [check(), refused("0+1x60")],
        {"5m": [], "6m": [page()], "10m": [page(), ticket()]},
    )
    yield case(NOT_MADE, "they were, long ago", [check(), refused("7x60")], {"30m": [ticket()]})
    yield case(
        NOT_MADE,
        "a single refusal is looked back at for ten minutes",
        [check(), refused("0x14 1x60")],
        {"14m": [ticket()], "20m": [page(), ticket()], "31m": [page(), ticket()], "32m": [ticket()]},
    )
    yield case(
        NOT_MADE,
        "other requests and errors",
        [check(), refused("0+9x60", "InitProducerId"), refused("0+9x60", error="NOT_COORDINATOR")],
        {"9m": [], "30m": [ticket()]},
    )
    yield case(
        NOT_MADE,
        "two clusters, one of which has clients",
        [check(), check(cluster="other"), refused("0+1x60", cluster="other"), refused("0x60")],
        {"12m": [ticket(), ticket("other"), page("other")]},
    )
    yield case(
        NOT_MADE,
        "two replicas and two brokers, one of which saw it",
        [
            check(),
            check("1x60", agent="b"),
            refused("0+1x60", broker="2"),
            refused("0x60"),
            refused("0x60", broker="2", agent="b"),
        ],
        {"12m": [ticket(), page()]},
    )
    many = refused("0+1x60")
    yield case(NOT_MADE, "a short gap", [check("0 0 stale stale 0x60"), many], {"5m": [], "6m": [page()]})
    yield case(
        NOT_MADE,
        "a long gap",
        [check("0 0 stale stale stale stale 0x60"), many],
        {"10m": [], "11m": [page()], "15m": [page()], "16m": [page(), ticket()]},
    )
    yield case(
        NOT_MADE,
        "it could be made for a moment",
        [check("0x3 1 0x60"), many],
        {"9m": [], "10m": [page()], "14m": [page()]},
    )
    yield case(NOT_MADE, "a failed scrape begins nothing anew", [check("0 0 0 stale 0x60")], {"10m": [ticket()]})
    yield case(NOT_MADE, "a read that takes three minutes", [check("0 0 stale stale 0x60")], {"10m": [ticket()]})
    yield case(NOT_MADE, "mended for a moment", [check("0x8 1 0x60")], {"10m": [], "19m": [], "20m": [ticket()]})
    yield case(
        NOT_MADE,
        "after the last data it goes on for ten minutes",
        [check("0x20 stale")],
        {"30m": [ticket()], "31m": []},
    )
