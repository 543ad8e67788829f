"""Pieces of descriptions: what a person is told, and the command that looks again.

No line that ends a transaction is here: it takes a proof (``exporter.lso.ending``), which a metric cannot carry. What a
holder of each kind means is said in the words of the status page and of the commands.

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
from exporter.lso.ending import look_for_hanging, look_for_stalled
from exporter.lso.next_step import DO_NOT_END, MEANING
from exporter.model import BlockerKind

_WHO = "application, transactional_id, producer_id, producer_epoch"
_MOST = 5


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
    f" OPEN: {MEANING[BlockerKind.OPEN]} Let that instance finish, or stop it." + _ENDS + "\n"
    "If it is a Flink job's, do not end it by hand: it may be precommitted, and the job commits it when it starts from"
    " its last checkpoint before that.\n"
    "The status page has the next step; so has this line, which only looks:\n"
    + look_for_stalled("{{ $bootstrap }}")
    + "\n"
)
_COMPLETING = (
    " Held by transactional.id {{ .Labels.transactional_id }} of application {{ .Labels.application }}"
    " (producer id {{ .Labels.producer_id }}, start offset {{ .Labels.start_offset }})."
    f" COMPLETING: {MEANING[BlockerKind.COMPLETING]} Look whether the leader of"
    " {{ $labels.topic }}-{{ $labels.partition }} is up and reached by the coordinator. "
    + DO_NOT_END[BlockerKind.COMPLETING]
)
_HANGING = (
    " Held by producer id {{ .Labels.producer_id }}, epoch {{ .Labels.producer_epoch }}, start offset"
    f" {{{{ .Labels.start_offset }}}}. HANGING: {MEANING[BlockerKind.HANGING]}\n"
    "The status page has the line that ends it, with its proof; so has this line, which only looks, and proves it anew:"
    "\n"
    + look_for_hanging("{{ $bootstrap }}", "--topic {{ $labels.topic }} --partition {{ $labels.partition }}")
    + "\n"
)
_UNKNOWN = (
    " Held by producer id {{ .Labels.producer_id }}, start offset {{ .Labels.start_offset }}."
    f" UNKNOWN: {MEANING[BlockerKind.UNKNOWN]} {DO_NOT_END[BlockerKind.UNKNOWN]} Mend first what does not answer"
    + each(f"max by (source) ({SOURCE_UP}{{kafka_cluster=%q}}) == 0", " - source {{ .Labels.source }}", "kafka_cluster")
    + "; the status page names the grant or the broker."
)


def _blockers(kind: str) -> str:
    return f"max by ({_WHO}, start_offset, kind) ({LSO_BLOCKER_INFO}{{{AT_PARTITION}, {kind}}})"


HANGING_STEP = each(
    # Not where another replica says that a coordinator knows what holds this partition.
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
"""Who holds this partition, and the next step for that kind."""


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
