"""The Spark jobs as pods: the chart's audits with two executors, and the example of the history."""

from __future__ import annotations

import json
from typing import Any

import yaml

from tests.chart.tools import CHART, ROOT, Charts
from tests.cluster import kube
from tests.cluster.conftest import BrokerPod

JOB_SECONDS = 600
VALUES = CHART / "ci" / "audits-values.yaml"
HISTORY = ROOT / "docs" / "examples" / "kubernetes" / "history-statefulset.yaml"


def audits(broker: BrokerPod) -> dict[str, Any]:
    own = kube.image_values(kube.image("CLUSTER_SPARK_IMAGE"))
    return {
        "image": kube.image_values(kube.image("CLUSTER_IMAGE")),
        "bootstrapServers": broker.address,
        "audits": {"image": {"repository": own["repository"], "tag": own["tag"]}},
    }


def condition(job: dict[str, Any]) -> str:
    """Complete, Failed, or nothing while it runs."""
    for each in job.get("status", {}).get("conditions", ()):
        if each["type"] in {"Complete", "Failed"} and each["status"] == "True":
            return str(each["type"])
    return ""


def run(api: kube.Api, release: kube.Release, audit: str) -> tuple[str, str, set[str]]:
    """Start a CronJob's audit now: how its Job ended, what it printed, and the executors that were seen."""
    where = ("--namespace", release.namespace)
    name = f"{audit}-now"
    kube.kubectl(*where, "create", "job", name, f"--from=cronjob/{release.fullname}-audit-{audit}")
    executors: set[str] = set()

    def ended() -> str:
        pods = api.get(f"/api/v1/namespaces/{release.namespace}/pods?labelSelector=spark-role%3Dexecutor")["items"]
        executors.update(kube.name_of(each) for each in pods if each["status"]["phase"] == "Running")
        return condition(api.get(f"/apis/batch/v1/namespaces/{release.namespace}/jobs/{name}"))

    how = kube.wait(f"the audit of {audit}", ended, JOB_SECONDS, 0.5)
    return how, kube.kubectl(*where, "logs", f"job/{name}", "--all-containers").stdout, executors


def test_an_audit_with_two_executors_finds_a_topic_clean_and_one_that_is_not(
    api: kube.Api, charts: Charts, broker: BrokerPod, namespace: str
) -> None:
    broker.produce("orders", "audited-1", 300)
    broker.create("twice")
    broker.produce("twice", "audited-2", 300)
    jobs = [
        {"name": "orders", "topic": "orders", "args": ["--id=concat(partition, '-', offset)"]},
        {"name": "twice", "topic": "twice", "args": ["--id=concat('the same', partition)"]},
    ]
    with kube.release(charts, "eos", namespace) as release:
        own = audits(broker)
        own["audits"]["jobs"] = jobs
        release.install([VALUES, own])
        how, said, executors = run(api, release, "orders")
        assert how == "Complete", said[-6000:]
        assert "clean" in said
        assert len(executors) == 2, executors
        how, said, _ = run(api, release, "twice")
        assert how == "Failed", said[-6000:]
        assert "duplicate" in said
        # Findings are not tried again, what could not be asked is; and no executor outlives its driver.
        pods = api.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector=job-name%3Dtwice-now")["items"]
        codes = [each["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for each in pods]
        assert codes.count(1) == 1, codes
        assert set(codes) <= {1, 2}, codes
        kube.wait(
            "the executors to be gone",
            lambda: not api.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector=spark-role%3Dexecutor")["items"],
            60,
        )


def test_the_history_keeps_rows_on_its_volume(api: kube.Api, broker: BrokerPod, namespace: str) -> None:
    """The example, with this cluster's image and broker, and no credentials."""
    broker.produce("orders", "history-1", 300)
    example = yaml.safe_load(HISTORY.read_text())
    pod = example["spec"]["template"]["spec"]
    [container] = pod["containers"]
    container["image"] = kube.image("CLUSTER_SPARK_IMAGE")
    container["command"] = [each.replace("2g", "512m") for each in container["command"]]
    container["resources"] = {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}}
    container["args"] = [
        each.replace("kafka-1:9093", broker.address).replace("--interval=1m", "--interval=5s")
        for each in container["args"]
        if "command-config" not in each
    ]
    container["volumeMounts"] = [each for each in container["volumeMounts"] if each["name"] != "secrets"]
    pod["volumes"] = [each for each in pod["volumes"] if each["name"] != "secrets"]
    example["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = "1Gi"
    example["metadata"]["namespace"] = namespace
    kube.apply(example)
    find = ("exec", "eos-history-0", "--", "find", "/data/history/transactions", "-name", "*.parquet")

    def rows() -> str:
        return kube.kubectl("--namespace", namespace, *find, check=False).stdout

    try:
        kube.wait("rows of the history", rows, JOB_SECONDS, 2)
    except AssertionError:
        print(kube.kubectl("--namespace", namespace, "logs", "eos-history-0", "--tail=60", check=False).stdout)
        print(json.dumps(api.get(f"/api/v1/namespaces/{namespace}/pods")["items"])[-4000:])
        raise
