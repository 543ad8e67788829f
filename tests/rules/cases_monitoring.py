"""Cases of what the alerts rest on: a watchdog, clocks that agree, and labels that distinguish clusters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exporter.catalogue import CLOCK_DISTANCE_SECONDS, CLUSTER_INFO, SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS, SOURCE_UP
from tests.rules.promtool import Case, Series, case, scraped

WATCHDOG = "KafkaEosWatchdog"
CLOCKS = "KafkaEosClocksDiffer"
NAMES, MISSING = "KafkaEosLabelsAmbiguous names", "KafkaEosLabelsAmbiguous missing"


def cases() -> Iterator[Case]:
    ours = {"severity": "none"}
    yield case(WATCHDOG, "it always fires", [], {"0m": [ours], "60m": [ours]})
    yield from _coordinators()
    yield from _prometheus()
    yield from _names()
    yield from _missing()


def _coordinators() -> Iterator[Case]:
    def ours(cluster: str = "prod") -> dict[str, str]:
        return {"severity": "warning", "kafka_cluster": cluster}

    def distance(values: str, cluster: str = "prod", agent: str = "a") -> Series:
        return scraped(CLOCK_DISTANCE_SECONDS, cluster, values=values, agent=agent)

    yield case(CLOCKS, "a minute and a second ahead", [distance("61x30")], {"4m": [], "5m": [ours()]})
    yield case(CLOCKS, "a minute and a second behind", [distance("-61x30")], {"4m": [], "5m": [ours()]})
    yield case(CLOCKS, "a minute", [distance("60x30"), distance("-60x30", agent="b")], {"20m": []})
    yield case(CLOCKS, "synchronised again", [distance("600x20 1x30")], {"20m": [ours()], "27m": [ours()], "28m": []})


def _prometheus() -> Iterator[Case]:
    def ours(cluster: str = "prod") -> dict[str, str]:
        return {"severity": "warning", "kafka_cluster": cluster}

    def read(
        values: str, up: str = "1x60", agent: str = "a", cluster: str = "prod", source: str = "lso"
    ) -> list[Series]:
        last = SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS
        return [
            scraped(last, cluster, source, cluster, values=values, agent=agent),
            scraped(SOURCE_UP, cluster, source, cluster, values=up, agent=agent),
        ]

    yield case(CLOCKS, "two minutes and a second behind", read("-121+60x60"), {"4m": [], "5m": [ours()]})
    yield case(CLOCKS, "two minutes and a second ahead", read("121+60x60"), {"4m": [], "5m": [ours()]})
    yield case(CLOCKS, "two minutes behind", read("-120+60x60"), {"30m": []})
    yield case(CLOCKS, "twenty minutes ahead", read("1200+60x60"), {"5m": [ours()]})
    yield case(CLOCKS, "the source fails", read("0x60", "0x60"), {"30m": []})
    alike = [replace(series, labels={**series.labels, "job": "other"}) for series in read("600+60x60")]
    jobs = [*read("600+60x60", "0x60"), *read("0+60x60", cluster="other"), *alike]
    yield case(CLOCKS, "two jobs at one address", jobs, {"30m": [ours()]})
    ends = read("600+60x20 1260+60x40")
    yield case(CLOCKS, "synchronised again", ends, {"20m": [ours()], "27m": [ours()], "29m": []})


def _names() -> Iterator[Case]:
    def ours(cluster: str = "prod") -> dict[str, str]:
        return {"severity": "critical", "reason": "names", "kafka_cluster": cluster}

    def info(
        cluster_id: str, cluster: str = "prod", agent: str = "a", servers: str = "x:9092", values: str = "1x60"
    ) -> Series:
        return scraped(CLUSTER_INFO, cluster, cluster_id, servers, "2", values=values, agent=agent)

    two = [info("id-1"), info("id-2", agent="b")]
    yield case(NAMES, "two clusters of one name", two, {"14m": [], "15m": [ours()]})
    same = [info("id-1"), info("id-1", agent="b", servers="y:9092")]
    yield case(NAMES, "two agents of one cluster", same, {"30m": []})
    unknown = [info("id-1"), info("", agent="b")]
    yield case(NAMES, "an agent does not know the id yet", unknown, {"30m": []})
    apart = [info("id-1"), info("id-2", "other", agent="b")]
    yield case(NAMES, "two names", apart, {"30m": []})
    every = [*two, info("id-1", "other"), info("id-2", "other", agent="b"), info("id-3", "third")]
    yield case(NAMES, "each name", every, {"30m": [ours(), ours("other")]})
    ends = [info("id-1"), info("id-2", agent="b", values="1x20 stale")]
    yield case(NAMES, "renamed", ends, {"20m": [ours()], "27m": [ours()], "28m": []})


def _missing() -> Iterator[Case]:
    def ours(agent: str = "a", job: str = "kafka-eos") -> dict[str, str]:
        return {"severity": "critical", "reason": "missing", "job": job, "instance": f"{agent}:10618"}

    def watches(cluster: str, agent: str = "a", source: str = "lso", values: str = "1x60") -> Series:
        made = scraped(SOURCE_UP, cluster, source, "x", values=values, agent=agent)
        return replace(made, labels={name: value for name, value in made.labels.items() if value})

    gone = [watches(""), watches("", "b"), watches("prod", "c")]
    yield case(MISSING, "relabelled at two agents of three", gone, {"4m": [], "5m": [ours(), ours("b")]})
    yield case(MISSING, "the label is there", [watches("prod")], {"30m": []})
    yield case(MISSING, "a source without a cluster", [watches("", source="spark")], {"30m": []})
    alike = replace(watches(""), labels={**watches("").labels, "job": "other"})
    yield case(MISSING, "two jobs at one address", [watches(""), alike], {"30m": [ours(), ours(job="other")]})
    ends = watches("", values="1x20 stale")
    yield case(MISSING, "put right", [ends], {"20m": [ours()], "27m": [ours()], "28m": []})
