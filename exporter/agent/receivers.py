"""What is posted over HTTP, clients' statistics and telemetry, streaming queries, results of audits: who receives it,
and the sources of what clients post.

Imported where ``ingest`` is enabled only: what reads these takes time at the start, and memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from exporter.audit_results.posts import AuditReceiver
from exporter.ingest.admission import ADVICE, MAX_BYTES, check_request
from exporter.ingest.budget import Budget
from exporter.ingest.latest import RefusedError
from exporter.model import Clock, Source
from exporter.producers.source.librdkafka import IngestSource, LibrdkafkaReceiver
from exporter.settings.root import Config
from exporter.spark.posts import SparkReceiver
from exporter.status.app import PostHandler
from exporter.telemetry.clients import TelemetryReceiver
from exporter.telemetry.source import TelemetrySource
from exporter.web_server.messages import Answer, Request, plain

log = logging.getLogger(__name__)


class Receivers(NamedTuple):
    """One for each kind of sender."""

    clients: LibrdkafkaReceiver
    spark: SparkReceiver
    audits: AuditReceiver
    telemetry: TelemetryReceiver
    budget: Budget
    names: set[str]

    def accept_names_of(self, config: Config) -> None:
        """Accept the names of these clusters, and no other."""
        names = _names(config)
        self.names.update(names)  # first: a name that stays is there at every moment
        self.names.intersection_update(names)


def _names(config: Config) -> set[str]:
    return {cluster.name for cluster in config.clusters if cluster.name}


def receivers_of(config: Config, clock: Clock) -> Receivers:
    """The receivers that the settings ask for, where ``ingest`` is enabled."""
    ingest = config.ingest
    names = _names(config)
    budget = Budget(ingest.memory)
    return Receivers(
        LibrdkafkaReceiver(names, ingest.clients, ingest.expire_after, clock, budget),
        SparkReceiver(names, ingest.clients, clock, budget),
        AuditReceiver(names, ingest.clients, clock, budget),
        TelemetryReceiver(names, ingest.clients, clock, budget),
        budget,
        names,
    )


def posted_sources(receivers: Receivers, only_cluster: Callable[[], str]) -> tuple[Source, ...]:
    """One for each kind. ``only_cluster`` returns the name of the only cluster, "" when there are several."""
    return (
        IngestSource(receivers.clients, only_cluster, receivers.budget),
        TelemetrySource(receivers.telemetry, only_cluster),
    )


class Receiver(Protocol):
    """Accepts one document. Raises RefusedError."""

    def take(self, body: bytes) -> None:
        """Keep what the body says."""


class IngestApp:
    """One of the paths. Any thread may call it.

    ``token`` returns the required token, "" for none, at each request; it may raise ValueError.
    """

    def __init__(self, receiver: Receiver, token: Callable[[], str]) -> None:
        self._receiver = receiver
        self._token = token

    def refusal(self, request: Request) -> Answer | None:
        """Return why the head is refused. May read the file of the token."""
        try:
            check_request(request, self._token, ("application/json",), MAX_BYTES)
        except RefusedError as error:
            return _refused(request, error)
        return None

    def __call__(self, request: Request, body: bytes) -> Answer:
        """204, or why the body is refused."""
        try:
            self._receiver.take(body)
        except RefusedError as error:
            return _refused(request, error)
        return Answer(204)


def _refused(request: Request, error: RefusedError) -> Answer:
    where = {"path": request.path, "client": request.client}
    log.debug("refused: %d %s", error.status, error, extra=where)
    return plain(str(error), error.status, ADVICE.get(error.status, {}))


def ingest_apps(receivers: Receivers, token: Callable[[], str]) -> Mapping[str, PostHandler]:
    """The receivers of posted documents, by their path."""
    from exporter.telemetry.otlp import PATH, OtlpApp  # noqa: PLC0415 -- protobuf takes 5 MB, only where it is received

    return {
        "/ingest/librdkafka": IngestApp(receivers.clients, token),
        "/ingest/spark": IngestApp(receivers.spark, token),
        "/ingest/audit": IngestApp(receivers.audits, token),
        PATH: OtlpApp(receivers.telemetry, token),
    }
