"""The grants of a Connect worker's principal: which are needed, and what the answers make of each."""

from __future__ import annotations

import pytest

from exporter.connect.grants import Grant, GrantVerdict, Need, WorkerSettings, judge, needs, worker_settings
from exporter.model import Fault, Reason

FILE = {
    "group.id": "etl",
    "config.storage.topic": "etl-configs",
    "offset.storage.topic": "etl-offsets",
    "status.storage.topic": "etl-status",
}
WORKER = worker_settings(FILE, {"orders": 2}, ["orders"])
FAULT = Fault(Reason.TIMEOUT, "no answer")


def wanted(worker: WorkerSettings = WORKER) -> list[str]:
    return [f"{need.operation} {need.kind}:{need.name}" for need in needs(worker)]


def test_what_a_worker_with_a_connector_of_two_tasks_needs() -> None:
    assert wanted() == [
        "READ Group:etl",
        "READ Topic:etl-configs",
        "WRITE Topic:etl-configs",
        "READ Topic:etl-offsets",
        "WRITE Topic:etl-offsets",
        "READ Topic:etl-status",
        "WRITE Topic:etl-status",
        "WRITE TransactionalId:connect-cluster-etl",
        "DESCRIBE TransactionalId:connect-cluster-etl",
        "WRITE TransactionalId:etl-orders-0",
        "DESCRIBE TransactionalId:etl-orders-0",
        "WRITE TransactionalId:etl-orders-1",
        "DESCRIBE TransactionalId:etl-orders-1",
        "WRITE Topic:orders",
        "IDEMPOTENT_WRITE Cluster:kafka-cluster",
    ]


def test_a_topic_that_the_file_does_not_name_is_left_out() -> None:
    bare = worker_settings({"group.id": "etl"}, {}, [])
    assert [text for text in wanted(bare) if "Topic" in text] == []


@pytest.mark.parametrize("values", [{}, {"group.id": ""}, {"bootstrap.servers": "a:9092"}])
def test_a_file_without_a_group_is_no_workers(values: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"no group\.id"):
        worker_settings(values, {}, [])


ID = Need("WRITE", "TransactionalId", "etl-orders-0", "")
TOPIC = Need("WRITE", "Topic", "orders", "")
READ = Need("READ", "Topic", "orders", "")
IDEMPOTENT = Need("IDEMPOTENT_WRITE", "Cluster", "kafka-cluster", "")
KIP_679 = "by WRITE on a topic (KIP-679, Kafka 2.8 and later)"


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({ID: True}, [Grant(ID, GrantVerdict.GRANTED)]),
        ({ID: False}, [Grant(ID, GrantVerdict.REFUSED)]),
        ({ID: FAULT}, [Grant(ID, GrantVerdict.NOT_KNOWN, "no answer")]),
        ({IDEMPOTENT: True}, [Grant(IDEMPOTENT, GrantVerdict.GRANTED)]),
        ({IDEMPOTENT: False}, [Grant(IDEMPOTENT, GrantVerdict.REFUSED)]),
        (
            {TOPIC: True, IDEMPOTENT: False},
            [Grant(TOPIC, GrantVerdict.GRANTED), Grant(IDEMPOTENT, GrantVerdict.GRANTED, KIP_679)],
        ),
        (
            {TOPIC: False, IDEMPOTENT: False},
            [Grant(TOPIC, GrantVerdict.REFUSED), Grant(IDEMPOTENT, GrantVerdict.REFUSED)],
        ),
        ({READ: True, IDEMPOTENT: False}, [Grant(READ, GrantVerdict.GRANTED), Grant(IDEMPOTENT, GrantVerdict.REFUSED)]),
        ({ID: True, IDEMPOTENT: False}, [Grant(ID, GrantVerdict.GRANTED), Grant(IDEMPOTENT, GrantVerdict.REFUSED)]),
    ],
)
def test_each_answer_has_its_verdict(answers: dict[Need, bool | Fault], expected: list[Grant]) -> None:
    assert list(judge(answers, lambda need: answers[need])) == expected
