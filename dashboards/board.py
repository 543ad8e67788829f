"""A dashboard of ours: variables, links and annotations that all share, and panels that flow into rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from grafanalib import core
from grafanalib._gen import DashboardEncoder

from exporter import catalogue
from exporter.dashboards.panels import SOURCE
from exporter.dashboards.queries import series
from exporter.model import Metric
from exporter.words import EventKind

OVERVIEW, STALLS, TRANSACTIONS = "kafka-eos-overview", "kafka-eos-stalls", "kafka-eos-transactions"
CLIENTS, BROKERS, JOBS, AGENT = "kafka-eos-clients", "kafka-eos-brokers", "kafka-eos-jobs", "kafka-eos-agent"
WIDTH = 24
HEIGHTS = {core.Stat: 3, core.Table: 7, core.TimeSeries: 8, core.StateTimeline: 8}
"""Of a line, by its highest panel: six numbers, one below the other, fit on the screen of a phone."""
TAG = "kafka-eos"
SCHEMA_VERSION = 41
"""Of Grafana 12, the last of schema v1: with it Grafana migrates nothing, and leaves alone what it does not know."""
_CURSOR_SHARED = 1
_ON_TIME_RANGE_CHANGE = 2
_ALL = "$__all"


class PanelRow(NamedTuple):
    """A heading with lines of panels; a line shares the width evenly."""

    title: str
    lines: Sequence[Sequence[core.Panel]]


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top: the values of a label of a metric."""

    name: str
    label: str
    metric: Metric
    all_value: str = ".*"


CLUSTER = Variable("kafka_cluster", "Kafka cluster", catalogue.SOURCE_UP)
APPLICATION = Variable("application", "Application", catalogue.TRANSACTIONS_OPEN)


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard before it becomes JSON; ``uid`` is the end of its address and the name of its file."""

    uid: str
    title: str
    description: str
    rows: Sequence[PanelRow]
    variables: Sequence[Variable] = ()

    def text(self) -> str:
        """The dashboard's file: what grafanalib makes, the same bytes from the same code."""
        return json.dumps(self._dashboard(), cls=DashboardEncoder, indent=1, sort_keys=True, ensure_ascii=False) + "\n"

    def _dashboard(self) -> core.Dashboard:
        return core.Dashboard(
            title=f"Kafka EOS / {self.title}",
            description=self.description,
            uid=self.uid,
            tags=[TAG],
            editable=False,
            refresh="30s",
            timezone="browser",
            time=core.Time("now-1h", "now"),
            schemaVersion=SCHEMA_VERSION,
            graphTooltip=_CURSOR_SHARED,
            templating=core.Templating([_datasource(), *_choices(self.variables), _agent_page()]),
            annotations=core.Annotations(_annotations({variable.name for variable in self.variables})),
            links=[core.DashboardLink(title="Exactly-once dashboards", tags=[TAG], asDropdown=True, includeVars=True)],
            panels=list(_placed(self.rows)),
        ).auto_panel_ids()


def _placed(rows: Sequence[PanelRow]) -> Iterator[core.Panel]:
    y = 0
    for row in rows:
        yield core.RowPanel(title=row.title, gridPos=core.GridPos(h=1, w=WIDTH, x=0, y=y))
        y += 1
        for line in row.lines:
            height = max(HEIGHTS[type(panel)] for panel in line)
            edges = [WIDTH * place // len(line) for place in range(len(line) + 1)]
            for panel, left, right in zip(line, edges, edges[1:], strict=False):
                panel.gridPos = core.GridPos(h=height, w=right - left, x=left, y=y)
                yield panel
            y += height


def _datasource() -> core.Template:
    return core.Template(name="datasource", query="prometheus", type="datasource", label="Data source", default="")


def _agent_page() -> core.Template:
    """Return the choice of the address of the agent's status page, for links. No address is right everywhere: until
    one is set, the links lead to Grafana itself.
    """
    label = "Agent's page (https://...)"
    return core.Template(name="agent_page", query="", type="textbox", label=label, default="")


def _choices(own: Sequence[Variable]) -> Iterator[core.Template]:
    """Each follows those before it, where its metric has their labels."""
    chosen: list[str] = []
    job = Variable("job", "Job", catalogue.SOURCE_UP, all_value=".+")
    instance = Variable("instance", "Instance", catalogue.SOURCE_UP, all_value=".+")
    for variable in (job, CLUSTER, instance, *own):
        labels = ("job", "instance", *variable.metric.labels)
        matchers = ", ".join(f'{name}=~"${name}"' for name in chosen if name in labels)
        selected = f"{variable.metric.name}{{{matchers}}}" if matchers else variable.metric.name
        yield core.Template(
            name=variable.name,
            label=variable.label,
            query=f"label_values({selected}, {variable.name})",
            dataSource=SOURCE,
            default=_ALL,
            allValue=variable.all_value,
            includeAll=True,
            multi=True,
            refresh=_ON_TIME_RANGE_CHANGE,
        )
        chosen.append(variable.name)


_IMPORTANT = (EventKind.HANGING_PROVEN, EventKind.UNMARKED_COMMIT, EventKind.TORN, EventKind.FLINK_LOST)
"""Kinds of events that are marked on every panel: what a person has to act on, and what is seldom."""
_MARKED = (
    EventKind.STALL_BEGUN,
    EventKind.STALL_ENDED,
    EventKind.FLINK_AT_RISK,
    EventKind.TASK_FAILED,
    EventKind.SOURCE_DOWN,
    EventKind.AGENT_STARTED,
)
"""Kinds of events that are marked once they are switched on."""


def _annotations(chosen: Collection[str]) -> list[dict[str, Any]]:
    """Annotations of events; where an application can be chosen, only those of that application. All are off but the
    important ones: dozens of marks hide what they are on.
    """
    own = ('application=~"$application"',) if "application" in chosen else ()
    loads = series(catalogue.BROKER_TXN_COORDINATOR_LOAD_SECONDS, 'stat="max"')
    moves = _mark(
        "Coordinator moves",
        "purple",
        # The first sample of each load: it is there for half a minute, and would be a band.
        f"max by (kafka_cluster, broker) ({loads}) >= bool 0 unless max by (kafka_cluster, broker) ({loads} offset 1m)",
        "Broker {{broker}} loaded transaction state: a coordinator moved here",
        "{{kafka_cluster}}",
        "broker",
    )
    return [
        _unclean("Fences", "fenced", "red", "{{transactional_id}} was fenced", *own),
        _unclean("Timeouts", "timed_out", "orange", "{{transactional_id}} timed out", *own),
        moves,
        _events("What happened", "blue", _MARKED),
        {**_events("Important events", "red", _IMPORTANT), "enable": True},
    ]


def _mark(name: str, colour: str, expr: str, title: str, text: str, tags: str) -> dict[str, Any]:
    return {
        "name": name,
        "enable": False,
        "hide": False,
        "iconColor": colour,
        "datasource": SOURCE,
        "target": {"datasource": SOURCE, "expr": expr, "interval": "10s", "refId": "Anno"},
        "titleFormat": title,
        "textFormat": text,
        "tagKeys": tags,
        "useValueForTime": False,
    }


def _unclean(name: str, outcome: str, colour: str, title: str, *matchers: str) -> dict[str, Any]:
    """Marks at the instants that the transaction log gives, with the id to whom it happened."""
    which = series(catalogue.LAST_UNCLEAN_END_TIMESTAMP_SECONDS, f'outcome="{outcome}"', *matchers)
    expr = f"max by ({', '.join(catalogue.LAST_UNCLEAN_END_TIMESTAMP_SECONDS.labels)}) ({which}) * 1000"
    text = "{{application}}, producer {{producer_id}} epoch {{producer_epoch}}"
    return {**_mark(name, colour, expr, title, text, "application,transactional_id"), "useValueForTime": True}


def _events(name: str, colour: str, kinds: Sequence[EventKind]) -> dict[str, Any]:
    """Return marks at the minutes with such events; fences, timeouts and coordinator moves have marks of their own."""
    counted = series(catalogue.EVENTS_TOTAL, f'kind=~"{"|".join(kinds)}"')
    expr = f"max by (kafka_cluster, kind) (increase({counted}[1m])) > 0"
    return _mark(
        name, colour, expr, "{{kind}}", "{{kafka_cluster}}: the agent's page, What happened, has the details", "kind"
    )
