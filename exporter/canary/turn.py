"""One turn of the canary: transactions through one coordinator, phase by phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple, Protocol

from exporter.canary.clients import FENCED_CODES, ClientError
from exporter.model import Clock
from exporter.words import CanaryOutcome, CanaryPhase


class ProducesTransactions(Protocol):
    """A transactional producer; see ``exporter.canary.clients.TurnProducer``."""

    def init(self) -> None: ...
    def begin(self) -> None: ...
    def send(self, topic: str, partitions: Sequence[int], key: str, value: str) -> None: ...
    def send_offsets(self, offsets: Mapping[tuple[str, int], int], group: Any) -> None: ...  # noqa: ANN401
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class ReadsCommitted(Protocol):
    """A reader of committed records; see ``exporter.canary.clients.CommittedReader``."""

    @property
    def group(self) -> Any: ...  # noqa: ANN401
    def start(self, partitions: Sequence[int]) -> dict[tuple[str, int], int]: ...
    def read(self, seconds: float) -> tuple[str, str] | None: ...


class Failure(NamedTuple):
    """The phase that failed, librdkafka's name of the error or the canary's own, and a text."""

    phase: CanaryPhase
    error: str
    text: str


class TurnResult(NamedTuple):
    """The result of one turn: seconds by phase, outcomes, and the failure that ended it."""

    phases: tuple[tuple[CanaryPhase, float], ...]
    outcomes: tuple[CanaryOutcome, ...]
    failure: Failure | None


class TurnPlan(NamedTuple):
    """The plan of one turn: the id it uses, the topic and partitions it writes to, and whether it aborts and fences."""

    transactional_id: str
    topic: str
    partitions: Sequence[int]
    key: str
    aborts: bool
    fences: bool


class _FailedError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class Turn:
    """One turn. ``producer`` makes a producer for an id; ``pause`` waits before each transaction, for the budget."""

    def __init__(
        self,
        plan: TurnPlan,
        reader: ReadsCommitted,
        producer: Callable[[str], ProducesTransactions],
        pause: Callable[[], None],
        timeout: float,
        clock: Clock,
    ) -> None:
        self._plan, self._reader, self._make, self._pause = plan, reader, producer, pause
        self._timeout, self._clock = timeout, clock
        self._phases: list[tuple[CanaryPhase, float]] = []
        self._outcomes: list[CanaryOutcome] = []

    def run(self) -> TurnResult:
        failure: Failure | None = None
        try:
            with self._phase(CanaryPhase.READ, timed=False):
                ends = self._reader.start(self._plan.partitions)
            with closing(self._make(self._plan.transactional_id)) as producer:
                self._transactions(producer, ends)
        except _FailedError as error:
            failure = error.failure
        return TurnResult(tuple(self._phases), tuple(self._outcomes), failure)

    def _transactions(self, producer: ProducesTransactions, ends: Mapping[tuple[str, int], int]) -> None:
        with self._phase(CanaryPhase.INIT):
            producer.init()
        if self._plan.aborts:
            self._write(producer, CanaryOutcome.ABORTED)
            with self._phase(CanaryPhase.ABORT):
                producer.abort()
            self._outcomes.append(CanaryOutcome.ABORTED)
        self._write(producer, CanaryOutcome.COMMITTED)
        with self._phase(CanaryPhase.OFFSETS):
            producer.send_offsets(ends, self._reader.group)
        with self._phase(CanaryPhase.COMMIT):
            producer.commit()
        self._outcomes.append(CanaryOutcome.COMMITTED)
        with self._phase(CanaryPhase.READ):
            self._read()
        if self._plan.fences:
            self._fence(producer)

    def _write(self, producer: ProducesTransactions, outcome: CanaryOutcome) -> None:
        self._pause()
        with self._phase(CanaryPhase.PRODUCE):
            producer.begin()
            producer.send(self._plan.topic, self._plan.partitions, self._plan.key, str(outcome))

    def _read(self) -> None:
        """Wait until the committed records of this turn are read, one from each partition.

        Records of earlier turns may be among them. An aborted record is never delivered: not this turn's, which lie
        before the committed ones in the same partitions, and not another's.
        """
        until = self._clock.monotonic() + self._timeout
        missing = len(self._plan.partitions)
        while missing:
            left = until - self._clock.monotonic()
            if left <= 0:
                raise ClientError("record_not_read", f"a committed record was not read within {self._timeout:g} s")
            record = self._reader.read(left)
            if record is None:
                continue
            key, outcome = record
            if outcome == CanaryOutcome.ABORTED:
                raise ClientError("aborted_record_read", "read_committed delivered a record that was aborted")
            missing -= key == self._plan.key

    def _fence(self, producer: ProducesTransactions) -> None:
        """A second producer takes the id while the first has a transaction open, which the first cannot commit then."""
        self._write(producer, CanaryOutcome.ABORTED)
        with self._phase(CanaryPhase.FENCE), closing(self._make(self._plan.transactional_id)) as heir:
            heir.init()
            try:
                producer.commit()
            except ClientError as error:
                if error.code not in FENCED_CODES:
                    raise
            else:
                raise ClientError("not_fenced", "the commit of a producer whose id was taken over succeeded")
        self._outcomes.append(CanaryOutcome.FENCED)

    @contextmanager
    def _phase(self, phase: CanaryPhase, *, timed: bool = True) -> Iterator[None]:
        began = self._clock.monotonic()
        try:
            yield
        except ClientError as error:
            raise _FailedError(Failure(phase, error.code, str(error))) from None
        if timed:
            self._phases.append((phase, self._clock.monotonic() - began))
