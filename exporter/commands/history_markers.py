"""``history run --markers``: torn transactions, searched for beside the job, a little at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.bounds.text import printable
from exporter.commands.audit_markers import look
from exporter.commands.output import say
from exporter.kafka.client import AskError
from exporter.model import Deadline

if TYPE_CHECKING:
    from exporter.cluster import Cluster
    from exporter.jobs.history.torn import MarkerRecord, TornPlace
    from exporter.transactions.decided.torn import Torn

LEAST_SECONDS = 60.0
"""Shortest time from one comparison to the next: each reads the transaction log an hour back."""
OVERLAP_MS = 5_000
"""Compared twice: a record may appear in the log after a later instant was asked for."""
READ_SECONDS = 600.0
STOP_SECONDS = 0.3
"""Seconds to wait for a comparison that was told to stop."""


class MarkerSearch:
    """Compares the markers of the last ``since`` seconds, then of what completed after; results go to ``folder``."""

    def __init__(self, cluster: Cluster, folder: Path, since: float, interval: float) -> None:
        self._cluster, self._folder, self._since = cluster, folder, since
        self._interval = max(interval, LEAST_SECONDS)
        self._over = threading.Event()

    def compare_once(self, over: threading.Event) -> None:
        """One comparison, which ends early when ``over`` is set: a request that hangs is left behind."""
        thread = threading.Thread(target=self.compare, name="markers", daemon=True)
        thread.start()
        while thread.is_alive() and not over.is_set():
            thread.join(STOP_SECONDS)
        self._over.set()
        thread.join(STOP_SECONDS)

    def compare(self) -> None:
        """One comparison. What it could not do is printed, and kept as a question."""
        from exporter.jobs.history.index import HistoryError  # noqa: PLC0415 -- pyarrow is an extra
        from exporter.jobs.history.torn import MarkerRecord, read_torn, write_torn  # noqa: PLC0415 -- as above

        now_ms = round(time.time() * 1000)
        earliest_ms = now_ms - round(self._since * 1000)
        try:
            known = read_torn(self._folder) or MarkerRecord(earliest_ms, earliest_ms)
            from_ms = max(known.until_ms - OVERLAP_MS, earliest_ms)
            questions = [f"what completed in {_gap(known, from_ms)}"] if from_ms > known.until_ms else []
            report = look(self._cluster, (now_ms - from_ms) / 1000, Deadline.after(READ_SECONDS), self._over.is_set)
            if self._over.is_set():
                return  # the next run compares the same again
            questions += report.judged.open_questions
            torn = map(_place, report.judged.torn)
            record, new = known.added(now_ms, report.judged.judged, torn, questions)
            write_torn(self._folder, record)
        except AskError as error:
            say(f"markers were not compared: {error.fault.detail}")
        except (HistoryError, OSError) as error:
            say(f"markers were not compared: {error}")
        else:
            for place in new:
                say(
                    printable(
                        f"TORN: {place.transactional_id} (producer id {place.producer_id}) was decided {place.decided},"
                        f" and {place.topic}-{place.partition} has {place.found}"
                    )
                )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Compare again and again on a thread of its own, until the block ends."""
        thread = threading.Thread(target=self._run, name="markers", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()

    def _run(self) -> None:
        while not self._over.is_set():
            self.compare()
            self._over.wait(self._interval)


def _gap(known: MarkerRecord, from_ms: int) -> str:
    from exporter.jobs.history.report_page import second_of  # noqa: PLC0415 -- as above

    return f"{second_of(known.until_ms)} to {second_of(from_ms)} was not compared: the job did not run"


def _place(torn: Torn) -> TornPlace:
    from exporter.jobs.history.torn import TornPlace  # noqa: PLC0415 -- as above

    decision, partition = torn.decision, torn.partition
    return TornPlace(
        decision.transactional_id,
        decision.producer_id,
        "COMMIT" if decision.commit else "ABORT",
        decision.completed_ms or decision.prepared_ms,
        partition.topic,
        partition.partition,
        torn.found,
    )
