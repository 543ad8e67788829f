"""At most twenty alerts of one rule and cluster: a notification with all of them stays below 64 kB.

It is for alerts about what a cluster may have hundreds of: applications, topics, groups. Where a rule's values keep
their order (ages) or are all the same, those with the largest fire. Elsewhere those whose series came first do: a
subject that enters and leaves the worst would never be there for the whole of ``for``, and ``keep_firing_for`` would
keep it beside the next ones.
"""

from __future__ import annotations

import re

from exporter.alerts.evidence import per_row
from exporter.alerts.rule import Alert

MOST_ALERTS = 20
_SUBJECT = re.compile(
    r"\$labels\.(?:application|audit|check|client_id|connector|group|producer_id|query|server|target|topic) "
)


def is_bounded(alert: Alert) -> bool:
    """Return whether a cluster may have hundreds of these at once: its headline names a subject."""
    return _SUBJECT.search(alert.summary) is not None


def bounded(alert: Alert) -> str:
    """Return the alert's expression with the bound."""
    expr = alert.expr
    if not is_bounded(alert):
        return expr
    worst = f"topk by ({', '.join(_lists(alert))}) ({MOST_ALERTS},"
    if alert.steady or expr.startswith("group by "):
        return f"{worst}\n{expr}\n)"
    return f"(\n{expr}\n)\nand {worst} 0 * (\n{expr}\n))"


def others(alert: Alert) -> str:
    """Return a line of the description for an alert that stands beside as many as there may be; "" elsewhere."""
    if not is_bounded(alert):
        return ""
    of_list = ", ".join(f"{label}=%q" for label in _lists(alert))
    mine = {"alertname": alert.name, "alertstate": "firing", **alert.labels}
    if alert.severity:
        mine["severity"] = alert.severity.value
    firing = ", ".join((of_list, *(f'{name}="{value}"' for name, value in mine.items())))
    return per_row(
        f"count(ALERTS{{{firing}}}) >= {MOST_ALERTS}",
        "\n{{ .Value }} alerts like this one fire, and no more can: the page and the dashboard have the others.",
        *_lists(alert),
    )


def _lists(alert: Alert) -> tuple[str, ...]:
    """What has a list of its own: a cluster, and where they are of one rule its tickets and its pages."""
    return ("kafka_cluster",) if alert.severity else ("kafka_cluster", "severity")
