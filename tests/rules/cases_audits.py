"""Audits: findings, an unknown verdict, and one that does not run any more."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import AUDIT_FINDINGS, AUDIT_LAST_RUN_TIMESTAMP_SECONDS, AUDIT_VERDICT
from tests.rules.promtool import Case, Series, case, scraped

FOUND, UNKNOWN = "KafkaEosAuditFinding", "KafkaEosAuditUnknown"
Who = tuple[str, ...]
AUDIT: Who = ("prod", "nightly", "orders")
DAY = 24 * 60


def ours(who: Who = AUDIT) -> dict[str, str]:
    names = dict(zip(("kafka_cluster", "audit", "topic"), who, strict=True))
    return {"severity": "warning", **names}


def found(values: str, kind: str = "duplicate", who: Who = AUDIT, agent: str = "a", target: str = "file") -> Series:
    return scraped(AUDIT_FINDINGS, who[0], target, *who[1:], kind, values=values, agent=agent)


def ran(values: str, who: Who = AUDIT, agent: str = "a", target: str = "file") -> Series:
    return scraped(AUDIT_LAST_RUN_TIMESTAMP_SECONDS, who[0], target, *who[1:], values=values, agent=agent)


def said(values: str, verdict: str = "unknown", who: Who = AUDIT, agent: str = "a") -> Series:
    return scraped(AUDIT_VERDICT, who[0], "file", *who[1:], verdict, values=values, agent=agent)


def cases() -> Iterator[Case]:
    yield from _findings()
    yield from _unknown()
    yield from _overdue()


def _findings() -> Iterator[Case]:
    ticket = ours()
    yield case(FOUND, "one is enough", [found("1x60"), ran("0x60")], {"0m": [ticket], "30m": [ticket]})
    yield case(FOUND, "none", [found("0x60"), ran("0x60")], {"30m": []})
    yield case(
        FOUND,
        "until a newer run finds nothing",
        [found("3x9 0x60"), ran("0x9 600x60")],
        {"9m": [ticket], "10m": [ticket], "16m": [ticket], "17m": []},
    )
    yield case(
        FOUND,
        "the older result is in a file, the newer one was handed in",
        [found("1x60"), ran("0x60"), found("0x60", target="ingest"), ran("1x60", target="ingest")],
        {"5m": []},
    )


def _unknown() -> Iterator[Case]:
    ticket = ours()
    yield case(UNKNOWN, "it could not tell", [said("1x60"), ran("0x60")], {"0m": [ticket], "30m": [ticket]})
    for verdict in ("clean", "findings"):
        yield case(UNKNOWN, verdict, [said("1x60", verdict), ran("0x60")], {"0m": [], "30m": []})


def _overdue() -> Iterator[Case]:
    ticket = ours()
    eight = 8 * DAY * 60
    yield case(
        UNKNOWN, "more than eight days ago", [ran(f"-{eight - 300}x60")], {"5m": [], "6m": [ticket], "30m": [ticket]}
    )
    yield case(UNKNOWN, "every night", [ran(f"-{DAY * 60}x60")], {"0m": [], "30m": []})
