"""The markers of decided transactions: what a partition has where a transaction of the last minutes was decided."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from operator import attrgetter

from exporter import catalogue
from exporter.cluster import Cluster, KafkaSource
from exporter.kafka.client import AskError
from exporter.kafka.faults import refusal
from exporter.kafka.log.batches import UNREADABLE, fetch_request
from exporter.kafka.log.control import look_back, take_batches
from exporter.kafka.requests.leader_epochs import epoch_ends
from exporter.kafka.requests.metadata import NO_EPOCH, TRANSACTION_STATE, Metadata
from exporter.kafka.requests.offsets import Isolation, end_offsets, offsets_at
from exporter.model import Deadline, Fact, Facts, Fault, Notes, Reason, Sample, TopicPartition
from exporter.transactions.decided.cleaned_topics import SETTINGS, may_be_cleaned
from exporter.transactions.decided.leader_clocks import LeaderClocks
from exporter.transactions.decided.marker_watch import MarkerWatch, TornMarkers
from exporter.transactions.decided.recent_decisions import ClocksApart, RecentDecisions
from exporter.transactions.decided.shared_epoch import CLOCK_SLACK_MS
from exporter.transactions.facts import CoordinatorTime

INTERVAL = 10.0
FETCH_BYTES = 1 << 20
"""Read at once of one partition."""
MOST_PARTITIONS = 200
"""Partitions of one request."""
STALE_SECONDS = 60.0
"""A partition that was not read for so long is read from the time of the next decision on, not from where it was."""
ASK_AGAIN_SECONDS = 600.0
"""How long a topic that may not be read is left out, and how long its settings are remembered."""
MOST_NAMED = 5
COMPACTED_WITHIN_MS = 600_000
"""A cleaner that keeps markers for less than this may take them before they are read."""
NO_FAULTS = frozenset({Reason.AUTHORIZATION, Reason.NO_LEADER, Reason.UNKNOWN_TOPIC})
"""Reasons that are no faults of this source: what may not be read is a note, what is away is a fault of ``lso``."""


class MarkersSource(KafkaSource):
    """Source ``markers`` of one cluster. ``bytes_per_minute`` bounds what is read of partitions with records."""

    name = "markers"

    def __init__(self, cluster: Cluster, bytes_per_minute: int, timeout: float = 10.0) -> None:
        super().__init__(cluster, INTERVAL, timeout)
        self._watch = MarkerWatch()
        self._bytes_per_minute = bytes_per_minute
        self._begun = False
        self._apart = 0
        self._bytes = 0.0  # that may be read now
        self._filled_at: float | None = None
        self._refused: dict[str, float] = {}  # topics, and since when
        self._compacted: dict[str, tuple[float, bool | None]] = {}  # when asked, and whether; None: no answer
        self._clocks = LeaderClocks()
        self._read_ends: dict[TopicPartition, tuple[float, int, int]] = {}  # when asked, the end, the leader epoch
        self._topic_ids: dict[str, str] = {}

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        now = self._cluster.clock.monotonic()
        self._fill(now)
        decided = facts.get(RecentDecisions)
        apart = facts.get(ClocksApart)
        self._apart = apart.seconds if apart is not None and apart.far else 0
        if decided is not None:
            self._begun = True
            self._watch.note(decided, now, self._is_ours)
            if self._apart:  # their markers are found, and told apart, by their times
                self._watch.give_up()
        wanted = self._watch.wanted()
        try:
            metadata = self._cluster.metadata(
                deadline, sorted({partition.topic for partition in wanted}) or [TRANSACTION_STATE]
            )
        except AskError as error:
            yield error.fault
        else:
            yield from self._read(metadata, wanted, facts, deadline)
        if self._begun:
            yield from self._samples()
        yield from self._notes(current=decided is not None)

    def _is_ours(self, topic: str) -> bool:
        return topic not in self._refused

    def _fill(self, now: float) -> None:
        """Add the bytes of the time that has passed, a minute's at most."""
        passed = 60.0 if self._filled_at is None else now - self._filled_at
        self._filled_at = now
        self._bytes = min(self._bytes_per_minute, self._bytes + passed * self._bytes_per_minute / 60)
        self._refused = {topic: at for topic, at in self._refused.items() if now - at < ASK_AGAIN_SECONDS}

    def _read(
        self, metadata: Metadata, wanted: Mapping[TopicPartition, int], facts: Facts, deadline: Deadline
    ) -> Iterator[Fault]:
        self._forget_made_again(metadata, {partition.topic for partition in wanted})
        yield from self._forget_deleted(metadata, deadline)
        if not wanted:
            return
        asked_at = self._cluster.clock.monotonic()
        ends = end_offsets(self._cluster.client, metadata, list(wanted), Isolation.READ_UNCOMMITTED, deadline)
        self._leave_refused(ends.unanswered)
        yield from _told(ends.faults)
        yield from self._leave_truncated(metadata, deadline)
        yield from self._begin(metadata, wanted, ends.values, deadline)
        compacted = self._taken_by_cleaner({partition.topic for partition in wanted}, deadline)
        yield from self._follow(metadata, ends.values, deadline)
        now = self._cluster.clock.monotonic()
        reached = {
            partition
            for partition, end in ends.values.items()
            if (own := self._watch.followed.get(partition))
            and own.reached == end
            and own.confirmed == metadata.leader_epoch(partition)
        }
        self._watch.read_at.update(dict.fromkeys(reached, now))
        self._watch.leave_out({partition for partition in wanted if partition.topic in self._refused})
        doubtful: AbstractSet[TopicPartition] = frozenset()
        if len(metadata.brokers) > 1:  # one broker has one clock
            self._note_clocks(metadata, reached, asked_at, now)
            doubtful = self._doubtful(metadata, reached, facts)
        self._watch.compare(reached, now, compacted, doubtful)
        if unproven := {place: self._watch.followed[place] for place in self._watch.unproven}:
            look_back(self._cluster.client, metadata, unproven, deadline)

    def _forget_made_again(self, metadata: Metadata, topics: AbstractSet[str]) -> None:
        """Forget what was read of earlier topics of the same name."""
        ids = {topic: topic_id for topic in topics if (topic_id := metadata.topic_ids.get(topic))}
        self._watch.forget(
            {topic for topic, topic_id in ids.items() if self._topic_ids.get(topic, topic_id) != topic_id}
        )
        self._topic_ids = {topic: topic_id for topic, topic_id in self._topic_ids.items() if topic in topics} | ids

    def _forget_deleted(self, metadata: Metadata, deadline: Deadline) -> Iterator[Fault]:
        """Forget what was found in topics that no broker has any more."""
        unknown = {topic for topic, fault in metadata.errors.items() if fault.reason is Reason.UNKNOWN_TOPIC}
        if not (doubtful := unknown & {watched.torn.partition.topic for watched in self._watch.found}):
            return
        try:
            newest = self._cluster.client.confirmed(deadline, sorted(doubtful))
        except AskError as error:
            yield error.fault
            return
        faults = {topic: newest.errors.get(topic) for topic in doubtful - newest.topics.keys()}
        self._watch.forget({topic for topic, fault in faults.items() if fault and fault.reason is Reason.UNKNOWN_TOPIC})

    def _note_clocks(
        self, metadata: Metadata, reached: AbstractSet[TopicPartition], asked_at: float, now: float
    ) -> None:
        """Note when the markers came that are new since the last read of their partition, under one leader."""
        for place in reached:
            own, leader = self._watch.followed[place], metadata.leader(*place)
            asked, end, epoch = self._read_ends.get(place, (asked_at, own.reached, own.confirmed))
            if leader is not None and own.reached > end and own.confirmed == epoch:
                new = own.markers[bisect_left(own.markers, end, key=attrgetter("offset")) :]
                self._clocks.came(leader, new, asked, now)
            self._read_ends[place] = asked_at, own.reached, own.confirmed
        for place in self._read_ends.keys() - self._watch.followed.keys():
            del self._read_ends[place]

    def _doubtful(
        self, metadata: Metadata, reached: AbstractSet[TopicPartition], facts: Facts
    ) -> AbstractSet[TopicPartition]:
        """The partitions whose leader's clock is not known to be that of the coordinators."""
        apart, time = facts.get(ClocksApart) or ClocksApart(0), facts.get(CoordinatorTime)
        distance = None if time is None or time.ahead is None or time.beyond is None else time.ahead - time.beyond
        leaders = {place: metadata.leader(*place) for place in reached}
        near = {
            leader
            for leader in set(leaders.values())
            if leader in apart.brokers or self._clocks.is_near(leader, distance)
        }
        return {place for place, leader in leaders.items() if leader not in near}

    def _leave_truncated(self, metadata: Metadata, deadline: Deadline) -> Iterator[Fault]:
        """Leave the partitions that a new leader has otherwise than they were read (an unclean election)."""
        elected = {
            place: own
            for place, own in self._watch.followed.items()
            if metadata.leader_epoch(place) not in {NO_EPOCH, own.confirmed}
        }
        for place, own in elected.items():
            if own.leader_epoch == NO_EPOCH:  # nothing was read
                self._watch.leave(place)
        known = {place: own.leader_epoch for place, own in elected.items() if own.leader_epoch != NO_EPOCH}
        answers = epoch_ends(self._cluster.client, metadata, known, deadline)
        yield from _told(answers.faults)
        for place, end in answers.values.items():
            if end.epoch != known[place] or end.offset < elected[place].reached:
                self._watch.leave(place)
            else:
                elected[place].confirmed = metadata.leader_epoch(place)

    def _begin(
        self,
        metadata: Metadata,
        wanted: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        deadline: Deadline,
    ) -> Iterator[Fault]:
        """Give every partition that is not followed the offset of the time from which on it is wanted."""
        now = self._cluster.clock.monotonic()
        read_at = self._watch.read_at
        fresh = {
            partition: begun_ms - CLOCK_SLACK_MS
            for partition, begun_ms in wanted.items()
            if partition in ends
            and (partition not in self._watch.followed or read_at.get(partition, now) < now - STALE_SECONDS)
        }
        if not fresh:
            return
        starts = offsets_at(self._cluster.client, metadata, fresh, deadline)
        yield from _told(starts.faults)
        for place, since_ms in fresh.items():
            start = starts.values.get(place)
            if start is None:
                self._watch.leave(place)
                continue
            own = self._watch.follow(place, ends[place] if start < 0 else start, since_ms)  # below 0: nothing since
            own.confirmed = metadata.leader_epoch(place)

    def _taken_by_cleaner(self, topics: set[str], deadline: Deadline) -> frozenset[str]:
        """The topics whose cleaner may take markers before they are read, as far as their settings are known."""
        now = self._cluster.clock.monotonic()
        self._compacted = {
            topic: known for topic, known in self._compacted.items() if now - known[0] < ASK_AGAIN_SECONDS
        }
        if fresh := sorted(topics - self._compacted.keys()):
            answers = self._cluster.client.configs("topic", fresh, SETTINGS, deadline)
            for topic in fresh:
                self._compacted[topic] = now, may_be_cleaned(answers.get(topic), COMPACTED_WITHIN_MS)
        return frozenset(topic for topic in topics if self._compacted[topic][1] is not False)

    def _follow(self, metadata: Metadata, ends: Mapping[TopicPartition, int], deadline: Deadline) -> Iterator[Fault]:
        """Read partitions to their ends, as far as the bytes and the deadline allow."""
        faults: dict[Fault, None] = {}
        while self._bytes > 0 and not deadline.over:
            behind = {
                place: own.reached
                for place, end in ends.items()
                if (own := self._watch.followed.get(place)) is not None and own.reached < end
            }
            leaders = metadata.leaders(behind)
            requests: dict[int, dict[TopicPartition, int]] = {}
            for place, position in behind.items():
                if (leader := leaders.get(place)) is not None and len(requests.get(leader, ())) < MOST_PARTITIONS:
                    requests.setdefault(leader, {})[place] = position
            if not requests:
                break
            most = max(1, min(8 * FETCH_BYTES, int(self._bytes) // len(requests)))
            asked = {
                leader: fetch_request(positions, deadline, min(FETCH_BYTES, most), most)
                for leader, positions in requests.items()
            }
            for answer in self._cluster.client.ask(asked, deadline).values():
                if isinstance(answer, Fault):
                    faults[answer] = None
                    continue
                for topic in answer.responses:
                    for part in topic.partitions:
                        self._take(TopicPartition(topic.topic, part.partition_index), part, ends, faults)
            moved = any(
                (own := self._watch.followed.get(place)) is None or own.reached > at for place, at in behind.items()
            )
            if not moved:
                break
        yield from _told(faults)

    def _take(
        self, place: TopicPartition, part: object, ends: Mapping[TopicPartition, int], faults: dict[Fault, None]
    ) -> None:
        """Take in the answer about one partition. An error ends the following of it."""
        code: int = part.error_code  # type: ignore[attr-defined]  # kafka-python's classes are made at runtime
        own = self._watch.followed.get(place)
        if own is None:
            return
        if code:
            self._watch.leave(place)
            fault = refusal(f"Fetch of {place}", code, f"READ on Topic:{place.topic}")
            self._leave_refused({place: fault})
            faults[fault] = None
            return
        data = bytes(part.records or b"")  # type: ignore[attr-defined]  # as above
        self._bytes -= len(data)
        try:
            take_batches(own, data, ends[place])
        except UNREADABLE:
            self._watch.leave(place)
            faults[Fault(Reason.MALFORMED, f"{place} at {own.reached}: a batch that cannot be read")] = None
            return

    def _leave_refused(self, faults: Mapping[TopicPartition, Fault]) -> None:
        now = self._cluster.clock.monotonic()
        refused = {place.topic for place, fault in faults.items() if fault.reason is Reason.AUTHORIZATION}
        self._refused.update(dict.fromkeys(refused, now))

    def _samples(self) -> Iterator[Sample | Fact]:
        watch, found = self._watch, self._watch.found
        for result, count in (("compared", watch.compared), ("not_compared", watch.not_compared)):
            yield catalogue.MARKER_COMPARISONS_TOTAL(float(count), self.cluster, result)
        counts: Counter[tuple[str, str, str]] = Counter()
        for watched in found:
            decided = "commit" if watched.torn.decision.commit else "abort"
            counts[watched.torn.partition.topic, decided, watched.found.value] += 1
        for labels, count in sorted(counts.items()):
            yield catalogue.TORN_TRANSACTIONS(float(count), self.cluster, *labels)
        yield TornMarkers(found)

    def _notes(self, *, current: bool) -> Iterator[Notes]:
        notes = [] if current else ["no decisions are known: the transaction log is not read"]
        if self._apart:
            notes.append(f"markers are not compared: clocks of brokers are {self._apart} s apart, see NTP on each")
        if self._refused:
            named = ", ".join(sorted(self._refused)[:MOST_NAMED])
            notes.append(f"markers of {len(self._refused)} topics are not compared: grant READ on Topic:{named}")
        if unknown := sorted(topic for topic, (_, found) in self._compacted.items() if found is None):
            named = ", ".join(unknown[:MOST_NAMED])
            notes.append(
                f"a missing marker is not found in {len(unknown)} topics, whose cleaner may have taken it: grant"
                f" DESCRIBE_CONFIGS on Topic:{named}"
            )
        if notes:
            yield Notes(tuple(notes))


def _told(faults: Iterable[Fault]) -> Iterator[Fault]:
    return (fault for fault in faults if fault.reason not in NO_FAULTS)
