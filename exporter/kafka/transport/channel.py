"""The channel to one broker: a thread that sends one request after another, so that a broker that hangs delays no
other.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import NamedTuple

from exporter.kafka.faults import AskError
from exporter.kafka.transport.connection import Request, Response
from exporter.kafka.transport.link import BrokerLink
from exporter.model import Deadline, Fault, Reason

log = logging.getLogger(__name__)


class Job(NamedTuple):
    """One request, and the callback for its response or fault."""

    request: Request
    deadline: Deadline
    done: Callable[[Response | Fault], None]


class Channel:
    """The thread of one broker's link, and its requests. Thread-safe."""

    def __init__(self, link: BrokerLink) -> None:
        self._link = link
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._start = threading.Lock()
        self._closed = False
        self._connecting = False  # beside the requests; under _start

    @property
    def label(self) -> str:
        """The broker's name in messages. It may change."""
        return self._link.label

    @label.setter
    def label(self, label: str) -> None:
        self._link.label = label

    @property
    def failing(self) -> bool:
        """Return whether the last request was not answered."""
        return self._link.failing

    def submit(self, job: Job) -> None:
        """Queue a request; never blocks. ``done`` is called from the channel's thread, or from here when the channel is
        closed, or tries to connect again to a broker that gave no answer to that.
        """
        with self._start:
            at_once = self._closed_fault() if self._closed else self._link.cause if self._connecting else None
            if at_once is None:
                if self._thread is None:
                    host, port = self._link.address
                    name = f"kafka {host}:{port}"
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
        self._link.abort()

    def join(self, seconds: float) -> None:
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.done(self._serve(job))
            self._connect_beside()
        self._link.drop()
        while not self._jobs.empty():
            late = self._jobs.get_nowait()
            if late is not None:
                late.done(self._closed_fault())

    def _connect_beside(self) -> None:
        """Connect to a broker whose address gives no answer while requests get the cause: it must not delay them."""
        with self._start:
            if not self._link.due_beside or self._closed or not self._jobs.empty():
                return
            self._connecting = True
        try:
            self._link.connect()
        except AskError:
            pass  # noted by the link
        except Exception:
            log.exception("connecting to %s failed", self.label)
            self._link.drop()
        finally:
            with self._start:
                self._connecting = False

    def _serve(self, job: Job) -> Response | Fault:
        """A response or a Fault. The channel is usable for the next job in every case."""
        if self._closed:
            return self._closed_fault()
        if job.deadline.over:
            return Fault(Reason.TIMEOUT, f"{self.label} is busy: its turn came too late")
        try:
            return self._link.ask(job.request, job.deadline)
        except AskError as error:
            return error.fault
        except Exception:
            # A bug here or in the protocol library must not end the thread.
            log.exception("asking %s failed", self.label)
            self._link.drop()
            return Fault(Reason.INTERNAL, f"{self.label}: internal error; the log has the traceback")
