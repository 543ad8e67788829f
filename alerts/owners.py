"""The label ``owner`` of alerts: what the agent exposes about the subject of the alert."""

from __future__ import annotations

from exporter.alerts.evidence import per_row
from exporter.alerts.rule import Alert
from exporter.catalogue import OWNER_INFO
from exporter.core.thresholds import UNOWNED

_WHOLE = 'kind="cluster"'
_NAME = "{{ .Labels.owner }}"
_SUBJECTS = {
    "holder": ("producer_id",),
    "application": ("application",),
    "query": ("spark_application", "query"),
    "connector": ("connect", "connector"),
    "group": ("group",),
    "topic": ("topic",),
}
"""Kinds of subjects and the labels that name one, a slash between two; of an alert about several the first decides."""


def owner_label(alert: Alert) -> str:
    """Return the template of an alert's label ``owner``, "" without owners in the agent's settings.

    What no team owns is unowned, as is what belongs to a cluster as a whole.
    """
    text = f"{alert.summary}{alert.description}"
    if "$labels.kafka_cluster " not in text:
        return per_row(f"topk(1, {_owner(_WHOLE, '1d')})", _NAME)
    kinds = [kind for kind, names in _SUBJECTS.items() if all(f"$labels.{name} " in text for name in names)]
    query = f"0 * {_owner('kafka_cluster=%q, ' + _WHOLE, '1d')}"
    arguments = " $labels.kafka_cluster"
    before, after = "", ""
    for weight, kind in enumerate(reversed(kinds), 1):
        names = [f"$labels.{name}" for name in _SUBJECTS[kind]]
        if len(names) > 1:
            before, after = f'{{{{ with $subject := printf "%s/%s" {names[0]} {names[1]} }}}}', "{{ end }}"
            names = ["$subject"]
        its = _owner(f'kafka_cluster=%q, kind="{kind}", subject=%q, owner!="{UNOWNED}"')
        query = f"{weight} * {its} or {query}"
        arguments = f" $labels.kafka_cluster {names[0]}{arguments}"
    return f"{before}{{{{ range query (printf `topk(1, {query})`{arguments}) }}}}{_NAME}{{{{ end }}}}{after}"


def _owner(matchers: str, within: str = "1h") -> str:
    """The last owner: a label that a failed scrape, or an agent that is gone, took away would make another alert."""
    return f"group by (owner) (last_over_time({OWNER_INFO}{{{matchers}}}[{within}]))"
