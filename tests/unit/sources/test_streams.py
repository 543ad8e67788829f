"""What the MBeans of a real Streams application say, running and restoring."""

from __future__ import annotations

import pytest

from exporter import catalogue
from exporter.jvm.answers import MBeanValue
from exporter.jvm.streams_samples import jvm_samples, states
from exporter.model import Metric
from exporter.sources.streams import QUERIES, applications_of, changelog_owners
from tests.fakes.recordings import RECORDINGS, jolokia_answer

CAPTURES = RECORDINGS / "streams"
HEAD = ("demo", "s1:8778")


def readings(name: str) -> tuple[MBeanValue, ...]:
    answer = jolokia_answer((CAPTURES / f"{name}.json").read_text(), QUERIES)
    assert not answer.faults
    return answer.values


def values(name: str, metric: Metric) -> dict[tuple[str, ...], float]:
    """Values by further labels, threads shortened to their ends."""
    found = {}
    for each in jvm_samples(HEAD, readings(name)):
        assert each.labels[:2] == HEAD
        if each.metric is metric and isinstance(each.value, float):
            found["-".join(each.labels[2].rsplit("-", 2)[1:]), *each.labels[3:]] = each.value
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
    clients = [each.labels[3] for each in jvm_samples(HEAD, readings("running")) if "client_id" in each.metric.labels]
    assert clients == ["running"]
    assert {key[1] for key in values("restoring", catalogue.STREAMS_THREAD_STATE)} == {"partitions_assigned"}


def test_a_restoration_shows_tasks_and_records_that_remain() -> None:
    assert set(values("restoring", catalogue.STREAMS_RESTORING_TASKS).values()) == {1.0}
    remaining = values("restoring", catalogue.STREAMS_RESTORE_REMAINING_RECORDS)
    assert len(remaining) == 2
    assert all(records > 90_000 for records in remaining.values())


def test_nothing_remains_of_a_task_that_runs_though_its_gauge_says_so() -> None:
    raw = [value for mbean, attribute, value in readings("running") if attribute.startswith("restore-remaining")]
    assert sorted(raw) == [24.0, 26.0], (
        "Kafka counts the transaction markers of the changelog, and never takes them off"
    )
    remaining = values("running", catalogue.STREAMS_RESTORE_REMAINING_RECORDS)
    assert set(remaining.values()) == {0.0}


def test_states_are_reported_by_their_numbers_where_texts_are_dropped() -> None:
    numbers = [each for each in readings("running") if isinstance(each.value, float)]
    threads = states(numbers, "stream-thread-metrics", "thread-id", "thread-state", catalogue.STREAMS_THREAD_STATES)
    assert sorted(threads.values()) == ["running", "running"]
    clients = states(numbers, "stream-metrics", "client-id", "client-state", catalogue.STREAMS_CLIENT_STATES)
    assert list(clients.values()) == ["running"]


def test_a_state_of_a_newer_kafka_is_left_out() -> None:
    newer = [each._replace(value=99.0) if isinstance(each.value, float) else each._replace(value="dreaming")
             for each in readings("running")]  # fmt: skip
    assert not states(newer, "stream-metrics", "client-id", "client-state", catalogue.STREAMS_CLIENT_STATES)


def test_the_application_is_what_the_client_says_else_what_its_id_says() -> None:
    known = readings("running")
    assert applications_of(known) == {"wordcount"}
    assert applications_of([each for each in known if "application-id" not in each.mbean.properties]) == {"wordcount"}
    bare = [each for each in known if each.attribute == "state"]
    assert applications_of(bare) == {"wordcount"}
    assert applications_of([]) == frozenset()


def test_changelogs_belong_to_the_application_with_the_longest_name() -> None:
    topics = ["totals-a-changelog", "totals-eu-b-changelog", "totals-a-repartition", "other-a-changelog", "totals"]
    assert changelog_owners(topics, ["totals", "totals-eu"]) == {
        "totals-a-changelog": "totals",
        "totals-eu-b-changelog": "totals-eu",
    }


@pytest.mark.parametrize("name", ["running", "restoring"])
def test_no_series_stands_there_twice(name: str) -> None:
    keys = [(each.metric, each.labels) for each in jvm_samples(HEAD, readings(name))]
    assert len(keys) == len(set(keys)) > 0
