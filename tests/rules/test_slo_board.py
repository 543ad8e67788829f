"""The objectives of the dashboard of transactions, by promtool, with the values that its cells have."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from exporter.dashboards.transactions import board

_APPLICATION = "kafka_cluster_application:kafka_eos_transactions"
_TOPIC = "kafka_cluster_topic:kafka_eos_freshness_slo"
_SERIES = {
    f'{_APPLICATION}_slo:objective{{kafka_cluster="prod", application="pay"}}': "0.95x4400",
    f'{_APPLICATION}_slo:burn_rate1h{{kafka_cluster="prod", application="pay"}}': "2x4400",
    f'{_APPLICATION}_slo:budget_remaining30d{{kafka_cluster="prod", application="pay"}}': "-0.5x4400",
    f'{_APPLICATION}_slo:budget_remaining30d{{kafka_cluster="test", application="pay"}}': "0.9x4400",
    f'{_APPLICATION}_unclean:budget{{kafka_cluster="prod", application="pay"}}': "0.05x4400",
    **{
        f'{_APPLICATION}_unclean:ratio_rate{window}{{kafka_cluster="prod", application="pay"}}': f"{ratio}x4400"
        for window, ratio in (("1d", 0.05),)
    },
    f'{_TOPIC}:late{{kafka_cluster="prod", topic="orders"}}': "1x4400",
    f'{_TOPIC}:burn_rate1h{{kafka_cluster="prod", topic="orders"}}': "100x4400",
    f'{_TOPIC}:budget_remaining30d{{kafka_cluster="prod", topic="orders"}}': "-99x4400",
    'kafka_eos_topic_threshold_seconds{job="eos", instance="a:1", kafka_cluster="prod", topic="orders",'
    ' threshold="fresh_within"}': "60x4400",
}
_IDLE = {"kafka_cluster": "prod", "application": "idle"}
_NOTHING_FINISHED = [  # promtool's series cannot be NaN, rules can
    {"record": f"{_APPLICATION}_slo:{name}", "expr": "vector(0) / 0", "labels": _IDLE}
    for name in ("burn_rate1h", "budget_remaining30d")
]
_PAY, _OF_TEST = {"application": "pay", "kafka_cluster": "prod"}, {"application": "pay", "kafka_cluster": "test"}
_ORDERS = {"kafka_cluster": "prod", "topic": "orders"}
_CELLS: dict[str, list[list[tuple[dict[str, str], float]]]] = {
    "Which applications have the least budget left?": [
        [(_PAY, -0.5), (_OF_TEST, 0.9)],
        [(_PAY, 0.95)],
        [(_PAY, 2)],
        [(_PAY, 1)],
    ],
    "Which topics have the least budget left?": [
        [(_ORDERS, -99)],
        [(_ORDERS, 0.99)],
        *([[(_ORDERS, 100.0)]] * 2),
        [(_ORDERS, 60)],
        [(_ORDERS, 1)],
    ],
}


def _panels() -> list[dict[str, Any]]:
    made: dict[str, Any] = json.loads(board().text())
    return [panel for panel in made["panels"] if panel["title"] in _CELLS]


def test_every_cell_has_the_value_of_the_recorded_series_and_an_idle_application_has_none(tmp_path: Path) -> None:
    asked = [
        {
            "expr": re.sub(r"\$[a-z_]\w*", ".*", target["expr"]),
            "eval_time": "73h",
            "exp_samples": [
                {"labels": "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}", "value": value}
                for labels, value in expected
            ],
        }
        for panel in _panels()
        for target, expected in zip(panel["targets"], _CELLS[panel["title"]], strict=True)
    ]
    assert len(asked) == sum(len(queries) for queries in _CELLS.values())
    given = [{"series": series, "values": values} for series, values in _SERIES.items()]
    path, rules = tmp_path / "board.yaml", tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "idle", "rules": _NOTHING_FINISHED}]}))
    test = {"interval": "1m", "input_series": given, "promql_expr_test": asked}
    path.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
