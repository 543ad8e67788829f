"""The table of metrics. Data only: no other module spells a metric's name.

It has six readers: the exposition, docs/metrics.md, the dashboards, the alerts, the chart, and the tests. A row is
added with the source that emits it; a row that no source emits or no test asserts fails a test.
"""

from __future__ import annotations

from exporter.model import Kind, Metric
from exporter.words import (
    AuditVerdict,
    Outcome,
    QueryState,
    TerminationReason,
)

K = ("kafka_cluster",)
A = ("kafka_cluster", "application")
CONNECT = ("kafka_cluster", "target", "connect")
SPARK = ("kafka_cluster", "target", "spark_application", "query")
AUDIT = ("kafka_cluster", "target", "audit", "topic")

OVERFLOW = "_other"
"""The application that takes what overflows the cap, so that sums stay true."""

OUTCOMES = Outcome.values()
UNCLEAN_OUTCOMES = (Outcome.FENCED.value, Outcome.TIMED_OUT.value)
STORM_FENCES = 3
"""Fences of one transactional.id in 10 minutes that make a storm: in the alert, on the page and in the status."""
INTERNAL_TOPICS = ("__transaction_state", "__consumer_offsets")
TASK_STATES = ("running", "paused", "stopped", "failed", "unassigned", "restarting", "destroyed")
STREAMS_CLIENT_STATES = (
    "created",
    "rebalancing",
    "running",
    "pending_shutdown",
    "not_running",
    "pending_error",
    "error",
)
STREAMS_THREAD_STATES = (
    "created",
    "starting",
    "partitions_revoked",
    "partitions_assigned",
    "running",
    "pending_shutdown",
    "dead",
)
STREAMS_GUARANTEES = ("exactly_once_v2", "exactly_once", "at_least_once")
BROKER_REQUESTS = (
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddPartitionsToTxnVerification",
    "AddOffsetsToTxn",
    "EndTxn",
    "TxnOffsetCommit",
    "WriteTxnMarkers",
    "Produce",
)
BROKER_REQUEST_ERRORS = (
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_EPOCH",
    "INVALID_TXN_STATE",
    "INVALID_PRODUCER_ID_MAPPING",
    "INVALID_TRANSACTION_TIMEOUT",
    "CONCURRENT_TRANSACTIONS",
    "TRANSACTION_COORDINATOR_FENCED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "UNKNOWN_PRODUCER_ID",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "TRANSACTION_ABORTABLE",
    "ILLEGAL_GENERATION",
    "STALE_MEMBER_EPOCH",
    "UNKNOWN_MEMBER_ID",
    "FENCED_INSTANCE_ID",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_ENOUGH_REPLICAS",
)
"""Those that exist at 0 before they happen: a broker makes the counter of an error at its first occurrence."""
LOAD_STATS = ("avg", "max")
PRODUCER_OPERATIONS = ("init", "begin", "send_offsets", "prepare", "commit", "abort")
RDKAFKA_TXN_STATES = (
    "init",
    "wait_pid",
    "ready_not_acked",
    "ready",
    "in_transaction",
    "begin_commit",
    "committing_transaction",
    "commit_not_acked",
    "begin_abort",
    "aborting_transaction",
    "aborted_not_acked",
    "abortable_error",
    "fatal_error",
    "unknown",
)
RDKAFKA_IDEMPOTENCE_STATES = (
    "init",
    "terminate",
    "fatal_error",
    "request_pid",
    "wait_transport",
    "wait_pid",
    "assigned",
    "drain_reset",
    "drain_bump",
    "wait_txn_abort",
    "unknown",
)
SPARK_QUERY_STATES = QueryState.values()
SPARK_TERMINATION_REASONS = TerminationReason.values()
SPARK_BATCH_PHASES = (
    "trigger_execution",
    "latest_offset",
    "query_planning",
    "wal_commit",
    "get_batch",
    "add_batch",
    "commit_batch",
    "commit_offsets",
)
"""``durationMs`` of a progress event (ProgressReporter); trigger_execution is the whole of a trigger."""
AUDIT_KINDS = (
    "duplicate",
    "gap",
    "reordered",
    "aborted_visible",
    "missing",
    "repeated",
    "ahead",
    "stale",
    "phantom",
)
"""Findings of an audit. In a topic: a record twice, a number missing or out of order, an aborted record that a reader
took as committed. In a sink compared with its topic: a record missing, twice, or not stable yet; a row of an older
record of its key, or of none.
"""
AUDIT_VERDICTS = AuditVerdict.values()
CANARY = "kafka-eos-canary"
"""Prefix of the canary's ids, its topic, its group and its application."""
APPLICATION_KINDS = ("canary", "connect_leader", "connect_task", "streams", "flink", "producer", "other")

# --- The agent itself ---------------------------------------------------------------------------------------------

EXPORTER_BUILD_INFO = Metric(
    "kafka_eos_exporter_build_info",
    Kind.GAUGE,
    "Version and revision of the exporter and of the Python it runs on; always 1.",
    ("version", "revision", "python"),
)
EXPORTER_SHARDS = Metric(
    "kafka_eos_exporter_shards",
    Kind.GAUGE,
    "Number of shards, as given to each of them by --shard; absent without it.",
)
EXPORTER_HELD_BYTES = Metric(
    "kafka_eos_exporter_held_bytes",
    Kind.GAUGE,
    "Estimated memory whose size others choose: posted data with its series, requests without an answer, large bodies "
    "that clients have not taken to their end, answers that are being read.",
    ("kind",),
)
EXPORTER_HELD_LIMIT_BYTES = Metric(
    "kafka_eos_exporter_held_limit_bytes",
    Kind.GAUGE,
    "Limit of kafka_eos_exporter_held_bytes. For answers at least two of the newest body.",
    ("kind",),
)
SOURCE_UP = Metric(
    "kafka_eos_source_up",
    Kind.GAUGE,
    "1 when all requests of the last read of the source were answered, 0 when any failed.",
    (*K, "source", "target"),
)
SOURCE_BLIND = Metric(
    "kafka_eos_source_blind",
    Kind.GAUGE,
    "1 when the last read of the source had a fault and gave no gauge: nothing that it reads is known now. 0 when "
    "it gave some or all.",
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
    "Requests of the source that failed, by reason.",
    (*K, "source", "target", "reason"),
)
SERIES_DROPPED = Metric(
    "kafka_eos_series_dropped",
    Kind.GAUGE,
    "Series of the named metric that a cap leaves out, or counts together as application _other.",
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
    "The kind of an application, and for Connect the group and connector that join it to Connect's metrics; always 1.",
    (*A, "kind", "connect", "connector"),
    "txnlog",
)
RECENT_APPLICATIONS = Metric(
    "kafka_eos_recent_applications",
    Kind.GAUGE,
    "Applications that appeared in the last hour: many of them show ids that are grouped wrongly; absent until those"
    " before them are known.",
    K,
    "txnlog",
)
TRANSACTION_LOG_TAIL_LAG_RECORDS = Metric(
    "kafka_eos_transaction_log_tail_lag_records",
    Kind.GAUGE,
    "Offsets of __transaction_state that the tail has not read yet, over all its partitions.",
    K,
    "txnlog",
)
CLOCK_DISTANCE_SECONDS = Metric(
    "kafka_eos_clock_distance_seconds",
    Kind.GAUGE,
    "Seconds by which this exporter's clock is ahead of the transaction coordinators', negative behind, by the arrival"
    " of new records of __transaction_state; absent until there were some.",
    K,
    "transactions",
)
COORDINATOR_CLOCK_SKEW_SECONDS = Metric(
    "kafka_eos_coordinator_clock_skew_seconds",
    Kind.GAUGE,
    "Seconds by which this exporter's clock is ahead of that of each broker that coordinates transactions, negative"
    " behind, by the arrival of the broker's new records of __transaction_state; absent until there were some.",
    (*K, "broker"),
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

FLINK_CHECKPOINT_INTERVAL_SECONDS = Metric(
    "kafka_eos_flink_checkpoint_interval_seconds",
    Kind.GAUGE,
    "Interval of the checkpoints of a Flink job, in seconds, by the commits of its KafkaSink.",
    (*A, "transactional_id_prefix"),
    "txnlog",
)
FLINK_AT_RISK_DEADLINE_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_flink_at_risk_deadline_timestamp_seconds",
    Kind.GAUGE,
    "Unix time at which a transaction that a Flink job has precommitted, and does not commit, times out and is lost;"
    " precommitted is proven or likely.",
    (*A, "transactional_id", "producer_id", "precommitted"),
    "txnlog",
)
FLINK_LOSS_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_flink_loss_timestamp_seconds",
    Kind.GAUGE,
    "Unix time at which a transaction that a Flink job had precommitted was ended by the server, in the last hour;"
    " checkpoint is the number in its id, completed whether another subtask committed the same checkpoint.",
    (*A, "transactional_id", "producer_id", "checkpoint", "completed"),
    "txnlog",
)
FLINK_LOSS_INFO = Metric(
    "kafka_eos_flink_loss_info",
    Kind.GAUGE,
    "A partition of a transaction in kafka_eos_flink_loss_timestamp_seconds: its records are at or after start_offset"
    " and before end_offset, both empty where they were not seen; always 1.",
    (*A, "transactional_id", "producer_id", "topic", "partition", "start_offset", "end_offset"),
    "txnlog",
)
FLINK_LAST_CLEAN_UP_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_flink_last_clean_up_timestamp_seconds",
    Kind.GAUGE,
    "Unix time at which the start of a Flink job last ended transactions of an earlier start: counted as fenced.",
    (*A, "transactional_id_prefix"),
    "txnlog",
)

EVENTS_TOTAL = Metric(
    "kafka_eos_events_total",
    Kind.COUNTER,
    "What happened since the start of the agent, by kind, as its journal has it.",
    (*K, "kind"),
)
JOURNAL_LOST_EVENTS_TOTAL = Metric(
    "kafka_eos_journal_lost_events_total",
    Kind.COUNTER,
    "Events that could not be written to state.dir, as on a full disk, and are lost.",
    K,
)
JOURNAL_SIZE_BYTES = Metric(
    "kafka_eos_journal_size_bytes",
    Kind.GAUGE,
    "Bytes of the cluster's journal on disk; absent without state.dir.",
    K,
)

OF_EACH_AGENT = (
    EXPORTER_BUILD_INFO,
    EXPORTER_SHARDS,
    EXPORTER_HELD_BYTES,
    EXPORTER_HELD_LIMIT_BYTES,
    SOURCE_UP,
    SOURCE_BLIND,
    SOURCE_READ_DURATION_SECONDS,
    SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS,
    SOURCE_FAULTS_TOTAL,
    SERIES_DROPPED,
    EVENTS_TOTAL,
    JOURNAL_LOST_EVENTS_TOTAL,
    JOURNAL_SIZE_BYTES,
    TRANSACTION_LOG_TAIL_LAG_RECORDS,
    TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL,
    TRANSACTION_LOG_LOST_RECORDS_TOTAL,
)
"""Metrics of the agent itself. Every shard exposes them, with a label ``shard``."""

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
    "transactions",
)
TRANSACTIONS_OPEN = Metric(
    "kafka_eos_transactions_open",
    Kind.GAUGE,
    "Open transactions by state.",
    (*A, "state"),
    "transactions",
)
OVERDUE_TRANSACTIONS = Metric(
    "kafka_eos_overdue_transactions",
    Kind.GAUGE,
    "Undecided transactions older than their own timeout plus 15 seconds: the coordinator should have ended them.",
    A,
    "transactions",
)
OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_oldest_open_transaction_start_timestamp_seconds",
    Kind.GAUGE,
    "Unix time at which the oldest open transaction began; absent when none is open.",
    A,
    "transactions",
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
    "transactions",
)
OPEN_TRANSACTION_TIMEOUT_SECONDS = Metric(
    "kafka_eos_open_transaction_timeout_seconds",
    Kind.GAUGE,
    "The transaction.timeout.ms of an open transaction, in seconds; absent for two-phase commit, which has none.",
    (*A, "transactional_id", "producer_id", "producer_epoch", "state"),
    "transactions",
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
    "Unix time of the log at which a transaction was fenced or timed out, for the latest ones of the last hour.",
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

# --- Transactions, by polling where the log is not read ----------------------------------------------------------

TRANSACTIONS_OBSERVED_TOTAL = Metric(
    "kafka_eos_transactions_observed_total",
    Kind.COUNTER,
    "Ended transactions by outcome, at least, by polling coordinators where the transaction log is not read: aborted"
    " has those whose reason polling does not show, unknown those that ended between two looks.",
    (*A, "outcome"),
    "transactions",
)
LAST_TRANSACTION_OBSERVED_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_last_transaction_observed_timestamp_seconds",
    Kind.GAUGE,
    "Unix time of the last look at the coordinators that showed a transaction ended with this outcome.",
    (*A, "outcome"),
    "transactions",
)
PRODUCER_EPOCHS_OBSERVED_TOTAL = Metric(
    "kafka_eos_producer_epochs_observed_total",
    Kind.COUNTER,
    "By how much polling saw epochs of transactional ids raised. A client of Transactions V2 raises it with each"
    " transaction, so that it ends at most this many; one before V2 when it is initialised, fenced or timed out.",
    A,
    "transactions",
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
    "Partitions of the topic whose last stable offset has stayed below the high watermark for the threshold.",
    (*K, "topic"),
    "lso",
)
TOPIC_WITHHELD_RECORD_AGE_SECONDS = Metric(
    "kafka_eos_topic_withheld_record_age_seconds",
    Kind.GAUGE,
    "Age of the oldest record of the topic that read_committed readers are not given, in seconds: how old what they "
    "read next may be. 0 where nothing is withheld; only for topics in which a transaction was seen since the start.",
    (*K, "topic"),
    "lso",
)
LSO_STALLED_SINCE_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_lso_stalled_since_timestamp_seconds",
    Kind.GAUGE,
    "Unix time since which the last stable offset of a stalled partition has not moved, in the coordinators' time "
    "where this exporter's clock is 5 s or more off; absent for the others.",
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
LSO_STALLED_LEADER_ID = Metric(
    "kafka_eos_lso_stalled_leader_id",
    Kind.GAUGE,
    "Id of the broker that leads a stalled partition; absent when there is none.",
    (*K, "topic", "partition"),
    "lso",
)
LSO_BLOCKER_INFO = Metric(
    "kafka_eos_lso_blocker_info",
    Kind.GAUGE,
    "The transaction that holds the last stable offset of a stalled partition, and its state at its coordinator; "
    "always 1.",
    (*A, "topic", "partition", "transactional_id", "producer_id", "producer_epoch", "start_offset", "kind"),
    "lso",
)
LSO_HOLDER_PARTITIONS = Metric(
    "kafka_eos_lso_holder_partitions",
    Kind.GAUGE,
    "Stalled partitions that one transaction holds, and its state at its coordinator; producer_id _other takes "
    "those beyond a cap together.",
    (*A, "transactional_id", "producer_id", "kind"),
    "lso",
)
LSO_HOLDER_DUE_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_lso_holder_due_timestamp_seconds",
    Kind.GAUGE,
    "Unix time from which on the first stall of a holder is a ticket (warning) or a page (critical), by the "
    "thresholds of its topics, its timeout and whether it hangs.",
    (*A, "transactional_id", "producer_id", "kind", "severity"),
    "lso",
)
OF_EACH_SHARD = (*OF_EACH_AGENT, RECENT_APPLICATIONS, LSO_HOLDER_PARTITIONS, LSO_HOLDER_DUE_TIMESTAMP_SECONDS)
"""Metrics that every shard exposes, with a label ``shard``: a transaction holds partitions of several shards' topics.

A holder has the sum of its partitions, and the earliest of its instants; each shard counts its own new applications.
All other metrics are exposed by one shard.
"""
HANGING_TRANSACTIONS = Metric(
    "kafka_eos_hanging_transactions",
    Kind.GAUGE,
    "Transactions open in the logs of the topic's stalled partitions that no coordinator has; absent where that "
    "could not be asked.",
    (*K, "topic"),
    "lso",
)
TORN_TRANSACTIONS = Metric(
    "kafka_eos_torn_transactions",
    Kind.GAUGE,
    "Partitions of the topic whose marker of a transaction is not that of its decision: those without one as long as "
    "they have none, the others for an hour; absent without any.",
    (*K, "topic", "decided", "found"),
    "markers",
)
MARKER_COMPARISONS_TOTAL = Metric(
    "kafka_eos_marker_comparisons_total",
    Kind.COUNTER,
    "Decided transactions that were compared with the markers of their partitions, and those that could not be.",
    (*K, "result"),
    "markers",
)
GROUP_READ_COMMITTED_LAG_OFFSETS = Metric(
    "kafka_eos_group_read_committed_lag_offsets",
    Kind.GAUGE,
    "Offsets between a group's committed offset and the last stable offset, summed over the topic's partitions. Control"
    " records count: a topic that was read to its end may have 1 or more.",
    (*K, "group", "topic"),
    "groups",
)
GROUP_READ_COMMITTED_LAG_RECORDS = Metric(
    "kafka_eos_group_read_committed_lag_records",
    Kind.GAUGE,
    "Records that a read_committed group has still to read, without control records and aborted transactions, summed"
    " over the topic's partitions; absent where more than 100 offsets lie between its commit and the last stable offset"
    " of one, or READ on the topic is not granted.",
    (*K, "group", "topic"),
    "groups",
)
GROUP_OFFSET_COMMITS_TOTAL = Metric(
    "kafka_eos_group_offset_commits_total",
    Kind.COUNTER,
    "Offsets that a group committed since the agent began to read __consumer_offsets, in a transaction (true), aborted "
    "ones included, or outside of any (false).",
    (*K, "group", "topic", "transactional"),
    "offsets",
)
GROUP_OFFSET_REWINDS_TOTAL = Metric(
    "kafka_eos_group_offset_rewinds_total",
    Kind.COUNTER,
    "Commits since the agent began to read __consumer_offsets that set an offset of a group back, of a topic whose "
    "offsets the group commits in transactions; a transaction counts once it is committed.",
    (*K, "group", "topic"),
    "offsets",
)
GROUP_REBALANCES_TOTAL = Metric(
    "kafka_eos_group_rebalances_total",
    Kind.COUNTER,
    "Generations, or epochs of the newer protocols, that a group went through since an hour before the agent began to "
    "read __consumer_offsets.",
    (*K, "group", "kind"),
    "offsets",
)
GROUP_BLOCKED_OFFSETS = Metric(
    "kafka_eos_group_blocked_offsets",
    Kind.GAUGE,
    "Offsets that a read_committed group cannot read yet because a transaction is open: high watermark minus last "
    "stable offset, summed over the group's partitions of the topic.",
    (*K, "group", "topic"),
    "groups",
)
GROUP_UNSTABLE_OFFSET_PARTITIONS = Metric(
    "kafka_eos_group_unstable_offset_partitions",
    Kind.GAUGE,
    "Partitions of the topic whose offset the group has committed in a transaction that is still open and holds the "
    "group's partition of __consumer_offsets: a consumer of the group that starts waits for it.",
    (*K, "group", "topic"),
    "groups",
)

GROUP_MEMBERS = Metric(
    "kafka_eos_group_members",
    Kind.GAUGE,
    "Members of a group of one of the newer protocols: consumer (KIP-848), share (KIP-932) or streams (KIP-1071).",
    (*K, "group", "kind"),
    "groups",
)

# --- Cluster ------------------------------------------------------------------------------------------------------

INTERNAL_TOPIC_PARTITIONS = Metric(
    "kafka_eos_internal_topic_partitions",
    Kind.GAUGE,
    "Partitions of the internal topics that exactly-once depends on, by condition.",
    (*K, "topic", "condition"),
    "transactions",
)
INTERNAL_TOPIC_SIZE_BYTES = Metric(
    "kafka_eos_internal_topic_size_bytes",
    Kind.GAUGE,
    "Bytes of the partitions of an internal topic on a broker, read every 5 minutes; needs DESCRIBE on Cluster.",
    (*K, "topic", "broker"),
    "posture",
)
BROKER_LOG_DIR_SIZE_BYTES = Metric(
    "kafka_eos_broker_log_dir_size_bytes",
    Kind.GAUGE,
    "Size of the volume of a log directory that holds partitions of internal topics; absent before Kafka 3.3.",
    (*K, "broker", "log_dir"),
    "posture",
)
BROKER_LOG_DIR_USABLE_BYTES = Metric(
    "kafka_eos_broker_log_dir_usable_bytes",
    Kind.GAUGE,
    "Bytes that are free on the volume of a log directory that holds partitions of internal topics; absent before "
    "Kafka 3.3.",
    (*K, "broker", "log_dir"),
    "posture",
)
POSTURE_CHECK = Metric(
    "kafka_eos_posture_check",
    Kind.GAUGE,
    "1 when the check of the EOS posture passed, 0 when it failed; absent when it could not be made.",
    (*K, "check", "subject"),
    "posture",
)
POSTURE_INFORMATION = Metric(
    "kafka_eos_posture_information",
    Kind.GAUGE,
    "A check of the EOS posture that did not pass and that a setting may have no way to mend, such as a client library "
    "without Transactions V2; always 1.",
    (*K, "check", "subject"),
    "posture",
)
INTERNAL_TOPIC_BROKEN_SINCE_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_internal_topic_broken_since_timestamp_seconds",
    Kind.GAUGE,
    "Unix time since which a partition of the internal topic has been in the condition without a break, of the one "
    "that has been so longest, as seen by this exporter; absent when none is.",
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

# --- Cluster: metrics of the brokers' JVMs --------------------------------------------------------------------------

BROKER_INFO = Metric(
    "kafka_eos_broker_info",
    Kind.GAUGE,
    "The version of Kafka that a broker runs, by the app-info MBean of its JVM (Jolokia); always 1.",
    (*K, "broker", "version"),
    "brokers",
)
BROKER_REQUESTS_TOTAL = Metric(
    "kafka_eos_broker_requests_total",
    Kind.COUNTER,
    "Requests of the transaction protocol that the broker received, by version; old clients use old versions.",
    (*K, "broker", "request", "version"),
    "brokers",
)
BROKER_REQUEST_ERRORS_TOTAL = Metric(
    "kafka_eos_broker_request_errors_total",
    Kind.COUNTER,
    "Results other than success in the broker's answers, one for each partition or transaction in them; those of "
    "AddPartitionsToTxnVerification are counted with AddPartitionsToTxn.",
    (*K, "broker", "request", "error"),
    "brokers",
)
BROKER_REQUEST_DURATION_SECONDS = Metric(
    "kafka_eos_broker_request_duration_seconds",
    Kind.SUMMARY,
    "Time from a request's arrival to the last byte of its answer, weighted to the last minutes; there is no sum, and "
    "an average of quantiles over brokers means nothing.",
    (*K, "broker", "request"),
    "brokers",
)
BROKER_LATE_TRANSACTION_PARTITIONS = Metric(
    "kafka_eos_broker_late_transaction_partitions",
    Kind.GAUGE,
    "Partitions led by the broker with a transaction open for longer than transaction.max.timeout.ms and 5 minutes.",
    (*K, "broker"),
    "brokers",
)
BROKER_PRODUCER_IDS = Metric(
    "kafka_eos_broker_producer_ids",
    Kind.GAUGE,
    "Producer ids, idempotent and transactional, in the state of the partitions on the broker.",
    (*K, "broker"),
    "brokers",
)
BROKER_UNCLEANABLE_PARTITIONS = Metric(
    "kafka_eos_broker_uncleanable_partitions",
    Kind.GAUGE,
    "Partitions on the broker that the log cleaner has given up until the broker restarts: internal topics among them "
    "grow without bounds.",
    (*K, "broker"),
    "brokers",
)
BROKER_DEAD_CLEANER_THREADS = Metric(
    "kafka_eos_broker_dead_cleaner_threads",
    Kind.GAUGE,
    "Threads of the broker's log cleaner that have died: without any left, no topic is compacted.",
    (*K, "broker"),
    "brokers",
)
BROKER_TXN_MARKER_QUEUE_SIZE = Metric(
    "kafka_eos_broker_txn_marker_queue_size",
    Kind.GAUGE,
    "Transactions whose markers wait for a leader that is not known, or whose end waits to be written to the log.",
    (*K, "broker", "queue"),
    "brokers",
)
BROKER_TXN_COORDINATOR_LOAD_SECONDS = Metric(
    "kafka_eos_broker_txn_coordinator_load_seconds",
    Kind.GAUGE,
    "Time to load a partition of __transaction_state in the last 30 seconds; absent when none was loaded.",
    (*K, "broker", "stat"),
    "brokers",
)
BROKER_TXN_VERIFICATION_FAILURES_TOTAL = Metric(
    "kafka_eos_broker_txn_verification_failures_total",
    Kind.COUNTER,
    "Partitions whose transaction the coordinator did not confirm before a write (KIP-890).",
    (*K, "broker"),
    "brokers",
)
BROKER_TXN_VERIFICATION_SECONDS = Metric(
    "kafka_eos_broker_txn_verification_seconds",
    Kind.SUMMARY,
    "Time to have a transaction's partitions verified, or added with Transactions V2, by its coordinator before a "
    "write, weighted to the last minutes.",
    (*K, "broker"),
    "brokers",
)
BROKER_TRANSACTION_VERSION = Metric(
    "kafka_eos_broker_transaction_version",
    Kind.GAUGE,
    "The finalised transaction.version as the broker has it: 2 is Transactions V2; absent before Kafka 4.0.",
    (*K, "broker"),
    "brokers",
)

# --- Clients and engines: producers --------------------------------------------------------------------------------

PRODUCER_TXN_SECONDS_TOTAL = Metric(
    "kafka_eos_producer_txn_seconds_total",
    Kind.COUNTER,
    "Time that a Java client spent in calls of its transactional API that succeeded; only of clients that have called "
    "initTransactions.",
    (*K, "target", "client_id", "operation"),
    "producers",
)
PRODUCER_RECORD_ERRORS_TOTAL = Metric(
    "kafka_eos_producer_record_errors_total",
    Kind.COUNTER,
    "Records that the client could not send.",
    (*K, "target", "client_id"),
    "producers",
)
PRODUCER_RECORD_RETRIES_TOTAL = Metric(
    "kafka_eos_producer_record_retries_total",
    Kind.COUNTER,
    "Records that the client sent again.",
    (*K, "target", "client_id"),
    "producers",
)
PRODUCER_RECORDS_SENT_TOTAL = Metric(
    "kafka_eos_producer_records_sent_total",
    Kind.COUNTER,
    "Records that the client sent.",
    (*K, "target", "client_id"),
    "producers",
)
PRODUCER_TXN_STATE = Metric(
    "kafka_eos_producer_txn_state",
    Kind.GAUGE,
    "The transactional state that a librdkafka client is in; always 1.",
    (*K, "target", "client_id", "state"),
    "ingest",
)
PRODUCER_TXN_STATE_SINCE_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_producer_txn_state_since_timestamp_seconds",
    Kind.GAUGE,
    "Unix time since which a librdkafka client was seen in no other transactional state than that it is in.",
    (*K, "target", "client_id", "state"),
    "ingest",
)
PRODUCER_IDEMPOTENCE_STATE = Metric(
    "kafka_eos_producer_idempotence_state",
    Kind.GAUGE,
    "The state of a librdkafka client's idempotent producer; always 1.",
    (*K, "target", "client_id", "state"),
    "ingest",
)
PRODUCER_IDEMPOTENCE_STATE_SINCE_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_producer_idempotence_state_since_timestamp_seconds",
    Kind.GAUGE,
    "Unix time since which a librdkafka client's idempotent producer was seen in no other state.",
    (*K, "target", "client_id", "state"),
    "ingest",
)
INGEST_SENDERS = ("clients", "queries", "audits", "telemetry")
INGEST_KEPT_BYTES = Metric(
    "kafka_eos_ingest_kept_bytes",
    Kind.GAUGE,
    "Estimated memory of all posted data that is kept, with its series; at most ingest.memory.",
    (),
    "ingest",
)
INGEST_DROPPED_TOTAL = Metric(
    "kafka_eos_ingest_dropped_total",
    Kind.COUNTER,
    "Clients, Spark queries, audits and clients that push telemetry that were dropped, oldest first, because "
    "ingest.memory was used up.",
    ("sender",),
    "ingest",
)
TELEMETRY_CLIENT_INFO = Metric(
    "kafka_eos_telemetry_client_info",
    Kind.GAUGE,
    "A client that pushes its metrics (KIP-714, OTLP), by its instance id; always 1. Label target is that of its other "
    "series: the instance id, or the process id of a Kafka Streams client.",
    (
        *K,
        "target",
        "client_id",
        "client_instance_id",
        "software_name",
        "software_version",
        "transactional_id",
        "principal",
        "address",
    ),
    "ingest",
)
TELEMETRY_POINTS_TOTAL = Metric(
    "kafka_eos_telemetry_points_total",
    Kind.COUNTER,
    "Data points that were pushed, by what became of them; ignored are repeated ones, those without a value, and each "
    "metric that is not read.",
    ("result",),
    "ingest",
)

# --- Clients and engines: Connect ---------------------------------------------------------------------------------

CONNECT_CONNECTOR_INFO = Metric(
    "kafka_eos_connect_connector_info",
    Kind.GAUGE,
    "A connector and its exactly-once settings, defaults filled in; empty for a sink and where REST is not read; "
    "always 1.",
    (*CONNECT, "connector", "type", "exactly_once_support", "transaction_boundary"),
    "connect",
)
CONNECT_WORKER_INFO = Metric(
    "kafka_eos_connect_worker_info",
    Kind.GAUGE,
    "A worker of a Connect cluster by its REST address, and its version; always 1.",
    (*CONNECT, "worker", "version"),
    "connect",
)
CONNECT_TASK_STATE = Metric(
    "kafka_eos_connect_task_state",
    Kind.GAUGE,
    "The state that a task is in now; always 1.",
    (*CONNECT, "connector", "task", "state"),
    "connect",
)
CONNECT_TASK_FAILURES_TOTAL = Metric(
    "kafka_eos_connect_task_failures_total",
    Kind.COUNTER,
    "Times a task failed since it was first seen, by the exception in its trace. invalid_epoch: another producer or "
    "the coordinator ended its transaction, which most fences and timeouts look like to a task; other where no "
    "trace is read.",
    (*CONNECT, "connector", "task", "cause"),
    "connect",
)
CONNECT_TASK_TRANSACTION_SIZE_RECORDS = Metric(
    "kafka_eos_connect_task_transaction_size_records",
    Kind.GAUGE,
    "Records in a transaction of an exactly-once source task; absent before its first one and while it is idle.",
    (*CONNECT, "connector", "task", "stat"),
    "connect",
)
CONNECT_TASK_RECORDS_WRITTEN_TOTAL = Metric(
    "kafka_eos_connect_task_records_written_total",
    Kind.COUNTER,
    "Records that the task wrote to Kafka, or that a sink's task was given, since its worker started it.",
    (*CONNECT, "connector", "task"),
    "connect",
)
CONNECT_TASK_COMMITS_TOTAL = Metric(
    "kafka_eos_connect_task_commits_total",
    Kind.COUNTER,
    "Transactions that an exactly-once source task committed, by its id in the transaction log, where no other task "
    "can have that id; offset commits that a sink task completed, since its worker started it.",
    (*CONNECT, "connector", "task"),
    "connect",
)
CONNECT_TASK_OFFSET_COMMIT_RATIO = Metric(
    "kafka_eos_connect_task_offset_commit_ratio",
    Kind.GAUGE,
    "Share of the task's recent offset commits that succeeded or failed; absent before the first one.",
    (*CONNECT, "connector", "task", "result"),
    "connect",
)
CONNECT_TASK_OFFSET_COMMIT_SECONDS = Metric(
    "kafka_eos_connect_task_offset_commit_seconds",
    Kind.GAUGE,
    "Time that the task's recent offset commits took, in seconds; absent before the first one.",
    (*CONNECT, "connector", "task", "stat"),
    "connect",
)

DEBEZIUM_SNAPSHOT_STATES = ("running", "paused", "completed", "aborted", "none")
DEBEZIUM_CONTEXTS = ("snapshot", "streaming")
DEBEZIUM = (*CONNECT, "database", "server")
DEBEZIUM_CONNECTED = Metric(
    "kafka_eos_debezium_connected",
    Kind.GAUGE,
    "1 when a Debezium connector streams from its database, 0 when it has no connection; server is its topic.prefix.",
    DEBEZIUM,
    "connect",
)
DEBEZIUM_SNAPSHOT_STATE = Metric(
    "kafka_eos_debezium_snapshot_state",
    Kind.GAUGE,
    "The state of a Debezium connector's snapshot since its task started; none where it began with the stream; always"
    " 1.",
    (*DEBEZIUM, "state"),
    "connect",
)
DEBEZIUM_SNAPSHOT_REMAINING_TABLES = Metric(
    "kafka_eos_debezium_snapshot_remaining_tables",
    Kind.GAUGE,
    "Tables that the snapshot of a Debezium connector has still to read.",
    DEBEZIUM,
    "connect",
)
DEBEZIUM_LAG_SECONDS = Metric(
    "kafka_eos_debezium_lag_seconds",
    Kind.GAUGE,
    "Time between the last change in the database and its processing by Debezium; absent before the first change.",
    DEBEZIUM,
    "connect",
)
DEBEZIUM_LAST_EVENT_AGE_SECONDS = Metric(
    "kafka_eos_debezium_last_event_age_seconds",
    Kind.GAUGE,
    "Time since a Debezium connector read its last row or change; absent before the first one.",
    (*DEBEZIUM, "context"),
    "connect",
)
DEBEZIUM_QUEUE_RECORDS = Metric(
    "kafka_eos_debezium_queue_records",
    Kind.GAUGE,
    "Events between the reader of a Debezium connector and its task.",
    DEBEZIUM,
    "connect",
)
DEBEZIUM_QUEUE_CAPACITY_RECORDS = Metric(
    "kafka_eos_debezium_queue_capacity_records",
    Kind.GAUGE,
    "Events that the queue of a Debezium connector takes at most: max.queue.size.",
    DEBEZIUM,
    "connect",
)

# --- Clients and engines: Streams ---------------------------------------------------------------------------------

STREAMS_PROCESSING_GUARANTEE = Metric(
    "kafka_eos_streams_processing_guarantee",
    Kind.GAUGE,
    "How a Kafka Streams application in this JVM commits, by what its clients did: exactly_once_v2 with a transactional"
    " producer of each thread, exactly_once with one of each task, at_least_once by offsets of its consumers; absent"
    " until one of them was seen; always 1.",
    (*K, "target", "application", "guarantee"),
    "streams",
)
STREAMS_REBALANCES_TOTAL = Metric(
    "kafka_eos_streams_rebalances_total",
    Kind.COUNTER,
    "Rebalances of the group in which the consumer of a stream thread took part, since it was started.",
    (*K, "target", "thread", "result"),
    "streams",
)
STREAMS_FAILED_THREADS_TOTAL = Metric(
    "kafka_eos_streams_failed_threads_total",
    Kind.COUNTER,
    "Stream threads that an exception ended since the client was started, also those that were replaced.",
    (*K, "target", "client_id"),
    "streams",
)
STREAMS_THREAD_COMMITS_TOTAL = Metric(
    "kafka_eos_streams_thread_commits_total",
    Kind.COUNTER,
    "Times a stream thread committed, with exactly-once a transaction each, since it was started.",
    (*K, "target", "thread"),
    "streams",
)
STREAMS_THREAD_COMMIT_LATENCY_SECONDS = Metric(
    "kafka_eos_streams_thread_commit_latency_seconds",
    Kind.GAUGE,
    "Time that a stream thread's recent commits took, in seconds; absent when there was none lately.",
    (*K, "target", "thread", "stat"),
    "streams",
)
STREAMS_THREAD_STATE = Metric(
    "kafka_eos_streams_thread_state",
    Kind.GAUGE,
    "The state that a stream thread is in now; always 1.",
    (*K, "target", "thread", "state"),
    "streams",
)
STREAMS_RESTORING_TASKS = Metric(
    "kafka_eos_streams_restoring_tasks",
    Kind.GAUGE,
    "Active tasks that a state updater thread is restoring (KIP-869), in progress or paused.",
    (*K, "target", "thread"),
    "streams",
)
STREAMS_RESTORE_REMAINING_RECORDS = Metric(
    "kafka_eos_streams_restore_remaining_records",
    Kind.GAUGE,
    "Records that a task has still to restore from its changelogs, transaction markers included; 0 once its thread "
    "restores nothing.",
    (*K, "target", "thread", "task"),
    "streams",
)
STREAMS_CHANGELOG_LAG_OFFSETS = Metric(
    "kafka_eos_streams_changelog_lag_offsets",
    Kind.GAUGE,
    "Offsets of a changelog topic that are written and not committed, and that no restoring task can read yet: its end "
    "minus its last stable offset, summed over partitions. How far a restoring task is behind is "
    "kafka_eos_streams_restore_remaining_records.",
    (*K, "target", "application", "topic"),
    "streams",
)
STREAMS_CLIENT_STATE = Metric(
    "kafka_eos_streams_client_state",
    Kind.GAUGE,
    "The state that a Kafka Streams client is in now; always 1.",
    (*K, "target", "client_id", "state"),
    "streams",
)

# --- Clients and engines: Spark Structured Streaming ----------------------------------------------------------------

SPARK_BATCHES_TOTAL = Metric(
    "kafka_eos_spark_batches_total",
    Kind.COUNTER,
    "Micro-batches that a streaming query completed since its checkpoint was made, by their number.",
    SPARK,
    "spark",
)
SPARK_INPUT_ROWS_TOTAL = Metric(
    "kafka_eos_spark_input_rows_total",
    Kind.COUNTER,
    "Rows that a streaming query processed since its application was started; not known from a checkpoint.",
    SPARK,
    "spark",
)
SPARK_BATCH_DURATION_SECONDS = Metric(
    "kafka_eos_spark_batch_duration_seconds",
    Kind.GAUGE,
    "Time that the last batch of a streaming query took, in seconds, by phase; trigger_execution is all of it.",
    (*SPARK, "phase"),
    "spark",
)
SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_spark_last_progress_timestamp_seconds",
    Kind.GAUGE,
    "Unix time at which a streaming query last completed a batch or said that it is idle; where only its checkpoint is "
    "read, of the last batch.",
    SPARK,
    "spark",
)
SPARK_SOURCE_LAG_OFFSETS = Metric(
    "kafka_eos_spark_source_lag_offsets",
    Kind.GAUGE,
    "Offsets between what a streaming query completed and the high watermark, summed over its partitions of the topic.",
    (*SPARK, "topic"),
    "spark",
)
SPARK_SOURCE_BLOCKED_OFFSETS = Metric(
    "kafka_eos_spark_source_blocked_offsets",
    Kind.GAUGE,
    "Offsets that a read_committed query cannot read yet because a transaction is open: high watermark minus last "
    "stable offset, or minus what the query completed if that is later, summed over its partitions of the topic.",
    (*SPARK, "topic"),
    "spark",
)
SPARK_UNCOMMITTED_BATCHES = Metric(
    "kafka_eos_spark_uncommitted_batches",
    Kind.GAUGE,
    "Batches that a streaming query began and did not commit: 1 while it works, or while it is stuck or dead in one; "
    "known from its checkpoint alone.",
    SPARK,
    "spark",
)
SPARK_QUERY_STATE = Metric(
    "kafka_eos_spark_query_state",
    Kind.GAUGE,
    "The state that a streaming query is in now; always 1; absent when its driver has fallen silent.",
    (*SPARK, "state"),
    "spark",
)
SPARK_QUERY_TERMINATIONS_TOTAL = Metric(
    "kafka_eos_spark_query_terminations_total",
    Kind.COUNTER,
    "Ends of runs of a streaming query that the agent saw, by reason.",
    (*SPARK, "reason"),
    "spark",
)

# --- Audits ---------------------------------------------------------------------------------------------------------

AUDIT_FINDINGS = Metric(
    "kafka_eos_audit_findings",
    Kind.GAUGE,
    "Findings of the last run of an audit, by kind; absent for a kind that it did not look for.",
    (*AUDIT, "kind"),
    "audits",
)
AUDIT_RECORDS = Metric(
    "kafka_eos_audit_records",
    Kind.GAUGE,
    "Records that the last run of an audit looked at.",
    AUDIT,
    "audits",
)
AUDIT_LAST_RUN_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_audit_last_run_timestamp_seconds",
    Kind.GAUGE,
    "Unix time at which the last run of an audit ended.",
    AUDIT,
    "audits",
)
AUDIT_VERDICT = Metric(
    "kafka_eos_audit_verdict",
    Kind.GAUGE,
    "Verdict of the last run of an audit on the topic; always 1; unknown where it could not decide.",
    (*AUDIT, "verdict"),
    "audits",
)


# --- Thresholds: what the rules compare with --------------------------------------------------------------------------

TOPIC_THRESHOLD_SECONDS = Metric(
    "kafka_eos_topic_threshold_seconds",
    Kind.GAUGE,
    "Thresholds of the settings for the age of a stall of a topic with stalled partitions, in seconds; +Inf for never.",
    (*K, "topic", "threshold"),
    "lso",
)
APPLICATION_THRESHOLD_SECONDS = Metric(
    "kafka_eos_application_threshold_seconds",
    Kind.GAUGE,
    "Thresholds of the settings for the age of an application's open and completing transactions and of its last "
    "commit, in seconds; +Inf for never.",
    (*A, "threshold"),
    "txnlog",
)
APPLICATION_THRESHOLD_RATIO = Metric(
    "kafka_eos_application_threshold_ratio",
    Kind.GAUGE,
    "The share of an application's transactions that may end otherwise than committed, by the settings; +Inf for any.",
    (*A, "threshold"),
    "txnlog",
)
QUERY_THRESHOLD_SECONDS = Metric(
    "kafka_eos_query_threshold_seconds",
    Kind.GAUGE,
    "Threshold of the settings for the time that a streaming query makes no progress, in seconds; +Inf for never.",
    (*K, "spark_application", "query", "threshold"),
    "spark",
)
AUDIT_THRESHOLD_SECONDS = Metric(
    "kafka_eos_audit_threshold_seconds",
    Kind.GAUGE,
    "Threshold of the settings for the age of the last run of an audit, in seconds; +Inf for never.",
    (*K, "audit", "threshold"),
    "audits",
)
CONNECTOR_THRESHOLD_RATIO = Metric(
    "kafka_eos_connector_threshold_ratio",
    Kind.GAUGE,
    "The share of offset commits of a connector's tasks that may fail, by the settings; +Inf for any.",
    (*K, "connect", "connector", "threshold"),
    "connect",
)
GROUP_THRESHOLD_OFFSETS = Metric(
    "kafka_eos_group_threshold_offsets",
    Kind.GAUGE,
    "From how many offsets of read_committed lag on a topic a group is a ticket or a page, by the settings; absent for "
    "never.",
    (*K, "group", "threshold"),
    "groups",
)
IGNORED_INFO = Metric(
    "kafka_eos_ignored_info",
    Kind.GAUGE,
    "A subject whose thresholds the settings switch off, or a source (SOURCE/TARGET) that may be down, and why; always "
    "1.",
    (*K, "kind", "subject", "reason"),
    "lso",
)
OWNER_INFO = Metric(
    "kafka_eos_owner_info",
    Kind.GAUGE,
    "The team that owns a subject by the settings, or unowned; of kind holder, the producer id of a transaction that "
    "holds stalled partitions; of kind cluster, what belongs to no other; absent without owners in the settings; "
    "always 1.",
    (*K, "kind", "subject", "owner"),
    "lso",
)

# --- The canary ---------------------------------------------------------------------------------------------------

CANARY_TRANSACTIONS_TOTAL = Metric(
    "kafka_eos_canary_transactions_total",
    Kind.COUNTER,
    "The canary's own transactions that went as they should, by coordinating broker and outcome.",
    (*K, "coordinator", "outcome"),
    "canary",
)
CANARY_FAILURES_TOTAL = Metric(
    "kafka_eos_canary_failures_total",
    Kind.COUNTER,
    "The canary's turns that failed, by coordinating broker, phase and error.",
    (*K, "coordinator", "phase", "error"),
    "canary",
)
CANARY_PHASE_SECONDS = Metric(
    "kafka_eos_canary_phase_seconds",
    Kind.HISTOGRAM,
    "Time of each phase of the canary's transactions; read is from the commit until a read_committed consumer has the "
    "records.",
    (*K, "coordinator", "phase"),
    "canary",
    (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
CANARY_FAILING_PARTITIONS = Metric(
    "kafka_eos_canary_failing_partitions",
    Kind.GAUGE,
    "Partitions of the transaction log whose coordinator failed the canary's last turn, by that broker.",
    (*K, "coordinator"),
    "canary",
)
CANARY_LAST_SUCCESS_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_canary_last_success_timestamp_seconds",
    Kind.GAUGE,
    "Unix time of the canary's last turn that succeeded, or of its start before the first.",
    K,
    "canary",
)

# --- The fleet ----------------------------------------------------------------------------------------------------

FLEET_AGENT_UP = Metric(
    "kafka_eos_fleet_agent_up",
    Kind.GAUGE,
    "1 if the last request to this agent was answered, 0 if not.",
    ("agent",),
    "fleet",
)
FLEET_AGENT_LAST_ANSWER_TIMESTAMP_SECONDS = Metric(
    "kafka_eos_fleet_agent_last_answer_timestamp_seconds",
    Kind.GAUGE,
    "Unix time of this agent's last answer.",
    ("agent",),
    "fleet",
)
FLEET_CLUSTER_STATE = Metric(
    "kafka_eos_fleet_cluster_state",
    Kind.GAUGE,
    "1 for the state of a cluster on the fleet's page, 0 for the other states.",
    (*K, "state"),
    "fleet",
)
FLEET_CLUSTER_STALLED_PARTITIONS = Metric(
    "kafka_eos_fleet_cluster_stalled_partitions",
    Kind.GAUGE,
    "Stalled partitions of a cluster by all its agents; absent while a shard's are not known.",
    K,
    "fleet",
)


def rows() -> tuple[Metric, ...]:
    """Every family, in the order of this page, which is the order of exposition."""
    return tuple(value for value in globals().values() if isinstance(value, Metric))
