"""The log cleaner of brokers, and the growth of the internal topics."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import (
    BROKER_DEAD_CLEANER_THREADS,
    BROKER_LOG_DIR_USABLE_BYTES,
    BROKER_PRODUCER_IDS,
    BROKER_UNCLEANABLE_PARTITIONS,
    INTERNAL_TOPIC_SIZE_BYTES,
)
from exporter.model import Metric
from tests.rules.promtool import Case, Series, case, scraped

IDS = "KafkaEosProducerIdsMany"
GROWS = "KafkaEosInternalTopicGrows"
BROKER = ("prod", "1")
DAY = 86400


def cases() -> Iterator[Case]:
    for metric in (BROKER_UNCLEANABLE_PARTITIONS, BROKER_DEAD_CLEANER_THREADS):
        yield from _cleaner(metric)
    yield from _grows()
    yield from _producer_ids()


def _producer_ids() -> Iterator[Case]:
    def ids(values: str, who: tuple[str, ...] = BROKER, agent: str = "a") -> Series:
        return scraped(BROKER_PRODUCER_IDS, *who, values=values, agent=agent)

    yield case(IDS, "more than a million", [ids("5x4 1000001x60")], {"19m": [], "20m": [_ticket()], "60m": [_ticket()]})
    yield case(IDS, "a million", [ids("1000000x60")], {"20m": [], "60m": []})
    yield case(IDS, "over", [ids("2000000x20 5x60")], {"29m": [_ticket()], "31m": []})


def _ticket(who: tuple[str, ...] = BROKER) -> dict[str, str]:
    return {"severity": "warning", "kafka_cluster": who[0], "broker": who[1]}


def _cleaner(metric: Metric) -> Iterator[Case]:
    at = f"{metric}: "

    def given_up(values: str, who: tuple[str, ...] = BROKER, agent: str = "a") -> Series:
        return scraped(metric, *who, values=values, agent=agent)

    fires = {"64m": [], "65m": [_ticket()], "100m": [_ticket()]}
    yield case(GROWS, at + "one", [given_up("0x4 1x120")], fires)
    yield case(GROWS, at + "none", [given_up("0x90")], {"70m": []})
    yield case(GROWS, at + "the broker was restarted", [given_up("1x70 0x60")], {"79m": [_ticket()], "82m": []})


def _grows() -> Iterator[Case]:
    def size(by_minute: float, topic: str = "__transaction_state", agent: str = "a", broker: str = "1") -> Series:
        values = f"1000{'-' if by_minute < 0 else '+'}{abs(by_minute):g}x180"
        return scraped(INTERNAL_TOPIC_SIZE_BYTES, "prod", topic, broker, values=values, agent=agent)

    def free(size_bytes: float, log_dir: str = "/d", agent: str = "a", values: str = "", broker: str = "1") -> Series:
        shown = values or f"{size_bytes:g}x180"
        return scraped(BROKER_LOG_DIR_USABLE_BYTES, "prod", broker, log_dir, values=shown, agent=agent)

    week = 7 * DAY
    yield case(GROWS, "in six days", [size(60), free(week - DAY)], {"59m": [], "62m": [_ticket()], "150m": [_ticket()]})
    yield case(GROWS, "in eight days", [size(60), free(week + DAY)], {"62m": [], "150m": []})
    for share, tickets in ((1 - 5e-6, [_ticket()]), (1, []), (1 + 5e-6, [])):
        exact = [size(60), free(0, values=f"{share * week:.3f}x180")]
        yield case(GROWS, f"{share:.6f} of seven days", exact, {"150m": tickets})
    yield case(GROWS, "it shrinks", [size(-0.1), free(1)], {"62m": [], "150m": []})
    yield case(GROWS, "the fullest of two disks", [size(60), free(DAY), free(90 * DAY, "/e")], {"62m": [_ticket()]})
    swings = [size(60), free(0, values=f"{DAY} {90 * DAY} " * 90)]
    yield case(GROWS, "space that comes back within a quarter of an hour", swings, {"62m": [], "150m": []})
    over = [size(60), free(0, values=f"{DAY}x90 {90 * DAY}x90")]
    yield case(GROWS, "over", over, {"90m": [_ticket()], "97m": [_ticket()], "99m": []})
    for minutes, tickets in ((12, [_ticket()]), (20, [])):
        pending = [size(60), free(0, values=f"{DAY}x30 stale _x{minutes - 1} {DAY}x150")]
        yield case(GROWS, f"a gap of {minutes} minutes in the first hour", pending, {"65m": tickets})
    once = [
        scraped(INTERNAL_TOPIC_SIZE_BYTES, "prod", "__transaction_state", "1", values="1000+6000x24 145000x48"),
        scraped(BROKER_LOG_DIR_USABLE_BYTES, "prod", "1", "/d", values="1000x72"),
    ]
    yield case(GROWS, "growth of the last six hours", once, {"8h": [_ticket()], "11h": []}, step="10m")
