"""Print the generated dashboards as one TypeScript file that compiles only when Grafana's own types accept them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# Enums are loosened to their values, which is what JSON holds. What a Prometheus data source adds to a target and an
# annotation is in no published type: it is spelt out here.
PROLOGUE = """\
import type { AnnotationQuery, Dashboard, FieldConfig, FieldConfigSource, Panel, RowPanel } from "@grafana/schema";
import type * as stat from
  "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as timeline from
  "@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen";
import type * as table from
  "@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen";
import type * as timeseries from
  "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";
type L<T> = T extends string ? `${T}` : T extends number ? T | null : T extends boolean ? T
  : T extends (infer U)[] ? L<U>[] : T extends object ? { [K in keyof T]: L<T[K]> } : T;
type Source = { type: "prometheus"; uid: "${datasource}" };
type Target = { datasource: Source; expr: string; refId: string; instant: boolean; format: "time_series" | "table";
  legendFormat: string; hide: boolean; interval: string; intervalFactor: number };
type Fields<C> = Omit<L<FieldConfigSource>, "defaults"> & { defaults: Omit<L<FieldConfig>, "custom"> & { custom?: C } };
type Drawn<T, O, C> = Omit<L<Panel>, "type" | "options" | "fieldConfig" | "targets" | "datasource">
  & { type: T; options: O; fieldConfig: Fields<C>; targets: Target[]; datasource: Source };
type Annotation = L<AnnotationQuery> | (Omit<L<AnnotationQuery>, "target"> & { textFormat: string; titleFormat: string;
  tagKeys: string; useValueForTime: boolean;
  target: { datasource: Source; expr: string; interval: string; refId: string } });
type Board = Omit<L<Dashboard>, "panels" | "annotations"> & { annotations: { list: Annotation[] } };
type Partly<T> = { [K in keyof T]?: Partly<T[K]> };
"""
TYPES = {
    "row": "L<RowPanel>",
    "stat": 'Drawn<"stat", Partly<L<stat.Options>>, Record<string, never>>',
    "table": 'Drawn<"table", Partly<L<table.Options>>, Partly<L<table.FieldConfig>> & { filterable?: boolean }>',
    "timeseries": 'Drawn<"timeseries", Partly<L<timeseries.Options>>, Partly<L<timeseries.FieldConfig>>>',
    "state-timeline": 'Drawn<"state-timeline", Partly<L<timeline.Options>>, Partly<L<timeline.FieldConfig>>>',
}


GONE = {
    "board": {"__inputs", "gnetId", "hideControls", "rows", "sharedCrosshair", "style"},
    "panel": {"columns", "color", "editable", "error", "fontSize", "hideTimeOverride", "mappings", "span", "height"},
    "row": {"fieldConfig", "links", "maxDataPoints", "targets", "transformations", "transparent"},
    "target": {"metric", "query", "step", "target"},
    "variable": {"auto", "auto_count", "auto_min", "useTags"},
    "current": {"tags"},
    "custom": {"displayMode"},
    "timepicker": {"time_options"},
}
"""What grafanalib writes for older versions of Grafana, and Grafana 11 and 12 do not read."""


def _read(value: Any, kind: str = "") -> Any:  # noqa: ANN401 -- any part of a JSON document
    """What Grafana reads of it: null is unset but for the value of a first step."""
    if isinstance(value, list):
        return [_read(item, kind) for item in value]
    if not isinstance(value, dict):
        return value
    gone = GONE.get(kind, set()) | (GONE["row"] if value.get("type") == "row" else set())
    kinds = {"targets": "target", "templating": "templating", "current": "current", "custom": "custom"}
    kinds |= {"list": "variable" if kind == "templating" else "", "timepicker": "timepicker"}
    return {
        key: _read(item, kinds.get(key, ""))
        for key, item in value.items()
        if key not in gone and (item is not None or key == "value")
    }


def main() -> int:
    parts = [PROLOGUE]
    for number, file in enumerate(sorted(Path(sys.argv[1]).glob("*.json"))):
        board = json.loads(file.read_text())
        panels = _read(board.pop("panels"), "panel")
        board = _read(board, "board")
        parts.append(f"export const board{number}: Board = {json.dumps(board, indent=1)};")
        for panel in panels:
            title = f"{file.name}: {panel['title']}"
            parts.append(f"// {title}\nexport const panel{number}_{panel['id']}: {TYPES[panel['type']]} =")
            parts.append(f"{json.dumps(panel, indent=1)};")
    print("\n".join(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
