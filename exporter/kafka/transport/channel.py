"""The channel to one broker: a thread that sends one request after another, so that a broker that hangs delays no
other.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import NamedTuple

from exporter.kafka.auth.oauth import TokenProvider
from exporter.kafka.faults import AskError
from exporter.kafka.properties.client import Properties
from exporter.kafka.transport.attempts import Attempts
from exporter.kafka.transport.connection import BrokerConnection, ConnectionBrokenError, Request, Response
from exporter.kafka.transport.patience import Patience
from exporter.model import Clock, Deadline, Fault, Reason

log = logging.getLogger(__name__)

GIVE_UP = 30.0
"""Seconds after which a connection with an unanswered request is replaced."""

IDLE = 540.0
"""Seconds after which an idle connection is replaced: brokers close theirs after 600 (connections.max.idle.ms)."""


ConnectionCheck = Callable[[BrokerConnection, Deadline], None]
"""Called with a new connection before its first request. Raises AskError where it must not be used."""


class Job(NamedTuple):
    """One request, and the callback for its response or fault."""

    request: Request
    deadline: Deadline
    done: Callable[[Response | Fault], None]


class Channel:
    """To one address, under a label for messages. Thread-safe. Connects at the first request."""

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
        self._setup = int(properties.raw.get("socket.connection.setup.timeout.ms", 10_000)) / 1000
        self._idle = int(properties.raw.get("connections.max.idle.ms", IDLE * 1000)) / 1000
        self._limit = min(
            int(properties.raw.get(name, 30_000)) / 1000 for name in ("request.timeout.ms", "socket.timeout.ms")
        )
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._start = threading.Lock()
        self._closed = False
        # used by the thread only:
        self._connection: BrokerConnection | None = None
        self._opened = 0.0
        self._used = 0.0
        self._attempts = Attempts()
        self._patience = Patience()
        self._throttled_until = 0.0
        self._connecting = False  # beside the requests; under _start

    @property
    def failing(self) -> bool:
        """Return whether the last request was not answered."""
        return self._patience.late

    def submit(self, job: Job) -> None:
        """Queue a request; never blocks. ``done`` is called from the channel's thread, or from here when the channel is
        closed, or tries to connect again to a broker that gave no answer to that.
        """
        with self._start:
            at_once = self._closed_fault() if self._closed else self._attempts.cause if self._connecting else None
            if at_once is None:
                if self._thread is None:
                    name = f"kafka {self.address[0]}:{self.address[1]}"
                    self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                    self._thread.start()
                self._jobs.put(job)
        if at_once is not None:
            job.done(at_once)

    def _closed_fault(self) -> Fault:
        return Fault(Reason.UNREACHABLE, f"{self.label}: the connection was closed on our side")

    def stop(self) -> None:
        """End the thread and its pending request. Does not wait: see ``join``."""
        with self._start:
            self._closed = True
            self._jobs.put(None)
        connection = self._connection
        if connection is not None:
            connection.abort()

    def join(self, seconds: float) -> None:
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.done(self._serve(job))
            self._connect_beside()
        self._drop()
        while not self._jobs.empty():
            late = self._jobs.get_nowait()
            if late is not None:
                late.done(self._closed_fault())

    def _connect_beside(self) -> None:
        """Connect to a broker whose address gives no answer while requests get the cause: it must not delay them."""
        with self._start:
            due = self._attempts.due_beside(self._clock.monotonic())
            if not due or self._closed or not self._jobs.empty():
                return
            self._connecting = True
        try:
            self._open(Deadline.after(self._setup))
        except AskError:
            pass  # noted by ``_open``
        except Exception:
            log.exception("connecting to %s failed", self.label)
            self._drop()
        finally:
            with self._start:
                self._connecting = False

    def _serve(self, job: Job) -> Response | Fault:
        """A response or a Fault. The channel is usable for the next job in every case."""
        deadline = job.deadline.within(self._limit)
        if self._closed:
            return self._closed_fault()
        if deadline.over:
            return Fault(Reason.TIMEOUT, f"{self.label} is busy: its turn came too late")
        try:
            return self._ask(job.request, deadline)
        except AskError as error:
            return error.fault
        except Exception:
            # A bug here or in the protocol library must not end the thread.
            log.exception("asking %s failed", self.label)
            self._drop()
            return Fault(Reason.INTERNAL, f"{self.label}: internal error; the log has the traceback")

    def _ask(self, request: Request, deadline: Deadline) -> Response:
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
                self._drop()
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
        if stuck or now - self._used > self._idle or (session is not None and now - self._opened > session):
            self._drop()
            return None
        return connection

    def _connect(self, deadline: Deadline) -> BrokerConnection:
        if (cause := self._attempts.refusal(self._clock.monotonic())) is not None:
            raise AskError(cause)
        return self._open(self._patience.for_request(deadline).within(self._setup))

    def _open(self, deadline: Deadline) -> BrokerConnection:
        began = self._clock.monotonic()
        connection = BrokerConnection(self.label, self.address, self._properties, self._tokens)
        self._connection = connection  # for stop()
        try:
            connection.open(deadline)
            if self._check is not None:
                self._check(connection, deadline)
        except AskError as error:
            self._drop()
            self._patience.failed()
            self._attempts.failed(error.fault, began, self._clock.monotonic())
            raise
        self._attempts = Attempts()
        self._opened = self._used = self._clock.monotonic()
        return connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._patience.dropped()
