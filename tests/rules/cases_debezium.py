"""Debezium: without its database, stuck in a snapshot, late, a snapshot from the beginning."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import (
    DEBEZIUM_CONNECTED,
    DEBEZIUM_LAG_SECONDS,
    DEBEZIUM_LAST_EVENT_AGE_SECONDS,
    DEBEZIUM_SNAPSHOT_RESTARTS_TOTAL,
    DEBEZIUM_SNAPSHOT_STATE,
)
from tests.rules.promtool import Case, Series, case, scraped

STOPPED, LATE = "KafkaEosDebeziumStopped", "KafkaEosDebeziumLate"
REPEATED = "KafkaEosDebeziumSnapshotRepeated"
SHOP = ("prod", "main", "main", "postgres", "shop")
OTHERS = (SHOP, ("other", *SHOP[1:]), ("prod", "main", "second", *SHOP[3:]), (*SHOP[:4], "stock"))


def cases() -> Iterator[Case]:
    yield from _disconnected()
    yield from _snapshot()
    yield from _late()
    yield from _repeated()


def _ticket(who: tuple[str, ...] = SHOP) -> dict[str, str]:
    return {"severity": "warning", "kafka_cluster": who[0], "connect": who[2], "server": who[4]}


def connected(values: str, who: tuple[str, ...] = SHOP, agent: str = "a") -> Series:
    return scraped(DEBEZIUM_CONNECTED, *who, values=values, agent=agent)


def snapshot(values: str, state: str = "running", who: tuple[str, ...] = SHOP, agent: str = "a") -> Series:
    return scraped(DEBEZIUM_SNAPSHOT_STATE, *who, state, values=values, agent=agent)


def age(values: str, context: str = "streaming", who: tuple[str, ...] = SHOP, agent: str = "a") -> Series:
    return scraped(DEBEZIUM_LAST_EVENT_AGE_SECONDS, *who, context, values=values, agent=agent)


def lag(values: str, who: tuple[str, ...] = SHOP, agent: str = "a") -> Series:
    return scraped(DEBEZIUM_LAG_SECONDS, *who, values=values, agent=agent)


def _disconnected() -> Iterator[Case]:
    name = STOPPED
    done = snapshot("1x60", "completed")
    gone = [connected("1x4 0x60"), done]
    yield case(name, "for five minutes", gone, {"12m": [], "13m": [_ticket()]})
    yield case(name, "connected", [connected("1x60"), done], {"13m": [], "40m": []})
    for state in ("running", "paused"):
        yield case(name, f"a snapshot is {state}", [connected("0x60"), snapshot("1x60", state)], {"13m": [], "40m": []})
    short = [connected("1x4 0 0 1x4 0 0 1x60"), done]
    yield case(name, "two short breaks", short, {f"{at}m": [] for at in range(4, 30, 2)})


def _snapshot() -> Iterator[Case]:
    name = STOPPED
    stuck = [snapshot("1x60"), age("0+60x60", "snapshot")]
    yield case(name, "for ten minutes", stuck, {"15m": [], "16m": [_ticket()], "40m": [_ticket()]})
    moves = [snapshot("1x60"), age("30x60", "snapshot"), age("9000x60")]
    yield case(name, "it reads rows", moves, {"11m": [], "40m": []})
    done = [snapshot("1x60", "completed"), age("0+60x60", "snapshot")]
    yield case(name, "it is complete", done, {"11m": [], "40m": []})
    over = [snapshot("1x20 stale"), snapshot("_x20 1x60", "completed"), age("700x60", "snapshot")]
    yield case(name, "it is over", over, {"23m": [_ticket()], "31m": []})


def _late() -> Iterator[Case]:
    name = LATE
    late = [lag("1x4 400x60"), age("1x60")]
    yield case(name, "for ten minutes", late, {"14m": [], "15m": [_ticket()], "40m": [_ticket()]})
    yield case(name, "a little", [lag("290x60"), age("1x60")], {"15m": [], "40m": []})
    yield case(name, "exactly five minutes", [lag("300x60"), age("1x60")], {"15m": [], "40m": []})
    yield case(name, "the last change was late, long ago", [lag("400x60"), age("700x60")], {"15m": [], "40m": []})
    other = [lag("400x60"), age("1x60", "snapshot"), age("700x60")]
    yield case(name, "the age of the snapshot says nothing", other, {"15m": [], "40m": []})


def _repeated() -> Iterator[Case]:
    def restarts(values: str, agent: str = "a") -> Series:
        return scraped(DEBEZIUM_SNAPSHOT_RESTARTS_TOTAL, *SHOP, values=values, agent=agent)

    twice = [restarts("0x10 1x120"), restarts("0x10 1x120", agent="b")]
    yield case(REPEATED, "for an hour", twice, {"10m": [], "12m": [_ticket()], "60m": [_ticket()], "75m": []})
    yield case(REPEATED, "long ago", [restarts("3x120")], {"10m": [], "60m": []})
    yield case(REPEATED, "the agent began anew", [restarts("3x10 0x60")], {"12m": [], "40m": []})
