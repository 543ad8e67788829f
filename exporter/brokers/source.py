"""One broker's JVM: requests of the transaction protocol, their errors and times, and the coordinator's queues.

Counters are the JVM's own, so they restart with the broker. Kafka makes the counter of an error at its first occurrence
(RequestMetrics.java); here the errors that alerts use are 0 until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from exporter import catalogue
from exporter.bounds.text import cut
from exporter.cluster import NamedCluster, TargetSource
from exporter.http_client import Endpoint
from exporter.jvm.reader import JvmAnswer, JvmReader, MBean, MBeanQuery, parse_object_name
from exporter.kafka.faults import AskError
from exporter.kafka.requests.metadata import Metadata
from exporter.model import Deadline, Distribution, Fact, Facts, Fault, Metric, Notes, Reason, Sample

LONGEST_VERSION = 60
"""Characters of a version that are kept."""
_QUANTILES = {
    "50thPercentile": 0.5,
    "75thPercentile": 0.75,
    "95thPercentile": 0.95,
    "99thPercentile": 0.99,
    "999thPercentile": 0.999,
}
_HISTOGRAM = ("Count", *_QUANTILES)
_REQUEST = "kafka.network:type=RequestMetrics,name={},request={}"

# RequestChannel.scala books the errors of a verification under the API's name.
_BOOKED_APART = "AddPartitionsToTxnVerification"
_WITH_ERRORS = tuple(request for request in catalogue.BROKER_REQUESTS if request != _BOOKED_APART)

_COUNTS = {
    request: MBeanQuery(_REQUEST.format("RequestsPerSec", request) + ",version=*", ("Count",), expected=True)
    for request in catalogue.BROKER_REQUESTS
}
_ERRORS = {
    request: MBeanQuery(_REQUEST.format("ErrorsPerSec", request) + ",error=*", ("Count",), expected=True)
    for request in _WITH_ERRORS
}
_TIMES = {
    request: MBeanQuery(_REQUEST.format("TotalTimeMs", request), _HISTOGRAM, expected=True)
    for request in catalogue.BROKER_REQUESTS
}
_REPLICAS = "kafka.server:type=ReplicaManager,name="
_VERIFIER = "kafka.server:type=AddPartitionsToTxnManager,name="
_MARKERS = "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name="
_COORDINATOR = MBeanQuery(
    "kafka.server:type=transaction-coordinator-metrics",
    ("partition-load-time-avg", "partition-load-time-max"),
    expected=True,
)
_FAILURES = MBeanQuery(f"{_VERIFIER}VerificationFailureRate", ("Count",))
_VERIFICATION = MBeanQuery(f"{_VERIFIER}VerificationTimeMs", _HISTOGRAM)
_IDENTITY = MBeanQuery("kafka.server:type=app-info,id=*", ("StartTimeMs", "Version"))


class _Gauge(NamedTuple):
    """A number that is passed on as it is."""

    query: MBeanQuery
    metric: Metric
    labels: tuple[str, ...] = ()


_UNCLEANABLE = MBeanQuery(
    "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count,logDirectory=*", ("Value",)
)
_GAUGES = (
    _Gauge(
        MBeanQuery("kafka.log:type=LogCleaner,name=DeadThreadCount", ("Value",)), catalogue.BROKER_DEAD_CLEANER_THREADS
    ),
    _Gauge(
        MBeanQuery(f"{_REPLICAS}PartitionsWithLateTransactionsCount", ("Value",), expected=True),
        catalogue.BROKER_LATE_TRANSACTION_PARTITIONS,
    ),
    _Gauge(MBeanQuery(f"{_REPLICAS}ProducerIdCount", ("Value",)), catalogue.BROKER_PRODUCER_IDS),
    _Gauge(
        MBeanQuery(f"{_MARKERS}UnknownDestinationQueueSize", ("Value",), expected=True),
        catalogue.BROKER_TXN_MARKER_QUEUE_SIZE,
        ("unknown_destination",),
    ),
    _Gauge(
        MBeanQuery(f"{_MARKERS}LogAppendRetryQueueSize", ("Value",), expected=True),
        catalogue.BROKER_TXN_MARKER_QUEUE_SIZE,
        ("log_append_retry",),
    ),
    _Gauge(
        MBeanQuery("kafka.server:type=MetadataLoader,name=FinalizedLevel,featureName=transactionVersion", ("Value",)),
        catalogue.BROKER_TRANSACTION_VERSION,
    ),
)
QUERIES = (
    *_COUNTS.values(),
    *_ERRORS.values(),
    *_TIMES.values(),
    *(gauge.query for gauge in _GAUGES),
    _COORDINATOR,
    _FAILURES,
    _VERIFICATION,
    _UNCLEANABLE,
    _IDENTITY,
)


class KnownBrokers(NamedCluster, Protocol):
    """The cluster that the broker belongs to."""

    def metadata(self, deadline: Deadline, topics: Sequence[str] | None = None, max_age: float = 0.0) -> Metadata: ...


class BrokersSource(TargetSource[KnownBrokers]):
    """Source ``brokers`` of one broker's JVM."""

    name = "brokers"

    def __init__(
        self,
        cluster: KnownBrokers,
        endpoint: Endpoint,
        reader: JvmReader,
        interval: float = 15.0,
        timeout: float = 10.0,
        node_id: int | None = None,
    ) -> None:
        """``endpoint`` is the JVM's; ``node_id`` the broker's, None to find out."""
        super().__init__(cluster, endpoint.address, interval, timeout)
        self._reader = reader
        self._host = endpoint.host.lower()
        self._configured = self._node_id = node_id

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        del facts
        answer = self._reader.read(QUERIES, deadline)
        yield from answer.faults
        if not answer.values:
            if not answer.faults:
                yield Fault(Reason.UNSUPPORTED, f"{self.target} shows nothing of a broker: is this a broker's JVM?")
            return
        if answer.notes:
            yield Notes(answer.notes)
        node_id = self._find_node_id(answer, deadline)
        if node_id is None:
            yield Fault(
                Reason.UNSUPPORTED,
                f"which broker {self.target} is cannot be known from its host: set `id` beside its address",
            )
        elif self._cluster.name:
            yield from samples(answer, self._cluster.name, str(node_id))
            if version := _version(answer, str(node_id)):
                yield catalogue.BROKER_INFO(1.0, self._cluster.name, str(node_id), version)

    def _find_node_id(self, answer: JvmAnswer, deadline: Deadline) -> int | None:
        """The broker's node id: as configured, by the JVM (AppInfoParser), or by its host in the metadata."""
        if self._configured is not None:
            return self._configured
        own = {reading.mbean.properties["id"] for reading in answer.values if reading.mbean.type == "app-info"}
        if len(own) == 1 and (text := own.pop()).isdecimal():
            self._node_id = int(text)
        elif self._node_id is None:
            self._node_id = self._by_host(deadline)
        return self._node_id

    def _by_host(self, deadline: Deadline) -> int | None:
        try:
            brokers = self._cluster.metadata(deadline, topics=(), max_age=self.interval).brokers
        except AskError:  # the cluster's own sources report it
            return None
        here = [
            node_id
            for node_id, address in brokers.items()
            if address.rpartition(":")[0].strip("[]").lower() == self._host
        ]
        return here[0] if len(here) == 1 else None


def _version(answer: JvmAnswer, broker: str) -> str:
    """Return the version of AppInfoParser, "" where it is not shown: a jmx_exporter leaves out texts."""
    found = {
        reading.mbean.properties.get("id", ""): reading.value
        for reading in answer.values
        if reading.mbean.type == "app-info" and reading.attribute == "Version"
    }
    version = found.get(broker, next(iter(found.values()), "") if len(found) == 1 else "")
    return cut(version, LONGEST_VERSION) if isinstance(version, str) else ""


def samples(answer: JvmAnswer, cluster: str, broker: str) -> Iterator[Sample]:
    """The samples in one broker's answer."""
    found = _BrokerValues(answer)
    yield from _requests(found, cluster, broker)
    for request, query in _TIMES.items():
        if (duration := found.summary(query)) is not None:
            yield catalogue.BROKER_REQUEST_DURATION_SECONDS(duration, cluster, broker, request)
    for gauge in _GAUGES:
        if (value := found.one(gauge.query, "Value")) is not None:
            yield gauge.metric(value, cluster, broker, *gauge.labels)
    if uncleanable := found.all(_UNCLEANABLE):
        total = sum(value for _, value in uncleanable)
        yield catalogue.BROKER_UNCLEANABLE_PARTITIONS(total, cluster, broker)
    for stat in catalogue.LOAD_STATS:
        if (value := found.one(_COORDINATOR, f"partition-load-time-{stat}")) is not None:
            yield catalogue.BROKER_TXN_COORDINATOR_LOAD_SECONDS(value / 1000, cluster, broker, stat)
    if (value := found.one(_FAILURES, "Count")) is not None:
        yield catalogue.BROKER_TXN_VERIFICATION_FAILURES_TOTAL(value, cluster, broker)
    if (duration := found.summary(_VERIFICATION)) is not None:
        yield catalogue.BROKER_TXN_VERIFICATION_SECONDS(duration, cluster, broker)


def _requests(found: _BrokerValues, cluster: str, broker: str) -> Iterator[Sample]:
    for request, query in _COUNTS.items():
        for mbean, count in found.all(query):
            yield catalogue.BROKER_REQUESTS_TOTAL(count, cluster, broker, request, mbean.properties["version"])
    for request, query in _ERRORS.items():
        if not found.asked(query):
            continue  # an unreadable value is absent, not 0
        counts = dict.fromkeys(catalogue.BROKER_REQUEST_ERRORS, 0.0)
        counts |= {mbean.properties["error"]: count for mbean, count in found.all(query)}
        for error, count in counts.items():
            if error != "NONE":  # RequestMetrics counts successes there as well
                yield catalogue.BROKER_REQUEST_ERRORS_TOTAL(count, cluster, broker, request, error)


class _BrokerValues:
    """The answer by query."""

    def __init__(self, answer: JvmAnswer) -> None:
        self._unasked = {query.pattern for query in answer.failed} | {
            missing.query.pattern for missing in answer.missing
        }
        self._readings: dict[_Key, dict[str, list[tuple[MBean, float]]]] = {}
        for mbean, attribute, value in answer.values:
            if isinstance(value, float):
                self._readings.setdefault(_key(mbean), {}).setdefault(attribute, []).append((mbean, value))

    def asked(self, query: MBeanQuery) -> bool:
        """Return whether an attribute that is absent from the answer is known not to exist."""
        return query.pattern not in self._unasked

    def all(self, query: MBeanQuery) -> list[tuple[MBean, float]]:
        """The first attribute of every MBean."""
        return self._readings.get(_key(parse_object_name(query.pattern)), {}).get(query.attributes[0], [])

    def one(self, query: MBeanQuery, attribute: str) -> float | None:
        """An attribute of the only MBean."""
        readings = self._readings.get(_key(parse_object_name(query.pattern)), {}).get(attribute)
        return readings[0][1] if readings else None

    def summary(self, query: MBeanQuery) -> Distribution | None:
        """A histogram in milliseconds as quantiles in seconds; none of them before the first observation."""
        count = self.one(query, "Count")
        if count is None:
            return None
        steps = [
            (quantile, value / 1000)
            for attribute, quantile in _QUANTILES.items()
            if count and (value := self.one(query, attribute)) is not None
        ]
        return Distribution(tuple(steps), count, None)


class _Key(NamedTuple):
    """The properties that distinguish the MBeans of one query."""

    type: str
    name: str
    request: str


def _key(mbean: MBean) -> _Key:
    return _Key(mbean.type, mbean.properties.get("name", ""), mbean.properties.get("request", ""))
