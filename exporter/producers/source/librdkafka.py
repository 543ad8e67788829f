"""librdkafka clients, by the statistics that they post. Posts are checked, limited, and kept until the
client stops posting; the source sends no request.

librdkafka reports the state of its transactional and idempotent producer in the ``eos`` section (STATISTICS.md). Its
``txn_stateage`` is the uptime of the machine (``ts_txn_state`` in rdkafka_int.h is never assigned), so the agent
measures ages itself: from the first report in the current state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from exporter import catalogue
from exporter.catalogue import RDKAFKA_IDEMPOTENCE_STATES, RDKAFKA_TXN_STATES
from exporter.ingest.budget import Budget, series_bytes, text_bytes
from exporter.ingest.latest import LatestBySender, RefusedError, json_object, named
from exporter.ingest.posted_source import PostedSource
from exporter.model import Clock, Deadline, Fact, Facts, Fault, Sample

UNKNOWN = "unknown"
STATE_BYTES = 500
MOST_SERIES = 5


class ClientKey(NamedTuple):
    """Key of a client: the configured name of its Kafka cluster ("" for the only one), its host, and its client id."""

    cluster: str
    instance: str
    client_id: str


@dataclass(frozen=True, slots=True)
class ClientState:
    """The last report of a client. Instants are Unix seconds, states those of the catalogue.

    ``txn_state`` is None for an idempotent client that is not transactional: it stays in Init forever.
    """

    txn_state: str | None
    txn_since: float
    idempotence_state: str
    idempotence_since: float
    sent: float | None


class _Report(NamedTuple):
    """One document, checked."""

    key: ClientKey
    txn_state: str
    idempotence_state: str
    sent: float | None


class LibrdkafkaReceiver:
    """The clients that report, the latest report of each. Any thread may call any method."""

    def __init__(
        self,
        clusters: Collection[str],
        clients: int = 500,
        expire_after: float = 180.0,
        clock: Clock | None = None,
        budget: Budget | None = None,
    ) -> None:
        """``clusters`` are the names that a client may give; ``clients`` is how many are kept at most."""
        self._clusters = clusters  # a reload may change them
        self._clock = clock or Clock()
        self.budget = budget or Budget()
        self._latest: LatestBySender[ClientKey, ClientState] = LatestBySender(
            clients, expire_after, self._clock, _weight, budget=self.budget
        )

    def take(self, body: bytes) -> None:
        """Accept one client's statistics, as librdkafka writes them or reduced to the needed fields. Raises
        RefusedError.
        """
        self._latest.admit()
        report = _parsed(body)
        if report.key.cluster and report.key.cluster not in self._clusters:
            raise RefusedError(400, "kafka_cluster names no cluster that this agent watches")
        self._latest.put(report.key, lambda before: _next(before, report, self._clock.wall()))

    def clients(self) -> Mapping[ClientKey, ClientState]:
        """The clients that are not expired."""
        return self._latest.latest()

    def left_out(self) -> int:
        """Number of clients that reported recently and are not kept."""
        return self._latest.left_out()


def _weight(key: ClientKey, _: ClientState) -> int:
    """Most bytes of memory that a client takes, with its series in /metrics."""
    return STATE_BYTES + text_bytes(*key) + MOST_SERIES * series_bytes(*key)


def _next(before: ClientState | None, report: _Report, wall: float) -> ClientState:
    """The state of a client after a report. A client that was transactional once stays transactional."""
    transactional = report.txn_state != "init" or (before is not None and before.txn_state is not None)
    txn_state = report.txn_state if transactional else None
    same_txn = before is not None and before.txn_state == txn_state
    same_idempotence = before is not None and before.idempotence_state == report.idempotence_state
    return ClientState(
        txn_state=txn_state,
        txn_since=before.txn_since if before and same_txn else wall,
        idempotence_state=report.idempotence_state,
        idempotence_since=before.idempotence_since if before and same_idempotence else wall,
        sent=report.sent,
    )


_TXN_STATES = {state.replace("_", ""): state for state in RDKAFKA_TXN_STATES}
_IDEMPOTENCE_STATES = {state.replace("_", ""): state for state in RDKAFKA_IDEMPOTENCE_STATES}


def _parsed(body: bytes) -> _Report:
    document = json_object(body)
    eos = document.get("eos")
    if not isinstance(eos, dict):
        raise RefusedError(400, "has no section eos: only idempotent and transactional producers have one")
    key = ClientKey(
        named(document, "kafka_cluster", required=False),
        named(document, "instance", required=False) or UNKNOWN,
        named(document, "client_id", required=True),
    )
    sent = document.get("txmsgs")
    good = isinstance(sent, int) and not isinstance(sent, bool) and 0 <= sent < 2**63
    return _Report(
        key,
        _state(eos, "txn_state", _TXN_STATES),
        _state(eos, "idemp_state", _IDEMPOTENCE_STATES),
        float(sent) if good and sent is not None else None,
    )


def _state(eos: Mapping[str, Any], key: str, known: Mapping[str, str]) -> str:
    value = eos.get(key)
    if not isinstance(value, str):
        raise RefusedError(400, f"eos has no {key}")
    return known.get(value.lower(), UNKNOWN)


class IngestSource(PostedSource):
    """Source ``ingest``, target ``librdkafka``."""

    target = "librdkafka"

    def __init__(
        self, receiver: LibrdkafkaReceiver, only_cluster: Callable[[], str], budget: Budget | None = None
    ) -> None:
        """``budget`` is the memory budget of everything that is posted; None where it is not exposed."""
        self._budget = budget
        self._receiver = receiver
        super().__init__(only_cluster)

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        del deadline, facts
        for key, state in sorted(self._receiver.clients().items()):
            labels = (key.cluster or self._only_cluster(), key.instance, key.client_id)
            if state.txn_state is not None:
                yield catalogue.PRODUCER_TXN_STATE(1, *labels, state.txn_state)
                yield catalogue.PRODUCER_TXN_STATE_SINCE_TIMESTAMP_SECONDS(state.txn_since, *labels, state.txn_state)
            yield catalogue.PRODUCER_IDEMPOTENCE_STATE(1, *labels, state.idempotence_state)
            yield catalogue.PRODUCER_IDEMPOTENCE_STATE_SINCE_TIMESTAMP_SECONDS(
                state.idempotence_since, *labels, state.idempotence_state
            )
            if state.sent is not None:
                yield catalogue.PRODUCER_RECORDS_SENT_TOTAL(state.sent, *labels)
        if self._budget is not None:
            with self._budget.lock:
                kept, dropped = self._budget.kept, dict(self._budget.dropped)
            yield catalogue.INGEST_KEPT_BYTES(float(kept))
            for senders in catalogue.INGEST_SENDERS:
                yield catalogue.INGEST_DROPPED_TOTAL(float(dropped.get(senders, 0)), senders)
        if left_out := self._receiver.left_out():
            yield catalogue.SERIES_DROPPED(left_out, catalogue.PRODUCER_TXN_STATE.name)
