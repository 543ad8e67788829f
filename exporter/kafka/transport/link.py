"""The link to one broker: a connection that is opened at the first request, and again when it is not usable."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from exporter.kafka.auth.oauth import TokenProvider
from exporter.kafka.faults import AskError
from exporter.kafka.properties.client import Properties
from exporter.kafka.transport.attempts import Attempts
from exporter.kafka.transport.connection import BrokerConnection, ConnectionBrokenError, Request, Response
from exporter.kafka.transport.patience import Patience
from exporter.model import Clock, Deadline, Fault, Reason

GIVE_UP = 30.0
"""Seconds after which a connection with an unanswered request is replaced."""

IDLE = 540.0
"""Seconds after which an idle connection is replaced: brokers close theirs after 600 (connections.max.idle.ms)."""

ConnectionCheck = Callable[[BrokerConnection, Deadline], None]
"""Called with a new connection before its first request. Raises AskError where it must not be used."""


class LinkLimits(NamedTuple):
    """Seconds by the client's properties: to connect, for an idle connection, and for one request."""

    connect: float
    idle: float
    request: float

    @classmethod
    def of(cls, raw: Mapping[str, str]) -> LinkLimits:
        """Read the limits from properties in librdkafka's spelling."""

        def seconds(name: str, default: float) -> float:
            return int(raw.get(name, default * 1000)) / 1000

        return cls(
            seconds("socket.connection.setup.timeout.ms", 10.0),
            seconds("connections.max.idle.ms", IDLE) or math.inf,  # 0 is never (librdkafka's CONFIGURATION.md)
            min(seconds("request.timeout.ms", 30.0), seconds("socket.timeout.ms", 30.0)),
        )


class BrokerLink:
    """To one address, under a label for messages. For one thread; ``abort`` may come from any."""

    def __init__(
        self,
        label: str,
        address: tuple[str, int],
        properties: Properties,
        tokens: TokenProvider | None,
        clock: Clock,
        check: ConnectionCheck | None = None,
    ) -> None:
        self.label = label
        self.address = address
        self._properties = properties
        self._tokens = tokens
        self._clock = clock
        self._check = check
        self._limits = LinkLimits.of(properties.raw)
        self._connection: BrokerConnection | None = None
        self._opened = 0.0
        self._used = 0.0
        self._attempts = Attempts()
        self._patience = Patience()
        self._throttled_until = 0.0

    @property
    def failing(self) -> bool:
        """Return whether the last request was not answered."""
        return self._patience.late

    @property
    def cause(self) -> Fault | None:
        """Why the last attempts to connect failed; None after one that did not."""
        return self._attempts.cause

    @property
    def due_beside(self) -> bool:
        """Return whether to connect while no request waits: the address gives no answer, which must not delay one."""
        return self._attempts.due_beside(self._clock.monotonic())

    def connect(self) -> None:
        """Connect. Raises AskError, after which requests get this cause."""
        self._open(Deadline.after(self._limits.connect))

    def ask(self, request: Request, deadline: Deadline) -> Response:
        """Send a request and return its answer. Raises AskError."""
        deadline = deadline.within(self._limits.request)
        kept = self._still_good()
        try:
            return self._call(self._connect(deadline) if kept is None else kept, request, deadline)
        except ConnectionBrokenError:
            # All requests only read, so a repetition is safe: the broker may have closed the idle connection.
            if kept is None or deadline.over:
                raise
            return self._call(self._connect(deadline), request, deadline)

    def _call(self, connection: BrokerConnection, request: Request, deadline: Deadline) -> Response:
        patience, kind, began = self._patience, type(request).__name__, self._clock.monotonic()
        try:
            if connection.owes:
                connection.settle(deadline.within(patience.for_owed(began)))
                began = self._clock.monotonic()
                patience.arrived(began)
            response = connection.call(request, patience.for_request(deadline))
        except AskError as error:
            if error.fault.reason is Reason.UNSUPPORTED:
                raise
            throttled = error.fault.reason is Reason.TIMEOUT and self._clock.monotonic() < self._throttled_until
            if error.fault.reason is not Reason.TIMEOUT or isinstance(error, ConnectionBrokenError):
                patience.failed()
                self.drop()
            else:
                patience.missed(kind, began, late=not throttled)
            if throttled:
                text = f"{self.label} holds us back by a quota: raise request_percentage for this client or user"
                raise AskError(Fault(Reason.TIMEOUT, text)) from None
            raise
        patience.answered(kind)
        self._used = self._clock.monotonic()
        # The broker reads nothing from us for that long (KIP-219).
        self._throttled_until = self._used + getattr(response, "throttle_time_ms", 0) / 1000
        return response

    def _still_good(self) -> BrokerConnection | None:
        connection, now = self._connection, self._clock.monotonic()
        if connection is None:
            return None
        session = connection.session_seconds
        stuck = connection.owes and self._patience.outstanding(now) > GIVE_UP
        if stuck:
            self._patience.arrived(now)
        if stuck or now - self._used > self._limits.idle or (session is not None and now - self._opened > session):
            self.drop()
            return None
        return connection

    def _connect(self, deadline: Deadline) -> BrokerConnection:
        if (cause := self._attempts.refusal(self._clock.monotonic())) is not None:
            raise AskError(cause)
        return self._open(self._patience.for_request(deadline).within(self._limits.connect))

    def _open(self, deadline: Deadline) -> BrokerConnection:
        began = self._clock.monotonic()
        connection = BrokerConnection(self.label, self.address, self._properties, self._tokens)
        self._connection = connection  # for stop()
        try:
            connection.open(deadline)
            if self._check is not None:
                self._check(connection, deadline)
        except AskError as error:
            self.drop()
            self._patience.failed()
            self._attempts.failed(error.fault, began, self._clock.monotonic())
            raise
        self._attempts = Attempts()
        self._opened = self._used = self._clock.monotonic()
        return connection

    def abort(self) -> None:
        """End a pending request; from any thread."""
        connection = self._connection
        if connection is not None:
            connection.abort()

    def drop(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._patience.dropped()
