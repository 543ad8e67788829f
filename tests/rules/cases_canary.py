"""The canary: the cluster or one of its coordinators fails."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import CANARY_FAILING_PARTITIONS, CANARY_LAST_SUCCESS_TIMESTAMP_SECONDS
from tests.rules.promtool import Case, Series, case, scraped

CLUSTER, COORDINATOR, ABSENT = (f"KafkaEosCanaryFailing {text}" for text in ("cluster", "coordinator", "absent"))


def cases() -> Iterator[Case]:
    yield from _cluster()
    yield from _coordinator()
    yield from _absent()


def _success(values: str, cluster: str = "prod", agent: str = "a") -> Series:
    return scraped(CANARY_LAST_SUCCESS_TIMESTAMP_SECONDS, cluster, values=values, agent=agent)


def _cluster() -> Iterator[Case]:
    def ours(cluster: str = "prod") -> dict[str, str]:
        return {"severity": "critical", "reason": "cluster", "kafka_cluster": cluster}

    yield case(CLUSTER, "it works", [_success("0+60x60")], {f"{at}m": [] for at in range(0, 60, 5)})
    ends = _success("0+60x10 600x30")
    yield case(CLUSTER, "no success for two minutes", [ends], {"11m": [], "12m": [ours()], "30m": [ours()]})
    again = _success("0+60x10 600x10 1260+60x20")
    yield case(CLUSTER, "it works again", [again], {"15m": [ours()], "35m": []})
    old = [_success("0+60x10 600x30"), _success("0+60x60", agent="b")]
    yield case(CLUSTER, "an instance before this one", old, {"20m": []})
    both = [_success("0+60x10 600x30"), _success("0+60x10 600x30", "other"), _success("0+60x60", "third")]
    yield case(CLUSTER, "each cluster by itself", both, {"20m": [ours(), ours("other")]})
    yield case(CLUSTER, "failed scrapes in between", [_success("0 0 0 stale _ 0x30")], {"3m": [ours()], "6m": [ours()]})
    begins = _success("0 0 stale _ _ _ _ _ _ _ _ _ _")
    yield case(CLUSTER, "failed scrapes as it begins", [begins], {"3m": [], "10m": []})
    yield case(CLUSTER, "no scrapes any more", [_success("120 120 stale _x20")], {"5m": [], "6m": []})
    gone = _success("0+60x5 300x5 stale _x20")
    yield case(CLUSTER, "no scrapes while it lasts", [gone], {"12m": [ours()], "16m": [ours()], "19m": []})
    slow = _success("0 60 60 180 180 300 300 420 420 540 540 540 540x9")
    yield case(CLUSTER, "every second turn succeeds", [slow], {**{f"{at}m": [] for at in range(11)}, "11m": [ours()]})
    stopped = _success("0+60x10 600 stale _x60")
    yield case(CLUSTER, "it is stopped", [stopped], {f"{at}m": [] for at in range(9, 40)})
    for words, clock in (("ahead of", 1200), ("behind", -1200)):
        works = _success(f"{clock}+60x40")
        yield case(CLUSTER, f"its clock is twenty minutes {words} Prometheus'", [works], {"5m": [], "30m": []})
        fails = _success(f"{clock}+60x10 {clock + 600}x40")
        yield case(CLUSTER, f"it fails, its clock {words} Prometheus'", [fails], {"11m": [], "12m": [ours()]})
    two = [_success("0+60x10 600x30", agent=agent) for agent in "ab"]
    yield case(CLUSTER, "two instances", two, {"11m": [], "12m": [ours()]})
    yield case(CLUSTER, "no canary", [], {"10m": []})


def _absent() -> Iterator[Case]:
    def ours(cluster: str = "prod") -> dict[str, str]:
        return {"severity": "warning", "reason": "absent", "kafka_cluster": cluster}

    gone = "stale " + "_ " * 400
    both = [_success("0+60x10 " + gone), _success("0+60x10 " + gone, agent="b")]
    yield case(ABSENT, "it is stopped", both, {"21m": [], "23m": [], "24m": [ours()], "300m": [ours()]})
    yield case(ABSENT, "one of two is stopped", [both[0], _success("0+60x90", agent="b")], {"60m": []})
    yield case(ABSENT, "it runs and fails", [_success("0+60x10 600x90")], {"60m": []})
    yield case(ABSENT, "it is back", [_success("0+60x10 " + "_ " * 20 + "2000+60x30")], {"30m": [ours()], "35m": []})
    yield case(ABSENT, "ten minutes without a scrape", [_success("0+60x10 " + "_ " * 12 + "1500x30")], {"22m": []})
    yield case(ABSENT, "there was never one", [], {"60m": []})
    clusters = [_success("0+60x10 " + gone), _success("0+60x10 " + gone, "other"), _success("0+60x90", "third")]
    yield case(ABSENT, "each cluster", clusters, {"60m": [ours(), ours("other")]})
    week = _success("0 7200 " + gone)
    yield case(ABSENT, "for a week", [week], {"160h": [ours()], "176h": []}, step="2h")


def _coordinator() -> Iterator[Case]:
    def failing(values: str, broker: str = "1", cluster: str = "prod", agent: str = "a") -> Series:
        return scraped(CANARY_FAILING_PARTITIONS, cluster, broker, values=values, agent=agent)

    def ours(broker: str = "1", cluster: str = "prod") -> dict[str, str]:
        return {"severity": "critical", "reason": "coordinator", "kafka_cluster": cluster, "coordinator": broker}

    yield case(COORDINATOR, "it works", [failing("0x30")], {"20m": []})
    yield case(COORDINATOR, "one partition", [failing("0x5 1x30")], {"7m": [], "8m": [ours()], "20m": [ours()]})
    yield case(COORDINATOR, "a leader moves", [failing("0x5 3 0x30")], {f"{at}m": [] for at in range(20)})
    places = [failing("2x30"), failing("1x30", "2"), failing("1x30", cluster="other"), failing("0x30", "3")]
    yield case(COORDINATOR, "each broker by itself", places, {"5m": [ours(), ours("2"), ours(cluster="other")]})
    yield case(COORDINATOR, "it ends", [failing("1x10 0x30")], {"10m": [ours()], "16m": [ours()], "19m": []})
    gap = failing("1 1 stale _ 1x30")
    yield case(COORDINATOR, "a failed scrape in between", [gap], {"3m": [ours()], "5m": [ours()]})
    begins = failing("_ 1 stale _ 1x30")
    yield case(COORDINATOR, "a failed scrape as it begins", [begins], {"2m": [], "3m": [ours()]})
    yield case(COORDINATOR, "no scrapes any more", [failing("1 stale _x30")], {"2m": [ours()], "11m": []})
    two = [failing("0x30"), failing("1x30", agent="b")]
    yield case(COORDINATOR, "one of two instances sees it", two, {"5m": [ours()]})
