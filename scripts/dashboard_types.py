"""Print the generated dashboards as one TypeScript file that compiles only when Grafana's own types accept them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

# Enums are loosened to their values, which is what JSON holds. What a Prometheus data source adds to a target and an
# annotation is in no published type: it is spelt out here.
PROLOGUE = """\
import type { AnnotationQuery, Dashboard, FieldConfig, FieldConfigSource, Panel, RowPanel } from "@grafana/schema";
import type * as heatmap from
  "@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen";
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
type Target = { datasource: Source; editorMode: "code"; expr: string; refId: string; instant: boolean; range: boolean;
  format: "time_series" | "table" | "heatmap"; legendFormat: string };
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
    "stat": 'Drawn<"stat", Partly<L<stat.Options>>, never>',
    "table": 'Drawn<"table", Partly<L<table.Options>>, Partly<L<table.FieldConfig>> & { filterable?: boolean }>',
    "timeseries": 'Drawn<"timeseries", Partly<L<timeseries.Options>>, Partly<L<timeseries.FieldConfig>>>',
    "state-timeline": 'Drawn<"state-timeline", Partly<L<timeline.Options>>, Partly<L<timeline.FieldConfig>>>',
    "heatmap": 'Drawn<"heatmap", Partly<L<heatmap.Options>>, Partly<L<heatmap.FieldConfig>>>',
}


def main() -> int:
    parts = [PROLOGUE]
    for number, file in enumerate(sorted(Path(sys.argv[1]).glob("*.json"))):
        board = json.loads(file.read_text())
        panels = board.pop("panels")
        parts.append(f"export const board{number}: Board = {json.dumps(board, indent=1)};")
        for panel in panels:
            title = f"{file.name}: {panel['title']}"
            parts.append(f"// {title}\nexport const panel{number}_{panel['id']}: {TYPES[panel['type']]} =")
            parts.append(f"{json.dumps(panel, indent=1)};")
    print("\n".join(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
