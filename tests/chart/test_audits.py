"""The chart's CronJobs for audits: the arguments of the pods, and the grants of the driver."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from exporter.cli import parser
from exporter.commands.audit_spec import audit_of
from tests.chart.tools import CHART, Charts, Object, ToolRefusedError, of_kind

VALUES = CHART / "ci" / "audits-values.yaml"
RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def values(**audits: Any) -> dict[str, Any]:
    given: dict[str, Any] = yaml.safe_load(VALUES.read_text())
    return {**given, "audits": {**given["audits"], **audits}}


def spark_jobs(objects: list[Object]) -> list[Object]:
    """The CronJobs of audits by Spark: all but that of markers."""
    return [job for job in of_kind(objects, "CronJob") if not job["metadata"]["name"].endswith("-markers")]


def driver(job: Object) -> tuple[Object, Object]:
    """A CronJob's pod, and its only container."""
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [found] = pod["containers"]
    return pod, found


def test_each_audit_is_a_cron_job_whose_arguments_the_command_takes(charts: Charts) -> None:
    objects = charts.objects(VALUES)
    jobs = spark_jobs(objects)
    assert [job["spec"]["schedule"] for job in jobs] == ["15 2 * * *", "45 2 * * *"]
    asked = []
    for job in jobs:
        _, container = driver(job)
        assert container["command"][-1] == "/opt/kafka-eos-exporter/job.py"
        options = parser().parse_args(container["args"])
        asked.append((options.topic, str(options.spec)))
    assert asked == [("orders", "None"), ("", "/etc/kafka-eos-audits/payments.yml")]
    pod, container = driver(jobs[1])
    [mount] = [mount for mount in container["volumeMounts"] if mount["mountPath"] == "/etc/kafka-eos-audits"]
    [volume] = [volume for volume in pod["volumes"] if volume["name"] == mount["name"]]
    [specs] = [
        found for found in of_kind(objects, "ConfigMap") if found["metadata"]["name"] == volume["configMap"]["name"]
    ]
    audit = audit_of(yaml.safe_load(specs["data"]["payments.yml"]), "payments.yml")
    assert (audit.topic, audit.source_topic, audit.source_group) == ("payments", "orders", "billing")


def test_the_pods_of_an_audit_meet_the_restricted_profile(charts: Charts) -> None:
    objects = charts.objects(VALUES)
    [template] = [manifest for manifest in of_kind(objects, "ConfigMap") if "pod.yaml" in manifest["data"]]
    executor = yaml.safe_load(template["data"]["pod.yaml"])["spec"]
    for pod in (*(driver(manifest)[0] for manifest in spark_jobs(objects)), executor):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert [container["securityContext"] for container in pod["containers"]] == [RESTRICTED]
    assert executor["automountServiceAccountToken"] is False


def test_a_driver_with_executors_may_make_and_remove_pods_and_nothing_else(charts: Charts) -> None:
    objects = charts.objects(VALUES)
    [role], [binding] = of_kind(objects, "Role"), of_kind(objects, "RoleBinding")
    assert [rule["resources"] for rule in role["rules"]] == [["pods"]]
    account = {manifest["metadata"]["name"]: manifest for manifest in of_kind(objects, "ServiceAccount")}
    [subject] = binding["subjects"]
    assert subject["name"] in account
    for manifest in spark_jobs(objects):
        pod, container = driver(manifest)
        assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (subject["name"], True)
        assert "--conf=spark.executor.instances=2" in container["command"]
        assert any(word.startswith("--conf=spark.master=k8s://") for word in container["command"])


def test_an_audit_by_one_pod_has_no_rights_and_no_token(charts: Charts) -> None:
    objects = charts.objects(values(executors=0))
    assert not of_kind(objects, "Role", "RoleBinding")
    for manifest in spark_jobs(objects):
        pod, container = driver(manifest)
        assert pod["automountServiceAccountToken"] is False
        assert "--conf=spark.master=local[2]" in container["command"]


def test_settings_and_secrets_reach_the_audit_as_they_reach_the_agent(charts: Charts) -> None:
    secured = yaml.safe_load((CHART / "ci" / "everything-values.yaml").read_text())
    del secured["image"]
    objects = charts.objects({**secured, "audits": values()["audits"]})
    pod, container = driver(spark_jobs(objects)[0])
    assert "--config=/etc/kafka-eos-exporter/config/config.yml" in container["args"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    assert mounts["/etc/eos"]["secret"]["secretName"] == "eos-kafka"
    assert mounts["/etc/kafka-eos-exporter/config"]["configMap"] == {"name": "eos-kafka-eos-exporter"}


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, "ghcr.io/kafka-eos-exporter/kafka-eos-exporter:0.2.0-spark"),
        ({"tag": "7"}, "ghcr.io/kafka-eos-exporter/kafka-eos-exporter:7"),
        ({"repository": "jobs", "digest": f"sha256:{'0' * 64}"}, f"ghcr.io/kafka-eos-exporter/jobs@sha256:{'0' * 64}"),
    ],
    ids=["default", "tag", "digest"],
)
def test_an_audit_runs_the_image_of_the_jobs(charts: Charts, image: dict[str, str], expected: str) -> None:
    for manifest in spark_jobs(charts.objects(values(image=image))):
        assert driver(manifest)[1]["image"] == expected


@pytest.mark.parametrize(
    ("audits", "word"),
    [
        ({"jobs": [{"name": "orders"}]}, "topic"),
        ({"jobs": [{"name": "orders", "spec": {"id": "key"}}]}, "topic"),
        ({"jobs": [{"name": "Orders", "topic": "orders"}]}, "name"),
        ({"jobs": []}, "Set audits.jobs"),
        ({"jobs": [{"name": "a", "topic": "t"}, {"name": "a", "topic": "u"}]}, "two have the name a"),
        ({"executors": -1}, "executors"),
        ({"driverMemory": "2Gi"}, "driverMemory"),
        ({"conf": {"memory": "1g"}}, "spark"),
    ],
    ids=str,
)
def test_a_wrong_value_of_an_audit_is_refused_by_name(charts: Charts, audits: dict[str, Any], word: str) -> None:
    with pytest.raises(ToolRefusedError, match=word):
        charts.text(values(**audits))


MARKERS = {"bootstrapServers": "kafka:9092", "markers": {"enabled": True, "tokenFile": "/etc/ingest/token"}}


def markers_job(objects: list[Object]) -> list[Object]:
    return [job for job in of_kind(objects, "CronJob") if job["metadata"]["name"].endswith("-markers")]


def test_markers_are_compared_each_hour_and_posted_to_the_agent(charts: Charts) -> None:
    objects = charts.objects(MARKERS)
    (job,), (service,) = markers_job(objects), of_kind(objects, "Service")
    pod, container = driver(job)
    options = parser().parse_args(container["args"])
    (port,) = service["spec"]["ports"]
    assert options.agent == f"http://{service['metadata']['name']}:{port['port']}"
    assert "--bootstrap-server=kafka:9092" in container["args"]
    assert (str(options.agent_token_file), options.since, options.max_bytes) == ("/etc/ingest/token", 7200, 4 << 30)
    assert container["securityContext"] == RESTRICTED
    assert pod["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    "given", [{"bootstrapServers": "kafka:9092"}, {**MARKERS, "mode": "sidecar"}], ids=["by default", "sidecar"]
)
def test_without_an_agent_or_a_choice_no_markers_are_compared(charts: Charts, given: dict[str, Any]) -> None:
    assert markers_job(charts.objects(given)) == []


def test_the_comparison_of_markers_needs_a_token(charts: Charts) -> None:
    with pytest.raises(ToolRefusedError, match="with which token"):
        charts.objects({**MARKERS, "markers": {"enabled": True}})
