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
_TOPK = f"topk by (kafka_cluster) ({MOST_ALERTS},"


def is_bounded(alert: Alert) -> bool:
    """Return whether a cluster may have hundreds of these at once: its headline names a subject."""
    return _SUBJECT.search(alert.summary) is not None


def bounded(alert: Alert) -> str:
    """Return the alert's expression with the bound."""
    expr = alert.expr
    if not is_bounded(alert):
        return expr
    if alert.steady or expr.startswith("group by "):
        return f"{_TOPK}\n{expr}\n)"
    return f"(\n{expr}\n)\nand {_TOPK} 0 * (\n{expr}\n))"


def others(alert: Alert) -> str:
    """Return a line of the description for an alert that stands beside as many as there may be; "" elsewhere."""
    if not is_bounded(alert):
        return ""
    mine = "".join(f', {name}="{value}"' for name, value in {"severity": alert.severity.value, **alert.labels}.items())
    firing = f'ALERTS{{alertname="{alert.name}", alertstate="firing", kafka_cluster=%q{mine}}}'
    return per_row(
        f"count({firing}) >= {MOST_ALERTS}",
        "\n{{ .Value }} alerts like this one fire, and no more can: the page and the dashboard have the others.",
        "kafka_cluster",
    )
