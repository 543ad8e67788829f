"""What each check says where its subject is absent, empty, refused, just created, or of another size than the cluster.

What is not there is never fine: it is unknown, or is judged by the settings that it will be made with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from exporter import catalogue
from exporter.commands import connection
from exporter.core.replication import CREATION
from exporter.core.runner import GroupState
from exporter.model import Deadline, Facts, Fault, Reason
from exporter.posture.check import CheckResult, PostureCheck
from exporter.posture.checks import checks_of
from exporter.posture.evidence import Posture, PostureEvidence
from exporter.posture.source import PostureSource
from exporter.roll.coordination import LoggedEvidence
from exporter.roll.facts import BrokerRoll, RollAnswer, RollReason
from exporter.roll.partitions import roll_of
from exporter.roll.source import read_evidence
from exporter.settings.sections import PostureConfig, TransactionsConfig
from exporter.status.verdict import verdict
from exporter.transactions.source.transactions import TransactionsSource
from exporter.views.status import ClusterSettings, document
from tests.helpers.cluster import LOG, OFFSETS, FakeKafka, Partition, read
from tests.unit.views.test_status import FINE, NOW, UP

ABOUT_LOG = (
    "internal_topic_creation",
    "internal_topic_replication",
    "transaction_log_partitions",
    "transaction_log_min_isr",
    "transaction_log_isr",
)
SOUND = {
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "50",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "50",
    "min.insync.replicas": "2",
    "transaction.max.timeout.ms": "900000",
    "transactional.id.expiration.ms": "604800000",
    "transaction.partition.verification.enable": "true",
}
KEPT = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
DENIED = Fault(Reason.AUTHORIZATION, "Metadata of topic: grant DESCRIBE on Topic")
ELECTING = Fault(Reason.NO_LEADER, "Metadata of topic: the leader is not available")


def whole(replicas: int = 3) -> Partition:
    nodes = tuple(range(1, replicas + 1))
    return Partition(1, replicas=nodes, isr=nodes)


def world(
    brokers: int = 3,
    log: int = 50,
    replicas: int = 3,
    *,
    change: Callable[[FakeKafka], object] = lambda _: None,
    **settings: str,
) -> FakeKafka:
    """A cluster whose log has so many partitions, none where it was not made; names of settings have underscores."""
    found = FakeKafka(
        brokers={number: f"k{number}:9092" for number in range(1, brokers + 1)},
        topics={OFFSETS: [whole(min(3, brokers))], **({LOG: [whole(replicas) for _ in range(log)]} if log else {})},
        levels={"transaction.version": 2, "metadata.version": 30},
    )
    told = SOUND | {name.replace("_", "."): value for name, value in settings.items()}
    found.settings = {LOG: KEPT, OFFSETS: KEPT} | {str(node): told for node in found.brokers}
    change(found)
    return found


class AbsentLog(NamedTuple):
    """A state of the log, the verdicts of the checks about it in the order of ABOUT_LOG ("-": none), and the answers of
    the page, of ``check connection`` about internal topics, and of ``check roll`` of broker 1 with its reasons.
    """

    world: Callable[[], FakeKafka]
    checks: str
    page: str
    connection: str
    roll: str
    says: str = ""


def hide(fault: Fault) -> Callable[[FakeKafka], object]:
    return lambda kafka: kafka.hidden.update({LOG: fault})


def no_leader(kafka: FakeKafka) -> None:
    for partition in kafka.topics[LOG]:
        partition.leader, partition.isr = None, ()


CASES = {
    "there": AbsentLog(world, "- passed passed passed passed", "good", "ok", "safe"),
    "absent": AbsentLog(
        lambda: world(log=0),
        "passed passed passed passed passed",
        "good",
        "unproven",
        "safe not_made",
        "not made yet: transaction.state.log.replication.factor=3, 3 brokers",
    ),
    "absent, larger than the cluster": AbsentLog(
        lambda: world(brokers=1, log=0),
        "failed passed passed passed failed",
        "bad",
        "missing",
        "no last_in_sync not_made",
        "cannot be made, no transactional producer can start: transaction.state.log.replication.factor=3, and there is"
        " 1 broker",
    ),
    "absent, larger than what serves": AbsentLog(
        lambda: world(brokers=2, log=0, change=lambda kafka: kafka.fenced.add(3)),
        "passed passed passed passed passed",
        "warn",
        "unproven",
        "no below_min_isr not_made",
    ),
    "absent, and too few serve": AbsentLog(
        lambda: world(brokers=1, log=0, change=lambda kafka: kafka.fenced.update((2, 3))),
        "passed passed passed passed failed",
        "warn",
        "unproven",
        "no last_in_sync not_made",
        "2 of its replicas have to be in sync, and 1 broker serve",
    ),
    "absent, of one replica": AbsentLog(
        lambda: world(log=0, transaction_state_log_replication_factor="1"),
        "passed failed passed failed passed",
        "warn",
        "unproven",
        "safe not_made",
        "higher than the number of replicas, Kafka takes 1",
    ),
    "absent, of a minimum of one": AbsentLog(
        lambda: world(log=0, transaction_state_log_min_isr="1"),
        "passed passed passed failed passed",
        "warn",
        "unproven",
        "safe not_made",
    ),
    "absent, of a minimum of all": AbsentLog(
        lambda: world(log=0, transaction_state_log_min_isr="3"),
        "passed passed passed failed passed",
        "warn",
        "unproven",
        "no not_made",
    ),
    "absent, of fewer partitions than brokers": AbsentLog(
        lambda: world(log=0, transaction_state_log_num_partitions="2"),
        "passed passed information passed passed",
        "good",
        "unproven",
        "safe not_made",
    ),
    "absent, of brokers that do not say": AbsentLog(
        lambda: world(log=0, change=lambda kafka: [kafka.settings.pop(node) for node in ("1", "2", "3")]),
        "unknown unknown - unknown unknown",
        "blind",
        "unproven",
        "unknown not_read",
        "no broker returned its transaction.state.log.replication.factor",
    ),
    "absent, of brokers that refuse": AbsentLog(
        lambda: world(log=0, change=lambda kafka: kafka.refuse.update(DescribeConfigs=29)),
        "unknown unknown - unknown unknown",
        "blind",
        "unproven",
        "unknown not_read",
        "grant DESCRIBE_CONFIGS",
    ),
    "refused": AbsentLog(
        lambda: world(change=hide(DENIED)),
        "unknown unknown - unknown unknown",
        "blind",
        "unproven",
        "unknown not_read",
        "grant DESCRIBE on Topic",
    ),
    "just created": AbsentLog(
        lambda: world(change=hide(ELECTING)),
        "unknown unknown - unknown unknown",
        "blind",
        "unproven",
        "unknown not_read",
        "the leader is not available",
    ),
    "empty": AbsentLog(
        lambda: world(change=lambda kafka: kafka.topics.update({LOG: []})),
        "passed passed passed passed passed",
        "good",
        "unproven",
        "safe not_made",
    ),
    "without leaders": AbsentLog(
        lambda: world(change=no_leader), "- passed passed passed failed", "warn", "ok", "no offline"
    ),
    "smaller than the cluster": AbsentLog(
        lambda: world(log=2), "- passed information passed passed", "good", "ok", "safe"
    ),
    "of one replica": AbsentLog(
        lambda: world(replicas=1), "- failed passed failed passed", "warn", "ok", "no last_in_sync"
    ),
    "of two replicas": AbsentLog(
        lambda: world(replicas=2), "- failed passed failed passed", "warn", "ok", "no below_min_isr two_replicas"
    ),
}
EVERY = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def posture(kafka: FakeKafka) -> tuple[PostureCheck, ...]:
    found = read(kafka, PostureSource(kafka.cluster(), PostureConfig())).facts[Posture]
    assert isinstance(found, Posture)
    return found.checks


@EVERY
def test_no_check_of_the_log_is_fine_by_its_absence(case: AbsentLog) -> None:
    checks = posture(case.world())
    found = {check.name: check for check in checks if check.subject == LOG}
    said = [found[name].verdict.value if name in found else "-" for name in ABOUT_LOG]
    assert " ".join(said) == case.checks
    assert any(case.says in check.found or case.says in check.error for check in found.values())
    assert all(check.fix and (check.found or check.error) for check in checks)


@EVERY
def test_the_page_is_good_only_where_the_log_is_there_or_will_be_made_well(case: AbsentLog) -> None:
    facts = (*FINE, Posture(posture(case.world())))
    group = GroupState("prod", Facts({type(fact): fact for fact in facts}, facts), (UP,))
    status = document([group], {"prod": ClusterSettings("prod", "b1:9092")}, now=NOW, ready=True, version="1")
    found = verdict(status)
    assert found.level == case.page
    if case.page in {"bad", "blind"}:
        assert case.says in " ".join((found.text, *found.details))


@EVERY
def test_check_connection_says_whether_the_log_is_there_or_can_be_made(
    case: AbsentLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_tail_fault", lambda *_: None)
    kafka = case.world()
    found = {row.name: row for row in connection.capabilities_of(kafka.cluster(), lambda: Deadline.after(5))}
    internal = found["internal topics"]
    assert internal.verdict == case.connection
    assert all(
        row.verdict != "ok" for row in found.values() if row.name == "transaction log" and case.connection != "ok"
    )


@EVERY
def test_no_roll_is_safe_while_the_log_is_not_known_or_would_not_be_made(case: AbsentLog) -> None:
    kafka = case.world()
    evidence = read_evidence(kafka.cluster(), LoggedEvidence(NOW), Deadline.after(5))
    roll: BrokerRoll = roll_of(evidence, 1, 60.0)
    of_log = [row for row in roll.rows if row.subject in {LOG, "cluster"} or row.effect is not RollAnswer.SAFE]
    reasons = {row.reason: None for row in roll.rows if row.reason is not RollReason.GROUPS}
    assert " ".join((roll.answer.value, *reasons)) == case.roll, of_log


@EVERY
def test_nothing_that_could_make_the_log_is_sent(case: AbsentLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker makes an internal topic at FindCoordinator (AutoTopicCreationManager)."""
    monkeypatch.setattr(connection, "_tail_fault", lambda *_: None)
    kafka = case.world()
    posture(kafka)
    tuple(connection.capabilities_of(kafka.cluster(), lambda: Deadline.after(5)))
    read_evidence(kafka.cluster(), LoggedEvidence(NOW), Deadline.after(5))
    read(kafka, TransactionsSource(kafka.cluster(), TransactionsConfig()))
    assert "FindCoordinator" not in {name for _, name, _ in kafka.asked}


@EVERY
def test_no_partition_of_a_log_that_is_not_there_is_counted(case: AbsentLog) -> None:
    kafka = case.world()
    seen = read(kafka, TransactionsSource(kafka.cluster(), TransactionsConfig()))
    counted = {labels[1] for labels in seen.values(catalogue.INTERNAL_TOPIC_PARTITIONS) if labels[0] == LOG}
    assert bool(counted) is (LOG in kafka.topics and LOG not in kafka.hidden)


@pytest.mark.parametrize("topic", [LOG, OFFSETS])
def test_each_internal_topic_is_judged_by_its_own_settings(topic: str) -> None:
    setting = CREATION[topic].replication_factor
    kafka = world()
    for node in ("1", "2", "3"):
        kafka.settings[node] = SOUND | {setting: "4"}
    del kafka.topics[topic]
    failed = {(check.name, check.subject) for check in posture(kafka) if check.verdict is CheckResult.FAILED}
    assert ("internal_topic_creation", topic) in failed
    assert {subject for name, subject in failed if name == "internal_topic_creation"} == {topic}


def test_one_broker_that_can_make_the_log_suffices() -> None:
    kafka = world(brokers=2, log=0)
    kafka.settings["2"] = SOUND | {"transaction.state.log.replication.factor": "2"}
    found = {check.name: check for check in posture(kafka) if check.subject == LOG}
    assert found["internal_topic_creation"].verdict is CheckResult.PASSED
    assert found["internal_topic_replication"].verdict is CheckResult.FAILED


def test_brokers_that_keep_their_transactions_elsewhere_are_not_told_to_make_the_log() -> None:
    evidence = PostureEvidence(
        "prod", {1: {}}, {}, {}, transaction_version=2, elsewhere=True, unmade={LOG: "no broker returned it"}
    )
    assert not {check.name for check in checks_of(evidence)}.intersection(ABOUT_LOG)


def test_no_check_passes_on_evidence_of_nothing() -> None:
    nothing = PostureEvidence("prod", {1: {}}, {}, {}, transaction_version=None, unmade={LOG: "x", OFFSETS: "x"})
    empty = PostureEvidence(
        "prod",
        {1: {}},
        {LOG: {}, OFFSETS: {}, "orders": {}},
        dict.fromkeys((LOG, OFFSETS, "orders"), "its settings were not read"),
        transaction_version=None,
        opened=(),
        clients={},
    )
    for evidence in (nothing, empty):
        assert [check for check in checks_of(evidence) if check.verdict is CheckResult.PASSED] == []
