"""Rows about the agent itself: missing agents, shards and replicas of each cluster, and sources that fail.

An agent watches a cluster when it exposes source ``lso`` of it. A missing cluster, shard or replica is found by a
recorded series that is 0 while there is none, over the evaluations of Prometheus: an outage of Prometheus is no outage
of the agent.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import each
from exporter.alerts.rule import Alert, Record, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    EXPORTER_BUILD_INFO,
    EXPORTER_SHARDS,
    IGNORED_INFO,
    SOURCE_BLIND,
    SOURCE_FAULTS_TOTAL,
    SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS,
    SOURCE_UP,
)

DASHBOARD = "kafka-eos-exporter"
_WATCHES = f'{SOURCE_UP}{{source="lso"}}'
_SHARD = "kafka_cluster, shard"
_AGENT = "kafka_cluster, job, instance"
_READ = "kafka_cluster, source, target"
_READ_LABELS = ("kafka_cluster", "source", "target")
_STARTED = "process_start_time_seconds"

AGENTS = Record(
    "kafka_cluster_shard:kafka_eos_agents:count",
    f"""\
count by ({_SHARD}) (group by ({_SHARD}, job, instance) ({_WATCHES}))
or
0 * group by ({_SHARD}) (present_over_time({_WATCHES}[1d]))""",
)
"""How many agents watch each shard of each cluster: 0, not absent, for a day after the last of them."""

SHARDS = Record(
    "kafka_cluster_shard:kafka_eos_exporter_shards:avg",
    f"""\
avg by ({_SHARD}) (
  group by ({_SHARD}, job, instance) ({_WATCHES})
  * on (shard, job, instance) group_left () {EXPORTER_SHARDS}
)""",
)
"""The number of shards of a cluster by the settings of each agent."""

_THERE = f"avg_over_time({AGENTS}[4m])"
_USUAL = f"quantile_over_time(0.9, {AGENTS}[1d])"
_GONE = each(
    f"topk(5, group by (instance) (last_over_time({_WATCHES[:-1]}, kafka_cluster=%q}}[1d]))"
    f" unless on (instance) group by (instance) ({_WATCHES[:-1]}, kafka_cluster=%q}}))",
    "\n- {{ .Labels.instance }} is gone",
    "kafka_cluster",
    "kafka_cluster",
)
_FAULTS = "{{ .Labels.reason }}: {{ .Value | humanize }}."


def records() -> Iterator[Record]:
    """Recording rules that the alerts evaluate over time."""
    yield AGENTS
    yield SHARDS


def alerts(_: Settings) -> Iterator[Alert]:
    """A missing agent, replica or shard, and a cluster or a source that the running agents cannot read."""
    yield from _absent()
    yield from _blind()
    yield from _sources()


def _absent() -> Iterator[Alert]:
    yield _missing(
        "cluster",
        Severity.CRITICAL,
        f"max by (kafka_cluster) ({_THERE}) < 0.5",
        "A Kafka cluster has no agent any more: nothing watches exactly-once there.",
        "{{ $labels.kafka_cluster }} was watched in the last day, and for 4 minutes no agent was there, or for"
        " less than half of the time, as in a crash loop."
        + _GONE
        + "\nIs it running, was it killed for memory, does Prometheus find it (its target page), and does GET"
        " /-/healthy answer? Until then no other alert of this cluster can fire. A cluster that is no longer watched is"
        " forgotten after a day: silence this alert.",
        hold="2m",
        when="a cluster that was watched in the last day has no agent for 4m, or has one for less than half of 4m,"
        " for 2m",
    )
    yield _missing(
        "shard",
        Severity.CRITICAL,
        # Running shards, each by the share of time that it runs, compared with their configured number.
        f"sum by (kafka_cluster) (clamp_max({_THERE}, 1)) < max by (kafka_cluster) ({SHARDS}) - 0.5",
        "A shard of the agent is missing: nothing watches exactly-once on a part of the cluster.",
        "Some of the shards that watch {{ $labels.kafka_cluster }} are missing. The topics, applications and groups"
        " of a missing shard are on no page and in no alert. Those that are there:"
        + each(
            f'topk(20, group by (shard, instance) ({_WATCHES[:-1]}, shard!="", kafka_cluster=%q}}))',
            "\n- shard {{ .Labels.shard }}, {{ .Labels.instance }}",
            "kafka_cluster",
        )
        + _GONE
        + "\nRun one agent with --shard INDEX/COUNT for each INDEX from 0 to COUNT - 1, all with the same COUNT.",
        hold="2m",
        when="in half of 4m a shard of a cluster is missing, for 2m",
    )
    yield _missing(
        "shard_count",
        Severity.CRITICAL,
        f"max by (kafka_cluster) ({SHARDS}) != min by (kafka_cluster) ({SHARDS})",
        "The shards of the agent do not agree on how many they are: a part of the cluster may be watched by none.",
        "The shards that watch {{ $labels.kafka_cluster }} were started with different counts:"
        + each(
            f"topk(20, group by (shard, job, instance) ({_WATCHES[:-1]}, kafka_cluster=%q}}) * on (job, instance)"
            f" group_left () max by (job, instance) ({EXPORTER_SHARDS}))",
            "\n- shard {{ .Labels.shard }}/{{ .Value }}, {{ .Labels.instance }}",
            "kafka_cluster",
        )
        + "\nGive all of them the same COUNT in --shard INDEX/COUNT.",
        hold="5m",
        when="the shards of a cluster do not agree on how many they are, for 5m",
    )
    yield _missing(
        "replica",
        Severity.WARNING,
        f"group by (kafka_cluster) ({_USUAL} - {_THERE} > 0.5 and {AGENTS} > 0)",
        "Fewer agents watch a cluster than usual: the next failure leaves it unwatched.",
        "Some of the agents that watched {{ $labels.kafka_cluster }} in the last day are gone, and others are there."
        + _GONE
        + "\nFewer on purpose: silence it, it is forgotten within a day.",
        hold="2m",
        when="in half of 4m fewer agents watch a cluster than usual in the last day, for 2m",
    )
    yield _missing(
        "restarts",
        Severity.WARNING,
        f"""\
group by ({_AGENT}) (present_over_time({_WATCHES}[10m]))
and on (job, instance)
  changes({_STARTED}[1h]) > 2""",
        "An agent restarts again and again.",
        "Agent {{ $labels.instance }}, which watches {{ $labels.kafka_cluster }}, was started {{ with printf"
        f" `max(changes({_STARTED}{{job=%q, instance=%q}}[1h]))` $labels.job $labels.instance | query }}}}"
        "{{ . | first | value }} {{ end }}times anew in the last hour. Look for what ended it: memory (OOMKilled), a"
        " probe, its log.",
        when="the process of an agent was restarted more than twice in 1h",
    )
    yield _missing(
        "never",
        Severity.CRITICAL,
        f"absent_over_time({EXPORTER_BUILD_INFO}[3m]) unless on () group(present_over_time({_WATCHES}[1d]))",
        "No agent is scraped, and none was in the last day: nothing watches exactly-once.",
        "Prometheus has had no sample of any kafka-eos-exporter. Is it running, does Prometheus find it (its target"
        " page), and does GET /-/healthy answer from there? Until then no other alert of this set can fire.",
        variables=(),
        hold="2m",
        when="no agent is scraped for 5m, and none watched a cluster in the last day",
    )


def _missing(
    reason: str,
    severity: Severity,
    expr: str,
    summary: str,
    description: str,
    when: str,
    variables: tuple[str, ...] = ("kafka_cluster",),
    hold: str = "",
) -> Alert:
    return Alert(
        "KafkaEosExporterAbsent",
        severity,
        expr,
        summary,
        description,
        DASHBOARD,
        variables,
        hold=hold,
        keeps=False,
        labels=(("reason", reason),),
        when=when,
    )


def _blind() -> Iterator[Alert]:
    yield Alert(
        "KafkaEosClusterBlind",
        Severity.CRITICAL,
        # Of one shard: other shards do not see its sources.
        f"""\
group by (kafka_cluster, source) (
  min by (kafka_cluster, source, shard) (min_over_time({SOURCE_BLIND}{{source="lso"}}[3m])) > 0
  or
  min by (kafka_cluster, source, shard) (min_over_time({SOURCE_BLIND}{{source="txnlog"}}[3m])) > 0
  and on (kafka_cluster)
  present_over_time({SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS}{{source="txnlog"}}[3d])
)""",
        "No agent can read a cluster: stalls, fences and aborts there are not seen.",
        "Source {{ $labels.source }} of {{ $labels.kafka_cluster }} gives nothing to any agent: lso is the last stable"
        " offsets, txnlog the transaction log."
        + each(
            f"topk(5, sum by (reason) (increase({SOURCE_FAULTS_TOTAL}{{kafka_cluster=%q, source=%q}}[5m])) >= 1)",
            " " + _FAULTS,
            "kafka_cluster",
            "source",
        )
        + " A page that was out for this cluster may end now without anything being mended. The agent's status page and"
        " its log say what is missing: a password, a certificate, a grant, a route.",
        DASHBOARD,
        hold="1m",
        when="no agent reads the last stable offsets of a cluster for 4m, or its transaction log, if one read it in"
        " the last 3 days",
    )


def _sources() -> Iterator[Alert]:
    # As in the agent's settings: the target is the rest of the subject, and may have a slash itself.
    ignored = f"""\
label_replace(
    label_replace({IGNORED_INFO}{{kind="source"}}, "target", "$1", "subject", "[^/]*/(.*)"),
    "source", "$1", "subject", "([^/]*)/.*"
  )"""
    yield _source_down(
        "blind",
        f"""\
avg_over_time({SOURCE_BLIND}[5m]) > 0.5
unless on ({_READ})
  {ignored}""",
        "The agent gets no answer from something that it reads.",
        "Source {{ $labels.source }} of {{ $labels.target }} gives nothing to agent {{ $labels.instance }}."
        + each(
            f"increase({SOURCE_FAULTS_TOTAL}{{kafka_cluster=%q, source=%q, target=%q, instance=%q}}[10m]) >= 1",
            " " + _FAULTS,
            *_READ_LABELS,
            "instance",
        )
        + " What rests on it is not known to this agent.",
        hold="2m",
        when="an agent gets no answer from a source for 5m",
    )
    yield _source_down(
        "partial",
        f"""\
min by ({_READ}) (
  avg_over_time({SOURCE_UP}[5m])
  unless on ({_READ}, job, instance)
  avg_over_time({SOURCE_BLIND}[5m]) > 0.5
)
< 0.5
unless on ({_READ})
  {ignored}""",
        "Some sources of the agent do not answer; the others are still watched.",
        "Source {{ $labels.source }} of {{ $labels.target }} on {{ $labels.kafka_cluster }}: {{ $value |"
        " humanizePercentage }} of the reads in 5 minutes were answered in full."
        + each(
            f"topk(5, max by (reason) (increase({SOURCE_FAULTS_TOTAL}{{kafka_cluster=%q, source=%q, target=%q}}[10m]))"
            " >= 1)",
            " " + _FAULTS,
            *_READ_LABELS,
        )
        + " What answers is watched, and its alerts fire; what does not is unknown. One broker that is down looks like"
        " this, for as long as it is down.",
        hold="3m",
        when="less than half of a source's reads in 5m are answered in full, for 3m",
    )


def _source_down(reason: str, expr: str, summary: str, description: str, hold: str, when: str) -> Alert:
    return Alert(
        "KafkaEosSourceDown",
        Severity.WARNING,
        expr,
        summary,
        description + " The agent's status page and its log say what is missing, down to the grant to add.",
        DASHBOARD,
        hold=hold,
        labels=(("reason", reason),),
        when=when,
    )
