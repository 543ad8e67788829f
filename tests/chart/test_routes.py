"""The chart's AlertmanagerConfig has the routes and inhibition of `generate alerts --format alertmanagerconfig`."""

from __future__ import annotations

import pytest
import yaml

from exporter.alerts.routing import alertmanager_config
from tests.chart.tools import Charts, ToolRefusedError, of_kind

VALUES = {"bootstrapServers": "kafka:9092"}


def test_routes_and_inhibition_are_those_that_generate_prints(charts: Charts) -> None:
    receivers = [
        {"name": "kafka-eos-pages", "webhookConfigs": [{"url": "https://p"}]},
        {"name": "kafka-eos-tickets"},
        {"name": "kafka-eos-watchdog"},
    ]
    given = {**VALUES, "alertmanagerConfig": {"enabled": True, "receivers": receivers}}
    [found] = of_kind(charts.objects(given), "AlertmanagerConfig")
    assert found["spec"] == yaml.safe_load(alertmanager_config())["spec"] | {"receivers": receivers}
    charts.judge(yaml.safe_dump(found))


def test_a_receiver_that_a_route_needs_is_missed(charts: Charts) -> None:
    receivers = [{"name": "kafka-eos-pages"}, {"name": "kafka-eos-watchdog"}]
    given = {**VALUES, "alertmanagerConfig": {"enabled": True, "receivers": receivers}}
    with pytest.raises(ToolRefusedError, match="needs one with the name kafka-eos-tickets"):
        charts.text(given)


def test_without_it_there_is_none(charts: Charts) -> None:
    assert of_kind(charts.objects(VALUES), "AlertmanagerConfig") == []
