"""Answers that several threads decode at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from kafka.protocol.admin import ListTransactionsRequest, ListTransactionsResponse

from exporter.kafka import connection as module
from exporter.kafka.connection import BrokerConnection
from exporter.kafka.properties.client import Properties
from exporter.model import Deadline


class AnsweringConnection(BrokerConnection):
    """Each request is answered at once."""

    def _send(self, data: bytes, deadline: Deadline, name: str) -> None: ...

    def _frame(self, deadline: Deadline, name: str) -> bytes:
        body = ListTransactionsResponse(version=1, transaction_states=[]).encode(version=1)
        return self._correlation.to_bytes(4, "big") + b"\0" + bytes(body)


def test_the_first_answer_of_a_form_is_decoded_by_one_thread_at_a_time() -> None:
    """Decoders are compiled then, and not for several threads."""
    most, running = 0, 0
    both = threading.Barrier(3)
    decoded = module._decoded

    def slowly(request: module.Request, frame: bytes) -> module.Response:
        nonlocal most, running
        running += 1
        most = max(most, running)
        threading.Event().wait(0.05)
        found = decoded(request, frame)
        running -= 1
        return found

    def ask() -> object:
        properties = Properties.parse({"bootstrap.servers": "k:1"})
        asked = AnsweringConnection("k", ("k", 1), properties, None)
        both.wait(20)
        return asked._exchange(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 1, Deadline.after(20))

    module._COMPILED.discard((ListTransactionsRequest, 1))
    module._decoded, kept = slowly, module._decoded
    try:
        with ThreadPoolExecutor(3) as threads:
            answers = [future.result() for future in [threads.submit(ask) for _ in range(3)]]
    finally:
        module._decoded = kept
    assert most == 1
    assert all(answer.error_code == 0 for answer in answers)  # type: ignore[attr-defined]
    assert (ListTransactionsRequest, 1) in module._COMPILED
