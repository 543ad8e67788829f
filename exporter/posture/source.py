"""The EOS posture of one cluster: gathers what the checks of ``exporter.posture.checks`` judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from exporter import catalogue
from exporter.cluster import Cluster, KafkaSource
from exporter.connect.exactly_once import LoggedIds
from exporter.connect.facts import ConnectState
from exporter.flink.facts import FlinkJobs
from exporter.groups.facts import GroupsBeyondLso, TopicReaders
from exporter.groups.source.early_commits import EarlyCommits
from exporter.inventory.applications_in_log import WrittenOutside
from exporter.inventory.source import written_outside
from exporter.kafka.client import AskError
from exporter.kafka.log.offset_commits import newest_commits
from exporter.kafka.requests.configs import unmade_topics
from exporter.kafka.requests.log_dirs import BrokerLogs, log_dirs
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, TRANSACTION_STATE, Metadata
from exporter.model import Deadline, Fact, Facts, Fault, Reason, Sample
from exporter.posture.check import CheckResult, PostureCheck, Settings
from exporter.posture.checks import MIN_ISR, UNCLEAN_ELECTION, checks_of
from exporter.posture.evidence import Posture, PostureEvidence
from exporter.posture.offsets import CommitHistory, CommitTimes
from exporter.settings.sections import PostureConfig
from exporter.spark.queries import SparkView
from exporter.transactions.facts import OpenTransactions, TransactionsElsewhere, TransactionUse

BROKER_KEYS = (
    "transaction.state.log.min.isr",
    "transaction.max.timeout.ms",
    "transactional.id.expiration.ms",
    "transaction.partition.verification.enable",
    "transaction.two.phase.commit.enable",
)
TOPIC_KEYS = (MIN_ISR, UNCLEAN_ELECTION)
MOST_TOPICS = 200
"""Largest number of transactional topics whose settings are checked. The others are counted as dropped series."""

TIMEOUT_SECONDS = 30.0
COMMIT_SECONDS = 10.0
"""Share of a read for the newest offset commits."""
EARLY_SECONDS = 5.0
"""Share of a read for what newest commits cover."""
WRITERS_SECONDS = 5.0
"""Share of a read for the newest batches of topics."""
SAMPLED_PARTITIONS = 100
"""Partitions of topics of which the newest batches are read, 64 KiB of each, in one read; the next ones in the next."""
HOUR = 3600.0
NEWEST_COMMITS = 1000
"""Offsets of a partition of ``__consumer_offsets`` in each read; several reads are needed to see a habit in a busy one.
"""


class PostureSource(KafkaSource):
    """Source ``posture`` of one cluster."""

    name = "posture"

    def __init__(
        self,
        cluster: Cluster,
        settings: PostureConfig,
        newest: int = NEWEST_COMMITS,
        partitions: int = SAMPLED_PARTITIONS,
    ) -> None:
        """``newest``: offsets of each partition of ``__consumer_offsets`` from which commits are read;
        ``partitions``: of how many partitions the newest batches are read.
        """
        super().__init__(cluster, settings.interval, TIMEOUT_SECONDS)
        self._settings = settings
        self._begun = False
        self._newest = newest
        self._commits = CommitHistory()
        self._early = EarlyCommits(cluster)
        self._partitions = partitions
        self._turn = 0
        self._outside: dict[str, WrittenOutside] = {}

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        use = facts.get(TransactionUse)
        # Soon after the start the facts of other sources are incomplete: read again early.
        self.pace = self.interval if use is not None and self._begun else min(self.interval, 15.0)
        self._begun = use is not None
        try:
            metadata = self._cluster.metadata(deadline, max_age=60.0)
            # By name: an answer about all topics passes over what may not be described.
            named = self._cluster.metadata(deadline, (TRANSACTION_STATE, CONSUMER_OFFSETS))
        except AskError as error:
            yield error.fault
            return
        used = sorted(use.topics & metadata.topics.keys() if use is not None else ())
        internal = [topic for topic in (TRANSACTION_STATE, CONSUMER_OFFSETS) if named.topics.get(topic)]
        names = internal + [topic for topic in used[:MOST_TOPICS] if topic not in (TRANSACTION_STATE, CONSUMER_OFFSETS)]
        if len(used) > MOST_TOPICS:
            yield catalogue.SERIES_DROPPED(float(len(used) - MOST_TOPICS), catalogue.POSTURE_CHECK.name)
        brokers, broker_faults = self._broker_settings(metadata, deadline)
        topics, topic_faults = self._topic_settings(names, deadline)
        yield from dict.fromkeys((*broker_faults, *topic_faults))
        logs = log_dirs(self._cluster.client, named, internal, deadline) if internal else {}
        yield from self._sizes(logs)
        features, version_error = self._features(deadline)
        opened = facts.get(OpenTransactions)
        beyond = facts.get(GroupsBeyondLso)
        commits = self._newest_commits(metadata, named, use, deadline.within(COMMIT_SECONDS))
        early = self._early.look(metadata, deadline.within(EARLY_SECONDS))
        outside, outside_error = self._written_outside(
            metadata, used, facts.get(TopicReaders), deadline.within(WRITERS_SECONDS)
        )
        evidence = PostureEvidence(
            cluster=self.cluster,
            brokers=brokers,
            topics={name: (named if name in internal else metadata).topics[name] for name in names},
            topic_settings=topics,
            transaction_version=features.get("transaction.version"),
            version_error=version_error,
            spark_sinks=_spark_sinks(facts.get(SparkView)),
            elsewhere=facts.get(TransactionsElsewhere) is not None,
            opened=opened.transactions if opened is not None else None,
            opened_error="" if opened is not None else "the open transactions are not known yet, or cannot be asked",
            clients=use.clients if use is not None else None,
            clients_error="" if use is not None else f"{TRANSACTION_STATE} is not read: see source txnlog",
            beyond_lso=(beyond.pairs | early) if beyond is not None else early,
            unproven_readers=beyond.unproven if beyond is not None else {},
            connects=facts.all(ConnectState),
            connect_log=LoggedIds(use.connect_ids, use.connect_groups) if use is not None else None,
            newest_commits=commits,
            offset_partitions=use.offset_partitions if use is not None else {},
            pauses=use.pauses if use is not None else {},
            repeated_inits=use.repeated_inits if use is not None else {},
            id_changes=use.id_changes if use is not None else {},
            log_sizes={
                node: answer.detail if isinstance(answer, Fault) else answer.sizes
                for node, answer in sorted(logs.items())
            },
            durations=use.durations if use is not None else {},
            timeouts=use.timeouts if use is not None else {},
            written_outside=outside,
            written_outside_error=outside_error,
            flink_jobs=jobs.jobs if (jobs := facts.get(FlinkJobs)) is not None else (),
            unmade=unmade_topics(self._cluster.client, named, deadline),
        )
        yield from self._say(checks_of(evidence))

    def _sizes(self, logs: Mapping[int, BrokerLogs | Fault]) -> Iterator[Sample]:
        """A refusal is no fault of the source: the check names it."""
        for node, found in sorted(logs.items()):
            if isinstance(found, Fault):
                continue
            for topic, partitions in found.sizes.items():
                size = float(sum(partitions.values()))
                yield catalogue.INTERNAL_TOPIC_SIZE_BYTES(size, self.cluster, topic, str(node))
            for directory in found.dirs:
                if directory.total is not None and directory.usable is not None:
                    place = (self.cluster, str(node), directory.path)
                    yield catalogue.BROKER_LOG_DIR_SIZE_BYTES(float(directory.total), *place)
                    yield catalogue.BROKER_LOG_DIR_USABLE_BYTES(float(directory.usable), *place)

    def _say(self, found: Iterable[PostureCheck]) -> Iterator[Sample | Fact]:
        checks = tuple(
            check
            for check in found
            if check.name not in self._settings.ignore and f"{check.name}:{check.subject}" not in self._settings.ignore
        )
        for check in checks:
            if check.verdict is CheckResult.INFORMATION:
                yield catalogue.POSTURE_INFORMATION(1.0, self.cluster, check.name, check.subject)
            elif check.verdict is not CheckResult.UNKNOWN:
                passed = float(check.verdict is CheckResult.PASSED)
                yield catalogue.POSTURE_CHECK(passed, self.cluster, check.name, check.subject)
        yield Posture(checks)

    def _broker_settings(self, metadata: Metadata, deadline: Deadline) -> tuple[dict[int, Settings | str], list[Fault]]:
        found: dict[int, Settings | str] = {}
        faults: list[Fault] = []
        for node in metadata.brokers:
            answer = self._cluster.client.config("broker", str(node), BROKER_KEYS, deadline)
            found[node] = _settings(answer, faults)
        return found, faults

    def _topic_settings(
        self, names: Sequence[str], deadline: Deadline
    ) -> tuple[Mapping[str, Settings | str], list[Fault]]:
        found: dict[str, Settings | str] = {}
        faults: list[Fault] = []
        for name, answer in self._cluster.client.configs("topic", names, TOPIC_KEYS, deadline).items():
            if not (isinstance(answer, Fault) and answer.reason is Reason.UNKNOWN_TOPIC):
                found[name] = _settings(answer, faults)
        return found, faults

    def _newest_commits(
        self, metadata: Metadata, named: Metadata, use: TransactionUse | None, deadline: Deadline
    ) -> Mapping[str, CommitTimes] | Fault:
        """How groups committed in the last hour, as far as a sample of their newest commits has it; the fault where
        none of it could be read. A refusal is no fault of the source: the check names it.
        """
        if named.denies(CONSUMER_OFFSETS):
            return named.errors[CONSUMER_OFFSETS]
        if use is not None and not use.offset_partitions:  # there is no application to judge
            return {}
        wanted = named.topics.get(CONSUMER_OFFSETS, ())
        faults: list[Fault] = []
        commits = newest_commits(self._cluster.client, named, sorted(wanted), faults, deadline, self._newest)
        topics = use.topics if use is not None else frozenset[str]()
        commits = self._early.noted(commits, metadata, named, topics)
        self._commits.take(commits, self._cluster.clock.wall() - HOUR)
        times = self._commits.times()
        return faults[0] if faults and not times else times

    def _written_outside(
        self, metadata: Metadata, used: Sequence[str], readers: TopicReaders | None, deadline: Deadline
    ) -> tuple[tuple[WrittenOutside, ...], str]:
        """The newest samples of the topics that transactions write to and groups read, some partitions in each read;
        and why some could not be read, "" where all were.
        """
        if readers is None:
            return (), ""
        groups = readers.by_topic
        missing: list[str] = []
        sampled = written_outside(
            self._cluster, metadata, used, groups, missing, deadline, self._partitions, self._turn * self._partitions
        )
        self._turn += 1
        self._outside = {topic: seen for topic, seen in self._outside.items() if topic in groups and topic in used}
        self._outside |= {seen.topic: seen for seen in sampled if seen.sampled}
        return tuple(self._outside.values()), next(iter(missing), "")

    def _features(self, deadline: Deadline) -> tuple[Mapping[str, int], str]:
        try:
            return self._cluster.client.features(deadline), ""
        except AskError as error:
            return {}, error.fault.detail


def _spark_sinks(view: SparkView | None) -> Mapping[str, str]:
    queries = view.queries if view is not None else {}
    return {f"{key.application}/{key.query}": query.sink for key, query in queries.items() if query.sink}


def _settings(answer: Settings | Fault, faults: list[Fault]) -> Settings | str:
    if isinstance(answer, Fault):
        faults.append(answer)
        return answer.detail
    return answer
