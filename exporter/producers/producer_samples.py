"""Metrics of a Java producer to samples: the same attributes whether they are read from a JVM or pushed by the client.

Every KafkaProducer has the txn-* attributes, transactional or not (KafkaProducerMetrics.java). The times are recorded
after a call succeeded, so a commit that was fenced or timed out adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exporter import catalogue
from exporter.model import Metric, Sample

TYPE = "producer-metrics"
OPERATIONS: Mapping[str, str] = {
    f"txn-{operation.replace('_', '-')}-time-ns-total": operation for operation in catalogue.PRODUCER_OPERATIONS
}
INIT = "txn-init-time-ns-total"
PREPARE = "txn-prepare-time-ns-total"  # KIP-939, since 4.1
RECORDS: Mapping[str, Metric] = {
    "record-error-total": catalogue.PRODUCER_RECORD_ERRORS_TOTAL,
    "record-retry-total": catalogue.PRODUCER_RECORD_RETRIES_TOTAL,
    "record-send-total": catalogue.PRODUCER_RECORDS_SENT_TOTAL,
}
ATTRIBUTES = (*OPERATIONS, *RECORDS)


def producer_samples(
    labels: tuple[str, str, str], numbers: Mapping[str, float], *, transactional: bool
) -> Iterator[Sample]:
    """Samples of one producer. ``labels`` are cluster, target and client id; ``numbers`` are by attribute."""
    if transactional:
        for attribute, operation in OPERATIONS.items():
            if attribute in numbers:
                yield catalogue.PRODUCER_TXN_SECONDS_TOTAL(numbers[attribute] / 1e9, *labels, operation)
    for attribute, metric in RECORDS.items():
        if attribute in numbers:
            yield metric(numbers[attribute], *labels)
