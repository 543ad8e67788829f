"""Slow commits at brokers and in clients, and records that producers gave up."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import (
    BROKER_REQUEST_DURATION_SECONDS,
    PRODUCER_RECORD_ERRORS_TOTAL,
)
from tests.rules.promtool import Case, Series, case, scraped, spread

AT_BROKER = "KafkaEosCommitsSlow"
ERRORS = "KafkaEosProducerRecordErrors"
CLIENT = ("prod", "app-1:8778", "pay-1")


def cases() -> Iterator[Case]:
    yield from _broker()
    yield from _errors()


def _broker() -> Iterator[Case]:
    def times(
        values: str, broker: str = "1", request: str = "EndTxn", quantile: str = "0.99", agent: str = "a"
    ) -> Series:
        metric = BROKER_REQUEST_DURATION_SECONDS
        return scraped(metric, "prod", broker, request, values=values, agent=agent, quantile=quantile)

    def ticket(broker: str = "1") -> dict[str, str]:
        return {"severity": "warning", "kafka_cluster": "prod", "broker": broker}

    yield case(AT_BROKER, "two seconds", [times("0.1x4 2x60")], {"19m": [], "20m": [ticket()], "60m": [ticket()]})
    yield case(AT_BROKER, "less than one", [times("0.9x60")], {"20m": [], "60m": []})
    yield case(AT_BROKER, "exactly one", [times("1x60")], {"20m": [], "60m": []})
    others = [times("9x60", request="WriteTxnMarkers"), times("9x60", quantile="0.999"), times("0.1x60")]
    yield case(AT_BROKER, "other requests and quantiles", others, {"20m": [], "60m": []})
    yield case(AT_BROKER, "each broker", [times("2x60"), times("2x60", "2")], {"20m": [ticket(), ticket("2")]})
    two = [times("0.6x60"), times("0.6x60", agent="b")]
    yield case(AT_BROKER, "two replicas count once", two, {"20m": [], "60m": []})
    seen = [times("2x60"), times("0.1x60", agent="b")]
    yield case(AT_BROKER, "seen by one replica", seen, {"20m": [ticket()]})
    yield case(AT_BROKER, "two failed scrapes", [times("2x10 stale stale 2x60")], {"16m": [ticket()]})
    yield case(
        AT_BROKER, "four failed scrapes begin it anew", [times("2x10 stale stale stale stale 2x60")], {"16m": []}
    )
    yield case(AT_BROKER, "over", [times("2x20 0.1x60")], {"29m": [ticket()], "31m": []})


def _errors() -> Iterator[Case]:
    def errors(values: str, who: tuple[str, ...] = CLIENT, agent: str = "a") -> Series:
        return scraped(PRODUCER_RECORD_ERRORS_TOTAL, *who, values=values, agent=agent)

    def ticket(who: tuple[str, ...] = CLIENT) -> dict[str, str]:
        return {"severity": "warning", **dict(zip(("kafka_cluster", "target", "client_id"), who, strict=True))}

    yield case(ERRORS, "one", [errors("0x4 1x60")], {"4m": [], "6m": [ticket()], "20m": [ticket()], "23m": []})
    yield case(ERRORS, "none new", [errors("7x60")], {"6m": [], "30m": []})
    refusals = [errors("0x4 1x60", who, agent) for who in spread(CLIENT) for agent in "ab"]
    yield case(ERRORS, "each client", refusals, {"8m": [ticket(who) for who in spread(CLIENT)]})
    yield case(
        ERRORS, "a replica that did not see it", [errors("0x4 1x60"), errors("0x60", agent="b")], {"8m": [ticket()]}
    )
