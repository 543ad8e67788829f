"""A dashboard of ours: variables, links and annotations that all share, and panels that flow into rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from grafanalib import core

from exporter.catalogue import (
    BROKER_TXN_COORDINATOR_LOAD_SECONDS,
    EVENTS_TOTAL,
    LAST_UNCLEAN_END_TIMESTAMP_SECONDS,
    SOURCE_UP,
    TRANSACTIONS_OPEN,
)
from exporter.dashboards.queries import series
from exporter.model import Metric
from exporter.words import EventKind

WIDTH = 24
TAG = "kafka-eos"
ANY = ".+"
SAYS = '/says="([^"]*)"/'
_ON_TIME_RANGE_CHANGE = 2


class Needs(NamedTuple):
    """Families that are there only where the agent is set up to read them: the families that show it, and the setting.

    A hidden variable asks whether one of these families exists, and the row's title has its answer. Grafana cannot
    leave the row out: a row that is repeated by a variable without values is shown once (RowRepeaterBehavior of
    Grafana 11 and 12).
    """

    name: str
    metrics: tuple[Metric, ...]
    setting: str

    @property
    def missing(self) -> str:
        """The text to show while nothing of it is there."""
        return f"- no data: {self.setting}"


class PanelRow(NamedTuple):
    """A heading with its panels: lines of panels, each with its height; a line shares the width evenly unless
    ``widths`` says otherwise.
    """

    title: str
    lines: tuple[Line, ...]
    needs: Needs | None = None


class Line(NamedTuple):
    """Panels side by side."""

    height: int
    panels: tuple[core.Panel, ...]
    widths: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top: the values of a label of a metric."""

    name: str
    label: str
    metric: Metric
    all_value: str = ANY


CLUSTER = Variable("kafka_cluster", "Kafka cluster", SOURCE_UP, all_value=".*")
APPLICATION = Variable("application", "Application", TRANSACTIONS_OPEN)


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard before it becomes JSON; ``uid`` is the end of its address and the name of its file."""

    uid: str
    title: str
    description: str
    rows: Sequence[PanelRow]
    variables: Sequence[Variable] = ()
    since: str = "now-1h"

    def dashboard(self) -> core.Dashboard:
        """Grafanalib's dashboard, with everything in its place."""
        return core.Dashboard(
            title=self.title,
            description=self.description,
            uid=self.uid,
            tags=[TAG],
            editable=False,
            refresh="30s",
            timezone="browser",
            time=core.Time(self.since, "now"),
            templating=core.Templating(
                [_datasource(), *_variables(self.variables), _agent_page(), *map(_existence, self._needs())]
            ),
            annotations=core.Annotations(_annotations({variable.name for variable in self.variables})),
            links=[
                core.DashboardLink(
                    title="Exactly-once dashboards", tags=[TAG], asDropdown=True, includeVars=True, keepTime=True
                )
            ],
            panels=list(_placed(self.rows)),
        ).auto_panel_ids()

    def _needs(self) -> list[Needs]:
        return list(dict.fromkeys(row.needs for row in self.rows if row.needs is not None))


def _placed(rows: Sequence[PanelRow]) -> Iterator[core.Panel]:
    y = 0
    for row in rows:
        title = row.title if row.needs is None else f"{row.title} ${{{row.needs.name}}}"
        yield core.RowPanel(title=title, gridPos=core.GridPos(h=1, w=WIDTH, x=0, y=y))
        y += 1
        for line in row.lines:
            widths = line.widths or _shares(len(line.panels))
            x = 0
            for panel, width in zip(line.panels, widths, strict=True):
                panel.gridPos = core.GridPos(h=line.height, w=width, x=x, y=y)
                if row.needs is not None:
                    panel.extraJson["fieldConfig"]["defaults"].setdefault("noValue", row.needs.setting)
                yield panel
                x += width
            y += line.height


def _shares(panels: int) -> tuple[int, ...]:
    width, rest = divmod(WIDTH, panels)
    return tuple(width + (1 if index < rest else 0) for index in range(panels))


def _existence(needs: Needs) -> core.Template:
    """Hidden: empty where one of the families exists, else what is missing, for the title of a row."""
    found = " or ".join(series(metric) for metric in needs.metrics)
    said = f'label_replace(absent({found}), "says", "{needs.missing}", "__name__", ".*")'
    return core.Template(
        name=needs.name,
        label=needs.name,
        query=f"query_result({said})",
        regex=SAYS,
        dataSource="${datasource}",
        hide=core.HIDE_VARIABLE,
        refresh=_ON_TIME_RANGE_CHANGE,
    )


def _datasource() -> core.Template:
    return core.Template(name="datasource", query="prometheus", type="datasource", label="Data source")


def _agent_page() -> core.Template:
    """Return the choice of the address of the agent's status page, for links. No address is right everywhere: until
    one is set, the links lead to Grafana itself.
    """
    return core.Template(name="agent_page", query="", type="textbox", label="Agent's page (https://...)")


def _variables(own: Sequence[Variable]) -> Iterator[core.Template]:
    known: list[str] = []
    shared = (
        Variable("job", "Job", SOURCE_UP),
        CLUSTER,
        Variable("instance", "Instance", SOURCE_UP),
    )
    for variable in (*shared, *own):
        matchers = ", ".join(f'{name}=~"${name}"' for name in known)
        source = f"{variable.metric.name}{{{matchers}}}" if matchers else variable.metric.name
        yield core.Template(
            name=variable.name,
            label=variable.label,
            query=f"label_values({source}, {variable.name})",
            dataSource="${datasource}",
            allValue=variable.all_value,
            includeAll=True,
            multi=True,
            refresh=_ON_TIME_RANGE_CHANGE,
        )
        known.append(variable.name)


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


def _unclean(name: str, outcome: str, colour: str, text: str, *matchers: str) -> dict[str, Any]:
    """Marks at the instants that the transaction log gives, with the id to whom it happened."""
    which = series(LAST_UNCLEAN_END_TIMESTAMP_SECONDS, f'outcome="{outcome}"', *matchers)
    return {
        "name": name,
        "iconColor": colour,
        "expr": f"max by ({', '.join(LAST_UNCLEAN_END_TIMESTAMP_SECONDS.labels)}) ({which}) * 1000",
        "titleFormat": text,
        "textFormat": "{{application}}, producer {{producer_id}} epoch {{producer_epoch}}",
        "tagKeys": "application,transactional_id",
        "useValueForTime": True,
    }


def _annotations(chosen: Collection[str]) -> list[dict[str, Any]]:
    """Annotations of events; where an application can be chosen, only those of that application. All are off but the
    important ones: dozens of marks hide what they are on.
    """
    own = ('application=~"$application"',) if "application" in chosen else ()
    loads = series(BROKER_TXN_COORDINATOR_LOAD_SECONDS, 'stat="max"')
    return [
        _unclean("Fences", "fenced", "red", "{{transactional_id}} was fenced", *own),
        _unclean("Timeouts", "timed_out", "orange", "{{transactional_id}} timed out", *own),
        {
            "name": "Coordinator moves",
            "iconColor": "purple",
            # The first sample of each load: it is there for half a minute, and would be a band.
            "expr": f"max by (kafka_cluster, broker) ({loads}) >= bool 0"
            f" unless max by (kafka_cluster, broker) ({loads} offset 1m)",
            "titleFormat": "Broker {{broker}} loaded transaction state: a coordinator moved here",
            "textFormat": "{{kafka_cluster}}",
            "tagKeys": "broker",
            "useValueForTime": False,
        },
        _happened("What happened", "blue", _MARKED),
        {**_happened("Important events", "red", _IMPORTANT), "enable": True},
    ]


def _happened(name: str, colour: str, kinds: Sequence[EventKind]) -> dict[str, Any]:
    """Return marks at the minutes with such events; fences, timeouts and coordinator moves have marks of their own."""
    happened = series(EVENTS_TOTAL, f'kind=~"{"|".join(kinds)}"')
    return {
        "name": name,
        "iconColor": colour,
        "expr": f"max by (kafka_cluster, kind) (increase({happened}[1m])) > 0",
        "titleFormat": "{{kind}}",
        "textFormat": "{{kafka_cluster}}: the agent's page, What happened, has the details",
        "tagKeys": "kind",
        "useValueForTime": False,
    }
