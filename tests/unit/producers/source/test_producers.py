"""The source of producers, on captures of a real Java producer and on answers made up."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from exporter import catalogue
from exporter.jvm.answers import JvmAnswer, MBeanValue
from exporter.jvm.jmx_exporter import read_page
from exporter.jvm.mbeans import MBean, MBeanQuery
from exporter.model import Deadline, Distribution, Facts, Fault, Notes, Reason, Sample
from exporter.producers.source.producers import QUERIES, ProducersSource
from tests.helpers.recordings import RECORDINGS, jolokia_answer, recorded

CAPTURES = RECORDINGS / "jvms"
LABELS = ("prod", "app:8778", "producer-pay-1")


class ClientJvm:
    """A JVM that answers what it is given."""

    def __init__(self, answer: JvmAnswer) -> None:
        self.answer = answer

    def read(self, queries: Sequence[MBeanQuery], deadline: Deadline) -> JvmAnswer:
        assert queries == QUERIES
        return self.answer


class ProducersCluster:
    name = "prod"


def read(answer: JvmAnswer) -> list[object]:
    source = ProducersSource(ProducersCluster(), "app:8778", ClientJvm(answer))
    return list(source.read(Deadline.after(1), Facts()))


def values(items: list[object]) -> dict[tuple[str, tuple[str, ...]], float | Distribution]:
    return {(item.metric.name, item.labels): item.value for item in items if isinstance(item, Sample)}


def client(client_id: str, **numbers: float) -> tuple[MBeanValue, ...]:
    mbean = MBean("kafka.producer", {"type": "producer-metrics", "client-id": client_id})
    return tuple(MBeanValue(mbean, name.replace("_", "-"), value) for name, value in numbers.items())


def test_a_real_producer_says_the_same_in_every_way() -> None:
    recording = (CAPTURES / "jolokia-java-pay-1.json").read_text()
    jolokia = values(read(jolokia_answer(recording, QUERIES)))
    operations = {labels[3] for name, labels in jolokia if name == catalogue.PRODUCER_TXN_SECONDS_TOTAL.name}
    assert operations == set(catalogue.PRODUCER_OPERATIONS)
    assert jolokia[catalogue.PRODUCER_RECORDS_SENT_TOTAL.name, LABELS] == 7
    assert jolokia[catalogue.PRODUCER_RECORD_ERRORS_TOTAL.name, LABELS] == 0
    for spelling in ("jmx_exporter", "confluent", "default"):
        page = (CAPTURES / f"{spelling}-java-pay-1.txt").read_bytes()
        assert values(read(read_page(recorded(recording, QUERIES), page, "page"))) == jolokia, spelling


def test_nanoseconds_are_reported_in_seconds() -> None:
    found = values(
        read(JvmAnswer(client("producer-pay-1", txn_init_time_ns_total=1e9, txn_commit_time_ns_total=2.5e8)))
    )
    assert found[catalogue.PRODUCER_TXN_SECONDS_TOTAL.name, (*LABELS, "commit")] == 0.25


def test_an_ordinary_producer_has_records_and_no_transactions() -> None:
    answer = client("plain", txn_init_time_ns_total=0.0, txn_commit_time_ns_total=0.0, record_send_total=3.0)
    assert values(read(JvmAnswer(answer))) == {
        (catalogue.PRODUCER_RECORDS_SENT_TOTAL.name, ("prod", "app:8778", "plain")): 3.0
    }


def test_a_client_without_prepare_has_the_other_operations_only() -> None:
    """Kafka before 4.1 has no prepareTransaction (KIP-939)."""
    answer = client("old", txn_init_time_ns_total=1.0, txn_abort_time_ns_total=0.0)
    found = {labels[3] for _, labels in values(read(JvmAnswer(answer)))}
    assert found == {"init", "abort"}


def test_a_jvm_without_producers_says_nothing_and_is_no_fault() -> None:
    assert read(read_page(QUERIES, b"jvm_info 1\n", "page")) == []


def test_rules_that_leave_transactions_out_are_noted() -> None:
    """As Confluent's reduced rules for clients do."""
    page = b'kafka_producer_producer_metrics_record_send_total{client_id="pay"} 3\n'
    notes = [note for item in read(read_page(QUERIES, page, "page")) if isinstance(item, Notes) for note in item.notes]
    assert any("txn-commit-time-ns-total" in note for note in notes)
    assert not any("prepare" in note for note in notes)


@pytest.mark.parametrize("reason", [Reason.TIMEOUT, Reason.AUTHENTICATION])
def test_a_jvm_that_does_not_answer_is_its_fault(reason: Reason) -> None:
    fault = Fault(reason, "no")
    assert read(JvmAnswer(faults=(fault,), failed=QUERIES)) == [fault]
