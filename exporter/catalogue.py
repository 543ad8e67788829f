"""THE table of metrics. Data only: nothing else in the project spells a metric's name.

Six readers: the exposition, the README's metric reference, the dashboards, the alerts, the chart, and the tests. A
family enters with the source that emits it; one that nobody emits or asserts fails a test.
"""

from __future__ import annotations

from exporter.model import Kind, Metric

PREFIX = "kafka_eos_"

K = ("kafka_cluster",)
A = ("kafka_cluster", "application")

OVERFLOW = "_other"
"""The application that takes what overflows the cap, so that sums stay true."""

OUTCOMES = ("committed", "aborted", "timed_out", "fenced")
UNCLEAN_OUTCOMES = ("fenced", "timed_out", "aborted_by_server")
TRANSACTION_STATES = ("ongoing", "prepare_commit", "prepare_abort")
BLOCKER_KINDS = ("open", "completing", "hanging", "unknown")
TOPIC_CONDITIONS = ("total", "offline", "under_replicated", "under_min_isr")
INTERNAL_TOPICS = ("__transaction_state", "__consumer_offsets")
APPLICATION_KINDS = ("connect_leader", "connect_task", "streams", "flink", "producer", "other")

# --- The agent itself ---------------------------------------------------------------------------------------------

EXPORTER_BUILD_INFO = Metric(
    "kafka_eos_exporter_build_info",
    Kind.GAUGE,
    "Version and revision of the exporter and of the Python it runs on; always 1.",
    ("version", "revision", "python"),
)
SOURCE_UP = Metric(
    "kafka_eos_source_up",
    Kind.GAUGE,
    "1 when all that the last read of the source asked was answered, 0 when any of it was not.",
    (*K, "source", "target"),
)
SOURCE_READ_DURATION_SECONDS = Metric(
    "kafka_eos_source_read_duration_seconds",
    Kind.GAUGE,
    "Duration of the last read of the source, in seconds.",
    (*K, "source", "target"),
)
SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_source_last_success_timestamp_seconds",
    Kind.GAUGE,
    "Unix time of the last read of the source that had no fault; absent until there was one.",
    (*K, "source", "target"),
)
SOURCE_FAULTS_TOTAL = Metric(
    "kafka_eos_source_faults_total",
    Kind.COUNTER,
    "Things that did not answer when the source was read, by reason.",
    (*K, "source", "target", "reason"),
)
SERIES_DROPPED = Metric(
    "kafka_eos_series_dropped",
    Kind.GAUGE,
    "Series of the named metric that a cap keeps out, or folds into application _other.",
    ("metric",),
)
CLUSTER_INFO = Metric(
    "kafka_eos_cluster_info",
    Kind.GAUGE,
    "The watched cluster, its id, the bootstrap servers and the finalised transaction.version; always 1.",
    (*K, "cluster_id", "bootstrap_servers", "transaction_version"),
    "transactions",
)
APPLICATION_INFO = Metric(
    "kafka_eos_application_info",
    Kind.GAUGE,
    "What an application is, and for Connect the group and connector that joins it to Connect's metrics; always 1.",
    (*A, "kind", "connect", "connector"),
    "txnlog",
)
TRANSACTION_LOG_TAIL_LAG_RECORDS = Metric(
    "kafka_eos_transaction_log_tail_lag_records",
    Kind.GAUGE,
    "Offsets of __transaction_state that the tail has not read yet, over all its partitions.",
    K,
    "txnlog",
)
TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL = Metric(
    "kafka_eos_transaction_log_undecodable_records_total",
    Kind.COUNTER,
    "Records of __transaction_state that could not be decoded: garbage, or a layout newer than this exporter.",
    K,
    "txnlog",
)
TRANSACTION_LOG_LOST_RECORDS_TOTAL = Metric(
    "kafka_eos_transaction_log_lost_records_total",
    Kind.COUNTER,
    "Offsets of __transaction_state that were missing while catching up: compaction took them before they were read.",
    K,
    "txnlog",
)

# --- Transactions, from the log -----------------------------------------------------------------------------------

TRANSACTIONS_TOTAL = Metric(
    "kafka_eos_transactions_total",
    Kind.COUNTER,
    "Finished transactions by outcome, each counted once, when the transaction log settles it.",
    (*A, "outcome"),
    "txnlog",
)
TRANSACTION_OPEN_SECONDS = Metric(
    "kafka_eos_transaction_open_seconds",
    Kind.HISTOGRAM,
    "Time from a transaction's begin to the decision to commit or abort it: how long it held the last stable offset.",
    (*A, "outcome"),
    "txnlog",
    (0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600),
)
TRANSACTION_COMPLETION_SECONDS = Metric(
    "kafka_eos_transaction_completion_seconds",
    Kind.HISTOGRAM,
    "Time from the decision on a transaction to its completion: how long its markers took.",
    A,
    "txnlog",
    (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60),
)
OLDEST_COMPLETION_START_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_oldest_completion_start_timestamp_seconds",
    Kind.GAUGE,
    "Unix time at which the oldest prepared and not completed transaction was prepared; absent when there is none.",
    A,
    "txnlog",
)
TRANSACTIONS_OPEN = Metric(
    "kafka_eos_transactions_open",
    Kind.GAUGE,
    "Open transactions by state.",
    (*A, "state"),
    "txnlog",
)
OVERDUE_TRANSACTIONS = Metric(
    "kafka_eos_overdue_transactions",
    Kind.GAUGE,
    "Transactions open for longer than their own timeout plus 15 seconds: the coordinator should have ended them.",
    A,
    "txnlog",
)
OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_oldest_open_transaction_start_timestamp_seconds",
    Kind.GAUGE,
    "Unix time at which the oldest open transaction began; absent when none is open.",
    A,
    "txnlog",
)
LAST_TRANSACTION_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_last_transaction_timestamp_seconds",
    Kind.GAUGE,
    "Unix time of the log at which the last transaction with this outcome finished.",
    (*A, "outcome"),
    "txnlog",
)
OPEN_TRANSACTION_START_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_open_transaction_start_timestamp_seconds",
    Kind.GAUGE,
    "Unix time at which an open transaction began, for those nearest to or furthest past their timeout and every one "
    "that holds a stalled partition.",
    (*A, "transactional_id", "producer_id", "producer_epoch", "state"),
    "txnlog",
)
OPEN_TRANSACTION_TIMEOUT_SECONDS = Metric(
    "kafka_eos_open_transaction_timeout_seconds",
    Kind.GAUGE,
    "The transaction.timeout.ms of an open transaction, in seconds; absent for two-phase commit, which has none.",
    (*A, "transactional_id", "producer_id", "producer_epoch", "state"),
    "txnlog",
)
PRODUCER_FENCES_TOTAL = Metric(
    "kafka_eos_producer_fences_total",
    Kind.COUNTER,
    "Times an InitProducerId ended an open transaction: a zombie displaced, or a crashed predecessor cleaned up.",
    A,
    "txnlog",
)
PRODUCER_INITS_TOTAL = Metric(
    "kafka_eos_producer_inits_total",
    Kind.COUNTER,
    "Times a transactional producer was initialised (InitProducerId), clean restarts included.",
    A,
    "txnlog",
)
RECENT_PRODUCER_FENCES = Metric(
    "kafka_eos_recent_producer_fences",
    Kind.GAUGE,
    "Fences of one transactional.id in the last 10 minutes of log time, for the ids fenced most.",
    (*A, "transactional_id"),
    "txnlog",
)
LAST_UNCLEAN_END_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_last_unclean_end_timestamp_seconds",
    Kind.GAUGE,
    "Unix time of the log at which a transaction was fenced, timed out or aborted by the server, for the latest ones "
    "of the last hour.",
    (*A, "transactional_id", "producer_id", "producer_epoch", "outcome"),
    "txnlog",
)
TRANSACTIONAL_IDS = Metric(
    "kafka_eos_transactional_ids",
    Kind.GAUGE,
    "Transactional ids seen in the transaction log in the last hour.",
    A,
    "txnlog",
)

# --- LSO and consumers --------------------------------------------------------------------------------------------

TOPIC_LSO_LAG_OFFSETS = Metric(
    "kafka_eos_topic_lso_lag_offsets",
    Kind.GAUGE,
    "Offsets between the last stable offset and the high watermark, of the partition of the topic where it is largest.",
    (*K, "topic"),
    "lso",
)
STALLED_PARTITIONS = Metric(
    "kafka_eos_stalled_partitions",
    Kind.GAUGE,
    "Partitions of the topic whose last stable offset has stood still below the high watermark for the threshold.",
    (*K, "topic"),
    "lso",
)
LSO_STALLED_SINCE_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_lso_stalled_since_timestamp_seconds",
    Kind.GAUGE,
    "Unix time since which the last stable offset of a stalled partition has not moved; absent for the others.",
    (*K, "topic", "partition"),
    "lso",
)
LSO_LAG_OFFSETS = Metric(
    "kafka_eos_lso_lag_offsets",
    Kind.GAUGE,
    "Offsets between the last stable offset and the high watermark of a stalled partition.",
    (*K, "topic", "partition"),
    "lso",
)
LSO_BLOCKER_INFO = Metric(
    "kafka_eos_lso_blocker_info",
    Kind.GAUGE,
    "The transaction that holds the last stable offset of a stalled partition, and what its coordinator says of it; "
    "always 1.",
    (*A, "topic", "partition", "transactional_id", "producer_id", "producer_epoch", "start_offset", "kind"),
    "lso",
)
HANGING_TRANSACTIONS = Metric(
    "kafka_eos_hanging_transactions",
    Kind.GAUGE,
    "Transactions open in the logs of the topic's stalled partitions that no coordinator knows; absent where that "
    "could not be asked.",
    (*K, "topic"),
    "lso",
)
GROUP_READ_COMMITTED_LAG_OFFSETS = Metric(
    "kafka_eos_group_read_committed_lag_offsets",
    Kind.GAUGE,
    "Offsets between a group's committed offset and the last stable offset, summed over the topic's partitions.",
    (*K, "group", "topic"),
    "groups",
)
GROUP_BLOCKED_OFFSETS = Metric(
    "kafka_eos_group_blocked_offsets",
    Kind.GAUGE,
    "Offsets that a read_committed group cannot read yet because a transaction is open: high watermark minus last "
    "stable offset, summed over the group's partitions of the topic.",
    (*K, "group", "topic"),
    "groups",
)

# --- Cluster ------------------------------------------------------------------------------------------------------

INTERNAL_TOPIC_PARTITIONS = Metric(
    "kafka_eos_internal_topic_partitions",
    Kind.GAUGE,
    "Partitions of the internal topics that exactly-once rests on, by condition.",
    (*K, "topic", "condition"),
    "transactions",
)
TRANSACTIONAL_IDS_UNAVAILABLE = Metric(
    "kafka_eos_transactional_ids_unavailable",
    Kind.GAUGE,
    "Transactional ids whose coordinator partition of __transaction_state is offline or under its minimum ISR.",
    A,
    "transactions",
)


def rows() -> tuple[Metric, ...]:
    """Every family, in the order of this page, which is the order of exposition."""
    return tuple(value for value in globals().values() if isinstance(value, Metric))
