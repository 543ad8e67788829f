"""The committed files: what each is called and what makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from exporter.alerts.chart import PATH as CHART_RULES
from exporter.alerts.chart import marked_rules
from exporter.alerts.routing import alertmanager
from exporter.alerts.rules import prometheus_rule, rules_file
from exporter.alerts.settings import Settings

FORMATS: Mapping[str, Callable[[Settings], str]] = MappingProxyType(
    {
        "rules": rules_file,
        "prometheusrule": prometheus_rule,
        "alertmanager": lambda _: alertmanager(),
    }
)
"""By the name that ``generate alerts --format`` takes."""

_NAMES = {"rules": "rules.yaml", "prometheusrule": "prometheusrule.yaml", "alertmanager": "alertmanager.yaml"}


def generated() -> dict[str, str]:
    """Text by path within a checkout, with the default settings; the Helm chart's are its own to fill."""
    ours = {f"alerts/generated/{_NAMES[name]}": make(Settings()) for name, make in FORMATS.items()}
    return {**ours, CHART_RULES: marked_rules()}
