"""Flink jobs: what is precommitted and not committed, and what was lost."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import (
    FLINK_AT_RISK_DEADLINE_TIMESTAMP_SECONDS,
    FLINK_CHECKPOINT_INTERVAL_SECONDS,
    FLINK_LAST_CLEAN_UP_TIMESTAMP_SECONDS,
    FLINK_LOSS_TIMESTAMP_SECONDS,
    LAST_TRANSACTION_TIMESTAMP_SECONDS,
)
from tests.rules.promtool import Case, Series, case, scraped, spread

AT_RISK, LOST = "KafkaEosFlinkTransactionAtRisk", "KafkaEosFlinkDataLost"
APP = ("prod", "orders")


def of(severity: str, app: tuple[str, ...] = APP) -> dict[str, str]:
    return {"severity": severity, "kafka_cluster": app[0], "application": app[1]}


def deadline(
    values: str, precommitted: str = "proven", app: tuple[str, ...] = APP, agent: str = "a", who: str = "orders-0-7"
) -> Series:
    return scraped(FLINK_AT_RISK_DEADLINE_TIMESTAMP_SECONDS, *app, who, "7", precommitted, values=values, agent=agent)


def loss(values: str, app: tuple[str, ...] = APP, agent: str = "a") -> Series:
    return scraped(FLINK_LOSS_TIMESTAMP_SECONDS, *app, "orders-0-7", "7", "7", "yes", values=values, agent=agent)


def last(outcome: str, values: str, app: tuple[str, ...] = APP, agent: str = "a") -> Series:
    return scraped(LAST_TRANSACTION_TIMESTAMP_SECONDS, *app, outcome, values=values, agent=agent)


def cases() -> Iterator[Case]:
    yield from _at_risk()
    yield from _lost()
    yield from _generic()


def _at_risk() -> Iterator[Case]:
    page, ticket = of("critical"), of("warning")
    apps = spread(APP)
    yield case(
        AT_RISK, "at once, and as long as it is", [deadline("_x2 900x3 stale")], {"1m": [], "2m": [page], "6m": []}
    )
    yield case(AT_RISK, "likely is a ticket", [deadline("900x60", "likely")], {"1m": [ticket]})
    yield case(
        AT_RISK,
        "of several, those that are proven are the page",
        [deadline("900x60", "likely"), deadline("900x60", who="orders-1-7")],
        {"1m": [page]},
    )
    yield case(AT_RISK, "beyond its deadline", [deadline("60x60")], {"5m": [page]})
    yield case(
        AT_RISK,
        "each application",
        [deadline("900x9", app=app) for app in apps],
        {"1m": [of("critical", app) for app in apps]},
    )
    yield case(
        AT_RISK,
        "likely of one application beside what is proven of another",
        [deadline("900x9", "likely", app=app) for app in apps[:2]] + [deadline("900x9", app=apps[0])],
        {"1m": [of("critical", apps[0]), of("warning", apps[1])]},
    )
    yield case(AT_RISK, "two replicas", [deadline("900x9"), deadline("900x9", agent="b")], {"1m": [page]})
    healthy = scraped(FLINK_CHECKPOINT_INTERVAL_SECONDS, *APP, "orders", values="60x60")
    yield case(AT_RISK, "a job in its rhythm", [healthy], {"5m": [], "60m": []})


def _lost() -> Iterator[Case]:
    page = of("critical")
    apps = spread(APP)
    until = {"0m": [], "1m": [page], "17m": [page], "18m": []}
    yield case(LOST, "until ten minutes after, and as long as data could be missing", [loss("_ 60x60")], until)
    yield case(LOST, "two replicas tell of it once", [loss("_ 60x60"), loss("_ 60x60", agent="b")], until)
    later = loss("_x20 1200x60", agent="b")
    yield case(
        LOST, "the last one counts", [loss("60x60"), later], {"18m": [], "20m": [page], "36m": [page], "37m": []}
    )
    yield case(LOST, "just within ten minutes", [loss("_x10 1x60")], {"10m": [page]})
    yield case(LOST, "ten minutes after it are over", [loss("_x10 0x60")], {"10m": []})
    yield case(
        LOST, "each application", [loss("0x9", app) for app in apps], {"1m": [of("critical", app) for app in apps]}
    )
    yield case(LOST, "an old one that is seen late", [loss("_x11 0x9")], {"12m": [], "15m": []})


def _generic() -> Iterator[Case]:
    """Alerts about fences and timeouts are silent about what these say."""
    fenced, timeouts = "KafkaEosProducerFenced", "KafkaEosTransactionTimeouts"
    ticket = of("warning")
    cleaned = FLINK_LAST_CLEAN_UP_TIMESTAMP_SECONDS
    yield case(
        fenced,
        "a start of a Flink job",
        [last("fenced", "0x60"), scraped(cleaned, *APP, "orders", values="0x60")],
        {"1m": []},
    )
    yield case(
        fenced,
        "a fence after a start of a Flink job",
        [last("fenced", "30x60"), scraped(cleaned, *APP, "orders", values="0x60")],
        {"1m": [ticket]},
    )
    other = ("prod", "pay")
    yield case(
        fenced,
        "a start of a Flink job beside a fence of another application",
        [last("fenced", "0x60"), last("fenced", "0x60", other), scraped(cleaned, *APP, "orders", values="0x60")],
        {"1m": [of("warning", other)]},
    )
    yield case(timeouts, "a loss of a Flink job", [last("timed_out", "0x60"), loss("0x60")], {"1m": []})
    yield case(timeouts, "a timeout after a loss", [last("timed_out", "30x60"), loss("0x60")], {"1m": [ticket]})
    for name, outcome, cause in ((fenced, "fenced", _cleaned), (timeouts, "timed_out", loss)):
        yield case(
            name,
            "what two replicas know of a Flink job",
            [last(outcome, "30x60", agent=letter) for letter in "ab"]
            + [cause("30x60", agent=letter) for letter in "ab"],
            {"1m": []},
        )
        yield case(
            name,
            "one after it, which one of two replicas does not know",
            [last(outcome, "30x60"), last(outcome, "0x60", agent="b"), cause("0x60"), cause("0x60", agent="b")],
            {"1m": [ticket]},
        )
        yield case(
            name,
            "one after it, which two replicas know",
            [last(outcome, "30x60", agent=letter) for letter in "ab"]
            + [cause("20x60", agent=letter) for letter in "ab"],
            {"1m": [ticket]},
        )
        yield case(
            name,
            "what becomes of a Flink job, which commits again",
            [last(outcome, "20x60"), last("committed", "50x60"), cause("20x60")],
            {"1m": []},
        )
        yield case(
            name,
            "one before it, of which one of two replicas does not know the later one",
            [last(outcome, "20x60", agent=letter) for letter in "ab"] + [cause("0x60"), cause("30x60", agent="b")],
            {"1m": []},
        )


def _cleaned(values: str, agent: str = "a") -> Series:
    return scraped(FLINK_LAST_CLEAN_UP_TIMESTAMP_SECONDS, *APP, "orders", values=values, agent=agent)
