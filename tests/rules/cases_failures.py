"""Failures of engines and clients: a ticket for one that is over, a page for one that lasts or recurs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from exporter.catalogue import (
    CONNECT_TASK_STATE,
    PRODUCER_IDEMPOTENCE_STATE,
    PRODUCER_TXN_STATE,
    SOURCE_UP,
    SPARK_QUERY_STATE,
    SPARK_QUERY_TERMINATIONS_TOTAL,
    STREAMS_CLIENT_STATE,
)
from exporter.model import Metric
from tests.rules.promtool import Case, Labels, Series, case, scraped, spread

TASK, QUERY = "KafkaEosConnectTaskFailed", "KafkaEosSparkQueryTerminated"
STREAMS, FATAL = "KafkaEosStreamsFailed client", "KafkaEosProducerFatalError"
Who = tuple[str, ...]


class FailureKind(NamedTuple):
    """A kind of subject: the alert, the metric of its state, its labels, one of it, a bad state and a good one."""

    alert: str
    metric: Metric
    names: tuple[str, ...]
    who: Who
    bad: str
    good: str

    def state(self, values: str, state: str = "", who: Who = (), agent: str = "a") -> Series:
        labels = {
            "source": "connect",
            "target": "log",
            **dict(zip(self.names, who or self.who, strict=True)),
            "state": state or self.bad,
        }
        return scraped(self.metric, *(labels[name] for name in self.metric.labels), values=values, agent=agent)

    def of(self, severity: str, who: Who = ()) -> Labels:
        reason = {"reason": self.alert.partition(" ")[2]} if " " in self.alert else {}
        return {"severity": severity, **reason, **dict(zip(self.names, who or self.who, strict=True))}


_CLIENT = ("kafka_cluster", "target", "client_id")
_JVM = ("prod", "app-1:8778", "wordcount")
CONNECT = FailureKind(
    TASK,
    CONNECT_TASK_STATE,
    ("kafka_cluster", "connect", "connector", "task"),
    ("prod", "main", "orders", "0"),
    "failed",
    "running",
)
SPARK = FailureKind(
    QUERY,
    SPARK_QUERY_STATE,
    ("kafka_cluster", "spark_application", "query"),
    ("prod", "etl", "orders"),
    "failed",
    "running",
)
KINDS = (
    CONNECT,
    SPARK,
    *(
        FailureKind(STREAMS, STREAMS_CLIENT_STATE, _CLIENT, _JVM, state, "running")
        for state in ("error", "pending_error")
    ),
    *(
        FailureKind(FATAL, metric, _CLIENT, _JVM, "fatal_error", "ready")
        for metric in (PRODUCER_TXN_STATE, PRODUCER_IDEMPOTENCE_STATE)
    ),
)


def cases() -> Iterator[Case]:
    for kind in KINDS:
        yield from _of(kind)
    yield from _unreachable()
    yield from _stays()
    yield from _counted()
    both = [scraped(metric, *_JVM, "fatal_error", values="1x60") for metric in (PRODUCER_TXN_STATE, KINDS[-1].metric)]
    yield case(FATAL, "both states are one alert", both, {"6m": [KINDS[-1].of("warning"), KINDS[-1].of("critical")]})


def _of(kind: FailureKind) -> Iterator[Case]:
    ticket, page = kind.of("warning"), kind.of("critical")
    at = f"{kind.metric} {kind.bad}: "

    def of(title: str, series: Sequence[Series], checks: dict[str, list[Labels]]) -> Case:
        return case(kind.alert, at + title, series, checks)

    yield of("for five minutes", [kind.state("_ 1x60")], {"5m": [], "6m": [ticket, page]})
    whos = spread(kind.who)
    every = [kind.state("1x60", who=who, agent=agent) for who in whos for agent in "ab"]
    yield of(
        "each, and two replicas that see it",
        every,
        {"5m": [kind.of(severity, who) for who in whos for severity in ("warning", "critical")]},
    )
    restarted = [kind.state("1 stale"), kind.state("_ 1x60", kind.good)]
    yield of("it runs again: a ticket and no page", restarted, {"4m": [], "5m": [ticket], "17m": [ticket], "18m": []})
    loop = [kind.state("1 stale stale " * 10), kind.state("_ 1 1 " * 10, kind.good)]
    yield of("a loop pages", loop, {"4m": [], "5m": [ticket, page], "20m": [ticket, page]})
    seldom = [kind.state("1 stale stale stale stale " * 10)]
    yield of("every fifth minute is a ticket", seldom, {"12m": [ticket], "30m": [ticket]})
    gone = kind.state("1x8 stale")
    if kind is not SPARK:
        yield of("no data", [gone], {"18m": [ticket, page], "19m": [ticket], "25m": [ticket], "26m": []})
    for good in {"running", "idle", "paused", kind.good}:
        yield of(good, [kind.state("1x60", good)], {"1m": [], "30m": []})


def _unreachable() -> Iterator[Case]:
    """A page about a task stays while Connect does not answer."""
    ticket, page = CONNECT.of("warning"), CONNECT.of("critical")
    gone = CONNECT.state("1x8 stale")
    tasks = spread(CONNECT.who)
    over: dict[str, list[Labels]] = {"18m": [ticket, page], "19m": [ticket], "26m": []}
    stays: dict[str, list[Labels]] = {"18m": [ticket, page], "26m": [page], "60m": [page]}

    def answers(
        values: str, target: str = "main", cluster: str = "prod", source: str = "connect", agent: str = "a"
    ) -> Series:
        return scraped(SOURCE_UP, cluster, source, target, values=values, agent=agent)

    def of(title: str, series: Sequence[Series], checks: dict[str, list[Labels]], first: Series = gone) -> Case:
        return case(TASK, title, [first, *series], checks)

    yield of("Connect cannot be reached", [answers("1x8 0x90")], stays)
    ran = [CONNECT.state("1x2 stale", "running"), answers("1x12 0x60")]
    yield of("it ran until it failed", ran, {f"{at}m": [page] for at in (30, 60)}, CONNECT.state("_x2 1x9 stale"))
    every = [*(CONNECT.state("1x8 stale", who=who) for who in tasks), *(answers("0x90", w[1], w[0]) for w in tasks)]
    yield of("each task of it", every, {"30m": [CONNECT.of("critical", who) for who in tasks]})
    replica = [answers("0x90"), answers("1x90", agent="b")]
    yield of("one replica reaches it, and the task is deleted", replica, {"26m": []})
    for title, beside in (
        ("another Connect cannot be reached", answers("0x90", "other")),
        ("Connect of another cluster", answers("0x90", cluster="other")),
        ("another source of the name", answers("0x90", source="producers")),
    ):
        yield of(title, [answers("1x90"), beside], over)
    yield of("it is watched no more", [answers("0x90", source="producers")], over)
    for cluster, name in (("other", "main"), ("prod", "other")):
        yield of(f"gone, while {cluster} {name} is down", [answers("0x90", name, cluster)], over)
        yield of(f"while {cluster} {name} answers", [answers("0x90"), answers("1x90", name, cluster)], {"60m": [page]})
    aside = [answers("0x90"), answers("1x90", source="producers")]
    yield of("another source of the name answers", aside, {"60m": [page]})
    once = CONNECT.state("_x9 1x3 stale", "running")
    yield of("it ran again, and then nothing answers", [answers("0x90"), once], {"26m": []})
    yield of("the task runs again", [answers("0x90"), CONNECT.state("_x9 1x90", "running")], over)
    others = [CONNECT.state("1x90", "running", who) for who in tasks[1:]]
    yield of("another task runs", [answers("0x90"), *others], {"30m": [page]})
    other = Series("ALERTS", {"alertname": "Other", "alertstate": "firing", **page}, "1x90")
    yield of("another alert", [other, answers("0x90")], {"30m": []}, CONNECT.state("_"))
    yield of("a ticket stays none", [answers("0x90")], {"18m": []}, CONNECT.state("1 stale"))


def _stays() -> Iterator[Case]:
    """A page about a query stays until another state comes."""
    ticket, page = SPARK.of("warning"), SPARK.of("critical")
    gone = SPARK.state("1x8 stale")
    whos = spread(SPARK.who)

    def of(title: str, series: Sequence[Series], checks: dict[str, list[Labels]], step: str = "1m") -> Case:
        return case(QUERY, title, series, checks, step)

    yield of("its driver is gone", [gone], {"18m": [ticket, page], "26m": [page], "90m": [page]})
    for claimed in ("running", "idle", "terminated"):
        yield of(f"it is {claimed} again", [gone, SPARK.state("_x20 1x60", claimed)], {"26m": [page], "28m": []})
    yield of("another one runs", [gone, *(SPARK.state("1x60", "running", who) for who in whos[1:])], {"40m": [page]})
    new = ("new", "new", "new")
    day = [*(SPARK.state("1x4 stale", who=who) for who in whos), SPARK.state("_x40 1x4 stale", who=new)]
    pages = [SPARK.of("critical", who) for who in (*whos, new)]
    yield of("for a day", day, {"20h": pages, "25h": pages[-1:]}, "4m")
    late = [SPARK.state("1x4 stale"), *(SPARK.state("_x200 1x4 stale", who=who) for who in whos[1:])]
    theirs = [SPARK.of("critical", who) for who in whos[1:]]
    yield of("each for a day of its own", late, {"20h": [page, *theirs], "25h": theirs}, "4m")
    other = Series("ALERTS", {"alertname": "Other", "alertstate": "firing", **page}, "1x90")
    yield of("another alert", [other, SPARK.state("1 stale")], {"30m": []})
    for moment in ("_x20 1x2 stale", "_x20 1 stale"):
        yield of("it ran again for a moment", [gone, SPARK.state(moment, "running")], {"29m": [], "40m": []})
    ran = [SPARK.state("1x2 stale", "running"), SPARK.state("_x3 1x8 stale")]
    yield of("it ran until it failed", ran, {"40m": [page]})


def ended(values: str, reason: str = "other", who: Who = SPARK.who, agent: str = "a") -> Series:
    return scraped(SPARK_QUERY_TERMINATIONS_TOTAL, who[0], "log", *who[1:], reason, values=values, agent=agent)


def _counted() -> Iterator[Case]:
    """A query may have come back between two reads: its end is counted."""
    ticket = SPARK.of("warning")
    running: Callable[[str], Series] = lambda values: SPARK.state(values, "running")
    back = [ended("0 0 1x60"), running("1x60")]
    yield case(QUERY, "it came back between two reads", back, {"6m": [], "7m": [ticket], "18m": [ticket], "19m": []})
    seen = [ended("_ 1 1 1 1"), SPARK.state("_ 1 1 stale"), running("_ _ _ 1x60")]
    until: dict[str, list[Labels]] = {"5m": [], "6m": [ticket], "19m": [ticket], "20m": []}
    yield case(QUERY, "it had failed when it was first seen", seen, until)
    for reason in ("data_loss", "concurrent_run", "fenced", "kafka", "checkpoint", "user_code", "other"):
        yield case(QUERY, f"by {reason}", [ended("0x5 1x60", reason)], {"10m": [], "11m": [ticket]})
    stopped = [ended("0x5 1x60", "stopped"), SPARK.state("1x60", "terminated")]
    yield case(QUERY, "stopped on purpose", stopped, {"12m": [], "30m": []})
    yield case(QUERY, "a count that does not grow", [ended("7x60"), running("1x60")], {"0m": [], "30m": []})
    every = [*(ended("0x5 1x60", who=who) for who in spread(SPARK.who)), ended("0x5 1x60", "kafka")]
    yield case(QUERY, "each query", every, {"11m": [SPARK.of("warning", who) for who in spread(SPARK.who)]})
    replicas = [ended("0x5 1x60"), ended("0x5 1 1 stale stale 1x40", agent="b")]
    yield case(QUERY, "two replicas, one of which restarts", replicas, {"11m": [ticket], "22m": [ticket], "23m": []})
    yield case(QUERY, "an agent that restarts counts on", [ended("0x5 1x20 stale stale 1x40")], {"32m": [], "40m": []})
