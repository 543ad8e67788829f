"""Checks of the settings that exactly-once depends on. Pure, over what ``posture/source.py`` reads.

Each check has what was found, why it matters and what to set. It is passed or failed, or unknown with the error that
prevented a result; an unknown check is never reported as passed. A finding that an operator may be unable to mend is
information, not a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from exporter.bounds.text import count_of, some
from exporter.core.replication import CREATION, UnmadeTopic, effective_min_isr, is_under_min_isr
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, TRANSACTION_STATE, PartitionMetadata
from exporter.posture.check import UNMADE_TOPIC, CheckResult, PostureCheck, Rule
from exporter.posture.connect import connect_checks
from exporter.posture.evidence import PostureEvidence, broker_error, broker_numbers, broker_settings
from exporter.posture.flink import flink_checks
from exporter.posture.log_sizes import partition_check, size_checks
from exporter.posture.offsets import offset_checks
from exporter.posture.plain_writers import writer_checks
from exporter.posture.sinks import connect_sink_checks, spark_sink_checks
from exporter.posture.stable_ids import id_checks, reuse_checks
from exporter.posture.timeouts import timeout_checks, two_phase_checks

DAY_MS = 86_400_000
LONG_TIMEOUT_MS = 900_000
"""Kafka's default of transaction.max.timeout.ms: a quarter of an hour without any progress for read_committed
readers.
"""
NEAR_EXPIRATION = 0.5
"""Share of the time after which ids expire from which the longest pause of an application is told."""
V2 = 2
MOST_NAMED = 3
MIN_ISR, UNCLEAN_ELECTION = "min.insync.replicas", "unclean.leader.election.enable"


TOPIC_CREATION = Rule(
    UNMADE_TOPIC,
    "Brokers make an internal topic at its first use. Where they are told to make more replicas than there are brokers,"
    " they never do, and clients time out without any other sign.",
    "transaction.state.log.replication.factor and offsets.topic.replication.factor no higher than the number of"
    " brokers, on every broker, which takes a restart; or start the missing brokers",
)
LOG_REPLICATION = Rule(
    "internal_topic_replication",
    "With fewer than three replicas one lost disk or two brokers down lose open transactions or stop all of them.",
    "transaction.state.log.replication.factor=3, offsets.topic.replication.factor=3; reassign existing partitions",
)
LOG_MIN_ISR = Rule(
    "transaction_log_min_isr",
    "With a minimum ISR of one, a decision to commit can be acknowledged and lost with a single broker; with one of all"
    " replicas, a single broker that stops halts every transaction.",
    "transaction.state.log.min.isr=2, and min.insync.replicas=2 on __transaction_state, with three replicas",
)
LOG_ISR = Rule(
    "transaction_log_isr",
    "A partition of the log with fewer in-sync replicas than its minimum accepts no transactions of its ids.",
    "restore the missing replicas: check for brokers that are down or lag behind",
)
MAX_TIMEOUT = Rule(
    "transaction_max_timeout",
    "A crashed producer may hold back every read_committed reader of its partitions for that long.",
    f"transaction.max.timeout.ms={LONG_TIMEOUT_MS} or less, as far as the applications allow",
)
OPEN_TIMEOUT = Rule(
    "transaction_timeout",
    "A timeout above the broker's limit is refused (INVALID_TRANSACTION_TIMEOUT) at the producer's next start.",
    "a transaction.timeout.ms of the application below the brokers' transaction.max.timeout.ms",
)
UNCLEAN = Rule(
    "unclean_leader_election",
    "An unclean leader loses acknowledged records: committed transactions lose a part, the log loses decisions.",
    "unclean.leader.election.enable=false on the brokers and on the topic",
)
TOPIC_MIN_ISR = Rule(
    "topic_min_isr",
    "A transactional topic with a minimum ISR of one, or of all its replicas, loses records or stops with one broker.",
    "replication factor 3 and min.insync.replicas=2 on topics that transactions write to",
)
VERSION = Rule(
    "transaction_version",
    "Transactions V2 (KIP-890) ends hanging transactions by design: every transaction has its own epoch.",
    "Kafka 4.0 or later, and kafka-features.sh upgrade --feature transaction.version=2",
)
NO_LOG = Rule(
    "transaction_log_topic",
    "There are no outcomes, and no transaction can be proven to hang: only the log has them.",
    "nothing: these brokers keep their transactions outside of __transaction_state (Redpanda, WarpStream;"
    " docs/managed.md)",
    fixable=False,
)
OLD_CLIENTS = Rule(
    "transaction_clients",
    "Clients that do not speak Transactions V2 do not get its protection, whatever the brokers can do.",
    "Java clients 4.0 or later; librdkafka has no Transactions V2 yet, and the log does not tell which of them it is",
    fixable=False,
)
VERIFICATION = Rule(
    "partition_verification",
    "Without verification a late write of an older client can open a transaction that never ends.",
    "transaction.partition.verification.enable=true",
)
EXPIRATION = Rule(
    "transactional_id_expiration",
    "An id that expires while its application sleeps loses the epoch that fences its zombies.",
    f"transactional.id.expiration.ms={7 * DAY_MS} (the default), and no less than a day",
)
ISOLATION = Rule(
    "group_isolation",
    "The group has read past the last stable offset: it takes records of transactions that may yet be aborted.",
    "isolation.level=read_committed in the consumers of this group",
)


def checks_of(evidence: PostureEvidence) -> tuple[PostureCheck, ...]:
    """Every check that applies, failed ones first, then unknown ones, then information."""
    order = {CheckResult.FAILED: 0, CheckResult.UNKNOWN: 1, CheckResult.INFORMATION: 2, CheckResult.PASSED: 3}
    found = (check for rule in _CHECKS for check in rule(evidence))
    return tuple(sorted(found, key=lambda check: (order[check.verdict], check.name, check.subject)))


# --- The cluster --------------------------------------------------------------------------------------------------


def _unmade(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    """What is not there yet is judged by the settings that it will be made with, and is never fine by its absence."""
    for topic, plan in evidence.unmade.items():
        of_log = topic == TRANSACTION_STATE
        if of_log and evidence.elsewhere:
            continue
        if isinstance(plan, str):
            for rule in (TOPIC_CREATION, LOG_REPLICATION, *((LOG_MIN_ISR, LOG_ISR) if of_log else ())):
                yield rule.cannot(topic, f"there is no {topic} to look at: {plan}")
            continue
        yield TOPIC_CREATION.says(topic, passed=not plan.obstacle, found=plan.obstacle or plan.text)
        factor = plan.replication_factor
        named = f"not made yet: {CREATION[topic].replication_factor}={factor}"
        yield LOG_REPLICATION.says(topic, passed=factor >= 3, found=named)
        if of_log:
            yield from _unmade_log(evidence, plan, named)


def _unmade_log(evidence: PostureEvidence, plan: UnmadeTopic, named: str) -> Iterator[PostureCheck]:
    topic, settings, brokers = plan.topic, CREATION[plan.topic], len(evidence.brokers)
    if plan.partitions is not None:
        yield from partition_check(plan.partitions, brokers)
    if plan.min_isr is None:
        for rule in (LOG_MIN_ISR, LOG_ISR):
            yield rule.cannot(topic, f"no broker returned its {settings.min_isr}")
        return
    found = f"{named}, {settings.min_isr}={plan.min_isr}"
    found += _taken(plan.min_isr, plan.replication_factor)
    yield LOG_MIN_ISR.says(topic, passed=2 <= plan.min_isr < plan.replication_factor, found=found)
    found = f"not made yet: {plan.needed} of its replicas have to be in sync, and {count_of(brokers, 'broker')} serve"
    yield LOG_ISR.says(topic, passed=plan.needed <= brokers, found=found)


def _replication(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    for topic in (TRANSACTION_STATE, CONSUMER_OFFSETS):
        if partitions := evidence.topics.get(topic):
            fewest = _fewest_replicas(partitions)
            yield LOG_REPLICATION.says(topic, passed=fewest >= 3, found=f"replication factor {fewest}")


def _log_min_isr(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    if not (partitions := evidence.topics.get(TRANSACTION_STATE)):
        return
    value = _topic_setting(evidence, LOG_MIN_ISR, TRANSACTION_STATE, MIN_ISR)
    if isinstance(value, PostureCheck):
        yield value
        return
    minimum = int(value)
    wanted = max([2, *broker_numbers(evidence, "transaction.state.log.min.isr")])
    found = _minimum_found(minimum, fewest := _fewest_replicas(partitions))
    if wanted > 2:
        found += f", the brokers say transaction.state.log.min.isr={wanted}"
    yield LOG_MIN_ISR.says(TRANSACTION_STATE, passed=wanted <= minimum < fewest, found=found)


def _log_isr(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    partitions = evidence.topics.get(TRANSACTION_STATE)
    if not partitions:
        return
    value = _topic_setting(evidence, LOG_ISR, TRANSACTION_STATE, MIN_ISR)
    if isinstance(value, PostureCheck):
        yield value
        return
    short = sum(
        partition.leader is None or is_under_min_isr(partition.isr, partition.replicas, int(value))
        for partition in partitions.values()
    )
    yield LOG_ISR.says(TRANSACTION_STATE, passed=not short, found=f"{short} of {len(partitions)} partitions below it")


def _max_timeout(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    yield from _broker_number(
        evidence, MAX_TIMEOUT, "transaction.max.timeout.ms", lambda value: value <= LONG_TIMEOUT_MS
    )


def _open_timeouts(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    key = "transaction.max.timeout.ms"
    limits, error = broker_numbers(evidence, key), broker_error(evidence)
    if evidence.opened is None:
        yield OPEN_TIMEOUT.cannot(evidence.cluster, evidence.opened_error or "the open transactions are not known")
        return
    if not limits:
        yield OPEN_TIMEOUT.cannot(evidence.cluster, error or f"no broker returned its {key}")
        return
    longest: dict[str, float] = {}
    for transaction in evidence.opened:
        if transaction.timeout is not None:
            longest[transaction.application] = max(longest.get(transaction.application, 0.0), transaction.timeout)
    for application, timeout in sorted(longest.items()):
        limit = min(limits) / 1000
        found = f"{timeout:g} s open, the brokers allow {limit:g} s"
        if error and timeout <= limit:  # a broker that did not answer may allow less
            yield OPEN_TIMEOUT.cannot(application, error)
        else:
            yield OPEN_TIMEOUT.says(application, passed=timeout <= limit, found=found)


def _timeouts(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    of_flink = {job.application for job in evidence.flink_jobs}
    return timeout_checks(evidence.durations, evidence.timeouts, of_flink)


def _flink(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    limits = broker_numbers(evidence, "transaction.max.timeout.ms")
    return flink_checks(evidence.flink_jobs, min(limits) / 1000 if limits else None)


def _unclean(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    for topic, partitions in evidence.topics.items():
        if not partitions:
            continue
        value = _topic_setting(evidence, UNCLEAN, topic, UNCLEAN_ELECTION)
        if isinstance(value, PostureCheck):
            yield value
        else:
            yield UNCLEAN.says(topic, passed=value == "false", found=f"{UNCLEAN_ELECTION}={value}")


def _topic_min_isr(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    for topic, partitions in evidence.topics.items():
        if topic in (TRANSACTION_STATE, CONSUMER_OFFSETS) or not partitions:
            continue
        value = _topic_setting(evidence, TOPIC_MIN_ISR, topic, MIN_ISR)
        if isinstance(value, PostureCheck):
            yield value
            continue
        found = _minimum_found(int(value), fewest := _fewest_replicas(partitions))
        yield TOPIC_MIN_ISR.says(topic, passed=2 <= int(value) < fewest, found=found)


def _fewest_replicas(partitions: Mapping[int, PartitionMetadata]) -> int:
    return min(len(partition.replicas) for partition in partitions.values())


def _minimum_found(minimum: int, replicas: int) -> str:
    """Both numbers, and what Kafka takes where the minimum is above the replicas."""
    return f"replication factor {replicas}, {MIN_ISR}={minimum}{_taken(minimum, replicas)}"


def _taken(minimum: int, replicas: int) -> str:
    taken = effective_min_isr(minimum, range(replicas))
    return f": higher than the number of replicas, Kafka takes {taken}" if taken < minimum else ""


def _topic_setting(evidence: PostureEvidence, rule: Rule, topic: str, key: str) -> str | PostureCheck:
    """The value, or the result of the check without it."""
    settings = evidence.topic_settings.get(topic, "its settings were not read")
    if isinstance(settings, str):
        return rule.cannot(topic, settings)
    # Kafka always has it.
    return settings.get(key) or rule.notes(topic, f"these brokers have no {key}")


def _version(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    if evidence.version_error:
        yield VERSION.cannot(evidence.cluster, evidence.version_error)
        return
    level = evidence.transaction_version
    found = "no transaction.version: older than Kafka 4.0" if level is None else f"transaction.version={level}"
    yield VERSION.says(evidence.cluster, passed=(level or 0) >= V2, found=found)


def _clients(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    if (evidence.transaction_version or 0) < V2:
        return  # the cluster's own check comes first
    if evidence.clients is None:
        yield OLD_CLIENTS.cannot(evidence.cluster, evidence.clients_error or "the transaction log is not read")
        return
    of_flink = {job.application for job in evidence.flink_jobs}
    for application, versions in sorted(evidence.clients.items()):
        if application in of_flink:
            continue  # the connector bundles its client (3.9.0 in 4.0.0-2.0): a job cannot use another one
        total = sum(versions.values())
        old = sum(count for version, count in versions.items() if version < V2)
        if total:
            found = f"{old} of {total} transactional ids end their transactions as old clients do"
            yield OLD_CLIENTS.says(application, passed=not old, found=found)


def _log_topic(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    if evidence.elsewhere:
        found = "no topic __transaction_state, and brokers that list transactions"
        yield NO_LOG.says(evidence.cluster, passed=False, found=found)


def _verification(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    key = "transaction.partition.verification.enable"
    values = {settings[key] for settings in broker_settings(evidence) if key in settings}
    return _of_brokers(evidence, VERIFICATION, key, sorted(values), passed=values == {"true"})


def _expiration(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    key = "transactional.id.expiration.ms"
    yield from _broker_number(evidence, EXPIRATION, key, lambda value: value >= DAY_MS)
    limit = min(broker_numbers(evidence, key), default=0) / 1000
    for application, pause in sorted(evidence.pauses.items()):
        if limit and pause >= limit * NEAR_EXPIRATION:
            found = (
                f"it paused for {pause:.0f} s between two transactions, an id expires after {limit:.0f} s without one"
            )
            if pause >= limit:
                yield EXPIRATION.says(application, passed=False, found=found)
            else:
                yield EXPIRATION.notes(application, found)


def _groups(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    """Each proven group fails; that nothing is proven of the others is said once, as no look shows read_committed."""
    topics: dict[str, list[str]] = {}
    for group, topic in sorted(evidence.beyond_lso):
        topics.setdefault(group, []).append(topic)
    for group, beyond in topics.items():
        found = f"it committed offsets above the last stable offset of {', '.join(beyond)} (proven)"
        yield ISOLATION.says(group, passed=False, found=found)
    if others := {group: seen for group, seen in evidence.unproven_readers.items() if group not in topics}:
        error = (
            f"{count_of(len(others), 'running group')} of topics of transactions without a proof"
            f" ({some(sorted(others), MOST_NAMED)}): of {count_of(sum(others.values()), 'commit')} that"
            f" {'was' if sum(others.values()) == 1 else 'were'} seen as they came, none was above the last stable"
            " offset. So it is with read_committed, and with a reader that is behind; their own settings show it"
            " (`check client`)"
        )
        yield ISOLATION.cannot(evidence.cluster, error)


def _broker_number(
    evidence: PostureEvidence, rule: Rule, key: str, passes: Callable[[int], bool]
) -> Iterator[PostureCheck]:
    values = sorted(set(broker_numbers(evidence, key)))
    if values or broker_error(evidence):
        yield from _of_brokers(evidence, rule, key, map(str, values), passed=all(map(passes, values)))
    else:
        yield rule.cannot(evidence.cluster, f"no broker returned its {key}")


def _of_brokers(
    evidence: PostureEvidence, rule: Rule, key: str, values: Iterable[str], *, passed: bool
) -> Iterator[PostureCheck]:
    """The check of a setting of brokers. Where a broker did not answer, these values prove a failure only."""
    error, given = broker_error(evidence), ", ".join(values)
    if error and (passed or not given):
        yield rule.cannot(evidence.cluster, error)
    elif given:
        yield rule.says(evidence.cluster, passed=passed, found=f"{key}={given}")


def _offsets(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    partitions = len(evidence.topics.get(CONSUMER_OFFSETS, ()))
    return offset_checks(evidence.newest_commits, evidence.offset_partitions, partitions, evidence.cluster)


def _stable_ids(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    return id_checks(evidence.id_changes, evidence.offset_partitions)


def _connect(evidence: PostureEvidence) -> Iterator[PostureCheck]:
    return connect_checks(evidence.connects, evidence.connect_log, evidence.clients_error, evidence.beyond_lso)


_CHECKS: tuple[Callable[[PostureEvidence], Iterator[PostureCheck]], ...] = (
    _unmade,
    _replication,
    lambda evidence: partition_check(len(evidence.topics.get(TRANSACTION_STATE, ())), len(evidence.brokers)),
    lambda evidence: size_checks(evidence.log_sizes),
    _log_topic,
    _log_min_isr,
    _log_isr,
    _max_timeout,
    _open_timeouts,
    _flink,
    _timeouts,
    lambda evidence: two_phase_checks(
        evidence.cluster, broker_settings(evidence), broker_error(evidence), evidence.timeouts
    ),
    _unclean,
    _topic_min_isr,
    _version,
    _clients,
    _verification,
    _expiration,
    _groups,
    lambda evidence: writer_checks(evidence.cluster, evidence.written_outside, evidence.written_outside_error),
    _offsets,
    _stable_ids,
    lambda evidence: reuse_checks(evidence.repeated_inits),
    _connect,
    lambda evidence: connect_sink_checks(evidence.connects),
    lambda evidence: spark_sink_checks(evidence.spark_sinks),
)
