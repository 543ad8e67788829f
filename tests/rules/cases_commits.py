"""Slow commits at brokers and in clients, and records that producers gave up."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import (
    BROKER_REQUEST_DURATION_SECONDS,
    PRODUCER_RECORD_ERRORS_TOTAL,
    PRODUCER_TXN_SECONDS_TOTAL,
)
from tests.rules.promtool import Case, Series, case, scraped, spread

AT_BROKER, AT_CLIENT = "KafkaEosCommitsSlow broker", "KafkaEosCommitsSlow client"
ERRORS = "KafkaEosProducerRecordErrors"
CLIENT = ("prod", "app-1:8778", "pay-1")


def cases() -> Iterator[Case]:
    yield from _broker()
    yield from _client()
    yield from _errors()


def _broker() -> Iterator[Case]:
    def times(
        values: str, broker: str = "1", request: str = "EndTxn", quantile: str = "0.99", agent: str = "a"
    ) -> Series:
        metric = BROKER_REQUEST_DURATION_SECONDS
        return scraped(metric, "prod", broker, request, values=values, agent=agent, quantile=quantile)

    def ticket(broker: str = "1") -> dict[str, str]:
        return {"severity": "warning", "reason": "broker", "kafka_cluster": "prod", "broker": broker}

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


def _client() -> Iterator[Case]:
    def spent(values: str, who: tuple[str, ...] = CLIENT, operation: str = "commit", agent: str = "a") -> Series:
        return scraped(PRODUCER_TXN_SECONDS_TOTAL, *who, operation, values=values, agent=agent)

    def ticket(who: tuple[str, ...] = CLIENT) -> dict[str, str]:
        found = dict(zip(("kafka_cluster", "target", "client_id"), who, strict=True))
        return {"severity": "warning", "reason": "client", **found}

    yield case(AT_CLIENT, "55 of 60 seconds", [spent("0+55x90")], {"22m": [], "26m": [ticket()], "60m": [ticket()]})
    yield case(AT_CLIENT, "40 of 60 seconds", [spent("0+40x90")], {"26m": [], "60m": []})
    yield case(AT_CLIENT, "exactly four fifths", [spent("0+48x90")], {"26m": [], "60m": []})
    yield case(AT_CLIENT, "another operation", [spent("0+59x90", operation="abort")], {"26m": [], "60m": []})
    times_spent = [spent("0+55x90", who, agent=agent) for who in spread(CLIENT) for agent in "ab"]
    yield case(AT_CLIENT, "each client", times_spent, {"30m": [ticket(who) for who in spread(CLIENT)]})
    two = [spent("0+40x90"), spent("0+40x90", agent="b")]
    yield case(AT_CLIENT, "two replicas count once", two, {"30m": [], "60m": []})
    late = [spent("0+55x90"), spent("0x90", agent="b")]
    yield case(AT_CLIENT, "seen by one replica", late, {"30m": [ticket()]})
    calm = [spent("0+55x40 2200x70")]
    yield case(AT_CLIENT, "over", calm, {"40m": [ticket()], "46m": [ticket()], "51m": []})


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
