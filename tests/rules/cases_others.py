"""Internal topics, brokers, posture, Connect, Streams, and the agent itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exporter.catalogue import (
    BROKER_TXN_VERIFICATION_FAILURES_TOTAL,
    CONNECT_TASK_OFFSET_COMMIT_RATIO,
    CONNECT_TASK_STATE,
    EXPORTER_BUILD_INFO,
    EXPORTER_SHARDS,
    INTERNAL_TOPIC_PARTITIONS,
    POSTURE_CHECK,
    SOURCE_UP,
    STREAMS_RESTORE_REMAINING_RECORDS,
)
from tests.rules.promtool import Case, Series, case, scraped, spread

ISR, VERIFICATION, POSTURE = (
    "KafkaEosTransactionLogUnderMinIsr",
    "KafkaEosVerificationFailures",
    "KafkaEosPostureFailed",
)
TASK_FAILED, COMMITS = "KafkaEosConnectTaskFailed", "KafkaEosConnectCommitsFailing"
RESTORE, DOWN, ABSENT = "KafkaEosStreamsRestoreStuck", "KafkaEosSourceDown", "KafkaEosExporterAbsent"


def cases() -> Iterator[Case]:
    yield from _transaction_log()
    yield from _verification()
    yield from _posture()
    yield from _tasks()
    yield from _commits()
    yield from _restores()
    yield from _sources()
    yield from _absent()


def _transaction_log() -> Iterator[Case]:
    def partitions(
        values: str,
        condition: str = "under_min_isr",
        topic: str = "__transaction_state",
        cluster: str = "prod",
        agent: str = "a",
    ) -> Series:
        return scraped(INTERNAL_TOPIC_PARTITIONS, cluster, topic, condition, values=values, agent=agent)

    ours = {"severity": "critical", "kafka_cluster": "prod"}
    for condition in ("under_min_isr", "offline"):
        yield case(ISR, f"{condition} for five minutes", [partitions("1x60", condition)], {"4m": [], "5m": [ours]})
    yield case(ISR, "five minutes are counted from the first", [partitions("0 1x60")], {"5m": [], "6m": [ours]})
    yield case(
        ISR,
        "a cluster, not a condition or a replica, is what is paged for",
        [
            partitions("1x60"),
            partitions("2x60", "offline"),
            partitions("1x60", agent="b"),
            partitions("1x60", cluster="other"),
        ],
        {"5m": [ours, {**ours, "kafka_cluster": "other"}]},
    )
    yield case(
        ISR,
        "one condition of two, seen by one replica of two",
        [partitions("1x60"), partitions("0x60", "offline"), partitions("0x60", agent="b")],
        {"5m": [ours]},
    )
    yield case(
        ISR,
        "total and under_replicated are no reason, other topics neither",
        [
            partitions("50x60", "total"),
            partitions("50x60", "under_replicated"),
            partitions("5x60", topic="__consumer_offsets"),
            partitions("0x60"),
        ],
        {"30m": []},
    )
    yield case(
        ISR,
        "brokers restart one after the other",
        [partitions("0 1 1 1 0 0 0 1 1 1 0x20")],
        {f"{at}m": [] for at in range(25)},
    )
    yield case(ISR, "one failed scrape does not begin anew", [partitions("1 1 1 stale 1x60")], {"5m": [ours]})
    yield case(
        ISR,
        "three minutes of failed scrapes do",
        [partitions("1 1 stale stale stale stale 1x60")],
        {"7m": [], "10m": [], "11m": [ours]},
    )
    yield case(
        ISR, "after the last data it goes on for ten minutes", [partitions("1x8 stale")], {"18m": [ours], "19m": []}
    )


def _verification() -> Iterator[Case]:
    def failures(values: str, broker: str = "1", cluster: str = "prod", agent: str = "a") -> Series:
        return scraped(BROKER_TXN_VERIFICATION_FAILURES_TOTAL, cluster, broker, values=values, agent=agent)

    ours = {"severity": "warning", "kafka_cluster": "prod", "broker": "1"}
    yield case(
        VERIFICATION, "more than ten in a quarter of an hour", [failures("0x20 11x60")], {"20m": [], "25m": [ours]}
    )
    yield case(VERIFICATION, "a few while a coordinator moves", [failures("0x20 9x60")], {"25m": [], "40m": []})
    yield case(VERIFICATION, "exactly ten in a quarter of an hour", [failures("0+0x5 5 10x60")], {"15m": []})
    yield case(
        VERIFICATION,
        "each broker",
        [failures("0x5 50x60"), failures("0x5 50x60", broker="2"), failures("0x5 50x60", cluster="other")],
        {"10m": [ours, {**ours, "broker": "2"}, {**ours, "kafka_cluster": "other"}]},
    )
    yield case(
        VERIFICATION, "two replicas count once", [failures("0x5 7x60"), failures("0x5 7x60", agent="b")], {"10m": []}
    )
    yield case(
        VERIFICATION,
        "seen by one replica of two",
        [failures("0x5 50x60"), failures("50x60", agent="b")],
        {"10m": [ours]},
    )
    yield case(VERIFICATION, "a count that was there before is no event", [failures("5000x60")], {"0m": [], "30m": []})
    yield case(
        VERIFICATION, "a quarter of an hour later it is over", [failures("0x5 50x60")], {"27m": [ours], "28m": []}
    )
    yield case(
        VERIFICATION,
        "slowly",
        [failures("0 " * 20 + " ".join(str(at) for at in range(60)))],
        {"30m": [], "35m": [ours]},
    )


def _posture() -> Iterator[Case]:
    def check(values: str, who: tuple[str, ...] = ("prod", "min_isr", "log"), agent: str = "a") -> Series:
        return scraped(POSTURE_CHECK, *who, values=values, agent=agent)

    def ours(who: tuple[str, ...] = ("prod", "min_isr", "log")) -> dict[str, str]:
        return {"severity": "warning", "kafka_cluster": who[0], "check": who[1], "subject": who[2]}

    all_of = spread(("prod", "min_isr", "log"))
    yield case(POSTURE, "failed for a quarter of an hour", [check("0x60")], {"14m": [], "15m": [ours()]})
    yield case(POSTURE, "passed", [check("1x60")], {"30m": []})
    yield case(POSTURE, "unknown is not failed", [check("1x5 stale")], {"30m": []})
    yield case(
        POSTURE,
        "each check of each subject",
        [check("0x60", who) for who in all_of],
        {"15m": [ours(who) for who in all_of]},
    )
    yield case(
        POSTURE,
        "two replicas, one of which read it before",
        [check("0x60"), check("1x60", agent="b")],
        {"15m": [ours()]},
    )
    yield case(POSTURE, "one alert for two replicas", [check("0x60"), check("0x60", agent="b")], {"15m": [ours()]})
    yield case(POSTURE, "one failed scrape does not begin anew", [check("0 0 0 stale 0x60")], {"15m": [ours()]})
    yield case(POSTURE, "mended for a moment", [check("0x8 1 0x60")], {"15m": [], "24m": [], "25m": [ours()]})
    yield case(
        POSTURE, "after the last data it goes on for ten minutes", [check("0x20 stale")], {"30m": [ours()], "31m": []}
    )
    yield case(
        POSTURE,
        "a check that takes long to be made again",
        [check("0 0 stale stale stale stale 0x60")],
        {"16m": [], "21m": [ours()]},
    )


def _tasks() -> Iterator[Case]:
    task = ("prod", "connect", "main", "orders", "0")

    def state(values: str, who: tuple[str, ...] = task, state: str = "failed", agent: str = "a") -> Series:
        return scraped(CONNECT_TASK_STATE, *who, state, values=values, agent=agent)

    def ours(severity: str, who: tuple[str, ...] = task) -> dict[str, str]:
        return {"severity": severity, "kafka_cluster": who[0], "connect": who[2], "connector": who[3], "task": who[4]}

    warning, critical = ours("warning"), ours("critical")
    tasks = [each for each in spread(task) if each[1] == "connect"]
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
    yield case(TASK_FAILED, "after the last data", [state("1x8 stale")], {"18m": [warning, critical], "19m": []})


def _commits() -> Iterator[Case]:
    task = ("prod", "connect", "main", "orders", "0")

    def ratio(values: str, who: tuple[str, ...] = task, result: str = "failure", agent: str = "a") -> Series:
        return scraped(CONNECT_TASK_OFFSET_COMMIT_RATIO, *who, result, values=values, agent=agent)

    def ours(who: tuple[str, ...] = task) -> dict[str, str]:
        return {"severity": "warning", "kafka_cluster": who[0], "connect": who[2], "connector": who[3], "task": who[4]}

    tasks = [each for each in spread(task) if each[1] == "connect"]
    yield case(COMMITS, "more than a tenth for ten minutes", [ratio("0.105x60")], {"9m": [], "10m": [ours()]})
    yield case(COMMITS, "exactly a tenth", [ratio("0.1x60")], {"30m": []})
    yield case(COMMITS, "less than a tenth", [ratio("0.095x60")], {"30m": []})
    yield case(COMMITS, "those that succeed", [ratio("1x60", result="success"), ratio("0x60")], {"30m": []})
    yield case(COMMITS, "each task", [ratio("1x60", who) for who in tasks], {"10m": [ours(who) for who in tasks]})
    yield case(
        COMMITS,
        "two replicas that read at different times",
        [ratio("0.2x60"), ratio("0x60", agent="b")],
        {"10m": [ours()]},
    )
    yield case(COMMITS, "two replicas do not add up", [ratio("0.06x60"), ratio("0.06x60", agent="b")], {"30m": []})
    yield case(COMMITS, "one alert", [ratio("0.2x60"), ratio("0.2x60", agent="b")], {"10m": [ours()]})
    yield case(COMMITS, "one failed scrape does not begin anew", [ratio("1 1 1 stale 1x60")], {"10m": [ours()]})
    yield case(COMMITS, "a rebalance fails a few", [ratio("0x3 1 1 1 0x60")], {f"{at}m": [] for at in range(25)})
    yield case(COMMITS, "well in between", [ratio("1x5 0 1x60")], {"16m": [], "17m": [ours()]})
    yield case(COMMITS, "small values add up to no ratio", [ratio("0.05x60")], {"30m": []})
    yield case(
        COMMITS, "after the last data it goes on for ten minutes", [ratio("1x20 stale")], {"30m": [ours()], "31m": []}
    )
    yield case(
        COMMITS,
        "four minutes without data",
        [ratio("1 1 stale stale stale stale 1x60")],
        {"11m": [], "15m": [], "16m": [ours()]},
    )


def _restores() -> Iterator[Case]:
    task = ("prod", "app", "t-1", "0_1")

    def left(values: str, who: tuple[str, ...] = task, agent: str = "a") -> Series:
        return scraped(STREAMS_RESTORE_REMAINING_RECORDS, *who, values=values, agent=agent)

    def ours(who: tuple[str, ...] = task) -> dict[str, str]:
        return {"severity": "warning", **dict(zip(("kafka_cluster", "target", "thread", "task"), who, strict=True))}

    tasks = spread(task)
    yield case(RESTORE, "no progress for twenty minutes", [left("100x60")], {"19m": [], "20m": [ours()]})
    yield case(RESTORE, "one record is a record", [left("1x60")], {"20m": [ours()]})
    yield case(RESTORE, "nothing left", [left("0x60")], {"30m": []})
    yield case(RESTORE, "progress, however slow", [left("100-1x60")], {"20m": [], "40m": []})
    yield case(RESTORE, "progress long ago", [left("100 90 80 70 60 50x60")], {"24m": [], "25m": [ours()]})
    yield case(
        RESTORE,
        "a restore that begins when another ended",
        [left("50 40 30 20 10 5 900-10x30")],
        {f"{at}m": [] for at in range(15, 36)},
    )
    yield case(
        RESTORE,
        "one that hardly begins, after one that ended",
        [left("10 10 10 10 900-1x60")],
        {f"{at}m": [] for at in range(15, 36)},
    )
    yield case(RESTORE, "stuck from the start of the next one", [left("5 900x60")], {"20m": [ours()]})
    yield case(RESTORE, "writes come faster than it restores", [left("100+10x60")], {"20m": [ours()]})
    yield case(RESTORE, "each task", [left("5x60", who) for who in tasks], {"20m": [ours(who) for who in tasks]})
    yield case(RESTORE, "two replicas, one alert", [left("5x60"), left("5x60", agent="b")], {"20m": [ours()]})
    yield case(RESTORE, "two replicas, read apart", [left("7x60"), left("5x60", agent="b")], {"20m": [ours()]})
    yield case(RESTORE, "progress that two replicas see", [left("100-1x60"), left("100-1x60", agent="b")], {"30m": []})
    yield case(
        RESTORE, "progress that one replica sees late", [left("100-1x60"), left("50-1x40", agent="b")], {"30m": []}
    )
    yield case(
        RESTORE, "two failed scrapes a quarter of an hour ago", [left("5 5 stale stale 5x60")], {"20m": [ours()]}
    )
    yield case(
        RESTORE,
        "data of long before is no comparison",
        [left("5 stale stale stale stale stale 5x60")],
        {"20m": [], "25m": [], "26m": [ours()]},
    )
    yield case(RESTORE, "without data it ends with its window", [left("5x30 stale")], {"45m": [ours()], "46m": []})


def _sources() -> Iterator[Case]:
    target = ("prod", "lso", "prod")

    def up(values: str, who: tuple[str, ...] = target, agent: str = "a") -> Series:
        return scraped(SOURCE_UP, *who, values=values, agent=agent)

    def ours(who: tuple[str, ...] = target, agent: str = "a") -> dict[str, str]:
        names = {"kafka_cluster": who[0], "source": who[1], "target": who[2]}
        scrape = {"job": "kafka-eos", "instance": f"{agent}:10618", "pod": f"exporter-{agent}"}
        return {"severity": "warning", **names, **scrape}

    yield case(DOWN, "down from the start", [up("0x60")], {"4m": [], "5m": [ours()]})
    yield case(DOWN, "down after it was up", [up("1x20 0x60")], {"30m": [], "31m": [ours()]})
    yield case(
        DOWN,
        "a coordinator that moves costs a few reads",
        [up("1x20 0 0 0 1x60")],
        {f"{at}m": [] for at in range(20, 40)},
    )
    yield case(DOWN, "half of the reads are answered", [up("1 0 stale")], {"6m": [], "9m": []})
    yield case(DOWN, "three reads of five are answered", [up("1 1 1 0 0 " * 12)], {"30m": [], "50m": []})
    yield case(DOWN, "one read of three is answered", [up("1 0 0 " * 20)], {"30m": [ours()]})
    yield case(
        DOWN,
        "each source, target and agent for itself",
        [up("0x60"), up("0x60", ("prod", "lso", "other")), up("1x60", agent="b")],
        {"6m": [ours(), ours(("prod", "lso", "other"))]},
    )
    yield case(DOWN, "failed scrapes are another matter", [up("1x20 " + "stale " * 20)], {"25m": [], "45m": []})
    yield case(
        DOWN,
        "a scrape that fails now and then does not hide it",
        [up("0 stale " * 20)],
        {"6m": [ours()], "20m": [ours()]},
    )
    yield case(
        DOWN,
        "it ends some time after it is mended",
        [up("0x20 1x60")],
        {"24m": [ours()], "25m": [ours()], "32m": [ours()], "33m": []},
    )
    yield case(DOWN, "just below a half", [up("1 1 1 1 1 0 0 0 0 0 0 " * 10)], {"60m": [ours()]})


def _absent() -> Iterator[Case]:
    def build(values: str, agent: str = "a") -> Series:
        return scraped(EXPORTER_BUILD_INFO, "1.0", "abc", "3.11", values=values, agent=agent)

    ours = {"severity": "critical"}
    yield case(ABSENT, "no agent ever", [], {"4m": [], "5m": [ours]})
    yield case(ABSENT, "no agent any more", [build("1x20 stale")], {"30m": [], "31m": [ours]})
    yield case(ABSENT, "one of two replicas is left", [build("1x5 stale"), build("1x60", agent="b")], {"60m": []})
    yield case(
        ABSENT,
        "scrapes fail for five minutes",
        [build("1x5 stale stale stale stale stale 1x60")],
        {f"{at}m": [] for at in range(5, 20)},
    )
    yield case(
        ABSENT, "an agent restarts again and again", [build("1 stale stale stale " * 10)], {"10m": [], "30m": []}
    )
    yield from _absent_shards()
    yield case(ABSENT, "it ends when an agent is there", [build("_ " * 10 + "1x60")], {"9m": [ours], "10m": []})


def _absent_shards() -> Iterator[Case]:
    alive = scraped(EXPORTER_BUILD_INFO, "1.0", "abc", "3.11", values="1x60")

    def shards(*values: str, replica: str = "", job: str = "kafka-eos") -> list[Series]:
        """A shard for each; ``values`` are of how many it believes to be one."""
        made = [
            scraped(EXPORTER_SHARDS, values=told, agent=f"{index}{replica}", shard=str(index))
            for index, told in enumerate(values)
        ]
        return [replace(each, labels={**each.labels, "job": job}) for each in made if each.values]

    ours = {"severity": "critical", "job": "kafka-eos"}
    yield case(ABSENT, "all three shards", [alive, *shards("3x60", "3x60", "3x60")], {"5m": [], "60m": []})
    yield case(ABSENT, "the last shard never came", [alive, *shards("3x60", "3x60")], {"4m": [], "5m": [ours]})
    yield case(ABSENT, "the first shard never came", [alive, *shards("", "3x60", "3x60")], {"5m": [ours]})
    yield case(
        ABSENT,
        "a shard goes, and comes back",
        [alive, *shards("3x60", "3x10 " + "stale " * 20 + "3x30", "3x60")],
        {"20m": [], "21m": [ours], "30m": [ours], "31m": []},
    )
    yield case(
        ABSENT,
        "a shard that restarts again and again",
        [alive, *shards("2x60", "2 stale stale stale " * 10)],
        {"10m": [], "30m": []},
    )
    replicas = [*shards("2x60", "2x60"), *shards("2x60", "2x60", replica="b")]
    yield case(ABSENT, "two replicas of both shards", [alive, *replicas], {"5m": [], "60m": []})
    replicas = [*shards("3x60", "3x60"), *shards("3x60", "3x60", replica="b")]
    yield case(ABSENT, "two replicas of two shards are not three shards", [alive, *replicas], {"5m": [ours]})
    jobs = [*shards("3x60", "3x60"), *shards("3x60", "3x60", "3x60", job="other")]
    yield case(ABSENT, "the shards of another job do not stand in", [alive, *jobs], {"5m": [ours]})
    disagree = shards("2x60", "2x60", "3x60")
    yield case(ABSENT, "shards that do not agree on how many they are", [alive, *disagree], {"4m": [], "5m": [ours]})
    for fewer in ("2x60", "4x60"):
        told = [*shards("3x60", "3x60", "3x60"), *shards(fewer, replica="b")]
        yield case(ABSENT, f"a replica of a shard is told {fewer}", [alive, *told], {"4m": [], "5m": [ours]})
    gaps = "3 stale stale stale " * 10
    yield case(ABSENT, "a missing shard while scrapes fail", [alive, *shards(gaps, gaps)], {"30m": [ours]})
    for told in (shards("2x60", "2 3 " * 30), shards("3x60", "3x60", "3 2 " * 30)):
        yield case(ABSENT, f"wrong for a minute at a time, {len(told)}", [alive, *told], {"20m": [], "21m": []})
    jobs = [*shards("2x60", "2x60"), *shards("3x60", "3x60", "3x60", job="other")]
    yield case(ABSENT, "two jobs may have different numbers of shards", [alive, *jobs], {"5m": []})
