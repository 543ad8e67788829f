"""Producers in one JVM: the time that Java clients spend in transactional calls, and the records that they sent or
lost.

Every KafkaProducer has the txn-* attributes, transactional or not (KafkaProducerMetrics.java); a transactional one is
recognised by the time that its initTransactions took. The times are recorded after a call succeeded, so a commit that
was fenced or timed out adds nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from exporter.cluster import NamedCluster, TargetSource
from exporter.jvm.reader import JvmReader, MBeanQuery
from exporter.model import Deadline, Fact, Facts, Fault, Notes, Sample
from exporter.producers.producer_samples import ATTRIBUTES, INIT, PREPARE, producer_samples

_MBEANS = "kafka.producer:type=producer-metrics,client-id=*"
QUERIES = (
    MBeanQuery(_MBEANS, tuple(attribute for attribute in ATTRIBUTES if attribute != PREPARE), expected=True),
    MBeanQuery(_MBEANS, (PREPARE,)),
)


class ProducersSource(TargetSource[NamedCluster]):
    """Source ``producers`` of one application's JVM. A JVM without producers is no fault: it may create them later."""

    name = "producers"

    def __init__(
        self, cluster: NamedCluster, target: str, reader: JvmReader, interval: float = 15.0, timeout: float = 10.0
    ) -> None:
        super().__init__(cluster, target, interval, timeout)
        self._reader = reader

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        del facts
        answer = self._reader.read(QUERIES, deadline)
        yield from answer.faults
        clients: dict[str, dict[str, float]] = defaultdict(dict)
        for mbean, attribute, value in answer.values:
            if isinstance(value, float):
                clients[mbean.properties["client-id"]][attribute] = value
        if clients and answer.notes:  # a page without any producer shows nothing about the rules
            yield Notes(answer.notes)
        for client_id, numbers in clients.items():
            labels = (self._cluster.name, self.target, client_id)
            yield from producer_samples(labels, numbers, transactional=numbers.get(INIT, 0.0) > 0)
