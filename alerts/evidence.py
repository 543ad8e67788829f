"""Pieces of descriptions: what a person is told, and the command to copy.

Prometheus' templates ask for what they show (``query``) when the alert is evaluated, so that names and offsets are in
the text without being labels: an alert keeps its identity when another transaction takes over. Two replicas may answer;
every query here is aggregated to one row a fact.
"""

from __future__ import annotations

from exporter.catalogue import (
    CLUSTER_INFO,
    GROUP_BLOCKED_OFFSETS,
    LAST_UNCLEAN_END_TIMESTAMP_SECONDS,
    LSO_BLOCKER_INFO,
    LSO_LAG_OFFSETS,
    LSO_STALLED_SINCE_TIMESTAMP_SECONDS,
    OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    OPEN_TRANSACTION_TIMEOUT_SECONDS,
    SOURCE_UP,
    SPARK_SOURCE_BLOCKED_OFFSETS,
)

_WHO = "application, transactional_id, producer_id, producer_epoch"
_MOST = 5
WORD = "^[ -~]+$"
"""Ids are whatever their users made of them. What is not printable ASCII is not put into a line to copy."""


def each(query: str, body: str, *labels: str, otherwise: str = "") -> str:
    """A template: ``body`` for every row of the query, in which ``%q`` stand for these labels of the alert."""
    arguments = "".join(f" $labels.{label}" for label in labels)
    source = f"(printf `{query}`{arguments})" if labels else f"`{query}`"
    end = f"{{{{ else }}}}{otherwise}{{{{ end }}}}" if otherwise else "{{ end }}"
    return f"{{{{ range query {source} }}}}{body}{end}"


AT_PARTITION = "kafka_cluster=%q, topic=%q, partition=%q"
PARTITION = ("kafka_cluster", "topic", "partition")

BOOTSTRAP = '{{ $bootstrap := "BOOTSTRAP" }}' + each(
    f"max by (bootstrap_servers) ({CLUSTER_INFO}{{kafka_cluster=%q}})",
    "{{ $bootstrap = .Labels.bootstrap_servers }}",
    "kafka_cluster",
)
"""Sets ``$bootstrap``: where to send a command."""

STALLED_SINCE = each(
    f"floor(min by (topic) ({LSO_STALLED_SINCE_TIMESTAMP_SECONDS}{{{AT_PARTITION}}}))",
    " (since {{ .Value | humanizeTimestamp }})",
    *PARTITION,
)
LSO_LAG = each(
    f"max by (topic) ({LSO_LAG_OFFSETS}{{{AT_PARTITION}}})",
    " {{ .Value }} offsets are withheld from read_committed consumers.",
    *PARTITION,
)

_AT_TOPIC = "{kafka_cluster=%q, topic=%q}"
WAITING = each(
    f"topk({_MOST}, max by (group) ({GROUP_BLOCKED_OFFSETS}{_AT_TOPIC}) > 0)",
    " Group {{ .Labels.group }} waits for {{ .Value }} offsets of this topic.",
    "kafka_cluster",
    "topic",
) + each(
    f"topk({_MOST}, max by (spark_application, query) ({SPARK_SOURCE_BLOCKED_OFFSETS}{_AT_TOPIC}) > 0)",
    " Query {{ .Labels.query }} of Spark application {{ .Labels.spark_application }} waits for {{ .Value }} offsets of"
    " this topic.",
    "kafka_cluster",
    "topic",
)
"""Who is held up by it: their own lag looks like none."""

_QUOTED_ID = "'{{ reReplaceAll \"'\" `'\\''` .Labels.transactional_id }}'"
_SINCE = (
    "{{ range query (printf `floor(min(" + str(OPEN_TRANSACTION_START_TIMESTAMP_SECONDS) + "{kafka_cluster=%q, "
    "producer_id=%q}))` $labels.kafka_cluster .Labels.producer_id) }}, open since {{ .Value | humanizeTimestamp }}"
    "{{ end }}"
)
_ENDS = (
    "{{ range query (printf `floor(min("
    + str(OPEN_TRANSACTION_START_TIMESTAMP_SECONDS)
    + "{kafka_cluster=%q, producer_id=%q}) + max("
    + str(OPEN_TRANSACTION_TIMEOUT_SECONDS)
    + "{kafka_cluster=%q, producer_id=%q}))` $labels.kafka_cluster .Labels.producer_id $labels.kafka_cluster "
    ".Labels.producer_id) }} Its coordinator ends it by itself at {{ .Value | humanizeTimestamp }}, or up to 10 s "
    "later; if that is past, look at the coordinator."
    "{{ else }} It has no timeout, or none that is known.{{ end }}"
)
_OPEN = (
    " Held by transactional.id {{ .Labels.transactional_id }} of application {{ .Labels.application }}"
    " (producer id {{ .Labels.producer_id }}, epoch {{ .Labels.producer_epoch }}, start offset"
    " {{ .Labels.start_offset }}" + _SINCE + ")."
    " OPEN: its producer has not ended it. Let that instance finish, or stop it."
    + _ENDS
    + " To end it now - what it wrote is lost, and a Flink job may still want to commit it from a checkpoint -"
    " with the tools of Kafka 4.0 or later (before: initialise a producer with the same transactional.id):"
    f"{{{{ if match `{WORD}` .Labels.transactional_id }}}}"
    "\nkafka-transactions.sh --bootstrap-server {{ $bootstrap }} forceTerminateTransaction --transactionalId "
    f"{_QUOTED_ID}\n"
    "{{ else }} copy the line from the status page: the id has characters that do not print.{{ end }}"
)
_COMPLETING = (
    " Held by transactional.id {{ .Labels.transactional_id }} of application {{ .Labels.application }}"
    " (producer id {{ .Labels.producer_id }}, start offset {{ .Labels.start_offset }})."
    " COMPLETING: its end is decided, and the marker has not reached this partition. Look whether the leader of"
    " {{ $labels.topic }}-{{ $labels.partition }} is up and reached by the coordinator. Leave the transaction alone:"
    " ending it by hand would tear it."
)
_HANGING = (
    " Held by producer id {{ .Labels.producer_id }}, epoch {{ .Labels.producer_epoch }}, start offset"
    " {{ .Labels.start_offset }}. HANGING: every coordinator was asked, and none knows this transaction. It never ends"
    " by itself. Write its missing marker, which drops the records of this transaction in this partition:"
    "\nkafka-transactions.sh --bootstrap-server {{ $bootstrap }} abort --topic {{ $labels.topic }} --partition"
    " {{ $labels.partition }} --start-offset {{ .Labels.start_offset }}\n"
)
_UNKNOWN = (
    " Held by producer id {{ .Labels.producer_id }}, start offset {{ .Labels.start_offset }}."
    " UNKNOWN: it could not be asked whether a coordinator knows it. Do nothing to the transaction: if it is alive,"
    " that would tear it. Mend first what does not answer"
    + each(f"max by (source) ({SOURCE_UP}{{kafka_cluster=%q}}) == 0", " - source {{ .Labels.source }}", "kafka_cluster")
    + "; the status page names the grant or the broker."
)


def _blockers(kind: str) -> str:
    return f"max by ({_WHO}, start_offset, kind) ({LSO_BLOCKER_INFO}{{{AT_PARTITION}, {kind}}})"


HANGING_STEP = each(
    # Where another replica says that a coordinator knows what holds this partition, no line that would tear it.
    _blockers('kind="hanging"') + f' unless on () {LSO_BLOCKER_INFO}{{{AT_PARTITION}, kind=~"open|completing"}}',
    _HANGING,
    *PARTITION,
    *PARTITION,
)
BLOCKER_STEP = (
    each(
        _blockers('kind!="hanging"'),
        '{{ if eq .Labels.kind "open" }}'
        + _OPEN
        + '{{ else if eq .Labels.kind "completing" }}'
        + _COMPLETING
        + "{{ else }}"
        + _UNKNOWN
        + "{{ end }}",
        *PARTITION,
    )
    + HANGING_STEP
)
"""Who holds this partition, and the next step for that kind. The line that ends a hanging one stands there alone."""


def unclean_ends(outcome: str, window: int) -> str:
    """The latest unclean ends of the alert's application: who, and when."""
    query = (
        f"topk({_MOST}, floor(max by ({_WHO}) ({LAST_UNCLEAN_END_TIMESTAMP_SECONDS}"
        f'{{kafka_cluster=%q, application=%q, outcome="{outcome}"}})) > time() - {window})'
    )
    body = (
        "\n- transactional.id {{ .Labels.transactional_id }}, producer id {{ .Labels.producer_id }}, epoch"
        " {{ .Labels.producer_epoch }}, at {{ .Value | humanizeTimestamp }}"
    )
    return each(query, body, "kafka_cluster", "application")
