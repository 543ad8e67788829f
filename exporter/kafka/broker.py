"""One broker: a thread that sends one request after another, so that a broker that hangs delays no other.

The connection is opened at the first request, and closed when a request has no answer in time, as Kafka's own clients
do. From then on a broker that took its time to fail is asked again beside the requests, which get the cause at once.
"""

from __future__ import annotations

import logging
import math
import queue
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import NamedTuple

from exporter.kafka.auth.oauth import TokenProvider
from exporter.kafka.connection import BrokerConnection, ConnectionBrokenError, Request, Response
from exporter.kafka.faults import AskError
from exporter.kafka.properties.client import Properties
from exporter.model import Clock, Deadline, Fault, Reason

log = logging.getLogger(__name__)

FIRST_BACKOFF = 0.25
LAST_BACKOFF = 3.0
"""Seconds between attempts after a failure: the first pause, and the longest, which limits attempts after a refusal."""
QUICK_SECONDS = 0.2
"""A request that took longer to fail is repeated beside the requests."""
REPEAT_SECONDS = 3.0
"""Seconds for an answer to the repeated request: as many as a read of ten seconds waits for one (``SHARE``)."""
IDLE = 540.0
"""Seconds after which an idle connection is replaced: brokers close theirs after 600 (connections.max.idle.ms)."""
GRACE = 0.1
"""Seconds after a deadline in which its faults come: brokers keep it themselves, and know the cause."""

Address = tuple[str, int]
Answer = Response | Fault
Check = Callable[[BrokerConnection, Deadline], None]
"""Called with a new connection before its first request. Raises AskError where it must not be used."""


class RequestLimits(NamedTuple):
    """Seconds by the client's properties: to connect, for an idle connection, and for one request."""

    connect: float
    idle: float
    request: float

    @classmethod
    def of(cls, raw: Mapping[str, str]) -> RequestLimits:
        """Read the limits from properties in librdkafka's spelling."""

        def seconds(name: str, default: float) -> float:
            return int(raw.get(name, default * 1000)) / 1000

        return cls(
            seconds("socket.connection.setup.timeout.ms", 10.0),
            seconds("connections.max.idle.ms", IDLE) or math.inf,  # 0 is never (librdkafka's CONFIGURATION.md)
            min(seconds("request.timeout.ms", 30.0), seconds("socket.timeout.ms", 30.0)),
        )


class _Job(NamedTuple):
    request: Request
    deadline: Deadline
    answer: Future[Answer]


class _Outage(NamedTuple):
    """Requests that failed one after the other: the last cause, the first request, and when the next may be sent."""

    cause: Fault
    request: Request
    slow: bool
    failures: int
    retry_at: float  # monotonic


class Broker:
    """At one address, under a label for messages, which may change. Thread-safe."""

    def __init__(
        self,
        label: str,
        address: Address,
        properties: Properties,
        tokens: TokenProvider | None,
        clock: Clock,
        check: Check | None = None,
    ) -> None:
        self.label = label
        self.address = address
        self._properties, self._tokens, self._clock, self._check = properties, tokens, clock, check
        self._limits = RequestLimits.of(properties.raw)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # guards the next three
        self._thread: threading.Thread | None = None
        self._closed = False
        self._repeating = False
        self._outage: _Outage | None = None
        self._connection: BrokerConnection | None = None
        self._opened = self._used = self._throttled_until = 0.0  # monotonic

    @property
    def failing(self) -> bool:
        """Return whether the last request was not answered."""
        return self._outage is not None

    def submit(self, request: Request, deadline: Deadline) -> Future[Answer]:
        """Queue a request; never blocks. Its answer is a fault at once when the broker is closed or asked again after a
        failure.
        """
        job = _Job(request, deadline, Future())
        with self._lock:
            outage = self._outage if self._repeating else None
            if self._closed:
                job.answer.set_result(self._closed_fault())
            elif outage is not None:
                job.answer.set_result(outage.cause)
            else:
                if self._thread is None:
                    name = f"kafka {self.address[0]}:{self.address[1]}"
                    self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                    self._thread.start()
                self._jobs.put(job)
        return job.answer

    def stop(self) -> None:
        """End the thread and its pending request. Does not wait: see ``join``."""
        with self._lock:
            self._closed = True
            self._jobs.put(None)
        if (connection := self._connection) is not None:
            connection.abort()

    def join(self, seconds: float) -> None:
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    # --- The thread ---

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.answer.set_result(self._serve(job))
            self._repeat()
        self._drop()
        while not self._jobs.empty():
            if (late := self._jobs.get_nowait()) is not None:
                late.answer.set_result(self._closed_fault())

    def _serve(self, job: _Job) -> Answer:
        now, outage = self._clock.monotonic(), self._outage
        if self._closed:
            return self._closed_fault()
        if job.deadline.over:
            return Fault(Reason.TIMEOUT, f"{self.label} is busy: its turn came too late")
        if self._throttled_until - now > job.deadline.remaining():
            text = f"{self.label} holds us back by a quota: raise request_percentage for this client or user"
            return Fault(Reason.TIMEOUT, text)
        if outage is not None and (outage.slow or now < outage.retry_at):
            return outage.cause
        return self._attempt(job.request, job.deadline, self._limits.request)

    def _repeat(self) -> None:
        """Send the request again that was not answered, on a new connection, while others get the cause of that."""
        with self._lock:
            outage = self._outage
            if outage is None or not outage.slow or self._clock.monotonic() < outage.retry_at:
                return
            if self._closed or not self._jobs.empty():
                return
            self._repeating = True
        try:
            self._attempt(outage.request, Deadline.after(self._limits.connect + REPEAT_SECONDS), REPEAT_SECONDS)
        finally:
            with self._lock:
                self._repeating = False

    def _attempt(self, request: Request, deadline: Deadline, seconds: float) -> Answer:
        """The answer within so many seconds after the connection was opened. The next request is possible in every
        case.
        """
        began = self._clock.monotonic()
        try:
            response = self._ask(request, deadline, seconds)
        except AskError as error:
            if self._connection is None or error.fault.reason is not Reason.UNSUPPORTED:
                self._drop()
                self._note_failure(error.fault, request, began)
            return error.fault
        except Exception:
            # A bug here or in the protocol library must not end the thread.
            log.exception("asking %s failed", self.label)
            self._drop()
            return Fault(Reason.INTERNAL, f"{self.label}: internal error; the log has the traceback")
        self._outage = None
        return response

    def _note_failure(self, cause: Fault, request: Request, began: float) -> None:
        now, before = self._clock.monotonic(), self._outage
        failures, slow = (0 if before is None else before.failures), now - began > QUICK_SECONDS
        # The first repetition beside the requests is in nobody's way, and may find that it was a pause.
        pause = 0.0 if slow and before is None else min(LAST_BACKOFF, FIRST_BACKOFF * 2**failures)
        retry_at = now + pause * random.uniform(0.8, 1.2)  # noqa: S311 -- no secret: spreads load
        self._outage = _Outage(
            cause, request if before is None else before.request, slow, min(failures + 1, 10), retry_at
        )

    def _ask(self, request: Request, deadline: Deadline, seconds: float) -> Response:
        kept = self._usable()
        try:
            response = (kept or self._open(deadline)).call(request, deadline.within(seconds))
        except ConnectionBrokenError:
            # All requests only read, so a repetition is safe: the broker may have closed the idle connection.
            if kept is None or deadline.over:
                raise
            response = self._open(deadline).call(request, deadline.within(seconds))
        self._used = self._clock.monotonic()
        # The broker reads nothing from us for that long (KIP-219).
        self._throttled_until = self._used + getattr(response, "throttle_time_ms", 0) / 1000
        return response

    def _usable(self) -> BrokerConnection | None:
        connection, now = self._connection, self._clock.monotonic()
        if connection is not None:
            session = connection.session_seconds
            if now - self._used <= self._limits.idle and (session is None or now - self._opened <= session):
                return connection
        self._drop()
        return None

    def _open(self, deadline: Deadline) -> BrokerConnection:
        self._drop()
        deadline = deadline.within(self._limits.connect)
        self._connection = connection = BrokerConnection(self.label, self.address, self._properties, self._tokens)
        if self._closed:  # after the assignment: ``stop`` ends what it finds there
            self._drop()
            raise AskError(self._closed_fault())
        try:
            connection.open(deadline)
            if self._check is not None:
                self._check(connection, deadline)
        except AskError:
            self._drop()
            raise
        self._opened = self._used = self._clock.monotonic()
        return connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _closed_fault(self) -> Fault:
        return Fault(Reason.UNREACHABLE, f"{self.label}: the connection was closed on our side")


def ask_in_parallel(requests: Sequence[tuple[Broker, Request]], deadline: Deadline) -> list[Answer]:
    """Send requests to brokers, each its own. Returns the answers in the same order, by the deadline."""
    answers = [broker.submit(request, deadline) for broker, request in requests]
    wait(answers, deadline.remaining() + GRACE)
    return [
        answer.result() if answer.done() else Fault(Reason.TIMEOUT, f"{broker.label} did not answer in time")
        for answer, (broker, _) in zip(answers, requests, strict=True)
    ]
