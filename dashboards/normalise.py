"""From grafanalib's JSON to what a current Grafana writes itself: nothing it would have to guess, migrate or drop.

grafanalib writes the format of Grafana 5 to 8 and fills in hundreds of nulls and defaults of its own. What may be
in a dashboard is listed here; everything else goes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from grafanalib import core
from grafanalib._gen import DashboardEncoder

SCHEMA_VERSION = 41  # Grafana 12: the last of schema v1, so that no migration has to guess
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_CURSOR_SHARED = 1

_DASHBOARD = ("description", "editable", "links", "refresh", "tags", "time", "timezone", "title", "uid")
_PANEL = ("description", "fieldConfig", "gridPos", "id", "links", "options", "title", "transformations", "type")
_TARGET = ("expr", "format", "instant", "legendFormat", "refId")
_LINK = ("asDropdown", "icon", "includeVars", "keepTime", "tags", "targetBlank", "title", "tooltip", "type", "url")
_OPTIONS = {
    "stat": ("colorMode", "graphMode", "justifyMode", "reduceOptions", "textMode"),
    "table": ("cellHeight", "showHeader", "sortBy"),
}


def text(dashboard: core.Dashboard) -> str:
    """The dashboard's file: the same bytes from the same code."""
    raw = json.loads(json.dumps(dashboard.to_json_data(), cls=DashboardEncoder))
    return json.dumps(normal(raw), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def normal(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A dashboard as Grafana would save it."""
    return {
        **_only(raw, _DASHBOARD),
        "annotations": {"list": [_BUILT_IN, *map(_annotation, raw["annotations"]["list"])]},
        "fiscalYearStartMonth": 0,
        "graphTooltip": _CURSOR_SHARED,
        "links": [{**_only(link, _LINK), "url": ""} for link in raw["links"]],
        "panels": [_panel(panel) for panel in raw["panels"]],
        "schemaVersion": SCHEMA_VERSION,
        "templating": {"list": [_variable(variable) for variable in raw["templating"]["list"]]},
        "timepicker": {},
        "version": 1,
    }


def _panel(raw: Mapping[str, Any]) -> dict[str, Any]:
    if raw["type"] == "row":
        return {**_only(raw, ("gridPos", "id", "title", "type")), "collapsed": False, "panels": []}
    panel = _only(raw, _PANEL)
    if not panel.get("links"):
        panel.pop("links", None)
    panel["options"] = _only(panel["options"], _OPTIONS.get(raw["type"], panel["options"]))
    panel["fieldConfig"] = _fields(panel["fieldConfig"])
    return {**panel, "datasource": SOURCE, "targets": [_target(target) for target in raw["targets"]]}


def _fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Custom options of grafanalib are its defaults and are replaced by ours; thresholds keep Grafana's fields."""
    defaults = dict(raw["defaults"])
    if "thresholds" in defaults:
        steps = [{"color": step["color"], "value": step["value"]} for step in defaults["thresholds"]["steps"]]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return {"defaults": _without_nothing(defaults), "overrides": raw.get("overrides", [])}


def _target(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {**_only(raw, _TARGET), "datasource": SOURCE, "editorMode": "code", "range": not raw["instant"]}


def _annotation(raw: Mapping[str, Any]) -> dict[str, Any]:
    """``expr`` is in ``target``, where Grafana moves it; the formats are Prometheus's and stay beside it."""
    return {
        "enable": False,
        **{key: value for key, value in raw.items() if key != "expr"},
        "datasource": SOURCE,
        "hide": False,
        "target": {"datasource": SOURCE, "expr": raw["expr"], "interval": "10s", "refId": "Anno"},
    }


_BUILT_IN = {
    "builtIn": 1,
    "datasource": {"type": "grafana", "uid": "-- Grafana --"},
    "enable": True,
    "hide": True,
    "iconColor": "rgba(0, 211, 255, 1)",
    "name": "Annotations & Alerts",
    "type": "dashboard",
}


def _variable(raw: Mapping[str, Any]) -> dict[str, Any]:
    common = {"hide": 0, "label": raw["label"], "name": raw["name"], "skipUrlSync": False, "type": raw["type"]}
    if raw["type"] == "datasource":
        return {
            **common,
            "includeAll": False,
            "multi": False,
            "options": [],
            "query": raw["query"],
            "refresh": 1,
            "regex": "",
        }
    if raw["type"] == "textbox":
        text = raw["query"]
        chosen = {"selected": True, "text": text, "value": text}
        return {**common, "current": chosen, "options": [chosen], "query": text}
    if raw["hide"]:
        nothing = {"selected": False, "text": "", "value": ""}
        return {
            **common,
            "current": nothing,
            "datasource": SOURCE,
            "hide": raw["hide"],
            "includeAll": False,
            "multi": False,
            "options": [],
            "query": {"qryType": 3, "query": raw["query"], "refId": f"{raw['name']}-values"},
            "refresh": 2,
            "regex": raw["regex"],
            "skipUrlSync": True,
            "sort": 0,
        }
    return {
        **common,
        "allValue": raw["allValue"],
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "datasource": SOURCE,
        "includeAll": True,
        "multi": True,
        "options": [],
        "query": {"qryType": 5, "query": raw["query"], "refId": f"{raw['name']}-values"},
        "refresh": 2,
        "regex": "",
        "sort": 1,
    }


def _only(raw: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: raw[name] for name in names if raw.get(name) is not None}


def _without_nothing(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Without the nulls and empty values of defaults; a null in a list of steps has a meaning and is not looked at."""
    return {
        key: _without_nothing(value) if isinstance(value, dict) else value
        for key, value in raw.items()
        if value is not None and value not in ("", {})
    }
