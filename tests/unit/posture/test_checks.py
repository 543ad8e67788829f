"""The posture checks: each passes on a sound cluster, fails when its subject is broken, and is never green unseen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.connect.exactly_once import LoggedIds
from exporter.connect.facts import ConnectState
from exporter.connect.rest import Connector, Task
from exporter.flink.facts import JobTimes
from exporter.inventory.applications_in_log import WrittenOutside
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, TRANSACTION_STATE, PartitionMetadata
from exporter.model import TopicPartition
from exporter.posture.check import CheckResult, PostureCheck
from exporter.posture.checks import checks_of
from exporter.posture.evidence import PostureEvidence
from exporter.transactions.facts import ConnectTaskId, OpenTransaction
from exporter.words import TransactionState

SOUND_PARTITION = PartitionMetadata(1, (1, 2, 3), (1, 2, 3))
SOUND_TOPIC = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
SOUND_BROKER = {
    "transaction.state.log.min.isr": "2",
    "transaction.max.timeout.ms": "900000",
    "transactional.id.expiration.ms": "604800000",
    "transaction.partition.verification.enable": "true",
}
TOPICS = (TRANSACTION_STATE, CONSUMER_OFFSETS, "orders")
SINK = Connector("to-db", "sink", settings={"consumer.override.isolation.level": "read_committed"})
TASKS = (Task("orders", "0", "running", "c1:8083"),)
SOURCE_SETTINGS = {"exactly.once.support": "required", "offsets.storage.topic": "mine"}
SOURCE = Connector("orders", "source", settings=SOURCE_SETTINGS, tasks=TASKS)
LOGGED = LoggedIds({"etl-orders-0": ConnectTaskId(recent=True, timeout=60.0)}, frozenset({"etl"}))


def _open(timeout: float) -> OpenTransaction:
    partitions = frozenset({TopicPartition("orders", 0)})
    return OpenTransaction("pay-1", "pay", 1, 0, TransactionState.ONGOING, 0.0, timeout, None, partitions)


SOUND = PostureEvidence(
    cluster="prod",
    brokers={1: SOUND_BROKER, 2: SOUND_BROKER, 3: SOUND_BROKER},
    topics={topic: dict.fromkeys(range(3), SOUND_PARTITION) for topic in TOPICS},
    topic_settings=dict.fromkeys(TOPICS, SOUND_TOPIC),
    transaction_version=2,
    opened=(_open(60),),
    clients={"pay": {2: 3}},
    connects=(ConnectState("main", (SINK, SOURCE), by_rest=True, group_id="etl"),),
    connect_log=LOGGED,
)


def _failed(evidence: PostureEvidence) -> set[tuple[str, str]]:
    return {(check.name, check.subject) for check in checks_of(evidence) if check.verdict is CheckResult.FAILED}


def _topic(name: str, partition: PartitionMetadata) -> PostureEvidence:
    return replace(SOUND, topics={**SOUND.topics, name: {0: SOUND_PARTITION, 1: partition, 2: SOUND_PARTITION}})


def _topic_settings(name: str, **settings: str) -> PostureEvidence:
    changed = SOUND_TOPIC | {key.replace("_", "."): value for key, value in settings.items()}
    return replace(SOUND, topic_settings={**SOUND.topic_settings, name: changed})


def _broker(**settings: str) -> PostureEvidence:
    changed = SOUND_BROKER | {key.replace("_", "."): value for key, value in settings.items()}
    return replace(SOUND, brokers={**SOUND.brokers, 2: changed})


def _connector(connector: Connector) -> PostureEvidence:
    return replace(SOUND, connects=(ConnectState("main", (connector,), by_rest=True, group_id="etl"),))


def test_a_sound_cluster_passes_every_check() -> None:
    checks = checks_of(SOUND)
    assert {check.verdict for check in checks} == {CheckResult.PASSED}
    assert len({check.name for check in checks}) == 15


BROKEN = {
    ("internal_topic_replication", CONSUMER_OFFSETS): _topic(CONSUMER_OFFSETS, PartitionMetadata(1, (1,), (1,))),
    ("transaction_log_isr", TRANSACTION_STATE): _topic(TRANSACTION_STATE, PartitionMetadata(1, (1, 2, 3), (1,))),
    ("transaction_log_min_isr", TRANSACTION_STATE): _topic_settings(TRANSACTION_STATE, min_insync_replicas="1"),
    ("unclean_leader_election", "orders"): _topic_settings("orders", unclean_leader_election_enable="true"),
    ("topic_min_isr", "orders"): _topic_settings("orders", min_insync_replicas="3"),
    ("transaction_max_timeout", "prod"): _broker(transaction_max_timeout_ms="3600000"),
    ("transactional_id_expiration", "prod"): _broker(transactional_id_expiration_ms="3600000"),
    ("partition_verification", "prod"): _broker(transaction_partition_verification_enable="false"),
    ("transaction_timeout", "pay"): replace(SOUND, opened=(_open(60), _open(901))),
    ("transaction_version", "prod"): replace(SOUND, transaction_version=None),
    ("group_isolation", "reader"): replace(SOUND, beyond_lso=frozenset({("reader", "orders")})),
    ("connect_sink_isolation", "main/to-db"): _connector(
        Connector("to-db", "sink", settings={"consumer.override.isolation.level": "read_uncommitted"})
    ),
    ("connect_offsets_topic", "main/orders"): _connector(Connector("orders", "source", settings={}, tasks=TASKS)),
    ("connect_worker_exactly_once", "main/orders"): replace(
        SOUND,
        connects=(ConnectState("main", (SOURCE,), True, group_id="etl", transactional={("orders", "0"): False}),),
    ),
    ("connect_boundary_interval", "main/orders"): _connector(
        replace(
            SOURCE,
            settings=SOURCE_SETTINGS
            | {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "60000"},
        )
    ),
}


@pytest.mark.parametrize(("pause", "verdict"), [(0.4, None), (0.5, CheckResult.INFORMATION), (1.0, CheckResult.FAILED)])
def test_a_pause_near_the_expiration_of_ids_is_told_of_its_application(
    pause: float, verdict: CheckResult | None
) -> None:
    seconds = pause * int(SOUND_BROKER["transactional.id.expiration.ms"]) / 1000
    checks = checks_of(replace(SOUND, pauses={"quiet": seconds}))
    found = [(check.name, check.verdict) for check in checks if check.subject == "quiet"]
    assert found == ([] if verdict is None else [("transactional_id_expiration", verdict)])


def test_running_groups_without_a_proof_are_unknown_in_one_check() -> None:
    evidence = replace(SOUND, unproven_readers={"billing": 3, "audit": 0})
    (check,) = [check for check in checks_of(evidence) if check.name == "group_isolation"]
    assert (check.subject, check.verdict) == ("prod", CheckResult.UNKNOWN)
    assert "2 running groups of topics of transactions without a proof (audit, billing): of 3 commits" in check.error


@pytest.mark.parametrize(("failure", "evidence"), BROKEN.items(), ids=["-".join(key) for key in BROKEN])
def test_each_check_fails_when_its_subject_is_broken_and_no_other_does(
    failure: tuple[str, str], evidence: PostureEvidence
) -> None:
    assert _failed(evidence) == {failure}
    check = checks_of(evidence)[0]
    assert check.verdict is CheckResult.FAILED
    assert check.found
    assert check.why
    assert check.fix


@pytest.mark.parametrize(
    ("replicas", "minimum", "failed", "said"),
    [
        (
            1,
            1,
            {"internal_topic_replication", "transaction_log_min_isr"},
            "replication factor 1, min.insync.replicas=1",
        ),
        (1, 2, {"internal_topic_replication", "transaction_log_min_isr"}, "the number of replicas, Kafka takes 1"),
        (
            2,
            2,
            {"internal_topic_replication", "transaction_log_min_isr"},
            "replication factor 2, min.insync.replicas=2",
        ),
        (2, 3, {"internal_topic_replication", "transaction_log_min_isr"}, "the number of replicas, Kafka takes 2"),
        (3, 2, set(), "replication factor 3, min.insync.replicas=2"),
        (3, 3, {"transaction_log_min_isr"}, "replication factor 3, min.insync.replicas=3"),
        (4, 2, set(), "replication factor 4, min.insync.replicas=2"),
    ],
)
def test_the_minimum_of_the_log_is_compared_with_its_replicas_and_no_partition_in_full_sync_is_below_it(
    replicas: int, minimum: int, failed: set[str], said: str
) -> None:
    nodes = tuple(range(1, replicas + 1))
    log = dict.fromkeys(range(3), PartitionMetadata(1, nodes, nodes))
    settings = _topic_settings(TRANSACTION_STATE, min_insync_replicas=str(minimum))
    evidence = replace(settings, topics={**SOUND.topics, TRANSACTION_STATE: log})
    assert _failed(evidence) == {(name, TRANSACTION_STATE) for name in failed}
    (found,) = (check.found for check in checks_of(evidence) if check.name == "transaction_log_min_isr")
    assert found.endswith(said)


def test_old_clients_are_information_and_no_failure_as_librdkafka_has_no_transactions_v2() -> None:
    evidence = replace(SOUND, clients={"pay": {2: 3, 0: 1}})
    assert _failed(evidence) == set()
    check = checks_of(evidence)[0]
    assert (check.name, check.subject, check.verdict) == ("transaction_clients", "pay", CheckResult.INFORMATION)
    assert check.found == "1 of 4 transactional ids end their transactions as old clients do"


def _unknown(evidence: PostureEvidence) -> dict[str, PostureCheck]:
    return {check.name: check for check in checks_of(evidence) if check.verdict is CheckResult.UNKNOWN}


OF_BROKERS = {
    "transaction_max_timeout",
    "transaction_timeout",
    "transactional_id_expiration",
    "partition_verification",
}


def test_what_could_not_be_asked_is_unknown_with_its_error_and_never_green() -> None:
    refused = "DescribeConfigs of broker 1: refused: grant DESCRIBE_CONFIGS on Cluster"
    unknown = _unknown(replace(SOUND, brokers={1: refused}))
    assert set(unknown) == OF_BROKERS
    assert {check.error for check in unknown.values()} == {refused}


def test_brokers_that_answered_prove_nothing_about_one_that_did_not() -> None:
    evidence = replace(SOUND, brokers={1: SOUND_BROKER, 2: "broker 2: timed out", 3: SOUND_BROKER})
    unknown = _unknown(evidence)
    assert set(unknown) == OF_BROKERS
    assert {check.error for check in unknown.values()} == {"broker 2: timed out"}
    slow = SOUND_BROKER | {"transaction.max.timeout.ms": "3600000"}
    assert ("transaction_max_timeout", "prod") in _failed(replace(evidence, brokers={**evidence.brokers, 3: slow}))


def test_brokers_that_do_not_give_a_limit_leave_it_unknown_with_a_reason() -> None:
    unknown = _unknown(replace(SOUND, brokers={1: {}}))
    assert set(unknown) == OF_BROKERS - {"partition_verification"}
    assert all("no broker returned its " in check.error for check in unknown.values())


def test_topic_settings_that_brokers_do_not_have_are_neither_passed_nor_failed() -> None:
    checks = checks_of(replace(SOUND, topic_settings={topic: {} for topic in TOPICS}))
    noted = {check.name: check.found for check in checks if check.verdict is CheckResult.INFORMATION}
    assert noted == {
        "transaction_log_min_isr": "these brokers have no min.insync.replicas",
        "transaction_log_isr": "these brokers have no min.insync.replicas",
        "topic_min_isr": "these brokers have no min.insync.replicas",
        "unclean_leader_election": "these brokers have no unclean.leader.election.enable",
    }
    assert noted.keys().isdisjoint(check.name for check in checks if check.verdict is CheckResult.PASSED)


def test_topic_settings_that_were_refused_leave_their_checks_unknown() -> None:
    unknown = _unknown(replace(SOUND, topic_settings=dict.fromkeys(TOPICS, "grant DESCRIBE_CONFIGS on Topic:*")))
    assert set(unknown) == {
        "transaction_log_min_isr",
        "transaction_log_isr",
        "unclean_leader_election",
        "topic_min_isr",
    }


def test_without_the_log_what_it_would_tell_is_unknown() -> None:
    unknown = _unknown(replace(SOUND, clients=None, opened=None, connect_log=None, clients_error="no READ"))
    assert set(unknown) == {
        "transaction_clients",
        "transaction_timeout",
        "connect_worker_exactly_once",
        "connect_offsets_topic",
    }
    assert "no READ" in unknown["connect_worker_exactly_once"].error


def test_connect_without_rest_says_what_would_tell_its_settings() -> None:
    unknown = _unknown(replace(SOUND, connects=(ConnectState("main", (), by_rest=False),)))
    assert set(unknown) == {"connect_worker_exactly_once", "connect_sink_isolation", "connect_offsets_topic"}
    assert all("REST" in check.error for check in unknown.values())


def test_a_cluster_that_never_ran_a_transaction_has_only_its_own_settings_checked() -> None:
    fresh = replace(SOUND, topics={}, topic_settings={}, opened=(), clients={}, connects=())
    assert {check.name for check in checks_of(fresh)} == {
        "transaction_max_timeout",
        "transaction_version",
        "partition_verification",
        "transactional_id_expiration",
    }


def test_failed_checks_come_first() -> None:
    verdicts = [
        check.verdict for check in checks_of(replace(SOUND, clients=None, transaction_version=2, opened=(_open(999),)))
    ]
    assert verdicts == sorted(verdicts, key=[CheckResult.FAILED, CheckResult.UNKNOWN, CheckResult.PASSED].index)


# --- Flink ---


def _job(interval: float | None, timeout: float | None) -> PostureEvidence:
    return replace(SOUND, flink_jobs=(JobTimes("orders-sink", "flink-app", interval, timeout),))


@pytest.mark.parametrize(
    ("interval", "timeout", "verdict"),
    [
        (60.0, 900.0, CheckResult.PASSED),
        (300.0, 900.0, CheckResult.PASSED),
        (301.0, 900.0, CheckResult.INFORMATION),
        (450.0, 900.0, CheckResult.INFORMATION),
        (451.0, 900.0, CheckResult.FAILED),
        (10.0, 60.0, CheckResult.INFORMATION),
    ],
)
def test_the_timeout_of_a_flink_job_leaves_two_checkpoints_and_a_restart(
    interval: float, timeout: float, verdict: CheckResult
) -> None:
    found = [check for check in checks_of(_job(interval, timeout)) if check.name == "flink_transaction_timeout"]
    assert [(check.subject, check.verdict) for check in found] == [("orders-sink", verdict)]
    assert "the brokers allow 900 s" in found[0].found


@pytest.mark.parametrize("unknown", [_job(None, 900.0), _job(60.0, None)])
def test_a_flink_job_whose_interval_or_timeout_is_not_known_is_not_judged(unknown: PostureEvidence) -> None:
    assert not [check for check in checks_of(unknown) if check.name == "flink_transaction_timeout"]


def test_a_flink_job_is_not_asked_for_clients_that_its_connector_does_not_bundle() -> None:
    evidence = replace(_job(60.0, 900.0), clients={"flink-app": {0: 8}, "pay": {0: 1}})
    assert {check.subject for check in checks_of(evidence) if check.name == "transaction_clients"} == {"pay"}


# --- Writers without transactions ---


@pytest.mark.parametrize(
    ("sampled", "outside", "verdict"),
    [(3, 0, CheckResult.PASSED), (2, 1, CheckResult.INFORMATION), (0, 0, None)],
)
def test_a_topic_of_transactions_has_no_batches_without_one_as_far_as_was_sampled(
    sampled: int, outside: int, verdict: CheckResult | None
) -> None:
    topic = WrittenOutside("orders", ("billing",), 3, sampled, 20, outside, (), None)
    found = [check for check in checks_of(replace(SOUND, written_outside=[topic])) if check.name == "plain_writers"]
    assert [(check.subject, check.verdict) for check in found] == ([] if verdict is None else [("orders", verdict)])
    assert all(f"in {sampled} of 3 partitions; read by billing" in check.found for check in found)
