"""Closed lists of words: label values that are closed. The catalogue lists them.

The facts that hold them are in the ``facts`` of the rooms.
"""

from __future__ import annotations

from exporter.model import Word


class TransactionState(Word):
    """State of an open transaction: the label values of ``transactions_open{state}``."""

    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare_commit"
    PREPARE_ABORT = "prepare_abort"


class Outcome(Word):
    """How a transaction ended: the label values of ``transactions_total{outcome}``."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    TIMED_OUT = "timed_out"
    FENCED = "fenced"


class BlockerKind(Word):
    """State of the holder of an LSO at its coordinator: the label values of ``lso_blocker_info{kind}``."""

    OPEN = "open"
    COMPLETING = "completing"
    HANGING = "hanging"
    UNMARKED = "unmarked"
    UNKNOWN = "unknown"


class RecordState(Word):
    """The states of a record, to a reader of committed records."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    COMPLETING = "completing"  # decided, its marker is under way
    UNMARKED = "unmarked"  # decided, open at no coordinator, and its marker is missing
    NO_TRANSACTION = "no_transaction"
    MARKER = "marker"  # the control record that ended a transaction
    COMPACTED = "compacted"  # no record has the offset any more
    BELOW_LOG_START = "below_log_start"
    BEYOND_END = "beyond_end"  # no record has the offset yet
    UNKNOWN = "unknown"


class MarkerWait(Word):
    """Why the marker of a decided transaction has not released a partition."""

    LEADER_AWAY = "leader_away"  # the partition has no leader that could write it
    NOT_WRITTEN = "not_written"  # the leader's log lacks it
    NOT_REPLICATED = "not_replicated"  # the leader's log has it, the high watermark is still below it


class MemberMatch(Word):
    """Whether names show that a member of a group is the producer of a transactional.id."""

    NO = "no"
    LIKELY = "likely"
    CERTAIN = "certain"


class Precommit(Word):
    """The evidence that a transaction of a job belongs to a checkpoint that began, and waits for its commit."""

    NO = "no"
    LIKELY = "likely"  # open past a checkpoint of its job, or longer than the job's checkpoints are apart
    PROVEN = "proven"  # the next id of its subtask was initialised, or is in use, while this one is open


class GroupKind(Word):
    """The protocol of a group: the label values of ``group_members{kind}``. Share groups keep no committed offsets."""

    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848
    SHARE = "share"  # KIP-932
    STREAMS = "streams"  # KIP-1071
    UNKNOWN = "unknown"


class FailureCause(Word):
    """Why a Connect task failed: the label values of ``connect_task_failures_total{cause}``."""

    FENCED = "fenced"
    INVALID_EPOCH = "invalid_epoch"
    TIMEOUT = "timeout"
    OTHER = "other"


class FoundMarker(Word):
    """The marker that a partition has in place of that of a decision."""

    NOTHING = "nothing"  # no marker, and nothing else has ended the records
    ABORT = "abort"
    COMMIT = "commit"


class QueryState(Word):
    """The label values of ``spark_query_state{state}``."""

    RUNNING = "running"
    IDLE = "idle"  # the last trigger found nothing to do
    TERMINATED = "terminated"  # stopped, or its application ended
    FAILED = "failed"  # ended by an error

    @property
    def ended(self) -> bool:
        return self in {QueryState.TERMINATED, QueryState.FAILED}


class TerminationReason(Word):
    """Why a query ended: the label values of ``spark_query_terminations_total{reason}``."""

    STOPPED = "stopped"  # on purpose
    DATA_LOSS = "data_loss"  # offsets that it needed are deleted from the topic
    CONCURRENT_RUN = "concurrent_run"  # another run writes the same checkpoint
    FENCED = "fenced"  # a transactional producer in it was fenced
    KAFKA = "kafka"  # any other error of Kafka's client
    CHECKPOINT = "checkpoint"  # its checkpoint or state cannot be read or does not fit
    USER_CODE = "user_code"  # a function of the user raised
    OTHER = "other"


class AuditVerdict(Word):
    """Result of an audit for a topic: the label values of ``audit_verdict{verdict}``."""

    CLEAN = "clean"
    FINDINGS = "findings"
    UNKNOWN = "unknown"


class CanaryPhase(Word):
    """Parts of the canary's transactions: the label values of ``canary_phase_seconds{phase}``."""

    INIT = "init"  # a producer id and epoch from the coordinator
    PRODUCE = "produce"  # begin, and records acknowledged by two partitions
    OFFSETS = "offsets"  # offsets of a group in the transaction
    COMMIT = "commit"
    READ = "read"  # from the commit's return until a read_committed consumer has the records
    ABORT = "abort"
    FENCE = "fence"  # a second producer takes the id, and the first is refused


class CanaryOutcome(Word):
    """The label values of ``canary_transactions_total{outcome}``."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    FENCED = "fenced"


class EventKind(Word):
    """The kinds of events: the label values of ``events_total{kind}``."""

    STALL_BEGUN = "stall_begun"
    STALL_NAMED = "stall_named"  # its holder became known after it began
    STALL_ENDED = "stall_ended"
    HANGING_PROVEN = "hanging_proven"
    UNMARKED_COMMIT = "unmarked_commit"  # a committed transaction lacks its marker, and holds the partition
    TIMED_OUT = "timed_out"
    FENCED = "fenced"
    FENCE_STORM_BEGUN = "fence_storm_begun"
    FENCE_STORM_ENDED = "fence_storm_ended"
    TORN = "torn"
    COORDINATOR_MOVED = "coordinator_moved"
    LOG_RECORDS_LOST = "log_records_lost"
    FLINK_AT_RISK = "flink_at_risk"
    FLINK_RISK_ENDED = "flink_risk_ended"
    FLINK_LOST = "flink_lost"
    TASK_FAILED = "task_failed"
    TASK_BACK = "task_back"
    CHECK_FAILED = "check_failed"
    CHECK_PASSED = "check_passed"
    SOURCE_DOWN = "source_down"
    SOURCE_BACK = "source_back"
    AGENT_STARTED = "agent_started"
    AGENT_STOPPED = "agent_stopped"
    AGENT_PAUSED = "agent_paused"  # its process did not run
    EVENTS_LOST = "events_lost"  # the journal could not be written


class StallEnd(Word):
    """How a stall ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    TIMED_OUT = "timed_out"
    PRODUCER_BACK = "producer_back"  # the id was initialised again, or its producer's next transaction ended there
    UNKNOWN = "unknown"
