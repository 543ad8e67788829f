"""Connect and Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import (
    CONNECT_TASK_OFFSET_COMMIT_RATIO,
    CONNECTOR_THRESHOLD_RATIO,
    STREAMS_RESTORE_REMAINING_RECORDS,
)
from tests.rules.promtool import Case, Series, case, scraped, spread

COMMITS, RESTORE = "KafkaEosConnectCommitsFailing", "KafkaEosStreamsRestoring"


def cases() -> Iterator[Case]:
    yield from _commits()
    yield from _restores()


def _commits() -> Iterator[Case]:
    task = ("prod", "connect", "main", "orders", "0")

    def ratio(values: str, who: tuple[str, ...] = task, result: str = "failure", agent: str = "a") -> Series:
        return scraped(CONNECT_TASK_OFFSET_COMMIT_RATIO, *who, result, values=values, agent=agent)

    def ours(who: tuple[str, ...] = task) -> dict[str, str]:
        return {"severity": "warning", "kafka_cluster": who[0], "connect": who[2], "connector": who[3], "task": who[4]}

    yield case(COMMITS, "more than a tenth for ten minutes", [ratio("0.105x60")], {"9m": [], "10m": [ours()]})
    yield case(COMMITS, "exactly a tenth", [ratio("0.1x60")], {"30m": []})
    yield case(COMMITS, "less than a tenth", [ratio("0.095x60")], {"30m": []})
    yield case(COMMITS, "those that succeed", [ratio("1x60", result="success"), ratio("0x60")], {"30m": []})
    yield case(COMMITS, "one alert", [ratio("0.2x60"), ratio("0.2x60", agent="b")], {"10m": [ours()]})
    of = ("prod", "main", "orders", "commit_failures")
    raised = scraped(CONNECTOR_THRESHOLD_RATIO, *of, values="0.1x20 0.9x40")
    ends = {"20m": [ours()], "27m": [ours()], "28m": []}
    yield case(COMMITS, "its threshold is raised", [ratio("0.5x60"), raised], ends)
    yield case(COMMITS, "a rebalance fails a few", [ratio("0x3 1 1 1 0x60")], {f"{at}m": [] for at in range(25)})


def _restores() -> Iterator[Case]:
    task = ("prod", "app", "t-1", "0_1")

    def left(values: str, who: tuple[str, ...] = task, agent: str = "a") -> Series:
        return scraped(STREAMS_RESTORE_REMAINING_RECORDS, *who, values=values, agent=agent)

    ours = {"severity": "warning", "kafka_cluster": "prod", "target": "app", "task": "0_1"}

    def of(title: str, series: list[Series], checks: dict[str, bool]) -> Case:
        return case(RESTORE, title, series, {at: [ours] if fires else [] for at, fires in checks.items()})

    yield of("no progress for twenty minutes", [left("100x60")], {"19m": False, "20m": True})
    yield of("one record is a record", [left("1x60")], {"20m": True})
    yield of("nothing left", [left("0x60")], {"30m": False})
    yield of("progress, however slow", [left("100-1x60")], {"20m": False, "40m": False})
    yield of("progress long ago", [left("100 90 80 70 60 50x60")], {"24m": False, "25m": True})
    begins = [left("10 10 10 10 900-1x60")]
    yield of("one that hardly begins, after one that ended", begins, {f"{at}m": False for at in range(15, 36)})
    yield of("stuck from the start of the next one", [left("5 900x60")], {"20m": True})
    once = "900 500 100 0 0 0 0 0 0 0 "
    four = [left("0 " + once * 3 + "900 0x90")]
    yield of("four restores in an hour", four, {"36m": False, "38m": True})
    yield of("three restores, and one that goes on", [left("0 " + once * 3 + "900-1x90")], {"35m": False, "59m": False})
    yield of("until an hour after the first", [left("0 " + once * 4 + "0x90")], {"59m": True, "63m": False})
    yield of("a long one that goes up and down", [left("900 100 800 200 1 700 0x60")], {"20m": False})
    yield of("short ones", [left("0 " + "1 0 0 " * 4 + "0x60")], {"17m": True})
    threads = [left("0 " + once * 2 + "0x60"), left("0x20 " + once * 2 + "0x60", ("prod", "app", "t-2", "0_1"))]
    yield of("a task that moves between threads", threads, {"43m": True})
    others = spread((task[0], task[1], task[3]))
    apart = [(cluster, target, "t-1", number) for cluster, target, number in others]
    yield of("four tasks, one restore each", [left("0 " + once + "0x60", who) for who in apart], {"38m": False})
