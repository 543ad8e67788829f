"""The table of metrics. Data only: no other module spells a metric's name.

It has six readers: the exposition, docs/metrics.md, the dashboards, the alerts, the chart, and the tests. A row is
added with the source that emits it; a row that no source emits or no test asserts fails a test.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.model import Kind, Metric
from exporter.words import AuditVerdict, Outcome, QueryState, TerminationReason


class Rows(NamedTuple):
    """The rows of one source. Each begins with its name and labels as on the page: ``name{label,label}``."""

    source: str

    def gauge(self, series: str, text: str) -> Metric:
        return self._row(Kind.GAUGE, series, text)

    def counter(self, series: str, text: str) -> Metric:
        return self._row(Kind.COUNTER, series, text)

    def histogram(self, series: str, text: str, buckets: tuple[float, ...]) -> Metric:
        """``buckets`` are the upper bounds, in the metric's unit, without ``+Inf``."""
        return self._row(Kind.HISTOGRAM, series, text, buckets)

    def summary(self, series: str, text: str) -> Metric:
        return self._row(Kind.SUMMARY, series, text)

    def _row(self, kind: Kind, series: str, text: str, buckets: tuple[float, ...] = ()) -> Metric:
        name, _, labels = series.rstrip("}").partition("{")
        return Metric(name, kind, text, tuple(filter(None, labels.split(","))), self.source, buckets)


_AGENT = Rows("agent")
_TRANSACTIONS = Rows("transactions")
_TXNLOG = Rows("txnlog")
_LSO = Rows("lso")
_GROUPS = Rows("groups")
_POSTURE = Rows("posture")
_BROKERS = Rows("brokers")
_PRODUCERS = Rows("producers")
_INGEST = Rows("ingest")
_CONNECT = Rows("connect")
_STREAMS = Rows("streams")
_SPARK = Rows("spark")
_AUDITS = Rows("audits")
_CANARY = Rows("canary")

OVERFLOW = "_other"
"""The application that takes what overflows the cap, so that sums stay true."""

OUTCOMES = Outcome.values()
UNCLEAN_OUTCOMES = (Outcome.FENCED.value, Outcome.TIMED_OUT.value)
STORM_FENCES = 3
"""Fences of one transactional.id in 10 minutes that make a storm: in the alert, on the page and in the status."""
INTERNAL_TOPICS = ("__transaction_state", "__consumer_offsets")
TASK_STATES = ("running", "paused", "stopped", "failed", "unassigned", "restarting", "destroyed")
STREAMS_CLIENT_STATES = (
    "created", "rebalancing", "running", "pending_shutdown", "not_running", "pending_error", "error",
)  # fmt: skip
STREAMS_THREAD_STATES = (
    "created", "starting", "partitions_revoked", "partitions_assigned", "running", "pending_shutdown", "dead",
)  # fmt: skip
STREAMS_GUARANTEES = ("exactly_once_v2", "exactly_once", "at_least_once")
BROKER_REQUESTS = (
    "InitProducerId", "AddPartitionsToTxn", "AddPartitionsToTxnVerification", "AddOffsetsToTxn", "EndTxn",
    "TxnOffsetCommit", "WriteTxnMarkers", "Produce", "FindCoordinator",
)  # fmt: skip
BROKER_REQUEST_ERRORS = (
    "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING",
    "INVALID_TRANSACTION_TIMEOUT", "CONCURRENT_TRANSACTIONS", "TRANSACTION_COORDINATOR_FENCED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "UNKNOWN_PRODUCER_ID", "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "TRANSACTION_ABORTABLE", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID",
    "COORDINATOR_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS",
)  # fmt: skip
"""Those that exist at 0 before they happen: a broker makes the counter of an error at its first occurrence."""
LOAD_STATS = ("avg", "max")
PRODUCER_OPERATIONS = ("init", "begin", "send_offsets", "prepare", "commit", "abort")
RDKAFKA_TXN_STATES = (
    "init", "wait_pid", "ready_not_acked", "ready", "in_transaction", "begin_commit", "committing_transaction",
    "commit_not_acked", "begin_abort", "aborting_transaction", "aborted_not_acked", "abortable_error", "fatal_error",
    "unknown",
)  # fmt: skip
RDKAFKA_IDEMPOTENCE_STATES = (
    "init", "terminate", "fatal_error", "request_pid", "wait_transport", "wait_pid", "assigned", "drain_reset",
    "drain_bump", "wait_txn_abort", "unknown",
)  # fmt: skip
SPARK_QUERY_STATES = QueryState.values()
SPARK_TERMINATION_REASONS = TerminationReason.values()
SPARK_BATCH_PHASES = (
    "trigger_execution", "latest_offset", "query_planning", "wal_commit", "get_batch", "add_batch", "commit_batch",
    "commit_offsets",
)  # fmt: skip
"""``durationMs`` of a progress event (ProgressReporter); trigger_execution is the whole of a trigger."""
TORN_KINDS = ("torn_commit", "torn_abort")
"""Of ``audit markers``: partitions without the marker of a committed or aborted transaction, or with another one."""
MARKERS_AUDIT = "markers"
"""The name of the audit ``audit markers``."""
AUDIT_KINDS = (
    "duplicate", "gap", "reordered", "aborted_visible", "missing", "repeated", "ahead", "stale", "phantom", *TORN_KINDS,
)  # fmt: skip
"""Findings of an audit. In a topic: a record twice, a number missing or out of order, an aborted record that a reader
took as committed. In a sink compared with its topic: a record missing, twice, or not stable yet; a row of an older
record of its key, or of none.
"""
AUDIT_VERDICTS = AuditVerdict.values()
CANARY = "kafka-eos-canary"
"""Prefix of the canary's ids, its topic, its group and its application."""
APPLICATION_KINDS = ("canary", "connect_leader", "connect_task", "streams", "flink", "producer", "other")

# --- The agent itself ---------------------------------------------------------------------------------------------

EXPORTER_BUILD_INFO = _AGENT.gauge(
    "kafka_eos_exporter_build_info{version,revision,python,external_url}",
    "Version and revision of the exporter and of the Python it runs on; always 1.",
)
SOURCE_UP = _AGENT.gauge(
    "kafka_eos_source_up{kafka_cluster,source,target}",
    "1 when all requests of the last read of the source were answered, 0 when any failed.",
)
SOURCE_BLIND = _AGENT.gauge(
    "kafka_eos_source_blind{kafka_cluster,source,target}",
    "1 when the last read of the source had a fault and gave no gauge: nothing that it reads is known now. 0 when "
    "it gave some or all.",
)
SOURCE_READ_DURATION_SECONDS = _AGENT.gauge(
    "kafka_eos_source_read_duration_seconds{kafka_cluster,source,target}",
    "Duration of the last read of the source, in seconds.",
)
SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS = _AGENT.gauge(
    "kafka_eos_source_last_success_timestamp_seconds{kafka_cluster,source,target}",
    "Unix time of the last read of the source that had no fault; absent until there was one.",
)
SOURCE_FAULTS_TOTAL = _AGENT.counter(
    "kafka_eos_source_faults_total{kafka_cluster,source,target,reason}",
    "Requests of the source that failed, by reason.",
)
SERIES_DROPPED = _AGENT.gauge(
    "kafka_eos_series_dropped{metric}",
    "Series of the named metric that a cap leaves out, or counts together as application _other.",
)
CLUSTER_INFO = _TRANSACTIONS.gauge(
    "kafka_eos_cluster_info{kafka_cluster,cluster_id,bootstrap_servers,transaction_version}",
    "The watched cluster, its id, the bootstrap servers and the finalised transaction.version; always 1.",
)
APPLICATION_INFO = _TXNLOG.gauge(
    "kafka_eos_application_info{kafka_cluster,application,kind,connect,connector}",
    "The kind of an application, and for Connect the group and connector that join it to Connect's metrics; always 1.",
)
EXPIRED_TRANSACTIONAL_IDS = _TXNLOG.gauge(
    "kafka_eos_expired_transactional_ids{kafka_cluster,application}",
    "Transactional ids that expired in the last hour (transactional.id.expiration.ms) and were not initialised since: a"
    " producer of one that lives on fails every transaction with INVALID_PRODUCER_ID_MAPPING. Absent without any.",
)
RECENT_APPLICATIONS = _TXNLOG.gauge(
    "kafka_eos_recent_applications{kafka_cluster}",
    "Applications that appeared in the last hour: many of them show ids that are grouped wrongly; absent until those"
    " before them are known.",
)
TRANSACTION_LOG_TAIL_LAG_RECORDS = _TXNLOG.gauge(
    "kafka_eos_transaction_log_tail_lag_records{kafka_cluster}",
    "Offsets of __transaction_state that the tail has not read yet, over all its partitions.",
)
CLOCK_DISTANCE_SECONDS = _TRANSACTIONS.gauge(
    "kafka_eos_clock_distance_seconds{kafka_cluster}",
    "Seconds by which this exporter's clock is ahead of the transaction coordinators', negative behind, by the arrival"
    " of new records of __transaction_state; absent until there were some.",
)
COORDINATOR_CLOCK_SKEW_SECONDS = _TXNLOG.gauge(
    "kafka_eos_coordinator_clock_skew_seconds{kafka_cluster,broker}",
    "Seconds by which this exporter's clock is ahead of that of each broker that coordinates transactions, negative"
    " behind, by the arrival of the broker's new records of __transaction_state; absent until there were some.",
)
TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL = _TXNLOG.counter(
    "kafka_eos_transaction_log_undecodable_records_total{kafka_cluster}",
    "Records of __transaction_state that could not be decoded: garbage, or a layout newer than this exporter.",
)
TRANSACTION_LOG_LOST_RECORDS_TOTAL = _TXNLOG.counter(
    "kafka_eos_transaction_log_lost_records_total{kafka_cluster}",
    "Offsets of __transaction_state that were missing while catching up: compaction took them before they were read.",
)

FLINK_CHECKPOINT_INTERVAL_SECONDS = _TXNLOG.gauge(
    "kafka_eos_flink_checkpoint_interval_seconds{kafka_cluster,application,transactional_id_prefix}",
    "Interval of the checkpoints of a Flink job, in seconds, by the commits of its KafkaSink.",
)
FLINK_AT_RISK_DEADLINE_TIMESTAMP_SECONDS = _TXNLOG.gauge(
    "kafka_eos_flink_at_risk_deadline_timestamp_seconds{kafka_cluster,application,transactional_id,producer_id,"
    "precommitted}",
    "Unix time at which a transaction that a Flink job has precommitted, and does not commit, times out and is lost;"
    " precommitted is proven or likely.",
)
FLINK_LOSS_TIMESTAMP_SECONDS = _TXNLOG.gauge(
    "kafka_eos_flink_loss_timestamp_seconds{kafka_cluster,application,transactional_id,producer_id,checkpoint,"
    "completed}",
    "Unix time at which a transaction that a Flink job had precommitted was ended by the server, in the last hour;"
    " checkpoint is the number in its id, completed whether another subtask committed the same checkpoint.",
)
FLINK_LOSS_INFO = _TXNLOG.gauge(
    "kafka_eos_flink_loss_info{kafka_cluster,application,transactional_id,producer_id,topic,partition,"
    "start_offset,end_offset}",
    "A partition of a transaction in kafka_eos_flink_loss_timestamp_seconds: its records are at or after start_offset"
    " and before end_offset, both empty where they were not seen; always 1.",
)
FLINK_LAST_CLEAN_UP_TIMESTAMP_SECONDS = _TXNLOG.gauge(
    "kafka_eos_flink_last_clean_up_timestamp_seconds{kafka_cluster,application,transactional_id_prefix}",
    "Unix time at which the start of a Flink job last ended transactions of an earlier start: counted as fenced.",
)

EVENTS_TOTAL = _AGENT.counter(
    "kafka_eos_events_total{kafka_cluster,kind}",
    "What happened since the start of the agent, by kind, as its journal has it.",
)
JOURNAL_LOST_EVENTS_TOTAL = _AGENT.counter(
    "kafka_eos_journal_lost_events_total{kafka_cluster}",
    "Events that could not be written to state.dir, as on a full disk, and are lost.",
)
JOURNAL_SIZE_BYTES = _AGENT.gauge(
    "kafka_eos_journal_size_bytes{kafka_cluster}",
    "Bytes of the cluster's journal on disk; absent without state.dir.",
)

OF_EACH_AGENT = (
    EXPORTER_BUILD_INFO,
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
"""Metrics of the agent itself: each replica is a fact of its own."""

# --- Transactions, from the log -----------------------------------------------------------------------------------

TRANSACTIONS_TOTAL = _TXNLOG.counter(
    "kafka_eos_transactions_total{kafka_cluster,application,outcome}",
    "Finished transactions by outcome, each counted once, when the transaction log settles it.",
)
TRANSACTION_OPEN_SECONDS = _TXNLOG.histogram(
    "kafka_eos_transaction_open_seconds{kafka_cluster,application,outcome}",
    "Time from a transaction's begin to the decision to commit or abort it.",
    (0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600),
)
TRANSACTION_COMPLETION_SECONDS = _TXNLOG.histogram(
    "kafka_eos_transaction_completion_seconds{kafka_cluster,application}",
    "Time from the decision on a transaction to its completion: how long its markers took.",
    (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60),
)
OLDEST_COMPLETION_START_TIMESTAMP_SECONDS = _TRANSACTIONS.gauge(
    "kafka_eos_oldest_completion_start_timestamp_seconds{kafka_cluster,application}",
    "Unix time at which the oldest prepared and not completed transaction was prepared; absent when there is none.",
)
TRANSACTIONS_OPEN = _TRANSACTIONS.gauge(
    "kafka_eos_transactions_open{kafka_cluster,application,state}",
    "Open transactions by state.",
)
OVERDUE_TRANSACTIONS = _TRANSACTIONS.gauge(
    "kafka_eos_overdue_transactions{kafka_cluster,application}",
    "Undecided transactions older than their own timeout plus 15 seconds, by the clock of their coordinator where it is"
    " known: it should have ended them.",
)
OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS = _TRANSACTIONS.gauge(
    "kafka_eos_oldest_open_transaction_start_timestamp_seconds{kafka_cluster,application}",
    "Unix time at which the oldest open transaction began; absent when none is open.",
)
LAST_TRANSACTION_TIMESTAMP_SECONDS = _TXNLOG.gauge(
    "kafka_eos_last_transaction_timestamp_seconds{kafka_cluster,application,outcome}",
    "Unix time of the log at which the last transaction with this outcome finished.",
)
OPEN_TRANSACTION_START_TIMESTAMP_SECONDS = _TRANSACTIONS.gauge(
    "kafka_eos_open_transaction_start_timestamp_seconds{kafka_cluster,application,transactional_id,producer_id,"
    "producer_epoch,state}",
    "Unix time at which an open transaction began, for those nearest to or furthest past their timeout and every one "
    "that holds a stalled partition.",
)
OPEN_TRANSACTION_TIMEOUT_SECONDS = _TRANSACTIONS.gauge(
    "kafka_eos_open_transaction_timeout_seconds{kafka_cluster,application,transactional_id,producer_id,"
    "producer_epoch,state}",
    "The transaction.timeout.ms of an open transaction, in seconds; absent for two-phase commit, which has none.",
)
PRODUCER_FENCES_TOTAL = _TXNLOG.counter(
    "kafka_eos_producer_fences_total{kafka_cluster,application}",
    "Times an InitProducerId ended an open transaction: a zombie displaced, or a crashed predecessor cleaned up.",
)
PRODUCER_INITS_TOTAL = _TXNLOG.counter(
    "kafka_eos_producer_inits_total{kafka_cluster,application}",
    "Times a transactional producer was initialised (InitProducerId), clean restarts included.",
)
RECENT_PRODUCER_FENCES = _TXNLOG.gauge(
    "kafka_eos_recent_producer_fences{kafka_cluster,application,transactional_id}",
    "Fences of one transactional.id in the last 10 minutes of log time, for the ids fenced most.",
)
LAST_UNCLEAN_END_TIMESTAMP_SECONDS = _TXNLOG.gauge(
    "kafka_eos_last_unclean_end_timestamp_seconds{kafka_cluster,application,transactional_id,producer_id,"
    "producer_epoch,outcome}",
    "Unix time of the log at which a transaction was fenced or timed out, for the latest ones of the last hour.",
)
TRANSACTIONAL_IDS = _TXNLOG.gauge(
    "kafka_eos_transactional_ids{kafka_cluster,application}",
    "Transactional ids seen in the transaction log in the last hour.",
)

# --- LSO and consumers --------------------------------------------------------------------------------------------

TOPIC_LSO_LAG_OFFSETS = _LSO.gauge(
    "kafka_eos_topic_lso_lag_offsets{kafka_cluster,topic}",
    "Offsets between the last stable offset and the high watermark, of the partition of the topic where it is largest.",
)
STALLED_PARTITIONS = _LSO.gauge(
    "kafka_eos_stalled_partitions{kafka_cluster,topic}",
    "Partitions of the topic whose last stable offset has stayed below the high watermark for the threshold.",
)
TOPIC_WITHHELD_RECORD_AGE_SECONDS = _LSO.gauge(
    "kafka_eos_topic_withheld_record_age_seconds{kafka_cluster,topic}",
    "Age of the oldest record of the topic that read_committed readers are not given, in seconds: how old what they "
    "read next may be. 0 where nothing is withheld; only for topics in which a transaction was seen since the start.",
)
LSO_STALLED_SINCE_TIMESTAMP_SECONDS = _LSO.gauge(
    "kafka_eos_lso_stalled_since_timestamp_seconds{kafka_cluster,topic,partition}",
    "Unix time since which the last stable offset of a stalled partition has not moved, in the coordinators' common "
    "time where this exporter's clock is 5 s or more off; absent for the others.",
)
LSO_LAG_OFFSETS = _LSO.gauge(
    "kafka_eos_lso_lag_offsets{kafka_cluster,topic,partition}",
    "Offsets between the last stable offset and the high watermark of a stalled partition.",
)
LSO_STALLED_LEADER_ID = _LSO.gauge(
    "kafka_eos_lso_stalled_leader_id{kafka_cluster,topic,partition}",
    "Id of the broker that leads a stalled partition; absent when there is none.",
)
LSO_BLOCKER_INFO = _LSO.gauge(
    "kafka_eos_lso_blocker_info{kafka_cluster,application,topic,partition,transactional_id,producer_id,"
    "producer_epoch,start_offset,kind}",
    "The transaction that holds the last stable offset of a stalled partition, and its state at its coordinator; "
    "always 1.",
)
LSO_HOLDER_PARTITIONS = _LSO.gauge(
    "kafka_eos_lso_holder_partitions{kafka_cluster,application,transactional_id,producer_id,kind}",
    "Stalled partitions that one transaction holds, and its state at its coordinator; producer_id _other takes "
    "those beyond a cap together.",
)
LSO_HOLDER_GROUP_MEMBERS = _LSO.gauge(
    "kafka_eos_lso_holder_group_members{kafka_cluster,producer_id,group}",
    "Members of a group whose offsets the transactions of a holder commit: with 0 nobody is there to end them before "
    "their timeout; needs READ on __consumer_offsets.",
)
LSO_HOLDER_DUE_TIMESTAMP_SECONDS = _LSO.gauge(
    "kafka_eos_lso_holder_due_timestamp_seconds{kafka_cluster,application,transactional_id,producer_id,kind,severity}",
    "Unix time from which on the first stall of a holder is a ticket (warning) or a page (critical), by the "
    "thresholds of its topics, its timeout and whether it hangs.",
)
HANGING_TRANSACTIONS = _LSO.gauge(
    "kafka_eos_hanging_transactions{kafka_cluster,topic}",
    "Transactions open in the logs of the topic's stalled partitions that no coordinator has; absent where that "
    "could not be asked.",
)
GROUP_READ_COMMITTED_LAG_OFFSETS = _GROUPS.gauge(
    "kafka_eos_group_read_committed_lag_offsets{kafka_cluster,group,topic}",
    "Offsets between a group's committed offset and the last stable offset, summed over the topic's partitions. Control"
    " records count: a topic that was read to its end may have 1 or more.",
)
GROUP_READ_COMMITTED_LAG_RECORDS = _GROUPS.gauge(
    "kafka_eos_group_read_committed_lag_records{kafka_cluster,group,topic}",
    "Records that a read_committed group has still to read, without control records and aborted transactions, summed"
    " over the topic's partitions; absent where more than 100 offsets lie between its commit and the last stable offset"
    " of one, or READ on the topic is not granted.",
)
GROUP_BLOCKED_OFFSETS = _GROUPS.gauge(
    "kafka_eos_group_blocked_offsets{kafka_cluster,group,topic}",
    "Offsets that a read_committed group cannot read yet because a transaction is open: high watermark minus last "
    "stable offset, summed over the group's partitions of the topic.",
)
GROUP_UNSTABLE_OFFSET_PARTITIONS = _GROUPS.gauge(
    "kafka_eos_group_unstable_offset_partitions{kafka_cluster,group,topic}",
    "Partitions of the topic whose offset the group has committed in a transaction that is still open and holds the "
    "group's partition of __consumer_offsets: a consumer of the group that starts waits for it.",
)

GROUP_MEMBERS = _GROUPS.gauge(
    "kafka_eos_group_members{kafka_cluster,group,kind}",
    "Members of a group of one of the newer protocols: consumer (KIP-848), share (KIP-932) or streams (KIP-1071).",
)

# --- Cluster ------------------------------------------------------------------------------------------------------

INTERNAL_TOPIC_PARTITIONS = _TRANSACTIONS.gauge(
    "kafka_eos_internal_topic_partitions{kafka_cluster,topic,condition}",
    "Partitions of the internal topics that exactly-once depends on, by condition.",
)
INTERNAL_TOPIC_SIZE_BYTES = _POSTURE.gauge(
    "kafka_eos_internal_topic_size_bytes{kafka_cluster,topic,broker}",
    "Bytes of the partitions of an internal topic on a broker, read every 5 minutes; needs DESCRIBE on Cluster.",
)
BROKER_LOG_DIR_SIZE_BYTES = _POSTURE.gauge(
    "kafka_eos_broker_log_dir_size_bytes{kafka_cluster,broker,log_dir}",
    "Size of the volume of a log directory that holds partitions of internal topics; absent before Kafka 3.3.",
)
BROKER_LOG_DIR_USABLE_BYTES = _POSTURE.gauge(
    "kafka_eos_broker_log_dir_usable_bytes{kafka_cluster,broker,log_dir}",
    "Bytes that are free on the volume of a log directory that holds partitions of internal topics; absent before "
    "Kafka 3.3.",
)
POSTURE_CHECK = _POSTURE.gauge(
    "kafka_eos_posture_check{kafka_cluster,check,subject}",
    "1 when the check of the EOS posture passed, 0 when it failed; absent when it could not be made.",
)
POSTURE_INFORMATION = _POSTURE.gauge(
    "kafka_eos_posture_information{kafka_cluster,check,subject}",
    "A check of the EOS posture that did not pass and that a setting may have no way to mend, such as a client library "
    "without Transactions V2; always 1.",
)
INTERNAL_TOPIC_BROKEN_SINCE_TIMESTAMP_SECONDS = _TRANSACTIONS.gauge(
    "kafka_eos_internal_topic_broken_since_timestamp_seconds{kafka_cluster,topic,condition}",
    "Unix time since which a partition of the internal topic has been in the condition without a break, of the one "
    "that has been so longest, as seen by this exporter; absent when none is.",
)
TRANSACTIONAL_IDS_UNAVAILABLE = _TRANSACTIONS.gauge(
    "kafka_eos_transactional_ids_unavailable{kafka_cluster,application}",
    "Transactional ids whose coordinator partition of __transaction_state is offline or under its minimum ISR.",
)

# --- Cluster: metrics of the brokers' JVMs --------------------------------------------------------------------------

BROKER_INFO = _BROKERS.gauge(
    "kafka_eos_broker_info{kafka_cluster,broker,version}",
    "The version of Kafka that a broker runs, by the app-info MBean of its JVM (Jolokia); always 1.",
)
BROKER_REQUESTS_TOTAL = _BROKERS.counter(
    "kafka_eos_broker_requests_total{kafka_cluster,broker,request,version}",
    "Requests of the transaction protocol that the broker received, by version; old clients use old versions.",
)
BROKER_REQUEST_ERRORS_TOTAL = _BROKERS.counter(
    "kafka_eos_broker_request_errors_total{kafka_cluster,broker,request,error}",
    "Results other than success in the broker's answers, one for each partition or transaction in them; those of "
    "AddPartitionsToTxnVerification are counted with AddPartitionsToTxn.",
)
BROKER_REQUEST_DURATION_SECONDS = _BROKERS.summary(
    "kafka_eos_broker_request_duration_seconds{kafka_cluster,broker,request}",
    "Time from a request's arrival to the last byte of its answer, weighted to the last minutes; there is no sum, and "
    "an average of quantiles over brokers means nothing.",
)
BROKER_LATE_TRANSACTION_PARTITIONS = _BROKERS.gauge(
    "kafka_eos_broker_late_transaction_partitions{kafka_cluster,broker}",
    "Partitions led by the broker with a transaction open for longer than transaction.max.timeout.ms and 5 minutes.",
)
BROKER_PRODUCER_IDS = _BROKERS.gauge(
    "kafka_eos_broker_producer_ids{kafka_cluster,broker}",
    "Producer ids, idempotent and transactional, in the state of the partitions on the broker.",
)
BROKER_UNCLEANABLE_PARTITIONS = _BROKERS.gauge(
    "kafka_eos_broker_uncleanable_partitions{kafka_cluster,broker}",
    "Partitions on the broker that the log cleaner has given up until the broker restarts: internal topics among them "
    "grow without bounds.",
)
BROKER_DEAD_CLEANER_THREADS = _BROKERS.gauge(
    "kafka_eos_broker_dead_cleaner_threads{kafka_cluster,broker}",
    "Threads of the broker's log cleaner that have died: without any left, no topic is compacted.",
)
BROKER_TXN_MARKER_QUEUE_SIZE = _BROKERS.gauge(
    "kafka_eos_broker_txn_marker_queue_size{kafka_cluster,broker,queue}",
    "Transactions whose markers wait for a leader that is not known, or whose end waits to be written to the log.",
)
BROKER_TXN_COORDINATOR_LOAD_SECONDS = _BROKERS.gauge(
    "kafka_eos_broker_txn_coordinator_load_seconds{kafka_cluster,broker,stat}",
    "Time to load a partition of __transaction_state in the last 30 seconds; absent when none was loaded.",
)
BROKER_TXN_VERIFICATION_FAILURES_TOTAL = _BROKERS.counter(
    "kafka_eos_broker_txn_verification_failures_total{kafka_cluster,broker}",
    "Partitions whose transaction the coordinator did not confirm before a write (KIP-890).",
)
BROKER_TXN_VERIFICATION_SECONDS = _BROKERS.summary(
    "kafka_eos_broker_txn_verification_seconds{kafka_cluster,broker}",
    "Time to have a transaction's partitions verified, or added with Transactions V2, by its coordinator before a "
    "write, weighted to the last minutes.",
)
BROKER_TRANSACTION_VERSION = _BROKERS.gauge(
    "kafka_eos_broker_transaction_version{kafka_cluster,broker}",
    "The finalised transaction.version as the broker has it: 2 is Transactions V2; absent before Kafka 4.0.",
)

# --- Clients and engines: producers --------------------------------------------------------------------------------

PRODUCER_TXN_SECONDS_TOTAL = _PRODUCERS.counter(
    "kafka_eos_producer_txn_seconds_total{kafka_cluster,target,client_id,operation}",
    "Time that a Java client spent in calls of its transactional API that succeeded; only of clients that have called "
    "initTransactions.",
)
PRODUCER_RECORD_ERRORS_TOTAL = _PRODUCERS.counter(
    "kafka_eos_producer_record_errors_total{kafka_cluster,target,client_id}",
    "Records that the client could not send.",
)
PRODUCER_RECORD_RETRIES_TOTAL = _PRODUCERS.counter(
    "kafka_eos_producer_record_retries_total{kafka_cluster,target,client_id}",
    "Records that the client sent again.",
)
PRODUCER_RECORDS_SENT_TOTAL = _PRODUCERS.counter(
    "kafka_eos_producer_records_sent_total{kafka_cluster,target,client_id}",
    "Records that the client sent.",
)
PRODUCER_TXN_STATE = _INGEST.gauge(
    "kafka_eos_producer_txn_state{kafka_cluster,target,client_id,state}",
    "The transactional state that a librdkafka client is in; always 1.",
)
PRODUCER_TXN_STATE_SINCE_TIMESTAMP_SECONDS = _INGEST.gauge(
    "kafka_eos_producer_txn_state_since_timestamp_seconds{kafka_cluster,target,client_id,state}",
    "Unix time since which a librdkafka client was seen in no other transactional state than that it is in.",
)
PRODUCER_IDEMPOTENCE_STATE = _INGEST.gauge(
    "kafka_eos_producer_idempotence_state{kafka_cluster,target,client_id,state}",
    "The state of a librdkafka client's idempotent producer; always 1.",
)
PRODUCER_IDEMPOTENCE_STATE_SINCE_TIMESTAMP_SECONDS = _INGEST.gauge(
    "kafka_eos_producer_idempotence_state_since_timestamp_seconds{kafka_cluster,target,client_id,state}",
    "Unix time since which a librdkafka client's idempotent producer was seen in no other state.",
)
INGEST_SENDERS = ("clients", "queries", "audits", "telemetry")
INGEST_KEPT_BYTES = _INGEST.gauge(
    "kafka_eos_ingest_kept_bytes",
    "Estimated memory of all posted data that is kept, with its series; at most ingest.memory.",
)
INGEST_DROPPED_TOTAL = _INGEST.counter(
    "kafka_eos_ingest_dropped_total{sender}",
    "Clients, Spark queries, audits and clients that push telemetry that were dropped, oldest first, because "
    "ingest.memory was used up.",
)
TELEMETRY_CLIENT_INFO = _INGEST.gauge(
    "kafka_eos_telemetry_client_info{kafka_cluster,target,client_id,client_instance_id,software_name,"
    "software_version,transactional_id,principal,address}",
    "A client that pushes its metrics (KIP-714, OTLP), by its instance id; always 1. Label target is that of its other "
    "series: the instance id, or the process id of a Kafka Streams client.",
)
TELEMETRY_POINTS_TOTAL = _INGEST.counter(
    "kafka_eos_telemetry_points_total{result}",
    "Data points that were pushed, by what became of them; ignored are repeated ones, those without a value, and each "
    "metric that is not read.",
)

# --- Clients and engines: Connect ---------------------------------------------------------------------------------

CONNECT_CONNECTOR_INFO = _CONNECT.gauge(
    "kafka_eos_connect_connector_info{kafka_cluster,target,connect,connector,type,exactly_once_support,"
    "transaction_boundary}",
    "A connector and its exactly-once settings, defaults filled in; empty for a sink and where REST is not read; "
    "always 1.",
)
CONNECT_WORKER_INFO = _CONNECT.gauge(
    "kafka_eos_connect_worker_info{kafka_cluster,target,connect,worker,version}",
    "A worker of a Connect cluster by its REST address, and its version; always 1.",
)
CONNECT_TASK_STATE = _CONNECT.gauge(
    "kafka_eos_connect_task_state{kafka_cluster,target,connect,connector,task,state}",
    "The state that a task is in now; always 1.",
)
CONNECT_TASK_FAILURES_TOTAL = _CONNECT.counter(
    "kafka_eos_connect_task_failures_total{kafka_cluster,target,connect,connector,task,cause}",
    "Times a task failed since it was first seen, by the exception in its trace. invalid_epoch: another producer or "
    "the coordinator ended its transaction, which most fences and timeouts look like to a task; other where no "
    "trace is read.",
)
CONNECT_TASK_TRANSACTION_SIZE_RECORDS = _CONNECT.gauge(
    "kafka_eos_connect_task_transaction_size_records{kafka_cluster,target,connect,connector,task,stat}",
    "Records in a transaction of an exactly-once source task; absent before its first one and while it is idle.",
)
CONNECT_TASK_RECORDS_WRITTEN_TOTAL = _CONNECT.counter(
    "kafka_eos_connect_task_records_written_total{kafka_cluster,target,connect,connector,task}",
    "Records that the task wrote to Kafka, or that a sink's task was given, since its worker started it.",
)
CONNECT_TASK_COMMITS_TOTAL = _CONNECT.counter(
    "kafka_eos_connect_task_commits_total{kafka_cluster,target,connect,connector,task}",
    "Transactions that an exactly-once source task committed, by its id in the transaction log, where no other task "
    "can have that id; offset commits that a sink task completed, since its worker started it.",
)
CONNECT_TASK_OFFSET_COMMIT_RATIO = _CONNECT.gauge(
    "kafka_eos_connect_task_offset_commit_ratio{kafka_cluster,target,connect,connector,task,result}",
    "Share of the task's recent offset commits that succeeded or failed; absent before the first one.",
)
CONNECT_TASK_OFFSET_COMMIT_SECONDS = _CONNECT.gauge(
    "kafka_eos_connect_task_offset_commit_seconds{kafka_cluster,target,connect,connector,task,stat}",
    "Time that the task's recent offset commits took, in seconds; absent before the first one.",
)

DEBEZIUM_SNAPSHOT_STATES = ("running", "paused", "completed", "aborted", "none")
DEBEZIUM_CONTEXTS = ("snapshot", "streaming")
DEBEZIUM_CONNECTED = _CONNECT.gauge(
    "kafka_eos_debezium_connected{kafka_cluster,target,connect,database,server}",
    "1 when a Debezium connector streams from its database, 0 when it has no connection; server is its topic.prefix.",
)
DEBEZIUM_SNAPSHOT_STATE = _CONNECT.gauge(
    "kafka_eos_debezium_snapshot_state{kafka_cluster,target,connect,database,server,state}",
    "The state of a Debezium connector's snapshot since its task started; none where it began with the stream; always"
    " 1.",
)
DEBEZIUM_SNAPSHOT_RESTARTS_TOTAL = _CONNECT.counter(
    "kafka_eos_debezium_snapshot_restarts_total{kafka_cluster,target,connect,database,server}",
    "Snapshots of a Debezium connector that began again before they were complete: what was read before is in the topic"
    " twice.",
)
DEBEZIUM_SNAPSHOT_REMAINING_TABLES = _CONNECT.gauge(
    "kafka_eos_debezium_snapshot_remaining_tables{kafka_cluster,target,connect,database,server}",
    "Tables that the snapshot of a Debezium connector has still to read.",
)
DEBEZIUM_LAG_SECONDS = _CONNECT.gauge(
    "kafka_eos_debezium_lag_seconds{kafka_cluster,target,connect,database,server}",
    "Time between the last change in the database and its processing by Debezium; absent before the first change.",
)
DEBEZIUM_LAST_EVENT_AGE_SECONDS = _CONNECT.gauge(
    "kafka_eos_debezium_last_event_age_seconds{kafka_cluster,target,connect,database,server,context}",
    "Time since a Debezium connector read its last row or change; absent before the first one.",
)
DEBEZIUM_QUEUE_RECORDS = _CONNECT.gauge(
    "kafka_eos_debezium_queue_records{kafka_cluster,target,connect,database,server}",
    "Events between the reader of a Debezium connector and its task.",
)
DEBEZIUM_QUEUE_CAPACITY_RECORDS = _CONNECT.gauge(
    "kafka_eos_debezium_queue_capacity_records{kafka_cluster,target,connect,database,server}",
    "Events that the queue of a Debezium connector takes at most: max.queue.size.",
)

# --- Clients and engines: Streams ---------------------------------------------------------------------------------

STREAMS_PROCESSING_GUARANTEE = _STREAMS.gauge(
    "kafka_eos_streams_processing_guarantee{kafka_cluster,target,application,guarantee}",
    "How a Kafka Streams application in this JVM commits, by what its clients did: exactly_once_v2 with a transactional"
    " producer of each thread, exactly_once with one of each task, at_least_once by offsets of its consumers; absent"
    " until one of them was seen; always 1.",
)
STREAMS_REBALANCES_TOTAL = _STREAMS.counter(
    "kafka_eos_streams_rebalances_total{kafka_cluster,target,thread,result}",
    "Rebalances of the group in which the consumer of a stream thread took part, since it was started.",
)
STREAMS_FAILED_THREADS_TOTAL = _STREAMS.counter(
    "kafka_eos_streams_failed_threads_total{kafka_cluster,target,client_id}",
    "Stream threads that an exception ended since the client was started, also those that were replaced.",
)
STREAMS_THREAD_COMMITS_TOTAL = _STREAMS.counter(
    "kafka_eos_streams_thread_commits_total{kafka_cluster,target,thread}",
    "Times a stream thread committed, with exactly-once a transaction each, since it was started.",
)
STREAMS_THREAD_COMMIT_LATENCY_SECONDS = _STREAMS.gauge(
    "kafka_eos_streams_thread_commit_latency_seconds{kafka_cluster,target,thread,stat}",
    "Time that a stream thread's recent commits took, in seconds; absent when there was none lately.",
)
STREAMS_THREAD_STATE = _STREAMS.gauge(
    "kafka_eos_streams_thread_state{kafka_cluster,target,thread,state}",
    "The state that a stream thread is in now; always 1.",
)
STREAMS_RESTORING_TASKS = _STREAMS.gauge(
    "kafka_eos_streams_restoring_tasks{kafka_cluster,target,thread}",
    "Active tasks that a state updater thread is restoring (KIP-869), in progress or paused.",
)
STREAMS_RESTORE_REMAINING_RECORDS = _STREAMS.gauge(
    "kafka_eos_streams_restore_remaining_records{kafka_cluster,target,thread,task}",
    "Records that a task has still to restore from its changelogs, transaction markers included; 0 once its thread "
    "restores nothing.",
)
STREAMS_CHANGELOG_LAG_OFFSETS = _STREAMS.gauge(
    "kafka_eos_streams_changelog_lag_offsets{kafka_cluster,target,application,topic}",
    "Offsets of a changelog topic that are written and not committed, and that no restoring task can read yet: its end "
    "minus its last stable offset, summed over partitions. How far a restoring task is behind is "
    "kafka_eos_streams_restore_remaining_records.",
)
STREAMS_CLIENT_STATE = _STREAMS.gauge(
    "kafka_eos_streams_client_state{kafka_cluster,target,client_id,state}",
    "The state that a Kafka Streams client is in now; always 1.",
)

# --- Clients and engines: Spark Structured Streaming ----------------------------------------------------------------

SPARK_BATCHES_TOTAL = _SPARK.counter(
    "kafka_eos_spark_batches_total{kafka_cluster,target,spark_application,query}",
    "Micro-batches that a streaming query completed since its checkpoint was made, by their number.",
)
SPARK_INPUT_ROWS_TOTAL = _SPARK.counter(
    "kafka_eos_spark_input_rows_total{kafka_cluster,target,spark_application,query}",
    "Rows that a streaming query processed since its application was started; not known from a checkpoint.",
)
SPARK_BATCH_DURATION_SECONDS = _SPARK.gauge(
    "kafka_eos_spark_batch_duration_seconds{kafka_cluster,target,spark_application,query,phase}",
    "Time that the last batch of a streaming query took, in seconds, by phase; trigger_execution is all of it.",
)
SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS = _SPARK.gauge(
    "kafka_eos_spark_last_progress_timestamp_seconds{kafka_cluster,target,spark_application,query}",
    "Unix time at which a streaming query last completed a batch or said that it is idle; where only its checkpoint is "
    "read, of the last batch.",
)
SPARK_SOURCE_LAG_OFFSETS = _SPARK.gauge(
    "kafka_eos_spark_source_lag_offsets{kafka_cluster,target,spark_application,query,topic}",
    "Offsets between what a streaming query completed and the high watermark, summed over its partitions of the topic.",
)
SPARK_SOURCE_BLOCKED_OFFSETS = _SPARK.gauge(
    "kafka_eos_spark_source_blocked_offsets{kafka_cluster,target,spark_application,query,topic}",
    "Offsets that a read_committed query cannot read yet because a transaction is open: high watermark minus last "
    "stable offset, or minus what the query completed if that is later, summed over its partitions of the topic.",
)
SPARK_UNCOMMITTED_BATCHES = _SPARK.gauge(
    "kafka_eos_spark_uncommitted_batches{kafka_cluster,target,spark_application,query}",
    "Batches that a streaming query began and did not commit: 1 while it works, or while it is stuck or dead in one; "
    "known from its checkpoint alone.",
)
SPARK_QUERY_STATE = _SPARK.gauge(
    "kafka_eos_spark_query_state{kafka_cluster,target,spark_application,query,state}",
    "The state that a streaming query is in now; always 1; absent when its driver has fallen silent.",
)
SPARK_QUERY_TERMINATIONS_TOTAL = _SPARK.counter(
    "kafka_eos_spark_query_terminations_total{kafka_cluster,target,spark_application,query,reason}",
    "Ends of runs of a streaming query that the agent saw, by reason.",
)

# --- Audits ---------------------------------------------------------------------------------------------------------

AUDIT_FINDINGS = _AUDITS.gauge(
    "kafka_eos_audit_findings{kafka_cluster,target,audit,topic,kind}",
    "Findings of the last run of an audit, by kind; absent for a kind that it did not look for.",
)
AUDIT_RECORDS = _AUDITS.gauge(
    "kafka_eos_audit_records{kafka_cluster,target,audit,topic}",
    "Records that the last run of an audit looked at.",
)
AUDIT_LAST_RUN_TIMESTAMP_SECONDS = _AUDITS.gauge(
    "kafka_eos_audit_last_run_timestamp_seconds{kafka_cluster,target,audit,topic}",
    "Unix time at which the last run of an audit ended.",
)
AUDIT_VERDICT = _AUDITS.gauge(
    "kafka_eos_audit_verdict{kafka_cluster,target,audit,topic,verdict}",
    "Verdict of the last run of an audit on the topic; always 1; unknown where it could not decide.",
)


# --- Thresholds: what the rules compare with --------------------------------------------------------------------------

TOPIC_THRESHOLD_SECONDS = _LSO.gauge(
    "kafka_eos_topic_threshold_seconds{kafka_cluster,topic,threshold}",
    "Thresholds of the settings for the age of a stall of a topic with stalled partitions, in seconds; +Inf for never.",
)
APPLICATION_THRESHOLD_SECONDS = _TXNLOG.gauge(
    "kafka_eos_application_threshold_seconds{kafka_cluster,application,threshold}",
    "Thresholds of the settings for the age of an application's open and completing transactions and of its last "
    "commit, in seconds; +Inf for never.",
)
APPLICATION_THRESHOLD_RATIO = _TXNLOG.gauge(
    "kafka_eos_application_threshold_ratio{kafka_cluster,application,threshold}",
    "The share of an application's transactions that may end otherwise than committed, by the settings; +Inf for any.",
)
QUERY_THRESHOLD_SECONDS = _SPARK.gauge(
    "kafka_eos_query_threshold_seconds{kafka_cluster,spark_application,query,threshold}",
    "Threshold of the settings for the time that a streaming query makes no progress, in seconds; +Inf for never.",
)
AUDIT_THRESHOLD_SECONDS = _AUDITS.gauge(
    "kafka_eos_audit_threshold_seconds{kafka_cluster,audit,threshold}",
    "Threshold of the settings for the age of the last run of an audit, in seconds; +Inf for never.",
)
CONNECTOR_THRESHOLD_RATIO = _CONNECT.gauge(
    "kafka_eos_connector_threshold_ratio{kafka_cluster,connect,connector,threshold}",
    "The share of offset commits of a connector's tasks that may fail, by the settings; +Inf for any.",
)
GROUP_THRESHOLD_OFFSETS = _GROUPS.gauge(
    "kafka_eos_group_threshold_offsets{kafka_cluster,group,threshold}",
    "From how many offsets of read_committed lag on a topic a group is a ticket or a page, by the settings; absent for "
    "never.",
)
IGNORED_INFO = _LSO.gauge(
    "kafka_eos_ignored_info{kafka_cluster,kind,subject,reason}",
    "A subject whose thresholds the settings switch off, or a source (SOURCE/TARGET) that may be down, and why; always "
    "1.",
)
OWNER_INFO = _LSO.gauge(
    "kafka_eos_owner_info{kafka_cluster,kind,subject,owner}",
    "The team that owns a subject by the settings, or unowned; of kind holder, the producer id of a transaction that "
    "holds stalled partitions; of kind cluster, what belongs to no other; absent without owners in the settings; "
    "always 1.",
)

# --- The canary ---------------------------------------------------------------------------------------------------

CANARY_TRANSACTIONS_TOTAL = _CANARY.counter(
    "kafka_eos_canary_transactions_total{kafka_cluster,coordinator,outcome}",
    "The canary's own transactions that went as they should, by coordinating broker and outcome.",
)
CANARY_FAILURES_TOTAL = _CANARY.counter(
    "kafka_eos_canary_failures_total{kafka_cluster,coordinator,phase,error}",
    "The canary's turns that failed, by coordinating broker, phase and error.",
)
CANARY_PHASE_SECONDS = _CANARY.histogram(
    "kafka_eos_canary_phase_seconds{kafka_cluster,coordinator,phase}",
    "Time of each phase of the canary's transactions; read is from the commit until a read_committed consumer has the "
    "records.",
    (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
CANARY_FAILING_PARTITIONS = _CANARY.gauge(
    "kafka_eos_canary_failing_partitions{kafka_cluster,coordinator}",
    "Partitions of the transaction log whose coordinator failed the canary's last turn, by that broker.",
)
CANARY_LAST_SUCCESS_TIMESTAMP_SECONDS = _CANARY.gauge(
    "kafka_eos_canary_last_success_timestamp_seconds{kafka_cluster}",
    "Unix time of the canary's last turn that succeeded, or of its start before the first.",
)


def rows() -> tuple[Metric, ...]:
    """Every family, in the order of this page, which is the order of exposition."""
    return tuple(value for value in globals().values() if isinstance(value, Metric))
