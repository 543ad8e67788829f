"""The source of brokers, on captures of a real broker and on answers made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from exporter import catalogue
from exporter.brokers.source import QUERIES, BrokersSource
from exporter.http_client import Endpoint
from exporter.jvm.answers import JvmAnswer, MBeanValue, Missing
from exporter.jvm.jmx_exporter import read_page
from exporter.jvm.mbeans import MBeanQuery, parse_object_name
from exporter.kafka.faults import AskError
from exporter.kafka.requests.metadata import Metadata
from exporter.model import Deadline, Distribution, Facts, Fault, Notes, Reason, Sample
from tests.helpers.metrics_reporter import reporter_page
from tests.helpers.recordings import RECORDINGS, jolokia_answer, recorded

CAPTURES = RECORDINGS / "jvms"
SPELLINGS = ("jmx_exporter", "confluent", "default")
Values = dict[tuple[str, tuple[str, ...]], float | Distribution]


class AnsweredJvm:
    """A JVM that answers what it is given."""

    def __init__(self, answer: JvmAnswer) -> None:
        self.answer = answer

    def read(self, queries: Sequence[MBeanQuery], deadline: Deadline) -> JvmAnswer:
        assert queries == QUERIES
        return self.answer


class BrokersCluster:
    """A cluster with these brokers, or one that does not answer."""

    name = "prod"

    def __init__(self, brokers: Mapping[int, str] | None = None) -> None:
        self.brokers = brokers

    def metadata(self, deadline: Deadline, topics: Sequence[str] | None = None, max_age: float = 0.0) -> Metadata:
        if self.brokers is None:
            raise AskError(Fault(Reason.UNREACHABLE, "nobody there"))
        return Metadata("id", self.brokers, {}, frozenset(), {})


def read(answer: JvmAnswer, cluster: BrokersCluster | None = None, **settings: int) -> list[object]:
    endpoint = Endpoint("http://k1:8778")
    source = BrokersSource(cluster or BrokersCluster({}), endpoint, AnsweredJvm(answer), **settings)
    return list(source.read(Deadline.after(1), Facts()))


def values(items: list[object]) -> Values:
    return {(item.metric.name, item.labels): item.value for item in items if isinstance(item, Sample)}


def faults(items: list[object]) -> list[Fault]:
    return [item for item in items if isinstance(item, Fault)]


def readings(*lines: tuple[str, str, float]) -> tuple[MBeanValue, ...]:
    return tuple(MBeanValue(parse_object_name(name), attribute, value) for name, attribute, value in lines)


RECORDING = (CAPTURES / "jolokia-broker-1.json").read_text()


def captured_jolokia() -> JvmAnswer:
    return jolokia_answer(RECORDING, QUERIES)


@pytest.fixture(scope="module")
def jolokia() -> Values:
    return values(read(captured_jolokia()))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_real_broker_says_the_same_in_every_spelling_as_through_jolokia(jolokia: Values, spelling: str) -> None:
    page = (CAPTURES / f"{spelling}-broker-1.txt").read_bytes()
    answer = read_page(recorded(RECORDING, QUERIES), page, "page")
    found = values(read(answer, node_id=1))
    load = catalogue.BROKER_TXN_COORDINATOR_LOAD_SECONDS.name
    assert {key: value for key, value in found.items() if key[0] != load} == {
        key: value for key, value in jolokia.items() if key[0] != load
    }
    lost = {missing.attribute for missing in answer.missing}
    assert lost == ({"partition-load-time-avg", "partition-load-time-max"} if spelling == "jmx_exporter" else set())


def test_a_real_broker_says_the_same_through_strimzi_s_metrics_reporter(jolokia: Values) -> None:
    """It has no rules, so that none is advice."""
    page = reporter_page((CAPTURES / "default-broker-1.txt").read_text())
    answer = read_page(recorded(RECORDING, QUERIES), page.encode(), "page")
    load = catalogue.BROKER_TXN_COORDINATOR_LOAD_SECONDS.name
    found = values(read(answer, node_id=1))
    assert {key: value for key, value in found.items() if key[0] != load} == {
        key: value for key, value in jolokia.items() if key[0] != load
    }
    assert answer.missing == ()
    without = "".join(line for line in page.splitlines(keepends=True) if "quantile" not in line)
    notes = read_page(recorded(RECORDING, QUERIES), without.encode(), "page").notes
    assert "the page has no 50thPercentile of kafka.network:type=RequestMetrics,name=TotalTimeMs" in "\n".join(notes)
    assert not [note for note in notes if "rule" in note]


def test_what_the_real_broker_counted_is_what_was_done(jolokia: Values) -> None:
    """Seven transactions of a Java client, one of librdkafka that was fenced; origin.json says how they were made."""

    def count(request: str, version: str) -> float | Distribution | None:
        return jolokia.get((catalogue.BROKER_REQUESTS_TOTAL.name, ("prod", "1", request, version)))

    def errors(request: str, error: str) -> float | Distribution:
        return jolokia[catalogue.BROKER_REQUEST_ERRORS_TOTAL.name, ("prod", "1", request, error)]

    assert count("EndTxn", "5") == 7
    assert count("EndTxn", "1") == 1
    assert errors("EndTxn", "INVALID_PRODUCER_EPOCH") == 1
    assert errors("EndTxn", "PRODUCER_FENCED") == 0
    assert jolokia[catalogue.BROKER_TRANSACTION_VERSION.name, ("prod", "1")] == 2
    assert jolokia[catalogue.BROKER_LATE_TRANSACTION_PARTITIONS.name, ("prod", "1")] == 0
    for queue in ("unknown_destination", "log_append_retry"):
        assert jolokia[catalogue.BROKER_TXN_MARKER_QUEUE_SIZE.name, ("prod", "1", queue)] == 0


def test_every_eos_error_of_every_request_is_there_before_it_happens_and_success_is_none(jolokia: Values) -> None:
    name = catalogue.BROKER_REQUEST_ERRORS_TOTAL.name
    found = {(labels[2], labels[3]) for metric, labels in jolokia if metric == name}
    requests = set(catalogue.BROKER_REQUESTS) - {"AddPartitionsToTxnVerification"}
    assert {(request, error) for request in requests for error in catalogue.BROKER_REQUEST_ERRORS} <= found
    assert not {pair for pair in found if pair[1] == "NONE" or pair[0] == "AddPartitionsToTxnVerification"}


def test_durations_are_seconds_and_have_no_quantiles_before_the_first_request(jolokia: Values) -> None:
    name = catalogue.BROKER_REQUEST_DURATION_SECONDS.name
    end = jolokia[name, ("prod", "1", "EndTxn")]
    assert isinstance(end, Distribution)
    assert [quantile for quantile, _ in end.steps] == [0.5, 0.75, 0.95, 0.99, 0.999]
    assert all(0 < seconds < 5 for _, seconds in end.steps)
    assert (end.count, end.total) == (8, None)
    assert jolokia[name, ("prod", "1", "TxnOffsetCommit")] == Distribution((), 0, None)


def test_errors_that_could_not_be_read_are_absent_and_not_0() -> None:
    query = next(query for query in QUERIES if "ErrorsPerSec,request=EndTxn" in query.pattern)
    producer_ids = ("kafka.server:type=ReplicaManager,name=ProducerIdCount", "Value", 5.0)
    refused = JvmAnswer(readings(producer_ids), (Fault(Reason.AUTHORIZATION, "no"),), failed=(query,))
    dropped = JvmAnswer(readings(producer_ids), missing=(Missing(query, "Count", "- {}"),))
    for answer in (refused, dropped):
        found = {labels[2] for name, labels in values(read(answer, node_id=1)) if "errors" in name}
        assert found == set(catalogue.BROKER_REQUESTS) - {"EndTxn", "AddPartitionsToTxnVerification"}


def test_what_rules_leave_out_is_a_note_and_no_fault() -> None:
    page = (CAPTURES / "jmx_exporter-broker-1.txt").read_bytes()
    items = read(read_page(recorded(RECORDING, QUERIES), page, "page"), node_id=1)
    notes = [note for item in items if isinstance(item, Notes) for note in item.notes]
    assert len(notes) == 2
    assert all("transaction-coordinator-metrics" in note and "- {pattern:" in note for note in notes)
    assert faults(items) == []


def test_the_coordinator_s_load_time_is_in_seconds() -> None:
    answer = JvmAnswer(
        readings(("kafka.server:type=transaction-coordinator-metrics", "partition-load-time-max", 1500.0))
    )
    found = values(read(answer, node_id=1))
    assert found[catalogue.BROKER_TXN_COORDINATOR_LOAD_SECONDS.name, ("prod", "1", "max")] == 1.5
    assert (catalogue.BROKER_TXN_COORDINATOR_LOAD_SECONDS.name, ("prod", "1", "avg")) not in found


ANYTHING = ("kafka.server:type=ReplicaManager,name=ProducerIdCount", "Value", 5.0)
APP_INFO = ("kafka.server:type=app-info,id=7", "StartTimeMs", 1.0)


def test_the_node_id_is_as_configured_else_as_the_jvm_says_else_by_host() -> None:
    by_host = BrokersCluster({3: "k1:9092", 4: "k2:9092"})
    for answer, configured, cluster, expected in (
        (readings(ANYTHING, APP_INFO), {"node_id": 2}, by_host, "2"),
        (readings(ANYTHING, APP_INFO), {}, by_host, "7"),
        (readings(ANYTHING), {}, by_host, "3"),
    ):
        found = values(read(JvmAnswer(answer), cluster, **configured))
        assert (catalogue.BROKER_PRODUCER_IDS.name, ("prod", expected)) in found


@pytest.mark.parametrize(
    "cluster",
    [BrokersCluster(None), BrokersCluster({1: "elsewhere:9092"}), BrokersCluster({1: "k1:9092", 2: "k1:9093"})],
)
def test_a_broker_that_cannot_be_told_from_others_is_a_fault_that_asks_for_its_id(cluster: BrokersCluster) -> None:
    items = read(JvmAnswer(readings(ANYTHING)), cluster)
    assert values(items) == {}
    assert [fault.reason for fault in faults(items)] == [Reason.UNSUPPORTED]
    assert "set `id`" in faults(items)[0].detail


def test_a_jvm_that_is_no_broker_is_a_fault() -> None:
    assert [fault.reason for fault in faults(read(JvmAnswer()))] == [Reason.UNSUPPORTED]


def test_an_answer_that_failed_gives_its_fault_and_nothing_else() -> None:
    fault = Fault(Reason.UNREACHABLE, "k1 is away")
    assert read(JvmAnswer(faults=(fault,), failed=QUERIES)) == [fault]


def test_nothing_is_exposed_without_the_name_of_the_cluster() -> None:
    nameless = BrokersCluster({})
    nameless.name = ""
    assert read(captured_jolokia(), nameless) == []
