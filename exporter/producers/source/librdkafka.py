"""librdkafka clients, by the statistics that they post. The source sends no request. A client that stops posting
expires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from exporter import catalogue
from exporter.ingest.budget import Budget
from exporter.ingest.posted_source import PostedSource
from exporter.model import Deadline, Fact, Facts, Fault, Sample
from exporter.producers.librdkafka_posts import LibrdkafkaReceiver


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
