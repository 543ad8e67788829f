"""Slow commits at brokers and in clients, and records that producers gave up."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import BROKER_REQUEST_DURATION_SECONDS, PRODUCER_RECORD_ERRORS_TOTAL
from tests.rules.promtool import Case, Series, case, scraped

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
    yield case(AT_BROKER, "over", [times("2x20 0.1x60")], {"29m": [ticket()], "31m": []})


def _errors() -> Iterator[Case]:
    def errors(values: str, who: tuple[str, ...] = CLIENT, agent: str = "a") -> Series:
        return scraped(PRODUCER_RECORD_ERRORS_TOTAL, *who, values=values, agent=agent)

    def ticket(who: tuple[str, ...] = CLIENT) -> dict[str, str]:
        return {"severity": "warning", **dict(zip(("kafka_cluster", "target", "client_id"), who, strict=True))}

    yield case(ERRORS, "one", [errors("0x4 1x60")], {"4m": [], "6m": [ticket()], "20m": [ticket()], "23m": []})
    yield case(ERRORS, "none new", [errors("7x60")], {"6m": [], "30m": []})
