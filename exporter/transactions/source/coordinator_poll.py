"""The open transactions by the coordinators: ListTransactions and DescribeTransactions, at intervals."""

from __future__ import annotations

from exporter.cluster import Cluster
from exporter.kafka.client import AskError
from exporter.kafka.requests.transactions import ask_coordinators
from exporter.model import Deadline, Fault
from exporter.transactions.clock import CoordinatorClock
from exporter.transactions.facts import CoordinatorTime, OpenTransactions

CONFIRM_INTERVAL = 30.0
"""Seconds between two polls while the tail of the log has the open transactions."""
WHOLE_INTERVAL = 300.0
"""Seconds between two polls that describe every open transaction, also those that were described lately."""


class CoordinatorPoll:
    """Polls the coordinators of one cluster. ``faults`` are those of the last poll."""

    def __init__(self, cluster: Cluster, origin: str) -> None:
        """``origin`` is the name of the source, as the fact of the open transactions has it."""
        self._cluster = cluster
        self._origin = origin
        self.faults: tuple[Fault, ...] = ()
        self.opened: OpenTransactions | None = None
        """The open transactions; None without an answer, or where the last poll left some out."""
        self.elsewhere = False
        """Whether transactions were listed without a transaction log, and none was seen since that would be in one."""
        self._polled_at: float | None = None
        self._is_part = False  # whether the last poll left out what was described before
        self._describable: frozenset[str] = frozenset()  # open ids that their coordinators described lately
        self._whole_at = float("-inf")
        self._clock = CoordinatorClock()

    def coordinator_time(self, now: float) -> CoordinatorTime:
        """The coordinators' clock beside our monotonic one, by the starts of transactions; ``now`` is monotonic."""
        return self._clock.time(now)

    def read(self, deadline: Deadline, interval: float, slack: float, *, logged: bool) -> None:
        """Poll when ``interval`` has passed, less half of ``slack``.

        While the log has the open transactions, a poll now and then only checks that the coordinators answer. While an
        answer is missing they are polled at every interval, so that the recovery is seen at once.
        """
        seldom = logged and not self.faults
        if self._is_part and not seldom:
            self._polled_at = None
        now = self._cluster.clock.monotonic()
        every = CONFIRM_INTERVAL if seldom else interval
        if self._polled_at is None or now - self._polled_at >= every - slack / 2:
            self._polled_at = now
            self._poll(deadline, now, whole=not seldom)

    def _poll(self, deadline: Deadline, now: float, *, whole: bool) -> None:
        """Ask the coordinators. If not ``whole``, ids that were described lately are left out."""
        if whole or now - self._whole_at >= WHOLE_INTERVAL:
            self._describable = frozenset()
        grouping, known = self._cluster.grouping, self._describable
        self._is_part = bool(known)
        try:
            asked = ask_coordinators(
                self._cluster.client,
                deadline,
                lambda transactional_id: grouping.of(transactional_id).name,
                known=known,
            )
        except AskError as error:
            self.opened, self.faults, self._describable = None, (error.fault,), frozenset()
            return
        self.elsewhere = asked.elsewhere or (self.elsewhere and not asked.ids)
        if not known:
            self._whole_at = now
        listed = {transactional_id for transactional_id, _ in asked.ids}
        self._describable = (known & listed) | {opened.transactional_id for opened in asked.transactions}
        received = self._cluster.clock.monotonic()
        for transaction in asked.transactions:
            if transaction.started is not None:
                self._clock.stamped(transaction.started, received, live=False)
        missing = tuple(fault.detail for fault in asked.faults)
        polled = OpenTransactions(self._origin, asked.transactions, not missing, missing, now)
        self.opened = None if self._is_part else polled
        self.faults = asked.faults
