"""Everything that a run left behind, and simple questions to it. All instants are Unix seconds of this machine."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.chaos.agent import LSO_INTERVAL, AgentRun, AgentScrape
from tests.chaos.cluster import TRANSACTION_LOG
from tests.chaos.modes import ORDINARY, Mode
from tests.chaos.nemesis import Episode
from tests.chaos.oracle.data_log import DataTransaction
from tests.chaos.oracle.offset_observer import OffsetObservation, UnmovedOffset, standings
from tests.chaos.oracle.outcomes import IdHistory, OracleTransaction, histories
from tests.chaos.oracle.transaction_log import State
from tests.chaos.workloads import KnownTokens

SETTLED_SECONDS = 15.0
"""How long what is said may be by the clock that was known before: a read waits up to 10 s, and 5 s pass between."""
KEPT_SECONDS = 3 * LSO_INTERVAL
"""The age at which the agent drops a reading of a partition whose LSO was below its high watermark."""
MOST_FAULTS = 6
Place = tuple[str, int]


class PlantedOrphan(NamedTuple):
    """An open transaction that no coordinator has, planted at ``at``."""

    place: Place
    producer_id: int
    start: int
    at: float


class FollowedLine(NamedTuple):
    """A printed line that ends a transaction, as it was run, and the open records that it was printed for.

    ``source`` is the page or the command. ``code`` is the exit code of Kafka's tool, ``output`` the end of its output.
    """

    at: float
    ended: float
    source: str
    line: str
    place: Place | None
    producer_id: int | None
    start: int | None
    code: int
    output: str


class LostRecords(NamedTuple):
    """Lost by an unclean election: transactions that were finished in the transaction log, and
    transactions in data partitions.
    """

    transactions: Sequence[OracleTransaction]
    held: Mapping[Place, Sequence[DataTransaction]]


NOTHING_LOST = LostRecords((), {})


class BlockerClaim(NamedTuple):
    """The agent's statement about one stalled partition in one scrape."""

    scrape: AgentScrape
    place: Place
    offset: int
    since: float
    kind: str
    transactional_id: str
    producer_id: int | None
    epoch: int | None
    start: int
    next_step: str


@dataclass(frozen=True)
class RunEvidence:
    """``began`` is when the faults began, ``quiet_at`` when the last one was mended.

    ``unclean_elections`` are leaders that the controller elected although they may lack acknowledged records;
    ``journal`` are the events of the agent's files. ``elsewhere`` are the last scrape before another cluster answered
    at the addresses, and those of the same agent while it did.
    """

    seed: int
    began: float
    quiet_at: float
    episodes: Sequence[Episode]
    lives: Sequence[AgentRun]
    pauses: Sequence[tuple[float, float]]
    crashes: Sequence[tuple[float, int | None, str]]
    scrapes: Sequence[AgentScrape]
    looks: Mapping[Place, Sequence[OffsetObservation]]
    states: Sequence[State]
    held: Mapping[Place, Sequence[DataTransaction]]
    books: KnownTokens
    orphans: Sequence[PlantedOrphan]
    followed: Sequence[FollowedLine] = ()
    unclean_elections: int = 0
    journal: Sequence[Mapping[str, Any]] = ()
    mode: Mode = ORDINARY
    lost: LostRecords = NOTHING_LOST
    elsewhere: Sequence[AgentScrape] = ()
    histories: Mapping[str, IdHistory] = field(init=False)
    standings: Mapping[Place, list[UnmovedOffset]] = field(init=False)
    reads: Mapping[int, set[float]] = field(init=False)  # by life, when its source of last stable offsets succeeded

    def __post_init__(self) -> None:
        found = {place: standings(list(looks)) for place, looks in self.looks.items()}
        object.__setattr__(self, "standings", found)
        object.__setattr__(self, "histories", histories(self.states))
        reads: dict[int, set[float]] = defaultdict(set)
        for scrape in self.scrapes:
            if (read_at := _of_lso(scrape, "kafka_eos_source_last_success_timestamp_seconds")) is not None:
                reads[scrape.life].add(read_at - self.clock(scrape))
        object.__setattr__(self, "reads", reads)

    @property
    def transactions(self) -> list[OracleTransaction]:
        return [transaction for history in self.histories.values() for transaction in history.transactions]

    def owner(self, producer_id: int) -> str:
        """The transactional id that had this producer id; "" for none."""
        return next((text for text, known in self.histories.items() if producer_id in known.producer_ids), "")

    def standing(self, place: Place, offset: int) -> UnmovedOffset | None:
        return next((unmoved for unmoved in self.standings.get(place, ()) if unmoved.offset == offset), None)

    def healthy(self, began: float, ended: float) -> bool:
        """Whether one and the same agent ran all this time and was not stopped."""
        lives = any(life.began <= began and ended <= life.ended for life in self.lives)
        return lives and not any(start < ended and began < end for start, end in self.pauses)

    def reads_well(self, began: float, ended: float) -> bool:
        """Whether it ran all this time, and every scrape has its source of last stable offsets up."""
        first = bisect_left(self.scrapes, began, key=lambda scrape: scrape.at)
        last = bisect_left(self.scrapes, ended, key=lambda scrape: scrape.at)
        mine = self.scrapes[first:last]
        return (
            self.healthy(began, ended) and len(mine) >= (ended - began) / 4 and all(_reads(scrape) for scrape in mine)
        )

    def decided_at(self, transaction: OracleTransaction) -> float:
        """When the decision could be read: the log's high watermark passed it. Infinity while it was not decided."""
        if not transaction.decided:
            return float("inf")
        looks = self.looks.get((TRANSACTION_LOG, transaction.log_partition), ())
        passed = next((look.at for look in looks if look.high is not None and look.high > transaction.prepared_at), 0.0)
        return max(transaction.decided / 1000, passed)

    def running(self, began: float, ended: float) -> float:
        """Seconds of this time in which the agent was not stopped."""
        stopped = sum(max(0.0, min(ended, last) - max(began, first)) for first, last in self.pauses)
        return ended - began - stopped

    def just_paused(self, at: float, seconds: float) -> bool:
        return any(start <= at <= end + seconds for start, end in self.pauses)

    def faults_near(self, at: float, before: float = 25.0) -> str:
        """The faults that were in force within some seconds before this instant, for people."""
        near = [episode for episode in self.episodes if episode.began <= at and episode.ended >= at - before]
        shown = sorted(near)[-MOST_FAULTS:]
        return "; ".join(f"{episode.fault} from {episode.began - at:+.0f} s" for episode in shown) or "none"

    def clock(self, scrape: AgentScrape) -> int:
        return self.lives[scrape.life].clock

    def since(self, claim: BlockerClaim) -> tuple[float, ...]:
        """Since when a stall is said to last, by the right clock; none while the agent learns that its own is wrong.

        Before it knows the distance of its clock from the coordinators', what it saw itself is by its own clock, and
        what a coordinator has stamped is by theirs: either may be meant. From then on it is by theirs.
        """
        at, clock = claim.scrape.at, self.clock(claim.scrape)
        if clock == 0:
            return (claim.since,)
        first = bisect_left(self.scrapes, at - SETTLED_SECONDS, key=lambda scrape: scrape.at)
        last = bisect_left(self.scrapes, at, key=lambda scrape: scrape.at)
        lately = [
            scrape for scrape in self.scrapes[first : last + 1] if not scrape.error and scrape.life == claim.scrape.life
        ]
        if at - self.lives[claim.scrape.life].began > SETTLED_SECONDS and all(
            _knows_clock(scrape) for scrape in lately
        ):
            return (claim.since,)
        return () if any(_knows_clock(scrape) for scrape in lately) else (claim.since - clock, claim.since)

    def stood_from(self, claim: BlockerClaim, standing: UnmovedOffset) -> float:
        """The earliest instant from which the partition may have had this LSO.

        Either it was last seen elsewhere, or its holder's first batch was appended: a leader that was deposed answers
        with a high watermark that does not move, and looks as if nothing were open.
        """
        truth = self._holder(claim)
        return standing.before if truth is None else min(standing.before, truth.appended)

    def dated_from(self, claim: BlockerClaim, standing: UnmovedOffset) -> float:
        """The earliest instant that a stall may be dated by: when the partition may first have had this LSO.

        An agent that did not look at it then, or whose reads failed for so long that it dropped the last, dates it by
        its holder's start, or by the end of the transaction before, if the log still shows that.
        """
        stood = self.stood_from(claim, standing)
        truth = self._holder(claim)
        if truth is None or self._watched(claim.scrape.life, stood):
            return stood
        history = self.histories.get(self.owner(truth.producer_id), IdHistory())
        starts = [
            transaction.started / 1000
            for transaction in (*history.transactions, *([history.open] if history.open else []))
            if claim.place in transaction.partitions and transaction.started / 1000 <= standing.began
        ]
        return min(stood, max(starts, default=stood))

    def _watched(self, life: int, instant: float) -> bool:
        """Whether the agent's reads just before and after an instant are so close together that it kept the first."""
        reads = self.reads.get(life, ())
        before = max((reading for reading in reads if reading <= instant), default=float("-inf"))
        after = min((reading for reading in reads if reading > instant), default=float("inf"))
        return after - before <= KEPT_SECONDS

    def _holder(self, claim: BlockerClaim) -> DataTransaction | None:
        return self.records_at(claim.place, claim.offset)

    def records_at(self, place: Place, start: int) -> DataTransaction | None:
        """Return what the log of a partition has open from this offset on."""
        return next((transaction for transaction in self.held.get(place, ()) if transaction.start == start), None)

    def lost_at(self, place: Place, start: int) -> DataTransaction | None:
        """Return what an unclean election took from there, and may have been open."""
        return next((transaction for transaction in self.lost.held.get(place, ()) if transaction.start == start), None)

    def unended(self) -> dict[Place, list[DataTransaction]]:
        """Return what has no marker, and no open transaction in the transaction log."""
        open_ids = {known.open.producer_id for known in self.histories.values() if known.open is not None}
        left = {
            place: [
                transaction
                for transaction in every
                if transaction.end is None and transaction.producer_id not in open_ids
            ]
            for place, every in self.held.items()
        }
        return {place: every for place, every in left.items() if every}

    def why_kept(self, place: Place, records: DataTransaction, at: float) -> str:
        """Return why open records may not be ended by hand at an instant; "" where they were promised to nobody.

        Their transactions are those of the producer that were open when they were appended.
        """
        tokens = {token for token, appended in records.tokens.items() if appended <= at}
        if told := tokens & self.books.committed:
            return f"a client was told that {min(told)} is committed"
        for transaction in self.owners(place, records, at):
            if transaction.outcome == "committed":
                return f"the log decided COMMIT at {self.ago(transaction.decided / 1000)}"
            if self.decided_at(transaction) > at:
                return "its coordinator has it open"
        return ""

    def owners(self, place: Place, records: DataTransaction, at: float) -> list[OracleTransaction]:
        """The transactions of the log whose records are among these, of those that were appended until an instant."""
        history = self.histories.get(self.owner(records.producer_id), IdHistory())
        appended = [number for number in (*records.tokens.values(), records.appended) if number <= at]
        return [
            transaction
            for transaction in (*history.transactions, *([history.open] if history.open else []))
            if transaction.producer_id == records.producer_id
            and place in transaction.partitions
            and any(
                transaction.started <= 1000 * time and (not transaction.decided or 1000 * time <= transaction.decided)
                for time in appended
            )
        ]

    def clocks_of(self, *claims: BlockerClaim) -> str:
        """By how much the clocks of the agents that said these were ahead, for people."""
        return "clock " + ", then ".join(f"{self.clock(claim.scrape):+d} s" for claim in claims)

    def ago(self, at: float) -> str:
        """An instant, as seconds from the begin of the run."""
        return f"t={at - self.began:.1f}"

    def claims(self) -> Iterator[BlockerClaim]:
        """All that was said of stalled partitions, in the order of time."""
        for scrape in self.scrapes:
            yield from claims_of(scrape)

    def looked(self, place: Place, began: float, ended: float) -> list[OffsetObservation]:
        looks = self.looks.get(place, ())
        first = bisect_left(looks, began, key=lambda look: look.at)
        last = bisect_left(looks, ended, key=lambda look: look.at)
        return list(looks[first:last])


def claims_of(scrape: AgentScrape) -> Iterator[BlockerClaim]:
    """Yield what one scrape says of stalled partitions."""
    for cluster in (scrape.status or {}).get("clusters", ()):
        for partition in cluster["stalled_partitions"]:
            yield _claim(scrape, partition)


def _reads(scrape: AgentScrape) -> bool:
    return _of_lso(scrape, "kafka_eos_source_up") == 1


def _of_lso(scrape: AgentScrape, metric: str) -> float | None:
    """The value of a metric of the source of last stable offsets."""
    found = (
        value for (name, labels), value in scrape.samples.items() if name == metric and ("source", "lso") in labels
    )
    return next(found, None)


def _knows_clock(scrape: AgentScrape) -> bool:
    return any(name == "kafka_eos_clock_distance_seconds" for name, _ in scrape.samples)


def _claim(scrape: AgentScrape, stall: Mapping[str, Any]) -> BlockerClaim:
    blocker = stall["blocker"]
    return BlockerClaim(
        scrape,
        (stall["topic"], stall["partition"]),
        stall["last_stable_offset"],
        stall["since_timestamp"],
        blocker["kind"],
        blocker["transactional_id"],
        blocker["producer_id"],
        blocker["producer_epoch"],
        blocker["start_offset"],
        str(stall.get("next_step")),
    )
