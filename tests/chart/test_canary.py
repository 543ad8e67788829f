"""The canary of the chart: a pod of its own, with a principal of its own, that nothing of the agent selects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.cli import parser
from exporter.config import ConfigSource
from tests.chart.tools import CHART, Charts, Object, ToolRefusedError, container, of_kind, workloads

VALUES = CHART / "ci" / "canary-values.yaml"


def values(**canary: Any) -> dict[str, Any]:
    given: dict[str, Any] = yaml.safe_load(VALUES.read_text())
    return {**given, "canary": {**given["canary"], **canary}}


def canary(objects: list[Object]) -> Object:
    [found] = [workload for workload in workloads(objects) if container(workload)["args"][0] == "canary"]
    return found


def test_without_the_switch_nothing_of_the_chart_writes_to_kafka(charts: Charts) -> None:
    objects = charts.objects(values(enabled=False))
    assert [container(workload)["args"][0] for workload in workloads(objects)] == ["run"]
    assert not [resource for resource in objects if "canary" in resource["metadata"]["name"]]


def test_its_settings_name_one_cluster_and_another_principal_than_the_agents(charts: Charts, tmp_path: Path) -> None:
    objects = charts.objects(VALUES)
    [settings] = [
        manifest for manifest in of_kind(objects, "ConfigMap") if manifest["metadata"]["name"].endswith("-canary")
    ]
    text = settings["data"]["config.yml"].replace("/etc/eos-canary", str(tmp_path))
    (tmp_path / "password").write_text("made up")
    (tmp_path / "config.yml").write_text(text)
    [cluster] = ConfigSource(tmp_path / "config.yml", {}).load().clusters
    assert (cluster.name, cluster.kafka.raw["sasl.username"]) == ("prod", "canary")
    options = parser().parse_args(container(canary(objects))["args"])
    assert (options.topic, options.interval, options.timeout) == ("kafka-eos-canary", 1.0, 10.0)
    pod = canary(objects)["spec"]["template"]["spec"]
    secrets = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
    assert secrets == ["eos-canary"]
    [agent] = [workload for workload in workloads(objects) if container(workload)["args"][0] == "run"]
    assert pod["serviceAccountName"] != agent["spec"]["template"]["spec"]["serviceAccountName"]


def test_there_is_one_at_a_time_as_two_would_fence_each_other(charts: Charts) -> None:
    spec = canary(charts.objects(VALUES))["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_what_selects_the_agents_does_not_select_it(charts: Charts) -> None:
    objects = charts.objects(VALUES)
    labels = canary(objects)["spec"]["template"]["metadata"]["labels"].items()
    [service], [monitor] = of_kind(objects, "Service"), of_kind(objects, "PodMonitor")
    assert not service["spec"]["selector"].items() <= labels
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels
    assert monitor["metadata"]["labels"]["release"] == "kube-prometheus-stack"
    for workload in workloads(objects):
        its = workload["spec"]["selector"]["matchLabels"].items() <= labels
        assert its == (workload is canary(objects) or workload["metadata"]["name"].endswith("-canary"))
    policies = of_kind(objects, "NetworkPolicy")
    assert sum(policy["spec"]["podSelector"]["matchLabels"].items() <= labels for policy in policies) == 1


def test_other_settings_bring_another_pod(charts: Charts) -> None:
    def pod(name: str) -> Object:
        config = {"clusters": [{"name": name, "kafka": {"bootstrap.servers": "k:9092"}}]}
        template: Object = canary(charts.objects(values(config=config)))["spec"]["template"]
        return template

    assert pod("a") == pod("a")
    assert pod("a") != pod("b")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "which cluster, as whom"),
        ({"clusters": [{"kafka": {"sasl.password": "x"}}]}, 'canary.config has "sasl.password"'),
    ],
)
def test_settings_that_cannot_work_are_refused_in_words_of_the_values(
    charts: Charts, config: dict[str, Any], said: str
) -> None:
    with pytest.raises(ToolRefusedError, match=said):
        charts.text(values(config=config))
