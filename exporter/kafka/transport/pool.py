"""The channels to the brokers of one cluster: one for each address, and requests to many of them in parallel."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from exporter.kafka.properties.client import Properties
from exporter.kafka.transport.channel import Channel, Job
from exporter.kafka.transport.connection import Request, Response
from exporter.kafka.transport.link import BrokerLink, ConnectionCheck
from exporter.model import Clock, Deadline, Fault, Reason

CLOSE_SECONDS = 0.8

Address = tuple[str, int]


class ChannelPool:
    """Thread-safe. A channel is created at the first request to its address."""

    def __init__(self, properties: Properties, clock: Clock, check: ConnectionCheck | None = None) -> None:
        self._properties = properties
        self._clock = clock
        self._check = check
        self._tokens = properties.token_provider()
        self._lock = threading.Lock()
        self._channels: dict[Address, Channel] = {}
        self._closed = False

    @property
    def closed(self) -> bool:
        """Return whether ``close`` was called."""
        return self._closed

    def failing(self) -> set[Address]:
        """The addresses that did not answer the last request."""
        with self._lock:
            return {address for address, channel in self._channels.items() if channel.failing}

    def keep(self, labels: Mapping[Address, str]) -> None:
        """Close all channels but those to these addresses, which get these labels."""
        with self._lock:
            left = [self._channels.pop(address) for address in list(self._channels) if address not in labels]
            for address, channel in self._channels.items():
                channel.label = labels[address]
        for channel in left:
            channel.stop()

    def submit(self, requests: Sequence[tuple[Address, str, Request]], deadline: Deadline) -> list[Response | Fault]:
        """Send requests in parallel, each with address and label. Returns the answers in the same order.

        A request without a response by the deadline has a Fault.
        """
        gathered = _Gathered(len(requests))
        for number, (address, label, request) in enumerate(requests):
            job = Job(request, deadline, lambda answer, number=number: gathered.put(number, answer))  # type: ignore[misc]
            self._channel(address, label).submit(job)
        answers = gathered.wait(deadline)
        return [
            answers.get(number, Fault(Reason.TIMEOUT, f"{label} did not answer in time"))
            for number, (_, label, _) in enumerate(requests)
        ]

    def close(self) -> None:
        """Close all connections; pending requests get a Fault. Takes less than a second."""
        with self._lock:
            self._closed = True
            channels = list(self._channels.values())
        for channel in channels:
            channel.stop()
        until = time.monotonic() + CLOSE_SECONDS
        for channel in channels:
            channel.join(max(0.0, until - time.monotonic()))

    def _channel(self, address: Address, label: str) -> Channel:
        with self._lock:
            channel = self._channels.get(address)
            if channel is None:
                link = BrokerLink(label, address, self._properties, self._tokens, self._clock, self._check)
                channel = Channel(link)
                self._channels[address] = channel
                if self._closed:
                    channel.stop()
            return channel


class _Gathered:
    """Collects answers by number from the channels' threads."""

    def __init__(self, count: int) -> None:
        self._missing = count
        self._answers: dict[int, Response | Fault] = {}
        self._arrived = threading.Condition()

    def put(self, number: int, answer: Response | Fault) -> None:
        with self._arrived:
            if number not in self._answers:
                self._answers[number] = answer
                self._missing -= 1
                if not self._missing:
                    self._arrived.notify()

    def wait(self, deadline: Deadline) -> dict[int, Response | Fault]:
        """The answers by the deadline, plus a short grace: the channels keep the deadline themselves, and their faults
        have the cause.
        """
        with self._arrived:
            self._arrived.wait_for(lambda: not self._missing, deadline.remaining() + 0.1)
            return dict(self._answers)
