"""Rows about the agent and what the alerts rest on: agents, sources, gaps, clocks, labels, notifications.

An agent watches a cluster when it exposes source ``lso`` of it. A missing cluster or replica is found by a
recorded series that is 0 while there is none, over the evaluations of Prometheus: an outage of Prometheus is no outage
of the agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from exporter import catalogue
from exporter.alerts.evidence import listed, per_row
from exporter.alerts.rule import BRIDGE, Alert, Board, Record, Severity
from exporter.model import Metric

ABSENT = "KafkaEosExporterAbsent"
BEHIND = 10_000
CLOCK_SECONDS = 60
SCRAPED = "up"
"""Prometheus' own series for a target: 0 while the scrape fails. It ends when discovery no longer gives the target."""
_WATCHES = f'{catalogue.SOURCE_UP}{{source="lso"}}'
_AGENT = "kafka_cluster, job, instance"
_READ = "kafka_cluster, source, target"
_EVIDENCE_ONLY = f"{catalogue.OPEN_TRANSACTION_START_TIMESTAMP_SECONDS}|{catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS}"
"""Families that show only the worst by design: their alerts and sums use other families."""

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
  present_over_time({_WATCHES}[1h]) and on (job, instance) {catalogue.EXPORTER_BUILD_INFO}
  or
  present_over_time({_WATCHES[:-1]}, pod!=""}}[1h]) and on (job, pod) {catalogue.EXPORTER_BUILD_INFO}
)
or
last_over_time({_REMOVED}[1d])""",
)
"""1 for a cluster that was taken out of the settings: an agent that watched it in the last hour runs, and none watches
it. 0 while it is watched, and after its last agent died."""

_THERE = f"avg_over_time({AGENTS}[4m])"
_USUAL = f"quantile_over_time(0.5, {AGENTS}[2d])"


def records() -> Iterator[Record]:
    """Recording rules that the alerts evaluate over time."""
    yield AGENTS
    yield REMOVED


_alert = partial(Alert, dashboard=Board.AGENT)


def alerts() -> Iterator[Alert]:
    """A missing agent or replica, and a cluster or a source that the running agents cannot read."""
    yield from _absent()
    yield from _unread()
    yield from _gaps()


def _absent() -> Iterator[Alert]:
    missing = partial(_alert, ABSENT, keeps=False)
    yield missing(
        severity=Severity.CRITICAL,
        expr=f"{_THERE} < 0.5\nunless on (kafka_cluster) {REMOVED} == 1",
        summary="{{ $labels.kafka_cluster }}: no agent has watched this Kafka cluster for 4 minutes. No alert about its"
        " transactions can fire.",
        description="First: see whether the agent runs, was killed for memory, answers GET /-/healthy, and is found by"
        " Prometheus (its target page)."
        + per_row(
            f"topk(5, group by (instance) (last_over_time({catalogue.SOURCE_UP}"
            '{kafka_cluster=%q, source="lso"}[1d])))',
            "\n- {{ .Labels.instance }} was there",
            "kafka_cluster",
        )
        + "\nA cluster that was taken out of the settings of a running agent is not reported; where its pod was"
        " replaced as well, silence this alert: it ends after a day.",
        hold="2m",
        reason="cluster",
        when="a cluster that was watched in the last day has no agent for 4m, or has one for less than half of 4m,"
        " for 2m",
    )
    yield missing(
        severity=Severity.CRITICAL,
        # Not by the series of the build: the canary has it, and watches nothing.
        expr=f"absent_over_time({catalogue.SOURCE_UP}[3m]) unless on () group(present_over_time({_WATCHES}[1d]))",
        summary="kafka-eos-exporter: Prometheus scrapes no agent, and none in the last day. No other alert of this set"
        " can fire.",
        description="First: see whether an agent runs, whether Prometheus finds it (its target page), and whether GET"
        " /-/healthy answers from there.",
        hold="2m",
        reason="never",
        when="no agent is scraped for 5m, and none watched a cluster in the last day",
    )
    yield missing(
        severity=Severity.WARNING,
        # A target that Prometheus keeps and cannot scrape did not go on purpose, however long it lived. A pod of a
        # Deployment has a new name each time it is made anew; a rollout replaces all of them once.
        expr=f"""\
group by (kafka_cluster) (
  {_USUAL} - {_THERE} > 0.5 and {AGENTS} > 0
  or
  present_over_time({_WATCHES}[1d])
  and on (job, instance) max_over_time({SCRAPED}[4m]) == 0
  and on (kafka_cluster) {AGENTS} > 0
  or
  present_over_time({_WATCHES}[10m])
  and on (job, instance) changes(process_start_time_seconds[1h]) > 2
  or
  count by (kafka_cluster) (group by ({_AGENT}) (present_over_time({_WATCHES}[1h])))
  > 3 * max_over_time({AGENTS}[1h])
)""",
        summary="{{ $labels.kafka_cluster }}: an agent is gone, or is started again and again. Nothing else may"
        " watch the cluster when the next one fails.",
        description="First: see which agent it is on Prometheus' page of targets, and look for what ends it: memory"
        " (OOMKilled), a probe, an eviction, a rollout in a loop, its log.\nFewer on purpose: silence this alert, it"
        " ends after a day.",
        hold="2m",
        reason="unstable",
        when="in half of 4m fewer agents watch a cluster than for most of the last 2d, or one of them cannot be scraped"
        " for 4m, or was restarted more than twice in 1h, or more than three times as many different agents watched a"
        " cluster in 1h as were there at once; for 2m",
    )


def _unread() -> Iterator[Alert]:
    yield _alert(
        "KafkaEosClusterBlind",
        Severity.CRITICAL,
        expr=f"""\
group by (kafka_cluster) (
  min by (kafka_cluster, source) (min_over_time({catalogue.SOURCE_BLIND}{{source="lso"}}[3m])) > 0
  or
  min by (kafka_cluster, source) (min_over_time({catalogue.SOURCE_BLIND}{{source="txnlog"}}[3m])) > 0
  and on (kafka_cluster)
  present_over_time({catalogue.SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS}{{source="txnlog"}}[3d])
)""",
        summary="{{ $labels.kafka_cluster }}: monitoring reads nothing"
        + listed(
            f"topk(3, sum by (reason) (increase({catalogue.SOURCE_FAULTS_TOTAL}"
            '{kafka_cluster=%q, source=~"lso|txnlog"}[5m])) >= 1)',
            "{{ $row.Labels.reason }}, {{ $row.Value | humanize }} times",
            "kafka_cluster",
        )
        + ". New stalls, fences and aborts are not seen.",
        description="First: if all sources fail, check the brokers and the network, which are probably down. If the"
        " reason is authentication or authorization, look for an expired password or certificate, or a lost grant."
        + per_row(
            f"topk(5, max by (source) (min_over_time({catalogue.SOURCE_BLIND}{{kafka_cluster=%q}}[3m])) > 0)",
            "\n- source {{ .Labels.source }} reads nothing",
            "kafka_cluster",
        )
        + "\nEarlier alerts of {{ $labels.kafka_cluster }} may resolve without anything being mended.",
        hold="1m",
        when="no agent reads the last stable offsets of a cluster for 4m, or its transaction log, if one read it in"
        " the last 3 days",
    )
    # As in the agent's settings: the target is the rest of the subject, and may have a slash itself.
    ignored = f"""\
label_replace(
    label_replace({catalogue.IGNORED_INFO}{{kind="source"}}, "target", "$1", "subject", "[^/]*/(.*)"),
    "source", "$1", "subject", "([^/]*)/.*"
  )"""
    yield _alert(
        "KafkaEosSourceDown",
        Severity.WARNING,
        expr=f"""\
min by ({_READ}) (avg_over_time({catalogue.SOURCE_UP}[5m])) < 0.5
unless on ({_READ})
  {ignored}""",
        summary="{{ $labels.kafka_cluster }}: an agent gets no or incomplete answers from source {{ $labels.source }}"
        " of {{ $labels.target }}. What it would report from there is unknown.",
        description="First: see whether a broker or a worker is down, which looks like this for as long as it is down."
        " Otherwise the agent's status page (page_url) says what is missing, down to the grant to add.",
        hold="6m",
        when="less than half of an agent's reads of a source in 5m are answered in full, for 6m",
    )


def _gaps() -> Iterator[Alert]:
    yield _alert(
        "KafkaEosTransactionLogIncomplete",
        Severity.WARNING,
        expr=f"""\
group by (kafka_cluster) (
  {_more(catalogue.TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL)}
  or
  {_more(catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL)}
  or
  min_over_time({catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS}[10m]) > {BEHIND}
  and last_over_time({catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS}[{BRIDGE}] offset 10m) > {BEHIND}
)""",
        summary="{{ $labels.kafka_cluster }}: an agent has not read or not understood a part of the transaction log."
        " Transactions and fences of that part are in no count and no alert.",
        description="First: open the agent's dashboard, which says which of three. Records that it could not decode:"
        " after an upgrade of the brokers, upgrade the agent as well. Records that were gone before it read them: it"
        " was away for longer than the log keeps; keep its state on a volume (state.dir). It is behind: it gets too"
        " little CPU, the network is slow, or a partition of the log is not readable.",
        when="records of the transaction log could not be decoded, or were compacted before they were read, in the last"
        f" 1h; or the tail was more than {BEHIND} records behind for 10m",
    )
    yield _alert(
        "KafkaEosSeriesDropped",
        Severity.WARNING,
        expr=f'group by (metric) (min_over_time({catalogue.SERIES_DROPPED}{{metric!~"{_EVIDENCE_ONLY}"}}[5m]) > 0)',
        summary="A cap keeps out series of {{ $labels.metric }}, or folds them into application _other. Their subjects"
        " have no alert.",
        description="First: name applications by patterns (applications), so that ids with a counter or a host in them"
        " are one. Leave out what needs no watching (topics, groups: include), or raise the cap of that source.",
        hold="30m",
        when="a cap leaves out series for 30m",
    )


def _more(counter: Metric) -> str:
    """The increase of a counter in an hour. Its value at the first sample counts as well, once a day."""
    return f"""\
increase({counter}[1h]) > 0
  or
  max by (kafka_cluster) ({counter})
  - (max by (kafka_cluster) (max_over_time({counter}[1d] offset 1h)) or 0 * group by (kafka_cluster) ({counter}))
  > 0"""


def monitoring_alerts() -> Iterator[Alert]:
    """An alert that always fires, clocks that differ, and clusters that share one name or have none."""
    yield _alert(
        "KafkaEosWatchdog",
        Severity.NONE,
        expr="vector(1)",
        summary="kafka-eos-exporter: alerting works. This alert always fires; its absence is the trouble.",
        description="First: do nothing. Route it to a dead-man's switch, which calls when it no longer arrives: then"
        " Prometheus or Alertmanager is down, and what it last reported as resolved may go on.",
        keeps=False,
        when="always, for a dead-man's switch",
    )
    lso = '{source="lso"}'
    yield _alert(
        "KafkaEosClocksDiffer",
        Severity.WARNING,
        # The source is read every few seconds: while it is up, its last success is as old as the clocks differ.
        expr=f"""\
max by (kafka_cluster) (
  abs({catalogue.CLOCK_DISTANCE_SECONDS}) > {CLOCK_SECONDS}
  or
  abs(time() - {catalogue.SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS}{lso}) > {2 * CLOCK_SECONDS}
  and on ({_AGENT}) {catalogue.SOURCE_UP}{lso} == 1
)""",
        summary="{{ $labels.kafka_cluster }}: the clock of an agent differs by about {{ $value | humanizeDuration }}"
        " from that of the brokers or of Prometheus. Ages are wrong by that much, and alerts by age come too early or"
        " too late.",
        description="First: synchronise the clocks (NTP, chrony) of the agent's machine, of the brokers and of"
        " Prometheus. If they agree, the agent's source lso hangs: look at its log, and start it again.",
        hold="5m",
        when=f"the clocks of an agent and of the coordinators differ by more than {CLOCK_SECONDS} s, or those of an"
        f" agent and of Prometheus by more than {2 * CLOCK_SECONDS} s, for 5m",
    )
    yield _alert(
        "KafkaEosLabelsAmbiguous",
        Severity.CRITICAL,
        expr="count by (kafka_cluster) (group by (kafka_cluster, cluster_id)"
        f' ({catalogue.CLUSTER_INFO}{{cluster_id!=""}})) > 1',
        summary="{{ $labels.kafka_cluster }}: {{ $value }} Kafka clusters have this name. Their alerts are one, and an"
        " outage of one of them may be unseen.",
        description="First: give each its own name in the agents' settings (clusters: name), or make the label in which"
        " they differ a group label (generate alerts --set group_labels=region)."
        + per_row(
            f"group by (cluster_id, instance) ({catalogue.CLUSTER_INFO}{{kafka_cluster=%q}})",
            "\n- cluster id {{ .Labels.cluster_id }}, by agent {{ .Labels.instance }}",
            "kafka_cluster",
        ),
        hold="15m",
        reason="names",
        when="clusters with different cluster ids have one name, and no group label distinguishes them, for 15m",
    )
    yield _alert(
        "KafkaEosLabelsAmbiguous",
        Severity.CRITICAL,
        expr=f'group by (job, instance) ({catalogue.SOURCE_UP}{{kafka_cluster="", source="lso"}})',
        summary="{{ $labels.job }}: series of agent {{ $labels.instance }} have no label kafka_cluster. No alert of its"
        " clusters can say which cluster it is about.",
        description="First: look for a relabelling in Prometheus' scrape configuration that drops or renames"
        " kafka_cluster, and remove it.",
        hold="5m",
        reason="missing",
        when="the label kafka_cluster of an agent's series is gone, for 5m",
    )
