"""Tests of what the MBeans of a real Streams application say, running and restoring."""

from __future__ import annotations

import sys
from typing import ClassVar

import pytest

from exporter import catalogue
from exporter.jvm.answers import MBeanValue
from exporter.jvm.mbeans import parse_object_name
from exporter.model import Metric
from exporter.producers.producer_samples import INIT as INIT_TIME
from exporter.streams.source import QUERIES, applications_by_client, changelog_owners
from exporter.streams.streams_samples import guarantee_samples, jvm_samples, states
from tests.helpers.recordings import RECORDINGS, jolokia_answer

CAPTURES = RECORDINGS / "streams"
HEAD = ("demo", "s1:8778")


def readings(name: str) -> tuple[MBeanValue, ...]:
    answer = jolokia_answer((CAPTURES / f"{name}.json").read_text(), QUERIES)
    assert not answer.faults
    return answer.values


def values(name: str, metric: Metric) -> dict[tuple[str, ...], float]:
    """Values by further labels, threads shortened to their ends."""
    found = {}
    for sample in jvm_samples(HEAD, readings(name)):
        assert sample.labels[:2] == HEAD
        if sample.metric is metric and isinstance(sample.value, float):
            found["-".join(sample.labels[2].rsplit("-", 2)[1:]), *sample.labels[3:]] = sample.value
    return found


def test_commits_and_their_latency_are_read_by_thread() -> None:
    commits = values("running", catalogue.STREAMS_THREAD_COMMITS_TOTAL)
    assert set(commits) == {("StreamThread-1",), ("StreamThread-2",)}
    assert all(count > 0 for count in commits.values())
    latency = values("running", catalogue.STREAMS_THREAD_COMMIT_LATENCY_SECONDS)
    for thread in ("StreamThread-1", "StreamThread-2"):
        assert 0 < latency[thread, "avg"] <= latency[thread, "max"] < 5, "seconds, not milliseconds"


def test_states_of_client_and_threads_are_read() -> None:
    assert values("running", catalogue.STREAMS_THREAD_STATE) == {
        ("StreamThread-1", "running"): 1.0,
        ("StreamThread-2", "running"): 1.0,
    }
    state = catalogue.STREAMS_CLIENT_STATE
    clients = [sample.labels[3] for sample in jvm_samples(HEAD, readings("running")) if sample.metric is state]
    assert clients == ["running"]
    assert {key[1] for key in values("restoring", catalogue.STREAMS_THREAD_STATE)} == {"partitions_assigned"}


def test_the_sum_of_the_tasks_of_a_thread_stays_finite() -> None:
    updater = parse_object_name("kafka.streams:type=stream-state-updater-metrics,thread-id=a-StateUpdater-1")
    assert updater is not None
    readings = [MBeanValue(updater, f"active-{kind}-tasks", 1.7e308) for kind in ("restoring", "paused")]
    assert [sample.value for sample in jvm_samples(HEAD, readings)] == [sys.float_info.max]


def test_a_restoration_shows_tasks_and_records_that_remain() -> None:
    assert set(values("restoring", catalogue.STREAMS_RESTORING_TASKS).values()) == {1.0}
    remaining = values("restoring", catalogue.STREAMS_RESTORE_REMAINING_RECORDS)
    assert len(remaining) == 2
    assert all(records > 90_000 for records in remaining.values())


def test_nothing_remains_of_a_task_that_runs_though_its_gauge_says_so() -> None:
    raw = [value for mbean, attribute, value in readings("running") if attribute.startswith("restore-remaining")]
    assert len(raw) == 2
    assert all(raw), "Kafka counts the transaction markers of the changelog, and never takes them off"
    remaining = values("running", catalogue.STREAMS_RESTORE_REMAINING_RECORDS)
    assert set(remaining.values()) == {0.0}


def test_states_are_reported_by_their_numbers_where_texts_are_dropped() -> None:
    numbers = [reading for reading in readings("running") if isinstance(reading.value, float)]
    threads = states(numbers, "stream-thread-metrics", "thread-id", "thread-state", catalogue.STREAMS_THREAD_STATES)
    assert sorted(threads.values()) == ["running", "running"]
    clients = states(numbers, "stream-metrics", "client-id", "client-state", catalogue.STREAMS_CLIENT_STATES)
    assert list(clients.values()) == ["running"]


def test_a_state_of_a_newer_kafka_is_left_out() -> None:
    newer = [reading._replace(value=99.0) if isinstance(reading.value, float) else reading._replace(value="dreaming")
             for reading in readings("running")]  # fmt: skip
    assert not states(newer, "stream-metrics", "client-id", "client-state", catalogue.STREAMS_CLIENT_STATES)


def test_the_application_is_what_the_client_says_else_what_its_id_says() -> None:
    known = readings("running")
    assert set(applications_by_client(known).values()) == {"wordcount"}
    unsaid = [reading for reading in known if "application-id" not in reading.mbean.properties]
    assert set(applications_by_client(unsaid).values()) == {"wordcount"}
    bare = [reading for reading in known if reading.attribute == "state"]
    assert set(applications_by_client(bare).values()) == {"wordcount"}
    assert applications_by_client([]) == {}


def test_changelogs_belong_to_the_application_with_the_longest_name() -> None:
    topics = ["totals-a-changelog", "totals-eu-b-changelog", "totals-a-repartition", "other-a-changelog", "totals"]
    assert changelog_owners(topics, ["totals", "totals-eu"]) == {
        "totals-a-changelog": "totals",
        "totals-eu-b-changelog": "totals-eu",
    }


class CountedName(str):
    """An application.id that counts how often it is looked at."""

    __slots__ = ()

    looks: ClassVar[int] = 0

    def __add__(self, other: str) -> str:
        CountedName.looks += 1
        return super().__add__(other)

    def __hash__(self) -> int:
        CountedName.looks += 1
        return super().__hash__()


def test_the_owner_of_a_changelog_is_found_without_a_pass_over_all_applications() -> None:
    CountedName.looks = 0
    topics = [f"other-{number}-changelog" for number in range(50)]
    owners = changelog_owners([*topics, "a-7-x-changelog"], [CountedName(f"a-{number}") for number in range(50)])
    assert owners == {"a-7-x-changelog": "a-7"}
    assert CountedName.looks == 50


@pytest.mark.parametrize("name", ["running", "restoring"])
def test_no_series_stands_there_twice(name: str) -> None:
    keys = [(sample.metric, sample.labels) for sample in jvm_samples(HEAD, readings(name))]
    assert len(keys) == len(set(keys)) > 0


def metric_of(kind: str, attribute: str, client_id: str, value: float) -> MBeanValue:
    return MBeanValue(parse_object_name(f"kafka.any:type={kind},client-id={client_id}"), attribute, value)


CLIENT_ID = "count-4d1495d2-62c4-44b3-8447-9efb6fb670f9"
INIT, COMMITS = ("producer-metrics", INIT_TIME), ("consumer-coordinator-metrics", "commit-total")


@pytest.mark.parametrize(
    ("what", "suffix", "value", "guarantees"),
    [
        (INIT, "-StreamThread-1-producer", 5e6, ["exactly_once_v2"]),
        (INIT, "-StreamThread-1-0_1-producer", 5e6, ["exactly_once"]),
        (INIT, "-StreamThread-1-producer", 0.0, []),
        (INIT, "-other-producer", 5e6, []),
        (COMMITS, "-StreamThread-1-consumer", 1.0, ["at_least_once"]),
        (COMMITS, "-StreamThread-1-consumer", 0.0, []),
        (COMMITS, "-StreamThread-1-restore-consumer", 7.0, []),
        (COMMITS, "-global-consumer", 7.0, []),
    ],
)
def test_a_guarantee_is_what_the_clients_of_a_thread_did(
    what: tuple[str, str], suffix: str, value: float, guarantees: list[str]
) -> None:
    reading = metric_of(*what, CLIENT_ID + suffix, value)
    found = list(guarantee_samples(HEAD, [reading], {CLIENT_ID: "count"}))
    assert [sample.labels for sample in found] == [(*HEAD, "count", guarantee) for guarantee in guarantees]


def test_clients_beside_streams_in_the_same_jvm_show_no_guarantee() -> None:
    readings = [
        metric_of(*INIT, "other-StreamThread-1-producer", 5e6),
        metric_of(*COMMITS, "other-StreamThread-1-consumer", 5.0),
        metric_of(*INIT, "orders", 5e6),
    ]
    assert not list(guarantee_samples(HEAD, readings, {CLIENT_ID: "count"}))


def test_rebalances_and_failed_threads_are_counted() -> None:
    readings = [
        metric_of("consumer-coordinator-metrics", "rebalance-total", f"{CLIENT_ID}-StreamThread-2-consumer", 3.0),
        metric_of(
            "consumer-coordinator-metrics", "failed-rebalance-total", f"{CLIENT_ID}-StreamThread-2-consumer", 0.0
        ),
        metric_of("consumer-coordinator-metrics", "rebalance-total", "a-consumer", 9.0),
        metric_of("stream-metrics", "failed-stream-threads", CLIENT_ID, 2.0),
    ]
    found = {sample.labels[2:]: sample.value for sample in jvm_samples(HEAD, readings)}
    thread = f"{CLIENT_ID}-StreamThread-2"
    assert found == {(thread, "completed"): 3.0, (thread, "failed"): 0.0, (CLIENT_ID,): 2.0}
