"""Audits: findings, an unknown verdict, and one that does not run any more."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from exporter.catalogue import AUDIT_FINDINGS, AUDIT_LAST_RUN_TIMESTAMP_SECONDS, AUDIT_VERDICT
from tests.rules.promtool import Case, Series, case, scraped

of = partial(case, "KafkaEosAuditNotClean")
Who = tuple[str, ...]
AUDIT: Who = ("prod", "nightly", "orders")
DAY = 24 * 60


def ours(verdict: str) -> dict[str, str]:
    names = dict(zip(("kafka_cluster", "audit", "topic"), AUDIT, strict=True))
    return {"severity": "warning", **names, "verdict": verdict}


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
    ticket = ours("findings")
    yield of("one is enough", [found("1x60"), ran("0x60")], {"0m": [ticket], "30m": [ticket]})
    yield of("none", [found("0x60"), ran("0x60")], {"30m": []})
    until = {"9m": [ticket], "10m": [ticket], "16m": [ticket], "17m": []}
    yield of("until a newer run finds nothing", [found("3x9 0x60"), ran("0x9 600x60")], until)
    newer = [found("1x60"), ran("0x60"), found("0x60", target="ingest"), ran("1x60", target="ingest")]
    yield of("the older result is in a file, the newer one was handed in", newer, {"5m": []})


def _unknown() -> Iterator[Case]:
    ticket = ours("unknown")
    yield of("it could not tell", [said("1x60"), ran("0x60")], {"0m": [ticket], "30m": [ticket]})
    for verdict in ("clean", "findings"):
        yield of(verdict, [said("1x60", verdict), ran("0x60")], {"0m": [], "30m": []})


def _overdue() -> Iterator[Case]:
    ticket, eight = ours("overdue"), 8 * DAY * 60
    old = {"5m": [], "6m": [ticket], "30m": [ticket]}
    yield of("more than eight days ago", [ran(f"-{eight - 300}x60")], old)
    yield of("every night", [ran(f"-{DAY * 60}x60")], {"0m": [], "30m": []})
