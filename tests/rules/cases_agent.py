"""The agent itself: gone, in a crash loop, blind, or with an answer in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from exporter.catalogue import EXPORTER_BUILD_INFO, SOURCE_BLIND, SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS, SOURCE_UP
from tests.rules.promtool import Case, Series, case, scraped

ABSENT, DOWN, BLIND = "KafkaEosExporterAbsent", "KafkaEosSourceDown", "KafkaEosClusterBlind"
CLUSTER, UNSTABLE, NEVER = (f"{ABSENT} {reason}" for reason in ("cluster", "unstable", "never"))
GONE = "stale " * 60
Checks = Mapping[str, Sequence[Mapping[str, str]]]


def watches(values: str, cluster: str = "prod", agent: str = "a") -> Series:
    """An agent that watches a cluster, while it is there."""
    return scraped(SOURCE_UP, cluster, "lso", cluster, values=values, agent=agent)


def absent(reason: str, severity: str = "critical", cluster: str = "prod") -> dict[str, str]:
    return {"severity": severity, "reason": reason, "kafka_cluster": cluster}


def silent(times: Iterable[int]) -> Checks:
    return {f"{at}m": [] for at in times}


SOMETIMES = "1 1 1 1 1 stale stale stale stale stale stale " * 9
"""There for 5 of 11 evaluations, which are 4 minutes when one is made every 24 seconds."""
MOSTLY = "1 1 1 1 1 1 stale stale stale stale stale " * 9


def cases() -> Iterator[Case]:
    yield from _clusters()
    yield from _replicas()
    yield from _restarts()
    yield from _replaced()
    yield from _never()
    yield from _blind()
    yield from _partial()


def _clusters() -> Iterator[Case]:
    ours = absent("cluster")
    yield case(CLUSTER, "within five minutes", [watches("1x20 " + GONE)], {"24m": [], "25m": [ours], "60m": [ours]})
    yield case(
        CLUSTER,
        "though another agent watches another cluster",
        [watches("1x20 " + GONE), watches("1x90", "other", agent="b")],
        {"25m": [ours], "60m": [ours]},
    )
    yield case(
        CLUSTER,
        "each cluster of one agent",
        [watches("1x20 " + GONE), watches("1x20 " + GONE, "other")],
        {"25m": [ours, absent("cluster", cluster="other")]},
    )
    yield case(
        CLUSTER,
        "one of two replicas is left",
        [watches("1x5 stale"), watches("1x90", agent="b")],
        silent(range(0, 60, 5)),
    )
    yield case(
        CLUSTER,
        "both replicas, one after the other",
        [watches("1x5 stale"), watches("1x40 stale", agent="b")],
        {"44m": [], "46m": [ours]},
    )
    yield case(
        CLUSTER,
        "killed again and again, there for a minute in four",
        [watches("1x8 " + "stale stale stale 1 " * 15)],
        {"8m": [], "16m": [ours], "30m": [ours], "45m": [ours]},
    )
    yield case(CLUSTER, "a rollout of two minutes", [watches("1x8 stale stale 1x60")], silent(range(30)))
    yield case(
        CLUSTER,
        "two scrapes of three fail now and then",
        [watches("1 1 1 stale stale 1 1 1 1 " * 6)],
        silent(range(40)),
    )
    yield case(
        CLUSTER,
        "it ends when an agent is back",
        [watches("1x20 " + "stale " * 20 + "1x40")],
        {"42m": [ours], "44m": []},
    )
    yield case(
        CLUSTER, "it is told for a day", [watches("1x2 stale")], {"20h": [absent("cluster")], "1d2h": []}, step="30m"
    )
    yield case(
        CLUSTER,
        "the source of another subject stands in for nobody",
        [watches("1x20 " + GONE), scraped(SOURCE_UP, "prod", "connect", "main", values="1x90")],
        {"26m": [ours]},
    )
    yield case(
        CLUSTER,
        "a sidecar watches no cluster, and is not missed",
        [scraped(SOURCE_UP, "prod", "producers", "app", values="1x5 stale")],
        {"15m": []},
    )
    yield case(CLUSTER, "there for less than half of the time", [watches(SOMETIMES)], {"30m": [ours]}, step="24s")
    yield case(CLUSTER, "there for more than half of it", [watches(MOSTLY)], {"20m": [], "30m": []}, step="24s")
    yield case(CLUSTER, "there for half of it", [watches("1 stale " * 30)], silent(range(8, 76, 4)), step="80s")
    yield from _removed()
    yield case(CLUSTER, "one that has just come", [watches("_ _ _ 1x60")], silent(range(30)))


def _removed() -> Iterator[Case]:
    """A cluster that was taken out of the settings, told from an agent that is dead."""
    ours = absent("cluster")

    def build(values: str, agent: str = "a", **labels: str) -> Series:
        made = scraped(EXPORTER_BUILD_INFO, "1.0", "abc", "3.11", "", values=values, agent=agent)
        return replace(made, labels={**made.labels, **labels})

    quiet: Checks = {"21m": [], "30m": [], "60m": [], "85m": []}
    both = [watches("1x20 " + GONE, agent=agent) for agent in "ab"] + [build("1x90", agent) for agent in "ab"]
    yield case(CLUSTER, "it was taken out of the settings of both agents", both, quiet)
    moved = [watches("1x20 " + GONE), build("1x20 " + GONE), build("_x21 1x90", instance="new:10618")]
    yield case(CLUSTER, "it was taken out, and the pod has another address now", moved, quiet)
    renamed = [*moved[:2], build("_x21 1x90", instance="new:10618", pod="exporter-new")]
    yield case(CLUSTER, "another pod that never watched it", renamed, {"26m": [ours], "60m": [ours]})
    nowhere = [
        replace(series, labels={key: value for key, value in series.labels.items() if key != "pod"})
        for series in renamed
    ]
    yield case(CLUSTER, "another agent outside of Kubernetes", nowhere, {"26m": [ours], "60m": [ours]})
    job = [*moved[:2], build("_x21 1x90", job="other")]
    yield case(CLUSTER, "an agent of another job at its address", job, {"26m": [ours], "60m": [ours]})
    dead = [watches("1x20 " + GONE), build("1x20 " + GONE), build("1x90", "b"), watches("1x90", "other", "b")]
    yield case(CLUSTER, "its agent is dead, and another one lives", dead, {"26m": [ours], "60m": [ours]})
    again = [watches("1x20 stale " + "_ " * 19 + "1x20 " + GONE), build("1x61 " + GONE)]
    yield case(
        CLUSTER, "it is watched again, and then the agent dies", again, {"35m": [], "67m": [ours], "90m": [ours]}
    )
    for words, away, alerts in (("less than an hour", 50, []), ("more than an hour", 70, [ours])):
        late = [watches("1x20 stale " + "_ " * 180), build("1x20 stale " + "_ " * away + "1x160")]
        times = {"30m": [ours], f"{24 + away}m": alerts, "150m": alerts}
        yield case(CLUSTER, f"the agent is back without it after {words}", late, times)
    yield case(
        CLUSTER,
        "it is forgotten for a day",
        [watches("1x20 stale _x400"), build("1x400")],
        {"3h": [], "20h": [], "24h": [], "26h": []},
        step="5m",
    )
    other = [*both, watches("1x20 " + GONE, "other", "c"), build("1x20 " + GONE, "c")]
    yield case(
        CLUSTER,
        "one was taken out, and another one's agent died",
        other,
        {"30m": [absent(reason="cluster", cluster="other")]},
    )


def _replicas() -> Iterator[Case]:
    ours = absent("unstable", "warning")
    yield case(UNSTABLE, "one alone", [watches("1x90")], silent(range(0, 90, 9)))
    yield case(
        UNSTABLE,
        "two of three are one ticket",
        [watches("1x60 " + GONE), watches("1x60 " + GONE, agent="b"), watches("1x120", agent="c")],
        {"66m": [ours]},
    )
    yield case(
        UNSTABLE,
        "a crash loop of one",
        [watches("1 " * 60 + "stale stale stale 1 " * 10), watches("1x120", agent="b")],
        {"59m": [], "66m": [ours], "90m": [ours]},
    )
    back = [watches("1x60 " + "stale " * 20 + "1x40"), watches("1x130", agent="b")]
    yield case(UNSTABLE, "it is back", back, {"70m": [ours], "86m": [], "95m": []})
    there = watches("1x140", agent="b")
    yield case(
        UNSTABLE, "there for less than half of the time", [watches("1x40 " + MOSTLY), there], {"39m": []}, step="24s"
    )
    part = [watches("1x40 " + SOMETIMES), there]
    yield case(UNSTABLE, "there for more than half of it", part, {"39m": [ours]}, step="24s")
    half = [watches("1x40 " + "1 stale " * 20), there]
    yield case(UNSTABLE, "there for half of it", half, silent(range(60, 100, 4)), step="80s")
    yield from _scrapes()


def _scrapes() -> Iterator[Case]:
    """A replica that cannot be scraped did not go on purpose; one that is not found any more did, unless it is"
    " usual."""
    ours = absent("unstable", "warning")

    def up(values: str, agent: str = "a", **labels: str) -> Series:
        return Series("up", {**_scrape(agent), **labels}, values)

    there = [watches("1x400", agent="b"), up("1x400", "b")]
    short = [watches("_x200 1x20 " + GONE), up("_x200 1x20 0x100"), *there]
    yield case(
        UNSTABLE, "it lived for minutes, and crashed", short, {"220m": [], "225m": [], "227m": [ours], "280m": [ours]}
    )
    test = [watches("_x200 1x20 " + GONE), up("_x200 1x20 " + GONE), *there]
    yield case(UNSTABLE, "it lived for minutes, and was stopped", test, silent(range(200, 300, 9)))
    half = [watches("_x200 1x150 " + GONE), *there]
    yield case(UNSTABLE, "it lived for less than half of the time, and was stopped", half, silent(range(350, 400, 9)))


def _replaced() -> Iterator[Case]:
    ours = absent("unstable", "warning")
    gone = "stale " + "_ " * 200

    def lives(start: int, minutes: int, agent: str) -> Series:
        return watches("_ " * start + "1 " * minutes + gone, agent=agent)

    loop = [lives(5 * at, 5, f"pod{at}") for at in range(30)]
    yield case(UNSTABLE, "a new pod every five minutes", loop, {"16m": [], "18m": [ours], "100m": [ours]})
    slow = [lives(31 * at, 31, f"pod{at}") for at in range(7)]
    yield case(UNSTABLE, "a new pod every half hour", slow, silent(range(0, 200, 13)))
    aside = [
        scraped(SOURCE_UP, "prod", "producers", "app", values="_ " * 5 * at + "1 1 1 1 1 " + gone, agent=f"p{at}")
        for at in range(20)
    ]
    yield case(UNSTABLE, "pods of a sidecar", aside, {"50m": []})


def _restarts() -> Iterator[Case]:
    def started(values: str, agent: str = "a") -> Series:
        made = watches(values, agent=agent)
        return replace(made, metric="process_start_time_seconds", labels=_scrape(agent))

    ours = absent("unstable", "warning")
    loop = "0x5 400x5 800x5 1200x90"
    yield case(
        UNSTABLE,
        "three times in an hour",
        [watches("1x120"), started(loop)],
        {"19m": [], "20m": [ours], "65m": [ours], "80m": []},
    )
    yield case(UNSTABLE, "twice in an hour", [watches("1x120"), started("0x5 400x5 800x90")], silent(range(0, 90, 9)))
    sidecar = scraped(SOURCE_UP, "prod", "producers", "app", values="1x120")
    yield case(UNSTABLE, "one that watches no cluster", [sidecar, started(loop)], {"30m": []})


def _scrape(agent: str) -> dict[str, str]:
    return {"job": "kafka-eos", "instance": f"{agent}:10618", "pod": f"exporter-{agent}"}


def _never() -> Iterator[Case]:
    def build(values: str, agent: str = "a") -> Series:
        return scraped(EXPORTER_BUILD_INFO, "1.0", "abc", "3.11", "", values=values, agent=agent)

    def aside(values: str, agent: str = "a") -> Series:
        """An agent that watches no cluster, such as a sidecar."""
        return scraped(SOURCE_UP, "prod", "producers", "app", values=values, agent=agent)

    ours = {"severity": "critical", "reason": "never"}
    yield case(NEVER, "no agent ever", [], {"1m": [], "2m": [ours], "60m": [ours]})
    yield case(NEVER, "the canary alone is no agent", [build("1x60")], {"1m": [], "2m": [ours], "60m": [ours]})
    yield case(NEVER, "no agent any more", [aside("1x20 stale")], {"24m": [], "26m": [ours]})
    yield case(NEVER, "one of two", [aside("1x20 stale"), aside("1x90", agent="b")], {"40m": []})
    yield case(NEVER, "its cluster is missed by name", [watches("1x20 stale")], {"40m": []})
    yield case(NEVER, "a day later", [watches("1x10 stale")], {"18h": [], "30h": [ours]}, step="30m")
    yield case(NEVER, "three failed scrapes", [aside("1x5 stale stale stale 1x60")], silent(range(20)))
    yield case(NEVER, "it ends when an agent is there", [aside("_ " * 10 + "1x60")], {"9m": [ours], "10m": []})


def _blind() -> Iterator[Case]:
    def blind(values: str, source: str = "lso", cluster: str = "prod", agent: str = "a") -> Series:
        return scraped(SOURCE_BLIND, cluster, source, cluster, values=values, agent=agent)

    def succeeded(values: str, source: str = "txnlog", cluster: str = "prod", agent: str = "a") -> Series:
        return scraped(SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS, cluster, source, cluster, values=values, agent=agent)

    def ours(cluster: str = "prod") -> dict[str, str]:
        return {"severity": "critical", "kafka_cluster": cluster}

    yield case(BLIND, "a password expired", [blind("0x20 1x60")], {"24m": [], "25m": [ours()], "60m": [ours()]})
    yield case(BLIND, "from the start", [blind("1x60")], {"0m": [], "1m": [ours()]})
    yield case(BLIND, "one replica of two sees it", [blind("1x60"), blind("0x60", agent="b")], silent(range(0, 60, 5)))
    yield case(BLIND, "both replicas", [blind("1x60"), blind("1x60", agent="b")], {"1m": [ours()]})
    yield case(
        BLIND,
        "a replica is gone, the other one is blind",
        [blind("0x10 stale"), blind("1x60", agent="b")],
        {"10m": [], "15m": [ours()]},
    )
    yield case(BLIND, "another cluster sees", [blind("1x60"), blind("0x60", cluster="other")], {"9m": [ours()]})
    yield case(BLIND, "other sources are tickets", [blind("1x60", source="groups")], {"9m": []})
    yield case(BLIND, "three minutes of nothing", [blind("0x9 1 1 1 0x60")], silent(range(30)))
    yield case(BLIND, "the log was read before", [blind("1x60", "txnlog"), succeeded("5x60")], {"1m": [ours()]})
    other = [blind("1x60", "groups"), succeeded("5x60")]
    yield case(BLIND, "what else is blind while the log was read", other, {"9m": []})
    yield case(BLIND, "the log was never read", [blind("1x60", "txnlog"), succeeded("5x60", "lso")], {"9m": []})
    yield case(
        BLIND,
        "the log of another cluster was read",
        [blind("1x60", "txnlog"), succeeded("5x60", cluster="other")],
        {"9m": []},
    )
    yield case(
        BLIND,
        "the log was read before the agent was started anew",
        [blind("0x20 1x60", "txnlog"), succeeded("5x20 stale")],
        {"25m": [ours()], "70m": [ours()]},
    )
    yield case(
        BLIND,
        "the log was read four days ago",
        [blind("1x200", "txnlog"), succeeded("5x2 stale")],
        {"70h": [ours()], "78h": []},
        step="1h",
    )
    yield case(BLIND, "not at once", [blind("1x60")], {"30s": [], "1m": [ours()]}, step="30s")
    yield case(
        BLIND,
        "the log, by one replica of two",
        [blind("1x60", "txnlog"), blind("0x60", "txnlog", agent="b"), succeeded("5x60")],
        {"9m": []},
    )
    yield case(
        BLIND, "the log, for three minutes", [blind("0x9 1 1 1 0x60", "txnlog"), succeeded("5x60")], silent(range(30))
    )
    down = [
        series
        for agent in "ab"
        for source in ("lso", "txnlog")
        for series in (blind("0x9 1x60", source, agent=agent), succeeded("5x60", agent=agent))
    ]
    yield case(BLIND, "Kafka is down: one page for all sources of both agents", down, {"12m": [], "14m": [ours()]})
    yield case(BLIND, "seven minutes after the last data", [blind("1x20 stale")], {"30m": [ours()], "31m": []})


def _partial() -> Iterator[Case]:
    target = ("prod", "lso", "prod")

    def up(values: str, who: tuple[str, ...] = target, agent: str = "a") -> Series:
        return scraped(SOURCE_UP, *who, values=values, agent=agent)

    def ours(who: tuple[str, ...] = target) -> dict[str, str]:
        names = dict(zip(("kafka_cluster", "source", "target"), who, strict=True))
        return {"severity": "warning", **names}

    yield case(DOWN, "from the start", [up("0x60")], {"5m": [], "6m": [ours()]})
    yield case(DOWN, "after it was up", [up("1x20 0x60")], {"29m": [], "30m": [ours()]})
    less, more = "0 0 0 0 0 0 1 1 1 1 1 " * 9, "1 1 1 1 1 1 0 0 0 0 0 " * 9
    yield case(DOWN, "answered for just less than half", [up(less)], {"30m": [ours()], "40m": [ours()]}, step="30s")
    yield case(DOWN, "answered for more", [up(more)], {"30m": [], "40m": []}, step="30s")
    yield case(DOWN, "a coordinator that moves costs a few reads", [up("1x20 0 0 0 1x60")], silent(range(20, 40)))
    yield case(DOWN, "half of the reads are answered", [up("1 0 " * 30)], silent(range(1, 50)))
    yield case(DOWN, "one read of three is answered", [up("0 0 1 " * 20)], {"30m": [ours()]})
