"""OTLP as clients of Kafka push it, in both encodings: a resource for each metric (ClientTelemetryReporter)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality

SECOND = 1_000_000_000
DELTA = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
COMMIT = "org.apache.kafka.producer.txn.commit.time.ns.total"


@dataclass
class Push:
    """One push. ``resource`` is repeated for each metric."""

    resource: Mapping[str, str] = field(default_factory=dict)
    message: ExportMetricsServiceRequest = field(default_factory=ExportMetricsServiceRequest)

    def sum(
        self, name: str, value: float, start: float, time: float, temporality: int = DELTA, **attributes: str
    ) -> Push:
        metric = self._metric(name)
        metric.sum.aggregation_temporality = temporality
        metric.sum.is_monotonic = True
        point = metric.sum.data_points.add(
            as_double=value, start_time_unix_nano=int(start * SECOND), time_unix_nano=int(time * SECOND)
        )
        point.attributes.extend(pairs(attributes))
        return self

    def gauge(self, name: str, value: float, time: float, **attributes: str) -> Push:
        metric = self._metric(name)
        point = metric.gauge.data_points.add(as_double=value, time_unix_nano=int(time * SECOND))
        point.attributes.extend(pairs(attributes))
        return self

    @property
    def protobuf(self) -> bytes:
        return bytes(self.message.SerializeToString())

    @property
    def json(self) -> bytes:
        return json.dumps(MessageToDict(self.message, use_integers_for_enums=True)).encode()

    def _metric(self, name: str):  # type: ignore[no-untyped-def] # noqa: ANN202 -- a generated class
        resource = self.message.resource_metrics.add()
        resource.resource.attributes.extend(pairs(self.resource))
        return resource.scope_metrics.add().metrics.add(name=name)


def pairs(attributes: Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in attributes.items()]
