"""Internal topics, brokers, posture."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import (
    BROKER_TXN_VERIFICATION_FAILURES_TOTAL,
    INTERNAL_TOPIC_PARTITIONS,
    POSTURE_CHECK,
)
from tests.rules.promtool import Case, Series, case, scraped, spread

ISR, VERIFICATION, POSTURE = (
    "KafkaEosTransactionLogUnderMinIsr",
    "KafkaEosVerificationFailures",
    "KafkaEosPostureFailed",
)


def cases() -> Iterator[Case]:
    yield from _transaction_log()
    yield from _verification()
    yield from _posture()


def _transaction_log() -> Iterator[Case]:
    def partitions(
        values: str,
        condition: str = "under_min_isr",
        topic: str = "__transaction_state",
        cluster: str = "prod",
        agent: str = "a",
    ) -> Series:
        return scraped(INTERNAL_TOPIC_PARTITIONS, cluster, topic, condition, values=values, agent=agent)

    ours = {"severity": "critical", "kafka_cluster": "prod"}
    for condition in ("under_min_isr", "offline"):
        yield case(ISR, f"{condition} for five minutes", [partitions("1x60", condition)], {"4m": [], "5m": [ours]})
    yield case(ISR, "five minutes are counted from the first", [partitions("0 1x60")], {"5m": [], "6m": [ours]})
    yield case(
        ISR,
        "a cluster, not a condition or a replica, is what is paged for",
        [
            partitions("1x60"),
            partitions("2x60", "offline"),
            partitions("1x60", agent="b"),
            partitions("1x60", cluster="other"),
        ],
        {"5m": [ours, {**ours, "kafka_cluster": "other"}]},
    )
    yield case(
        ISR,
        "one condition of two, seen by one replica of two",
        [partitions("1x60"), partitions("0x60", "offline"), partitions("0x60", agent="b")],
        {"5m": [ours]},
    )
    yield case(
        ISR,
        "total and under_replicated are no reason, other topics neither",
        [
            partitions("50x60", "total"),
            partitions("50x60", "under_replicated"),
            partitions("5x60", topic="__consumer_offsets"),
            partitions("0x60"),
        ],
        {"30m": []},
    )
    yield case(
        ISR,
        "brokers restart one after the other",
        [partitions("0 1 1 1 0 0 0 1 1 1 0x20")],
        {f"{at}m": [] for at in range(25)},
    )
    yield case(ISR, "one failed scrape does not begin anew", [partitions("1 1 1 stale 1x60")], {"5m": [ours]})
    yield case(
        ISR,
        "three minutes of failed scrapes do",
        [partitions("1 1 stale stale stale stale 1x60")],
        {"7m": [], "10m": [], "11m": [ours]},
    )
    yield case(
        ISR, "after the last data it goes on for ten minutes", [partitions("1x8 stale")], {"18m": [ours], "19m": []}
    )


def _verification() -> Iterator[Case]:
    def failures(values: str, broker: str = "1", cluster: str = "prod", agent: str = "a") -> Series:
        return scraped(BROKER_TXN_VERIFICATION_FAILURES_TOTAL, cluster, broker, values=values, agent=agent)

    ours = {"severity": "warning", "kafka_cluster": "prod", "broker": "1"}
    yield case(
        VERIFICATION, "more than ten in a quarter of an hour", [failures("0x20 11x60")], {"20m": [], "25m": [ours]}
    )
    yield case(VERIFICATION, "a few while a coordinator moves", [failures("0x20 9x60")], {"25m": [], "40m": []})
    yield case(VERIFICATION, "exactly ten in a quarter of an hour", [failures("0+0x5 5 10x60")], {"15m": []})
    yield case(
        VERIFICATION,
        "each broker",
        [failures("0x5 50x60"), failures("0x5 50x60", broker="2"), failures("0x5 50x60", cluster="other")],
        {"10m": [ours, {**ours, "broker": "2"}, {**ours, "kafka_cluster": "other"}]},
    )
    yield case(
        VERIFICATION, "two replicas count once", [failures("0x5 7x60"), failures("0x5 7x60", agent="b")], {"10m": []}
    )
    yield case(
        VERIFICATION,
        "seen by one replica of two",
        [failures("0x5 50x60"), failures("50x60", agent="b")],
        {"10m": [ours]},
    )
    yield case(VERIFICATION, "a count that was there before is no event", [failures("5000x60")], {"0m": [], "30m": []})
    yield case(
        VERIFICATION, "a quarter of an hour later it is over", [failures("0x5 50x60")], {"27m": [ours], "28m": []}
    )
    yield case(
        VERIFICATION,
        "slowly",
        [failures("0 " * 20 + " ".join(str(at) for at in range(60)))],
        {"30m": [], "35m": [ours]},
    )


def _posture() -> Iterator[Case]:
    def check(values: str, who: tuple[str, ...] = ("prod", "min_isr", "log"), agent: str = "a") -> Series:
        return scraped(POSTURE_CHECK, *who, values=values, agent=agent)

    def ours(who: tuple[str, ...] = ("prod", "min_isr", "log")) -> dict[str, str]:
        return {"severity": "warning", "kafka_cluster": who[0], "check": who[1], "subject": who[2]}

    all_of = spread(("prod", "min_isr", "log"))
    yield case(POSTURE, "failed for a quarter of an hour", [check("0x60")], {"14m": [], "15m": [ours()]})
    yield case(POSTURE, "passed", [check("1x60")], {"30m": []})
    yield case(POSTURE, "unknown is not failed", [check("1x5 stale")], {"30m": []})
    yield case(
        POSTURE,
        "each check of each subject",
        [check("0x60", who) for who in all_of],
        {"15m": [ours(who) for who in all_of]},
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
