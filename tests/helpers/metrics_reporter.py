"""Pages as Strimzi's Metrics Reporter writes them, of the values of a jmx_exporter's page without rules.

From its sources (YammerMetricWrapper, YammerCollector, KafkaMetricWrapper): names are group, type and name in lower
case; a meter is a counter, a histogram a summary with the quantiles 0.5 to 0.999; no other attribute is shown.
"""

from __future__ import annotations

import re

_LINE = re.compile(
    r"(?P<base>kafka_[a-z]+(?:_transaction)?_[A-Za-z]+)_(?P<attribute>[A-Za-z0-9]+)\{(?P<labels>.*)\} (?P<value>\S+)"
)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def reporter_page(default: str) -> str:
    """The page with those values of ``default`` that the reporter has; Kafka's own metrics as they are."""
    lines = []
    for line in default.splitlines():
        if line.startswith("kafka_server_transaction_coordinator_metrics_"):
            lines.append(line)
        elif (match := _LINE.fullmatch(line)) is not None:
            labels = dict(_LABEL.findall(match["labels"]))
            name = f"{match['base']}_{labels.pop('name', '')}".lower()
            attribute, meter = match["attribute"], name.endswith("persec")
            if attribute == "Count":
                name += "_total" if meter else "_count"
            elif (percentile := re.fullmatch(r"(\d+)thPercentile", attribute)) and not meter:
                labels["quantile"] = str(float(f"0.{percentile[1]}"))
            elif attribute != "Value":
                continue
            shown = ",".join(f'{key}="{value}"' for key, value in labels.items())
            lines.append(f"{name}{{{shown}}} {match['value']}")
    return "\n".join(lines) + "\n"
