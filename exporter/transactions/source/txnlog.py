"""The transaction log: a live tail of ``__transaction_state``, the only data of Kafka on how transactions end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from exporter import catalogue
from exporter.cluster import Cluster, KafkaSource
from exporter.kafka.client import AskError
from exporter.kafka.log.tail import Tail, TailReader
from exporter.kafka.properties.client import Properties
from exporter.lso.facts import Stalls
from exporter.model import Deadline, Fact, Facts, Fault, IgnoredSource, Notes, Reason, Sample, SampleBatch
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.counting.aggregates import Aggregates
from exporter.transactions.facts import CoordinatorTime, LogRefused, TransactionsElsewhere
from exporter.transactions.source.log_facts import LogFacts
from exporter.transactions.source.log_partitions import CHECK_INTERVAL, LogPartitions
from exporter.transactions.source.log_seed import LogSeed
from exporter.transactions.source.saved_log import SavedLog
from exporter.transactions.transaction import Transaction

PACE = 1.0
"""Seconds from one read to the next: a settled outcome is on /metrics within two of them."""
HURRIED_PACE = 0.02
"""The same while records wait: a read takes a little over PACE then, and the rest of a second would be lost."""
LEAST_PACE = 0.5
"""The same where an abort gets its outcome by then: it is read when that is due, and not sooner than this."""
DUE_SECONDS = 0.05
"""How long records are waited for where a log end settles aborts."""
SEED_SECONDS = 2.0
"""Share of a read for the state at the start."""
REFUSED = frozenset({Reason.AUTHORIZATION, Reason.UNSUPPORTED})
"""Reasons that stay until somebody changes the cluster."""
NO_LOG = "the brokers have transactions and no topic __transaction_state: there are no outcomes"
NOT_GRANTED = "the cluster refuses the transaction log: outcomes need READ on Topic:__transaction_state"


class TxnlogSource(KafkaSource):
    """Source ``txnlog`` of one cluster: outcomes of transactions from the log, while READ on it is granted."""

    name = "txnlog"

    def __init__(
        self,
        cluster: Cluster,
        settings: TransactionsConfig,
        open_tail: Callable[[Properties, str], TailReader] = Tail,
        timeout: float = 10.0,
    ) -> None:
        super().__init__(cluster, CHECK_INTERVAL, timeout)
        self.pace = PACE
        self._aggregates = Aggregates(cluster.grouping, settings)
        self._saved = SavedLog(cluster, self._aggregates, self.name)
        self._partitions = LogPartitions(cluster, self._aggregates, self._saved, open_tail)
        self._log = self._partitions.log
        self._tail = self._partitions.tail
        self._seed = LogSeed(cluster, self._aggregates)
        self._facts = LogFacts(self.name, cluster, self._aggregates, self._partitions, self._seed)

    @property
    def unsettled(self) -> tuple[Transaction, ...]:
        """The aborts that were read and may still be fences: log time decides it (``transactions.outcome``)."""
        waits = (entry.pending for machine in self._log.machines.values() for entry in machine.unsettled)
        return tuple(
            transaction._replace(outcome=None)
            for transaction in waits
            if transaction is not None and transaction.application != catalogue.CANARY
        )

    def close(self) -> None:
        self._save(whole=True)
        self._tail.close()

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | SampleBatch | Fault | Fact]:
        refused = False
        for item in self._read(deadline, facts):
            if isinstance(item, Fault) and item.reason in REFUSED:
                refused = True
            yield item
        if refused and not self._partitions.readable:
            yield LogRefused()
            yield IgnoredSource(NOT_GRANTED)
        elif self._elsewhere(facts):
            yield LogRefused()
            yield IgnoredSource(NO_LOG)

    def _elsewhere(self, facts: Facts) -> bool:
        """Return whether there is no log, and the brokers have transactions nevertheless."""
        return self._partitions.empty and facts.get(TransactionsElsewhere) is not None

    def _read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | SampleBatch | Fault | Fact]:
        self._facts.note_stalls(facts.get(Stalls))
        partitions, log, clock = self._partitions, self._log, self._cluster.clock
        began = clock.monotonic()
        try:
            if partitions.due:
                partitions.check(deadline)
                self._forget_lost()
                if partitions.seen:
                    until = deadline.within(SEED_SECONDS)
                    self._seed.read(log, partitions.seen, self._facts.log_now, until, is_new=partitions.is_new)
        except AskError as error:
            partitions.failed(error.fault)
        yield from partitions.faults
        asked_at = clock.monotonic()
        log_ends = partitions.log_ends(log.due(asked_at), deadline)
        # Aborts that are due wait for this read, and for no record.
        yield from self._tail.follow(deadline.within(DUE_SECONDS if log_ends and not log.lagging else PACE))
        log.reached(log_ends, asked_at)
        self.pace = HURRIED_PACE if self._tail.hurries else self._pace(began)
        yield from partitions.all_faults()
        yield partitions.changes()
        counts = gauges = False
        if (partitions.empty and not self._elsewhere(facts)) or partitions.readable:
            if counts := self._saved.caught_up(partitions.progress):
                yield from self._facts.counters()
            if (lag := log.lag) is not None:
                yield catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS(float(lag), self.cluster)
            gauges = partitions.empty or log.answering_current
            if gauges:
                yield from self._facts.gauges()
            yield from self._facts.flink(facts.get(CoordinatorTime) or CoordinatorTime(), gauges=gauges)
        yield self._aggregates.ends.read(clock.monotonic())
        self._save()
        if trouble := self._saved.trouble:
            yield Notes((f"state.dir is not written ({trouble}): a restart goes on from what was written before",))
        if counts and (hour := self._facts.last_hour(gauges=gauges)) is not None:
            yield hour

    def _pace(self, began: float) -> float:
        """Seconds from the begin of this read to the next one: to when the first abort is due, within the limits."""
        now = self._cluster.clock.monotonic()
        due_at = self._log.due_at(now)
        return PACE if due_at is None else min(PACE, max(LEAST_PACE, due_at - began))

    def _forget_lost(self) -> None:
        """Make unknown what only lost records showed. Its end is an answer of the coordinator, or the next record."""
        for number, offset in self._partitions.lost.items():
            self._tail.records.lose(number, offset)
            self._seed.again(number)
        self._partitions.lost = {}

    def _save(self, *, whole: bool = False) -> None:
        if self._saved.loaded and (self._partitions.progress or self._saved.waiting or self._partitions.empty):
            self._saved.save(self._tail, whole=whole)
