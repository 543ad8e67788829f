"""The chart's history: one driver that writes, its executors, and the volume that they share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.cli import parser
from tests.chart.tools import CHART, Charts, Object, ToolRefusedError, of_kind

RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def values(**history: Any) -> dict[str, Any]:
    given = {"enabled": True, "executors": 2, "existingClaim": "eos-history", "args": ["--interval=5m"]}
    return {"bootstrapServers": "kafka:9092", "history": {**given, **history}}


def driver(objects: list[Object]) -> tuple[Object, Object]:
    """The pod of the StatefulSet, and its only container."""
    [found] = of_kind(objects, "StatefulSet")
    assert found["spec"]["replicas"] == 1
    pod = found["spec"]["template"]["spec"]
    [container] = pod["containers"]
    return pod, container


def executor(objects: list[Object]) -> Object:
    [template] = [manifest for manifest in of_kind(objects, "ConfigMap") if "pod.yaml" in manifest["data"]]
    return dict(yaml.safe_load(template["data"]["pod.yaml"]))


@pytest.mark.parametrize("executors", [0, 2])
def test_the_history_lints_and_is_valid(charts: Charts, executors: int) -> None:
    text = charts.text(values(executors=executors))
    charts.helm("lint", "--strict", CHART, "--values", charts.home / "values.yaml")
    charts.judge(text)


@pytest.mark.parametrize("executors", [0, 2])
def test_the_command_takes_its_arguments(charts: Charts, executors: int) -> None:
    _, container = driver(charts.objects(values(executors=executors)))
    assert container["command"][-1] == "/opt/kafka-eos-exporter/job.py"
    options = parser().parse_args(container["args"])
    assert options.interval == 300
    # The rows are on the volume.
    [mount] = [volumemount["mountPath"] for volumemount in container["volumeMounts"] if volumemount["name"] == "data"]
    assert str(Path(options.output).parent) == mount


def test_driver_and_executors_share_the_claim_at_one_path(charts: Charts) -> None:
    """Executors write the rows, the driver what makes them visible."""
    objects = charts.objects(values())
    for pod in (driver(objects)[0], executor(objects)["spec"]):
        [container] = pod["containers"]
        [volume] = [volume for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
        assert volume["persistentVolumeClaim"] == {"claimName": "eos-history"}
        assert {mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == volume["name"]} == {
            "/data"
        }


def test_the_pods_of_the_history_meet_the_restricted_profile(charts: Charts) -> None:
    objects = charts.objects(values())
    for pod in (driver(objects)[0], executor(objects)["spec"]):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert [container["securityContext"] for container in pod["containers"]] == [RESTRICTED]
    assert executor(objects)["spec"]["automountServiceAccountToken"] is False


def test_only_a_driver_with_executors_may_make_pods(charts: Charts) -> None:
    objects = charts.objects(values())
    [role], [binding] = of_kind(objects, "Role"), of_kind(objects, "RoleBinding")
    assert [rule["resources"] for rule in role["rules"]] == [["pods"]]
    [subject] = binding["subjects"]
    pod, container = driver(objects)
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (subject["name"], True)
    assert subject["name"] in {manifest["metadata"]["name"] for manifest in of_kind(objects, "ServiceAccount")}
    assert any(word.startswith("--conf=spark.master=k8s://") for word in container["command"])
    alone = charts.objects(values(executors=0))
    assert not of_kind(alone, "Role", "RoleBinding")
    assert driver(alone)[0]["automountServiceAccountToken"] is False
    assert "--conf=spark.master=local[2]" in driver(alone)[1]["command"]


def test_no_workload_counts_executors_as_its_own(charts: Charts) -> None:
    """Else a StatefulSet would adopt them, and the agent's Service would send scrapes to them."""
    objects = charts.objects(values())
    labels = executor(objects)["metadata"]["labels"].items()
    selectors = [
        manifest["spec"]["selector"]["matchLabels"] for manifest in of_kind(objects, "Deployment", "StatefulSet")
    ]
    selectors += [manifest["spec"]["selector"] for manifest in of_kind(objects, "Service")]
    assert len(selectors) == 3
    assert not [selector for selector in selectors if selector.items() <= labels]


def test_secrets_reach_driver_and_executors_as_they_reach_the_agent(charts: Charts) -> None:
    secured = yaml.safe_load((CHART / "ci" / "everything-values.yaml").read_text())
    objects = charts.objects({**secured, "history": values()["history"]})
    pods = [driver([resource for resource in objects if resource["metadata"]["name"].endswith("-history")])[0]]
    for pod in (*pods, executor(objects)["spec"]):
        [container] = pod["containers"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
        assert mounts["/etc/eos"]["secret"]["secretName"] == "eos-kafka"
        assert mounts["/etc/kafka-eos-exporter/config"]["configMap"] == {"name": "eos-kafka-eos-exporter"}
    assert "--config=/etc/kafka-eos-exporter/config/config.yml" in pods[0]["containers"][0]["args"]


@pytest.mark.parametrize(
    ("history", "word"),
    [
        ({"existingClaim": ""}, "Set history.existingClaim"),
        ({"existingClaim": "Eos_History"}, "existingClaim"),
        ({"claim": "eos"}, "claim"),
        ({"executors": -1}, "executors"),
        ({"executorMemory": "2Gi"}, "executorMemory"),
        ({"args": "--interval=5m"}, "args"),
    ],
    ids=str,
)
def test_a_wrong_value_of_the_history_is_refused_by_name(charts: Charts, history: dict[str, Any], word: str) -> None:
    with pytest.raises(ToolRefusedError, match=word):
        charts.text(values(**history))
