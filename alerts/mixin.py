"""The rules and dashboards as a jsonnet mixin, as https://monitoring.mixins.dev has them.

Selector and group labels are in the rules when they are printed. What jsonnet changes are addresses, labels of every
alert, and fields of one alert.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.alerts.labels import query_of_panel
from exporter.alerts.rules import groups
from exporter.alerts.settings import Settings

_TEXT = """\
// Printed by `kafka-eos-exporter generate mixin`, whose --set takes selector and group_labels. Change it from outside:
//   (import 'mixin.libsonnet') + { _config+:: { labels: { team: 'eos' } } }
{
  local config = self._config,

  _config+:: {
    runbookURL: %(runbook_url)s,
    dashboardURL: %(dashboard_url)s,
    pageURL: %(page_url)s,
    // Labels for every alert; an alert's own stay.
    labels: {},
    // By alert: `enabled`, and fields that replace the rule's, such as { KafkaEosProducerFenced: { 'for': '5m' } }.
    overrides: {},
  },

  local links(alert) = {
    // A repository shows the file; elsewhere a runbook is a page by the alert's name.
    local ending = if std.length(std.findSubstr('/blob/', config.runbookURL)) > 0 then '.md' else '',
    runbook_url: config.runbookURL + '/' + alert.alert + ending,
    dashboard_url: std.strReplace(alert.annotations.dashboard_url, %(dashboard_url)s, config.dashboardURL),
    page_url: std.strReplace(alert.annotations.page_url, %(page_url)s, config.pageURL),
  },
  // Some expressions have severities of their own.
  local given = { [name]: config.labels[name] for name in std.objectFields(config.labels) if name != 'severity' },
  local changed(rule) =
    if 'record' in rule then rule else
      local override = if rule.alert in config.overrides then config.overrides[rule.alert] else {};
      rule + { labels: given + rule.labels, annotations+: links(rule) }
      + { [name]: override[name] for name in std.objectFields(override) if name != 'enabled' },
  local enabled(rule) =
    'record' in rule || !(rule.alert in config.overrides) || std.get(config.overrides[rule.alert], 'enabled', true),
  local having(kind, ending) = [
    group { name: group.name + ending, rules: [changed(rule) for rule in group.rules if kind in rule && enabled(rule)] }
    for group in %(groups)s
    if std.length([rule for rule in group.rules if kind in rule && enabled(rule)]) > 0
  ],

  prometheusAlerts+:: { groups: having('alert', '') },
  prometheusRules+:: { groups: having('record', '.rules') },
  grafanaDashboards+:: %(dashboards)s,
}
"""


def mixin(dashboards: Mapping[str, str], settings: Settings) -> str:
    """Return the mixin's text; ``dashboards`` are JSON texts by the names of their files. JSON is jsonnet."""
    plain = replace(settings, labels="", overrides={})
    boards = {name: _selected(json.loads(text), settings) for name, text in dashboards.items()}
    return _TEXT % {
        "runbook_url": json.dumps(settings.runbook_url),
        "dashboard_url": json.dumps(settings.dashboard_url),
        "page_url": json.dumps(settings.page_url),
        "groups": json.dumps(groups(plain), indent=2, ensure_ascii=False),
        "dashboards": json.dumps(boards, indent=2, ensure_ascii=False),
    }


def _selected(value: Any, settings: Settings) -> Any:  # noqa: ANN401 -- a JSON document
    if isinstance(value, dict):
        return {name: _selected(child, settings) for name, child in value.items()}
    if isinstance(value, list):
        return [_selected(child, settings) for child in value]
    return query_of_panel(value, settings) if isinstance(value, str) else value
