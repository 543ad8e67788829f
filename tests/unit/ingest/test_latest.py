"""The latest document of each sender."""

from __future__ import annotations

import gc

import pytest

from exporter.ingest.budget import Budget
from exporter.ingest.latest import LatestBySender, RefusedError
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
