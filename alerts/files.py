"""The committed files: what each is called and what makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from alerts.chart import PATH as CHART_RULES
from alerts.chart import marked_rules
from alerts.routing import alertmanager
from alerts.rules import prometheus_rule, rules_file
from alerts.settings import Settings

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
