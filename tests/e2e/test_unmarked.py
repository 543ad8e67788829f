"""A committed transaction whose marker was lost, on real brokers: of a kind of its own, and never with a line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter import catalogue
from testkit.agent import Metrics
from testkit.cluster import KafkaCluster
from testkit.workloads.producers import JavaProducer, Producer, ProducerClass, RdkafkaProducer
from tests.e2e.conftest import VERSIONS, EnterContext, StartAgent
from tests.e2e.ending_lines import command, committed, ends_something, explained, looks, never, run
from tests.e2e.lost_markers import KEPT, LOST, TOPIC, LoseMarker, cluster, create_topic, dropped, truncated
from tests.helpers.schemas import conform

OFTEN = {"KAFKA_EOS_CLUSTERS__0__LSO__SWEEP_INTERVAL": "5s"}
BEFORE, OPEN = 2, 2
"""Records of both partitions that were committed before, and those of the transaction that loses a marker."""

WAYS = [
    pytest.param("4.3.1", dropped, JavaProducer, id="4.3.1-no-leader-java"),
    pytest.param("4.3.1", truncated, RdkafkaProducer, id="4.3.1-unclean-election-rdkafka", marks=pytest.mark.proof),
    pytest.param("3.9.2", truncated, JavaProducer, id="3.9.2-unclean-election-java", marks=pytest.mark.proof),
]


@pytest.mark.parametrize(("version", "lose", "make"), WAYS)
def test_a_committed_transaction_that_lost_its_marker_is_unmarked_and_never_has_a_line(
    version: str,
    lose: LoseMarker,
    make: ProducerClass,
    start_agent: StartAgent,
    keep: EnterContext,
) -> None:
    if version not in VERSIONS:
        pytest.skip(f"{version} is not tested")
    kafka = keep(cluster(version))
    create_topic(kafka)
    agent = start_agent(
        "--bootstrap-server",
        kafka.bootstrap,
        "--lso.stall-after",
        "4s",
        environment={**OFTEN, "KAFKA_EOS_INGEST__ENABLED": "true"},
    )
    producer = _with_open_transaction(kafka, keep, make)
    lose(kafka, producer)
    assert committed(kafka.bootstrap, TOPIC, 2) == BEFORE + OPEN - 1

    agent.wait_until(_holds, timeout=120)
    for done in looks(run, "--bootstrap-server", kafka.bootstrap, forms=["text"]):
        assert not ends_something(done.out, done.err), done
    for done in looks(run, "--bootstrap-server", kafka.bootstrap, forms=["json"]):
        assert not ends_something(done.out, done.err), done
        assert [(stall["partition"], stall["blocker"]["kind"]) for stall in _stalls(done.document)] == [
            (LOST, "unmarked")
        ], done.out
    assert never(agent, TOPIC, 15) == {"unmarked"}
    (stall,) = conform("status", json.loads(agent.get("/api/v1/status").body))["clusters"][0]["stalled_partitions"]
    assert stall["blocker"]["transactional_id"] == producer.transactional_id
    assert stall["next_step"]["command"] is None
    url = f"http://127.0.0.1:{agent.port}"
    audited = command(
        "audit", "markers", "--bootstrap-server", kafka.bootstrap, "--output", "json", "--agent", url
    )  # fmt: skip
    assert "did not take" not in audited.err
    torn = json.loads(audited.out)["clusters"][0]["torn"]
    assert [
        (torn_marker["transactional_id"], torn_marker["decided"], torn_marker["marker"], torn_marker["partition"])
        for torn_marker in torn
    ] == [(producer.transactional_id, "commit", None, LOST)]
    lost = {"topic": TOPIC, "audit": catalogue.MARKERS_AUDIT, "kind": "torn_commit"}
    agent.wait_until(lambda seen: seen.value(catalogue.AUDIT_FINDINGS, **lost) == 1)
    (shown,) = conform("status", json.loads(agent.get("/api/v1/status").body))["clusters"][0]["torn_markers"]
    assert (shown["transactional_id"], shown["partition"], shown["found"]) == (
        producer.transactional_id,
        LOST,
        "nothing",
    )

    code, record = explained(kafka.bootstrap, TOPIC, LOST, stall["last_stable_offset"])
    assert (code, record["state"], record["decided"], record["marker"]) == (1, "unmarked", "commit", None)
    assert record["transactional_id"] == producer.transactional_id
    assert record["partitions"] == [{"topic": TOPIC, "partition": number} for number in (LOST, KEPT)]

    _commit_again(kafka, keep, producer, make)
    assert committed(kafka.bootstrap, TOPIC, 2) == BEFORE + OPEN + 1
    code, record = explained(kafka.bootstrap, TOPIC, LOST, stall["last_stable_offset"])
    assert (code, record["state"], record["marker"]) == (0, "committed", "commit")
    # In Transactions V2 the epoch tells that the marker is the next transaction's. Else it is not known whose.
    told = (producer.transactional_id, False) if kafka.version.startswith("4") and make is JavaProducer else ("", None)
    assert (record["transactional_id"] if told[0] else "", record["marker_is_own"]) == told
    agent.wait_until(lambda seen: not seen.samples(catalogue.LSO_BLOCKER_INFO, topic=TOPIC))


def _with_open_transaction(kafka: KafkaCluster, keep: EnterContext, make: ProducerClass) -> Producer:
    """A producer with a record in each partition in an open transaction, which both replicas have."""
    producer: Producer = keep(make(kafka, "pay-1"))
    producer.init()
    producer.begin()
    producer.send(TOPIC, BEFORE, LOST if kafka.version.startswith("4") and make is JavaProducer else KEPT)
    producer.commit()
    producer.begin()
    producer.send(TOPIC, 1, LOST)
    producer.send(TOPIC, 1, KEPT)
    producer.flush()
    return producer


def _commit_again(kafka: KafkaCluster, keep: EnterContext, producer: Producer, make: ProducerClass) -> None:
    """Commit a record in the partition: by the same client, or, for librdkafka, by another of its id: that is gone."""
    if make is RdkafkaProducer:
        producer.kill()
        producer = keep(RdkafkaProducer(kafka, producer.transactional_id))
        producer.init()
    producer.begin()
    producer.send(TOPIC, 1, LOST)
    producer.commit()


def _holds(metrics: Metrics) -> bool:
    return bool(metrics.samples(catalogue.LSO_BLOCKER_INFO, topic=TOPIC, kind="unmarked"))


def _stalls(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a look lists, decided or not."""
    lists = (rows for rows in document.values() if isinstance(rows, list))
    return [row for rows in lists for row in rows if isinstance(row, dict) and "blocker" in row]
