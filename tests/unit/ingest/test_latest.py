"""The latest document of each sender."""

from __future__ import annotations

import contextlib
import gc

import pytest

from exporter.ingest.budget import Budget
from exporter.ingest.latest import MOST_NETWORKS, NETWORK_BURST, RESERVED, TOTAL_BURST, LatestBySender, RefusedError
from exporter.model import Clock


def test_senders_of_documents_that_are_too_large_leave_nothing_behind() -> None:
    latest = LatestBySender[int, int](10, 60.0, Clock(), lambda *_: 5000, budget=Budget(4000))

    def refused(senders: range) -> int:
        for sender in senders:
            with pytest.raises(RefusedError, match=r"ingest\.memory"):
                latest.put(sender, lambda _: 1)
        gc.collect()  # what other tests left behind
        return sum(type(found).__name__ == "_TokenBucket" for found in gc.get_objects())

    assert refused(range(10)) == refused(range(10, 100))


def test_one_network_may_take_all_but_what_is_reserved_for_others() -> None:
    latest = LatestBySender[int, int](10, 60.0, Clock(lambda: 1000.0), lambda *_: 1)

    def admitted(client: str, documents: int) -> int:
        """How many documents are admitted before the first that is not."""
        for number in range(documents):
            try:
                latest.admit(client)
            except RefusedError:
                return number
        return documents

    assert admitted("10.0.0.1", 2000) == TOTAL_BURST - RESERVED
    assert admitted("2001:db8::1", 100) + admitted("2001:db8::2", 2000) == NETWORK_BURST
    assert admitted("10.0.0.2", 2000) == NETWORK_BURST
    assert admitted("10.0.0.1", 1) == 0


def test_the_rates_of_a_bounded_number_of_networks_are_kept() -> None:
    latest = LatestBySender[int, int](10, 60.0, Clock(lambda: 1000.0), lambda *_: 1)
    for network in range(1100):
        with contextlib.suppress(RefusedError):
            latest.admit(f"10.0.{network // 250}.{network % 250}")
    assert len(latest._networks) == MOST_NETWORKS
