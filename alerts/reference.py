"""The table as Markdown, for docs/alerts.md."""

from __future__ import annotations

from exporter.alerts.rule import Alert
from exporter.alerts.settings import knobs
from exporter.alerts.table import alerts

RUNBOOKS = "../alerts/runbooks"
"""The path from docs/ to the runbooks."""


def table() -> str:
    """A row for each alert and variant."""
    rows = "".join(
        f"| {_name(alert)} | {' or '.join(alert.severities)} | {_cell(alert.when)} |\n" for alert in alerts()
    )
    return f"| alert | severity | when |\n|---|---|---|\n{rows}"


def keys() -> str:
    """A row for each key of ``--set``."""
    rows = "".join(f"| `{key}` | `{default or 'none'}` | {_cell(meaning)} |\n" for key, default, meaning in knobs())
    return f"| key | default | meaning |\n|---|---|---|\n{rows}"


def _name(alert: Alert) -> str:
    variant = "".join(f" `{key}={value}`" for key, value in alert.labels.items())
    return f"[{alert.name}]({RUNBOOKS}/{alert.name}.md){variant}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
