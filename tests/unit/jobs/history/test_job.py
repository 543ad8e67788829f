"""A run to the ends of the log, without Spark."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.jobs.history import job
from exporter.jobs.history.index import HistoryError
from exporter.jobs.history.job import HistoryJob


@pytest.mark.parametrize("stopped", [True, False])
def test_a_run_that_is_stopped_is_no_log_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, stopped: bool) -> None:
    table: Any = SimpleNamespace(last=None, spark=SimpleNamespace(sparkContext=SimpleNamespace(cancelAllJobs=list)))
    access: Any = None
    over = threading.Event()

    class EmptyLogJob(HistoryJob):
        def _batch(self, *_: object) -> bool:
            if stopped:
                over.set()
            return False

    monkeypatch.setattr(job, "LogEnds", lambda _: SimpleNamespace(close=list))
    reading = EmptyLogJob(access, table, (), list)  # type: ignore[arg-type]
    if stopped:
        reading.run_once({0: 7}, over)
    else:
        with pytest.raises(HistoryError, match="1 partitions of the log could not be read to their ends"):
            reading.run_once({0: 7}, over)
