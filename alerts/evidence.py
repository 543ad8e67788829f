"""Pieces of descriptions: evidence, and the command to copy.

Prometheus' templates query their values (``query``) when the alert is evaluated, so that names and offsets are in the
text without being labels: an alert keeps its identity when another transaction becomes the holder. Two replicas may be
scraped; every query here is aggregated to one row for each fact.
"""

from __future__ import annotations

from exporter import catalogue
from exporter.alerts.rule import Record

_WHO = "application, transactional_id, producer_id, producer_epoch"
_MOST = 5


def per_row(query: str, body: str, *labels: str, otherwise: str = "") -> str:
    """A template: ``body`` for every row of the query, in which ``%q`` stand for these labels of the alert."""
    arguments = "".join(f" $labels.{label}" for label in labels)
    source = f"(printf `{query}`{arguments})" if labels else f"`{query}`"
    end = f"{{{{ else }}}}{otherwise}{{{{ end }}}}" if otherwise else "{{ end }}"
    return f"{{{{ range query {source} }}}}{body}{end}"


def listed(query: str, body: str, *labels: str) -> str:
    """A template: the rows of the query in brackets, with commas between them; ``$row`` is a row. "" without rows."""
    arguments = "".join(f" $labels.{label}" for label in labels)
    return (
        f"{{{{ with query (printf `{query}`{arguments}) }}}} ("
        f"{{{{ range $place, $row := . }}}}{{{{ if $place }}}}, {{{{ end }}}}{body}{{{{ end }}}}){{{{ end }}}}"
    )


CLOCK = "{{ .Value | humanizeTimestamp | reReplaceAll `^[0-9-]+ ([0-9]+:[0-9]+).*$` `$1 UTC` }}"
"""The time of the day of a row whose value is Unix seconds."""

_HOLDER = ("kafka_cluster", "producer_id")
_AT = "{kafka_cluster=%q, producer_id=%q}"
_ITS = f"on (kafka_cluster, topic) group by (kafka_cluster, topic) ({catalogue.LSO_BLOCKER_INFO}{_AT})"
_PLACE = "kafka_cluster, topic, partition"

WORST = Record(
    "kafka_cluster_holder_partition:kafka_eos_lso_stalled_since_timestamp_seconds:worst",
    f"""\
bottomk by (kafka_cluster, producer_id) ({_MOST},
  group by ({_PLACE}, producer_id) ({catalogue.LSO_BLOCKER_INFO})
  * on ({_PLACE}) group_left () min by ({_PLACE}) ({catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS})
)""",
)
"""Since when each of the worst five partitions of a holder is stalled. In a flood of stalls each alert would look its
partitions up among those of all holders and replicas."""

WAITING_GROUPS = Record(
    "kafka_cluster_group_topic:kafka_eos_group_blocked_offsets:worst",
    f"""\
topk by (kafka_cluster, topic) ({_MOST},
  max by (kafka_cluster, group, topic) ({catalogue.GROUP_BLOCKED_OFFSETS}) > 0
  and on (kafka_cluster, topic) {catalogue.LSO_BLOCKER_INFO}
)""",
)
"""How much is withheld from the five groups of each topic with stalls that wait for most."""

_TOPICS = f"group by (topic) ({catalogue.LSO_BLOCKER_INFO}{_AT})"

READERS = (
    "readers"
    + per_row(f"topk(1, {_TOPICS})", " of {{ .Labels.topic }}", *_HOLDER)
    + per_row(f"count({_TOPICS}) - 1 > 0", " (+{{ .Value }} topics)", *_HOLDER)
    + " get no new records"
    + per_row(f"min({WORST}{_AT})", " since " + CLOCK, *_HOLDER)
    + f"{{{{ with query (printf `sort_desc(max by (group) ({WAITING_GROUPS}{{kafka_cluster=%q}} and {_ITS}))`"
    " $labels.kafka_cluster $labels.kafka_cluster $labels.producer_id) }}; {{ len . }} group(s) wait, most:"
    ' {{ . | first | label "group" }}, {{ . | first | value }}{{ end }}.'
)
"""Who is hit: topics, since when, and the consumer groups that wait, of the five of a topic that wait for most."""

WHO = " Held by " + per_row(
    f"topk(1, group by (application, transactional_id) ({catalogue.LSO_HOLDER_PARTITIONS}{_AT}))",
    "{{ if .Labels.transactional_id }}{{ .Labels.transactional_id }} (application {{ .Labels.application }}){{ else }}"
    "a transaction without a known transactional.id{{ end }}",
    *_HOLDER,
    otherwise="a transaction",
)
WHO += ", producer id {{ $labels.producer_id }}"
"""The transaction that holds the partitions."""

ENDS = per_row(
    f"floor(min({catalogue.OPEN_TRANSACTION_START_TIMESTAMP_SECONDS}{_AT})"
    f" + max({catalogue.OPEN_TRANSACTION_TIMEOUT_SECONDS}{_AT}))",
    ", which Kafka ends by itself at " + CLOCK,
    *_HOLDER,
    *_HOLDER,
)

STEP = (
    "First: open the agent's status page (page_url)"
    + per_row(f"topk(1, -{WORST}{_AT})", ", card {{ .Labels.topic }}-{{ .Labels.partition }}", *_HOLDER)
    + ", and do the one step there. Do not end a transaction by another way: it may be torn."
)
"""Where the next step is. Commands that can destroy data are printed only by the agent, which has the proof."""

HELD = (
    per_row(
        f"max by (kind) ({catalogue.LSO_HOLDER_PARTITIONS}{_AT})",
        "\n{{ .Value }} partition(s) held, {{ .Labels.kind }}.",
        *_HOLDER,
    )
    + per_row(
        f"floor(max({catalogue.OPEN_TRANSACTION_START_TIMESTAMP_SECONDS}{_AT}))",
        " Open since {{ .Value | humanizeTimestamp }}.",
        *_HOLDER,
    )
    + per_row(
        f"max by (group) ({catalogue.LSO_HOLDER_GROUP_MEMBERS}{_AT})",
        "\nIts group {{ .Labels.group }} has {{ .Value }} member(s)"
        "{{ if eq .Value 0.0 }}: nobody is there to end it before its timeout{{ end }}.",
        *_HOLDER,
    )
    + per_row(
        f"sort(floor({WORST}{_AT}))",
        "\n- {{ .Labels.topic }}-{{ .Labels.partition }} since {{ .Value | humanizeTimestamp }}",
        *_HOLDER,
    )
)
"""The partitions of a holder: their number, the worst five, and since when its transaction is open."""

WAITING = per_row(
    f"topk({_MOST}, {WAITING_GROUPS}{{kafka_cluster=%q}} and {_ITS})",
    "\n- group {{ .Labels.group }} waits for {{ .Value }} offsets of {{ .Labels.topic }}",
    "kafka_cluster",
    *_HOLDER,
) + per_row(
    f"topk({_MOST}, max by (spark_application, query, topic) ("
    f"{catalogue.SPARK_SOURCE_BLOCKED_OFFSETS}{{kafka_cluster=%q}} and {_ITS}) > 0)",
    "\n- query {{ .Labels.query }} of Spark application {{ .Labels.spark_application }} waits for {{ .Value }} offsets"
    " of {{ .Labels.topic }}",
    "kafka_cluster",
    *_HOLDER,
)
"""Consumer groups that wait for it: their own lag looks like 0."""


def unclean_ends(outcome: str, window: int) -> str:
    """The latest unclean ends of the alert's application: who, and when."""
    query = (
        f"topk({_MOST}, floor(max by ({_WHO}) ({catalogue.LAST_UNCLEAN_END_TIMESTAMP_SECONDS}"
        f'{{kafka_cluster=%q, application=%q, outcome="{outcome}"}})) > time() - {window})'
    )
    body = (
        "\n- transactional.id {{ .Labels.transactional_id }}, producer id {{ .Labels.producer_id }}, epoch"
        " {{ .Labels.producer_epoch }}, at {{ .Value | humanizeTimestamp }}"
    )
    return per_row(query, body, "kafka_cluster", "application")
