"""The committed files: their names and the functions that make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from exporter.alerts.notification import TEMPLATES
from exporter.alerts.routing import alertmanager, alertmanager_config
from exporter.alerts.rules import prometheus_rule, rules_file
from exporter.alerts.settings import Settings

FORMATS: Mapping[str, Callable[[Settings], str]] = MappingProxyType(
    {
        "rules": rules_file,
        "prometheusrule": prometheus_rule,
        "alertmanager": lambda settings: alertmanager(settings.teams),
        "alertmanagerconfig": lambda _: alertmanager_config(),
        "templates": lambda _: TEMPLATES,
    }
)
"""By the name that ``generate alerts --format`` takes."""

_NAMES = {
    "rules": "rules.yaml",
    "alertmanager": "alertmanager.yaml",
    "alertmanagerconfig": "alertmanagerconfig.yaml",
    "templates": "kafka-eos.tmpl",
}


def generated() -> dict[str, str]:
    """Text by path within a checkout, with the default settings. The Helm chart reads these files by links."""
    return {f"alerts/generated/{file}": FORMATS[name](Settings()) for name, file in _NAMES.items()}
