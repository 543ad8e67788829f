"""Rows about the agent itself: missing agents and replicas of each cluster, and sources that fail.

An agent watches a cluster when it exposes source ``lso`` of it. A missing cluster or replica is found by a
recorded series that is 0 while there is none, over the evaluations of Prometheus: an outage of Prometheus is no outage
of the agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from exporter.alerts.evidence import listed, per_row
from exporter.alerts.rule import SCRAPED, Alert, Record, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    EXPORTER_BUILD_INFO,
    IGNORED_INFO,
    SOURCE_BLIND,
    SOURCE_FAULTS_TOTAL,
    SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS,
    SOURCE_UP,
)

DASHBOARD = "kafka-eos-exporter"
ABSENT = "KafkaEosExporterAbsent"
_WATCHES = f'{SOURCE_UP}{{source="lso"}}'
_AGENT = "kafka_cluster, job, instance"
_READ = "kafka_cluster, source, target"
_READ_LABELS = ("kafka_cluster", "source", "target")
_STARTED = "process_start_time_seconds"

AGENTS = Record(
    "kafka_cluster:kafka_eos_agents:count",
    f"""\
count by (kafka_cluster) (group by ({_AGENT}) ({_WATCHES}))
or
0 * group by (kafka_cluster) (present_over_time({_WATCHES}[1d]))""",
)
"""How many agents watch each cluster: 0, not absent, for a day after the last of them."""

_REMOVED = "kafka_cluster:kafka_eos_cluster_removed:max"
REMOVED = Record(
    _REMOVED,
    f"""\
0 * group by (kafka_cluster) ({_WATCHES})
or
group by (kafka_cluster) (
  present_over_time({_WATCHES}[1h]) and on (job, instance) {EXPORTER_BUILD_INFO}
  or
  present_over_time({_WATCHES[:-1]}, pod!=""}}[1h]) and on (job, pod) {EXPORTER_BUILD_INFO}
)
or
last_over_time({_REMOVED}[1d])""",
)
"""1 for a cluster that was taken out of the settings: an agent that watched it in the last hour runs, and none watches
it. 0 while it is watched, and after its last agent died."""

_THERE = f"avg_over_time({AGENTS}[4m])"
_USUAL = f"quantile_over_time(0.5, {AGENTS}[2d])"
_GONE = per_row(
    f'topk(5, group by (instance) (last_over_time({SOURCE_UP}{{kafka_cluster=%q, source="lso"}}[1d]))'
    f' unless on (instance) group by (instance) ({SOURCE_UP}{{kafka_cluster=%q, source="lso"}}))',
    "\n- {{ .Labels.instance }} is gone",
    "kafka_cluster",
    "kafka_cluster",
)
_FAULTS = "\n- {{ .Labels.reason }}: {{ .Value | humanize }} times"
_NEEDED = 'source=~"lso|txnlog"'


_missing = partial(Alert, ABSENT, dashboard=DASHBOARD, keeps=False)
_source_down = partial(Alert, "KafkaEosSourceDown", Severity.WARNING, dashboard=DASHBOARD, keeps=True)


def records() -> Iterator[Record]:
    """Recording rules that the alerts evaluate over time."""
    yield AGENTS
    yield REMOVED


def alerts(_: Settings) -> Iterator[Alert]:
    """A missing agent or replica, and a cluster or a source that the running agents cannot read."""
    yield from _absent()
    yield from _blind()
    yield from _sources()


def _absent() -> Iterator[Alert]:
    yield _missing(
        Severity.CRITICAL,
        f"{_THERE} < 0.5\nunless on (kafka_cluster) {REMOVED} == 1",
        "{{ $labels.kafka_cluster }}: no agent has watched this Kafka cluster for 4 minutes. No alert about its"
        " transactions can fire.",
        "First: see whether the agent runs, was killed for memory, answers GET /-/healthy, and is found by Prometheus"
        " (its target page)."
        + _GONE
        + "\nAn agent that runs for less than half of the time, as in a crash loop, counts as gone. A cluster that was"
        " taken out of the settings of a running agent is not reported; where its pod was replaced as well, silence"
        " this alert: it ends after a day.",
        hold="2m",
        labels=(("reason", "cluster"),),
        when="a cluster that was watched in the last day has no agent for 4m, or has one for less than half of 4m,"
        " for 2m",
    )
    yield _missing(
        Severity.WARNING,
        # A target that Prometheus keeps and cannot scrape did not go on purpose, however long it lived.
        f"""\
group by (kafka_cluster) (
  {_USUAL} - {_THERE} > 0.5 and {AGENTS} > 0
  or
  present_over_time({_WATCHES}[1d])
  and on (job, instance) max_over_time({SCRAPED}[4m]) == 0
  and on (kafka_cluster) {AGENTS} > 0
)""",
        "{{ $labels.kafka_cluster }}: an agent is gone, and others still watch the cluster. When the next one fails,"
        " nothing watches it.",
        "First: start it again." + _GONE + "\nFewer on purpose: silence this alert, it ends after a day.",
        hold="2m",
        labels=(("reason", "replica"),),
        when="in half of 4m fewer agents watch a cluster than for most of the last 2d, or one of them cannot be scraped"
        " for 4m, for 2m",
    )
    yield _missing(
        Severity.WARNING,
        f"""\
group by ({_AGENT}) (present_over_time({_WATCHES}[10m]))
and on (job, instance)
  changes({_STARTED}[1h]) > 2""",
        "{{ $labels.kafka_cluster }}: agent {{ $labels.instance }} was started anew"
        + per_row(f"max(changes({_STARTED}{{job=%q, instance=%q}}[1h]))", " {{ .Value }} times", "job", "instance")
        + " in the last hour.",
        "First: look for what ended it: memory (OOMKilled), a probe, its log.",
        labels=(("reason", "restarts"),),
        when="the process of an agent was restarted more than twice in 1h",
    )
    yield _missing(
        Severity.WARNING,
        # A pod of a Deployment has a new name each time. A rollout replaces all of them once.
        f"""\
count by (kafka_cluster) (group by ({_AGENT}) (present_over_time({_WATCHES}[1h])))
> 3 * max_over_time({AGENTS}[1h])""",
        "{{ $labels.kafka_cluster }}: {{ $value }} different agents watched the cluster in the last hour. Each new one"
        " knows nothing of what happened before it.",
        "First: look for what replaces them: memory (OOMKilled), a probe, an eviction, a rollout in a loop." + _GONE,
        labels=(("reason", "replaced"),),
        when="more than three times as many different agents watched a cluster in 1h as were there at once",
    )
    yield _missing(
        Severity.CRITICAL,
        # Not by the series of the build: the canary has it, and watches nothing.
        f"absent_over_time({SOURCE_UP}[3m]) unless on () group(present_over_time({_WATCHES}[1d]))",
        "kafka-eos-exporter: Prometheus scrapes no agent, and none in the last day. No other alert of this set can"
        " fire.",
        "First: see whether an agent runs, whether Prometheus finds it (its target page), and whether GET /-/healthy"
        " answers from there.",
        variables=(),
        hold="2m",
        labels=(("reason", "never"),),
        when="no agent is scraped for 5m, and none watched a cluster in the last day",
    )


def _blind() -> Iterator[Alert]:
    yield Alert(
        "KafkaEosClusterBlind",
        Severity.CRITICAL,
        f"""\
group by (kafka_cluster) (
  min by (kafka_cluster, source) (min_over_time({SOURCE_BLIND}{{source="lso"}}[3m])) > 0
  or
  min by (kafka_cluster, source) (min_over_time({SOURCE_BLIND}{{source="txnlog"}}[3m])) > 0
  and on (kafka_cluster)
  present_over_time({SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS}{{source="txnlog"}}[3d])
)""",
        "{{ $labels.kafka_cluster }}: monitoring reads nothing"
        + listed(
            f"topk(3, sum by (reason) (increase({SOURCE_FAULTS_TOTAL}{{kafka_cluster=%q, {_NEEDED}}}[5m])) >= 1)",
            "{{ $row.Labels.reason }}, {{ $row.Value | humanize }} times",
            "kafka_cluster",
        )
        + ". New stalls, fences and aborts are not seen.",
        "First: if all sources fail, check the brokers and the network, which are probably down. If the reason is"
        " authentication or authorization, look for an expired password or certificate, or a lost grant."
        + per_row(
            f"topk(5, max by (source) (min_over_time({SOURCE_BLIND}{{kafka_cluster=%q}}[3m])) > 0)",
            "\n- source {{ .Labels.source }} reads nothing",
            "kafka_cluster",
        )
        + "\nEarlier alerts of {{ $labels.kafka_cluster }} may resolve without anything being mended.",
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
        f"""\
avg_over_time({SOURCE_BLIND}[5m]) > 0.5
unless on ({_READ})
  {ignored}""",
        "{{ $labels.kafka_cluster }}: agent {{ $labels.instance }} gets nothing from source {{ $labels.source }} of"
        " {{ $labels.target }}. What it would report from there is unknown.",
        "First: open the agent's status page (page_url), which says what is missing, down to the grant to add."
        + per_row(
            f"increase({SOURCE_FAULTS_TOTAL}{{kafka_cluster=%q, source=%q, target=%q, instance=%q}}[10m]) >= 1",
            _FAULTS,
            *_READ_LABELS,
            "instance",
        ),
        hold="5m",
        labels=(("reason", "blind"),),
        when="an agent gets no answer from a source for 8m",
    )
    yield _source_down(
        f"""\
min by ({_READ}) (
  avg_over_time({SOURCE_UP}[5m])
  unless on ({_READ}, job, instance)
  avg_over_time({SOURCE_BLIND}[5m]) > 0.5
)
< 0.5
unless on ({_READ})
  {ignored}""",
        "{{ $labels.kafka_cluster }}: source {{ $labels.source }} of {{ $labels.target }} answers in part:"
        " {{ $value | humanizePercentage }} of the reads in 5 minutes were complete.",
        "First: see whether a broker or a worker is down, which looks like this for as long as it is down. Otherwise"
        " the agent's status page (page_url) says what is missing, down to the grant to add."
        + per_row(
            f"topk(5, max by (reason) (increase({SOURCE_FAULTS_TOTAL}{{kafka_cluster=%q, source=%q, target=%q}}[10m]))"
            " >= 1)",
            _FAULTS,
            *_READ_LABELS,
        )
        + "\nWhat answers is watched, and its alerts fire. What does not is unknown.",
        hold="6m",
        labels=(("reason", "partial"),),
        when="less than half of a source's reads in 5m are answered in full, for 6m",
    )
