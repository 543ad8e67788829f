"""Connect and Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import (
    CONNECT_TASK_OFFSET_COMMIT_RATIO,
    CONNECT_TASK_STATE,
    CONNECTOR_THRESHOLD_RATIO,
    SOURCE_UP,
    STREAMS_RESTORE_REMAINING_RECORDS,
)
from tests.rules.promtool import Case, Series, case, scraped, spread

TASK_FAILED, COMMITS = "KafkaEosConnectTaskFailed", "KafkaEosConnectCommitsFailing"
RESTORE = "KafkaEosStreamsRestoreStuck"
AGAIN = "KafkaEosStreamsRestoreRepeated"


def cases() -> Iterator[Case]:
    yield from _tasks()
    yield from _commits()
    yield from _restores()
    yield from _restored_again()
    yield from _unreachable()


def _unreachable() -> Iterator[Case]:
    task = ("prod", "connect", "main", "orders", "0")
    series = [
        scraped(CONNECT_TASK_STATE, *task, "running", values="1x2 stale"),
        scraped(CONNECT_TASK_STATE, *task, "failed", values="_x2 1x9 stale"),
        scraped(SOURCE_UP, "prod", "connect", "main", values="1x12 0x60"),
    ]
    page = {"severity": "critical", "kafka_cluster": "prod", "connect": "main", "connector": "orders", "task": "0"}
    yield case(
        TASK_FAILED,
        "it ran until it failed, and Connect does not answer soon after its page",
        series,
        {f"{at}m": [page] for at in (24, 30, 60)},
    )


def _tasks() -> Iterator[Case]:
    task = ("prod", "connect", "main", "orders", "0")

    def state(values: str, who: tuple[str, ...] = task, state: str = "failed", agent: str = "a") -> Series:
        return scraped(CONNECT_TASK_STATE, *who, state, values=values, agent=agent)

    def ours(severity: str, who: tuple[str, ...] = task) -> dict[str, str]:
        return {"severity": severity, "kafka_cluster": who[0], "connect": who[2], "connector": who[3], "task": who[4]}

    warning, critical = ours("warning"), ours("critical")
    tasks = [labels for labels in spread(task) if labels[1] == "connect"]
    yield case(
        TASK_FAILED,
        "a ticket at once, a page after five minutes",
        [state("_ 1x60")],
        {"0m": [], "1m": [warning], "5m": [warning], "6m": [warning, critical]},
    )
    yield case(
        TASK_FAILED,
        "each task",
        [state("1x60", who) for who in tasks],
        {"5m": [ours(severity, who) for who in tasks for severity in ("warning", "critical")]},
    )
    yield case(
        TASK_FAILED, "two replicas, one alert", [state("1x60"), state("1x60", agent="b")], {"5m": [warning, critical]}
    )
    yield case(
        TASK_FAILED,
        "a task that was restarted is a ticket for ten minutes and no page",
        [state("1 stale"), state("_ 1x60", state="running")],
        {"1m": [warning], "5m": [warning], "10m": [warning], "11m": []},
    )
    loop = "1 stale stale " * 10
    yield case(
        TASK_FAILED,
        "a crash loop pages though it runs most of the time",
        [state(loop), state("_ 1 1 " * 10, state="running")],
        {"4m": [warning], "5m": [warning, critical], "20m": [warning, critical]},
    )
    yield case(
        TASK_FAILED,
        "failing every fifth minute is a ticket",
        [state("1 stale stale stale stale " * 10)],
        {"12m": [warning], "20m": [warning], "30m": [warning]},
    )
    for other in ("running", "paused", "unassigned", "restarting"):
        yield case(TASK_FAILED, f"a task that is {other}", [state("1x60", state=other)], {"1m": [], "30m": []})

    def answers(
        values: str, target: str = "main", cluster: str = "prod", source: str = "connect", agent: str = "a"
    ) -> Series:
        return scraped(SOURCE_UP, cluster, source, target, values=values, agent=agent)

    failed = state("1x8 stale")
    later = {"18m": [warning, critical], "19m": [critical], "60m": [critical]}
    yield case(TASK_FAILED, "Connect cannot be reached", [failed, answers("1x8 0x90")], later)
    yield case(
        TASK_FAILED,
        "each task of it",
        [*(state("1x8 stale", who) for who in tasks), *(answers("0x90", who[2], who[0]) for who in tasks)],
        {"30m": [ours("critical", who) for who in tasks]},
    )
    yield case(
        TASK_FAILED,
        "one replica reaches it, and the task is deleted",
        [failed, answers("0x90"), answers("1x90", agent="b")],
        {"19m": []},
    )
    for words, beside in (
        ("another Connect cannot be reached", answers("0x90", "other")),
        ("Connect of another cluster", answers("0x90", cluster="other")),
        ("another source of the name", answers("0x90", source="producers")),
    ):
        yield case(TASK_FAILED, words, [failed, answers("1x90"), beside], {"18m": [warning, critical], "19m": []})
    for cluster, name in (("other", "main"), ("prod", "other")):
        aside = answers("0x90", name, cluster)
        yield case(
            TASK_FAILED,
            f"gone, while {cluster} {name} is down",
            [failed, aside],
            {"18m": [warning, critical], "19m": []},
        )
        aside = answers("1x90", name, cluster)
        yield case(
            TASK_FAILED, f"while {cluster} {name} answers", [failed, answers("0x90"), aside], {"60m": [critical]}
        )
    once = state("_x9 1x3 stale", state="running")
    yield case(TASK_FAILED, "it ran again, and then nothing answers", [failed, answers("0x90"), once], {"22m": []})
    aside = answers("0x90", source="producers")
    yield case(TASK_FAILED, "it is watched no more", [failed, aside], {"18m": [warning, critical], "19m": []})
    aside = answers("1x90", source="producers")
    yield case(TASK_FAILED, "another source of the name answers", [failed, answers("0x90"), aside], {"60m": [critical]})
    names = {"alertname": "Other", "alertstate": "firing", **ours("critical")}
    yield case(TASK_FAILED, "another alert", [Series("ALERTS", names, "1x90"), answers("0x90")], {"30m": []})
    yield case(
        TASK_FAILED,
        "a part of it answers: the task runs again",
        [failed, answers("0x90"), state("_x9 1x90", state="running")],
        {"18m": [warning, critical], "19m": []},
    )
    yield case(
        TASK_FAILED,
        "another task runs",
        [failed, answers("0x90"), *(state("1x90", who, "running") for who in tasks[1:])],
        {"30m": [critical]},
    )
    yield case(TASK_FAILED, "a ticket stays none", [state("1 stale"), answers("0x90")], {"11m": []})
    yield case(TASK_FAILED, "after the last data", [state("1x8 stale")], {"18m": [warning, critical], "19m": []})


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


def _restored_again() -> Iterator[Case]:
    task = ("prod", "app", "t-1", "0_1")

    def left(values: str, who: tuple[str, ...] = task, agent: str = "a") -> Series:
        return scraped(STREAMS_RESTORE_REMAINING_RECORDS, *who, values=values, agent=agent)

    def ours(who: tuple[str, ...] = task) -> dict[str, str]:
        cluster, target, _, number = who
        return {"severity": "warning", "kafka_cluster": cluster, "target": target, "task": number}

    once = "900 500 100 0 0 0 0 0 0 0 "
    yield case(AGAIN, "four restores in an hour", [left("0 " + once * 3 + "900 0x90")], {"31m": [], "33m": [ours()]})
    yield case(
        AGAIN, "three restores, and one that goes on", [left("0 " + once * 3 + "900x90")], {"35m": [], "59m": []}
    )
    yield case(AGAIN, "until an hour after the first", [left("0 " + once * 4 + "0x90")], {"59m": [ours()], "63m": []})
    yield case(AGAIN, "a long one that goes up and down", [left("900 100 800 200 1 700 0x60")], {"20m": []})
    yield case(AGAIN, "one record is a record", [left("0 " + "1 0 0 " * 4 + "0x60")], {"12m": [ours()]})
    threads = [left("0 " + once * 2 + "0x60"), left("0x20 " + once * 2 + "0x60", ("prod", "app", "t-2", "0_1"))]
    yield case(AGAIN, "a task that moves between threads", threads, {"38m": [ours()]})
    others = spread((task[0], task[1], task[3]))
    apart = [(cluster, target, "t-1", number) for cluster, target, number in others]
    yield case(AGAIN, "four tasks, one restore each", [left("0 " + once + "0x60", who) for who in apart], {"38m": []})


def _restores() -> Iterator[Case]:
    task = ("prod", "app", "t-1", "0_1")

    def left(values: str, who: tuple[str, ...] = task, agent: str = "a") -> Series:
        return scraped(STREAMS_RESTORE_REMAINING_RECORDS, *who, values=values, agent=agent)

    def ours(who: tuple[str, ...] = task) -> dict[str, str]:
        return {"severity": "warning", **dict(zip(("kafka_cluster", "target", "thread", "task"), who, strict=True))}

    yield case(RESTORE, "no progress for twenty minutes", [left("100x60")], {"19m": [], "20m": [ours()]})
    yield case(RESTORE, "one record is a record", [left("1x60")], {"20m": [ours()]})
    yield case(RESTORE, "nothing left", [left("0x60")], {"30m": []})
    yield case(RESTORE, "progress, however slow", [left("100-1x60")], {"20m": [], "40m": []})
    yield case(RESTORE, "progress long ago", [left("100 90 80 70 60 50x60")], {"24m": [], "25m": [ours()]})
    yield case(
        RESTORE,
        "one that hardly begins, after one that ended",
        [left("10 10 10 10 900-1x60")],
        {f"{at}m": [] for at in range(15, 36)},
    )
    yield case(RESTORE, "stuck from the start of the next one", [left("5 900x60")], {"20m": [ours()]})
