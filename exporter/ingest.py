"""Statistics that librdkafka's clients hand in: checked, limited, and kept until the client falls silent.

librdkafka tells the state of its transactional and idempotent producer in the ``eos`` section (STATISTICS.md). Its
``txn_stateage`` is the uptime of the machine (``ts_txn_state`` in rdkafka_int.h is never assigned), so ages are ours:
since when a client is in the state in which it was seen last, without having been seen in another.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from exporter.catalogue import RDKAFKA_IDEMPOTENCE_STATES, RDKAFKA_TXN_STATES
from exporter.model import Clock

LONGEST_NAME = 200
UNKNOWN = "unknown"

RATE = 20.0
BURST = 40.0
"""Statistics a second, and at once, from one client. statistics.interval.ms is 5000 by custom."""

TOTAL_RATE = 500.0
TOTAL_BURST = 1000.0


class RefusedError(Exception):
    """Statistics that are not taken: an HTTP status and what is wrong with them."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ClientKey(NamedTuple):
    """One client: the Kafka cluster as the agent calls it ("" for the only one), where it runs, what it is called."""

    cluster: str
    instance: str
    client_id: str


@dataclass(frozen=True, slots=True)
class ClientState:
    """What a client said last. Instants are Unix seconds; ``seen`` is monotonic. States are those of the catalogue.

    ``txn_state`` is None for an idempotent client that is not transactional: it stays in Init forever.
    """

    txn_state: str | None
    txn_since: float
    idempotence_state: str
    idempotence_since: float
    sent: float | None
    seen: float


class _Report(NamedTuple):
    """One document, checked."""

    key: ClientKey
    txn_state: str
    idempotence_state: str
    sent: float | None


class _Bucket:
    """So many a second, and a burst at once."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._at = burst, 0.0

    def take(self, now: float) -> bool:
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Inbox:
    """The clients that report, the latest report of each. Any thread may call any method."""

    def __init__(
        self, clusters: Collection[str], clients: int = 500, expire_after: float = 180.0, clock: Clock | None = None
    ) -> None:
        """``clusters`` are the names that a client may give; ``clients`` is how many are kept at most."""
        self._clusters = frozenset(clusters)
        self._most = clients
        self._expire_after = expire_after
        self._clock = clock or Clock()
        self._lock = threading.Lock()  # guards the four below
        self._clients: dict[ClientKey, ClientState] = {}
        self._buckets: dict[ClientKey, _Bucket] = {}
        self._total = _Bucket(TOTAL_RATE, TOTAL_BURST)
        self._left_out: dict[ClientKey, float] = {}

    def take(self, body: bytes) -> None:
        """Take one client's statistics, as librdkafka writes them or cut to what matters. Raises RefusedError."""
        now = self._clock.monotonic()
        with self._lock:
            if not self._total.take(now):
                raise RefusedError(429, "too many statistics from all clients together")
        report = _parsed(body)
        if report.key.cluster and report.key.cluster not in self._clusters:
            raise RefusedError(400, "kafka_cluster names no cluster that this agent watches")
        with self._lock:
            self._forget_silent(now)
            if report.key not in self._clients and len(self._clients) >= self._most:
                if len(self._left_out) < self._most:
                    self._left_out[report.key] = now
                raise RefusedError(429, "more clients report than ingest.clients allows")
            self._left_out.pop(report.key, None)
            if not self._buckets.setdefault(report.key, _Bucket(RATE, BURST)).take(now):
                raise RefusedError(429, f"more than {RATE:.0f} statistics a second from this client")
            self._clients[report.key] = _next(self._clients.get(report.key), report, now, self._clock.wall())

    def clients(self) -> Mapping[ClientKey, ClientState]:
        """Those that are not silent."""
        with self._lock:
            self._forget_silent(self._clock.monotonic())
            return dict(self._clients)

    def left_out(self) -> int:
        """How many clients reported lately and are not kept."""
        with self._lock:
            self._forget_silent(self._clock.monotonic())
            return len(self._left_out)

    def _forget_silent(self, now: float) -> None:
        oldest = now - self._expire_after
        for key in [key for key, state in self._clients.items() if state.seen < oldest]:
            del self._clients[key]
            del self._buckets[key]
        for key in [key for key, seen in self._left_out.items() if seen < oldest]:
            del self._left_out[key]


def _next(before: ClientState | None, report: _Report, now: float, wall: float) -> ClientState:
    """The state of a client after a report. A transactional client that was once seen stays one."""
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
        seen=now,
    )


_TXN_STATES = {state.replace("_", ""): state for state in RDKAFKA_TXN_STATES}
_IDEMPOTENCE_STATES = {state.replace("_", ""): state for state in RDKAFKA_IDEMPOTENCE_STATES}


def _parsed(body: bytes) -> _Report:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError(400, "is no JSON") from None
    if not isinstance(document, dict):
        raise RefusedError(400, "is no JSON object")
    eos = document.get("eos")
    if not isinstance(eos, dict):
        raise RefusedError(400, "has no section eos: only idempotent and transactional producers have one")
    key = ClientKey(
        _name(document, "kafka_cluster", required=False),
        _name(document, "instance", required=False) or UNKNOWN,
        _name(document, "client_id", required=True),
    )
    sent = document.get("txmsgs")
    good = isinstance(sent, int) and not isinstance(sent, bool) and 0 <= sent < 2**63
    return _Report(
        key,
        _state(eos, "txn_state", _TXN_STATES),
        _state(eos, "idemp_state", _IDEMPOTENCE_STATES),
        float(sent) if good and sent is not None else None,
    )


def _name(document: Mapping[str, Any], key: str, *, required: bool) -> str:
    value = document.get(key, "")
    if not isinstance(value, str) or len(value) > LONGEST_NAME or not value.isprintable() or (required and not value):
        raise RefusedError(400, f"{key} must be a text of 1 to {LONGEST_NAME} printable characters")
    return value


def _state(eos: Mapping[str, Any], key: str, known: Mapping[str, str]) -> str:
    value = eos.get(key)
    if not isinstance(value, str):
        raise RefusedError(400, f"eos has no {key}")
    return known.get(value.lower(), UNKNOWN)
