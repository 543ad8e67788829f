"""The Spark jobs as pods: the chart's audits and history with two executors, and the history of one pod."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import yaml

from tests.chart.tools import CHART, ROOT, Charts
from tests.cluster import kube
from tests.cluster.conftest import BrokerPod

JOB_SECONDS = 600
VALUES = CHART / "ci" / "audits-values.yaml"
HISTORY = ROOT / "docs" / "examples" / "kubernetes" / "history-statefulset.yaml"


CLAIM = "eos-history"
EXECUTORS = "spark-role%3Dexecutor"


def jobs_values(broker: BrokerPod, kind: str) -> dict[str, Any]:
    """This cluster's broker and images, for the chart's ``audits`` or ``history``."""
    own = kube.image_values(kube.image("CLUSTER_SPARK_IMAGE"))
    return {
        "image": kube.image_values(kube.image("CLUSTER_IMAGE")),
        "bootstrapServers": broker.address,
        kind: {"image": {"repository": own["repository"], "tag": own["tag"]}},
    }


def running_executors(api: kube.Api, namespace: str) -> set[str]:
    pods = api.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={EXECUTORS}")["items"]
    return {kube.name_of(pod) for pod in pods if pod["status"]["phase"] == "Running"}


def condition(job: dict[str, Any]) -> str:
    """Complete, Failed, or nothing while it runs."""
    for found_application in job.get("status", {}).get("conditions", ()):
        if found_application["type"] in {"Complete", "Failed"} and found_application["status"] == "True":
            return str(found_application["type"])
    return ""


def run(api: kube.Api, release: kube.Release, audit: str) -> tuple[str, str, set[str]]:
    """Start a CronJob's audit now: how its Job ended, what it printed, and the executors that were seen."""
    where = ("--namespace", release.namespace)
    name = f"{audit}-now"
    kube.kubectl(*where, "create", "job", name, f"--from=cronjob/{release.fullname}-audit-{audit}")
    executors: set[str] = set()

    def ended() -> str:
        executors.update(running_executors(api, release.namespace))
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
        own = jobs_values(broker, "audits")
        own["audits"]["jobs"] = jobs
        release.install([VALUES, own])
        how, said, executors = run(api, release, "orders")
        assert how == "Complete", said[-6000:]
        assert "clean" in said
        # A try that a slow broker left unknown had executors of its own.
        assert 2 in Counter(executor.rpartition("-exec-")[0] for executor in executors).values(), executors
        how, said, _ = run(api, release, "twice")
        assert how == "Failed", said[-6000:]
        assert "duplicate" in said
        # Findings are not tried again, what could not be asked is; and no executor outlives its driver.
        pods = api.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector=job-name%3Dtwice-now")["items"]
        codes = [pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for pod in pods]
        assert codes.count(1) == 1, codes
        assert set(codes) <= {1, 2}, codes
        kube.wait(
            "the executors to be gone",
            lambda: not api.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={EXECUTORS}")["items"],
            60,
        )


def shared_claim(api: kube.Api, namespace: str) -> None:
    """The volume that driver and executors share: pods of one node share any, those of several need ReadWriteMany."""
    several = len(api.get("/api/v1/nodes")["items"]) > 1
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM, "namespace": namespace},
            "spec": {
                "accessModes": ["ReadWriteMany" if several else "ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    )


def counted(api: kube.Api, release: kube.Release, application: str) -> dict[str, int]:
    """The outcomes of an application's transactions by the agent's counters; those above zero."""
    [pod] = api.pods(release.namespace, release.name)
    page = api.page(release.namespace, kube.name_of(pod), "/metrics") or ""
    series = rf'(?m)^kafka_eos_transactions_total{{[^}}]*application="{application}",outcome="(\w+)"[^}}]*}} (\S+)'
    return {outcome: int(float(value)) for outcome, value in re.findall(series, page) if float(value)}


def reported(release: kube.Release, application: str) -> dict[str, int]:
    """The same by the rows on the volume."""
    pod = f"{release.fullname}-history-0"
    command = ("kafka-eos-exporter", "history", "report", "--input=/data/history", "--output=json")
    done = kube.kubectl("--namespace", release.namespace, "exec", pod, "--", *command, check=False)
    if not done.stdout.startswith("{"):
        return {}
    found = [
        found_application
        for found_application in json.loads(done.stdout)["applications"]
        if found_application["application"] == application
    ]
    return {
        outcome: count
        for found_application in found
        for outcome, count in found_application["outcomes"].items()
        if count
    }


def test_a_history_with_two_executors_has_the_rows_that_the_agent_counts(
    api: kube.Api, charts: Charts, broker: BrokerPod, namespace: str
) -> None:
    shared_claim(api, namespace)
    own = jobs_values(broker, "history")
    small = {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}}
    own["history"] |= {"enabled": True, "existingClaim": CLAIM, "executors": 2, "args": ["--interval=5s"]}
    own["history"] |= {"driverMemory": "512m", "executorMemory": "512m", "resources": small}
    own["history"]["conf"] = {"spark.kubernetes.executor.request.cores": "100m"}
    with kube.release(charts, "eos", namespace) as release:
        release.install([own])

        def produced_and_equal(stage: str) -> None:
            """More transactions, all ended when this ends: rows and counter meet above what was there before."""
            before = counted(api, release, "shared").get("committed", 0)
            broker.produce("orders", "shared-1", 300)
            agent = kube.wait(f"the agent's counter {stage}", lambda: settled(before), JOB_SECONDS, 5)
            kube.wait(f"the rows {stage}", lambda: reported(release, "shared") == agent, JOB_SECONDS, 2)
            assert counted(api, release, "shared") == agent

        last: list[dict[str, int]] = []

        def settled(before: int) -> dict[str, int]:
            """The agent's counters once two looks agree, which a read of the log each second has then passed."""
            last.append(counted(api, release, "shared"))
            return last[-1] if last[-1].get("committed", 0) > before and last[-1] == last[-2] else {}

        last.append({})
        executors = kube.wait(
            "two executors", lambda: len(now := running_executors(api, namespace)) == 2 and now, JOB_SECONDS
        )
        produced_and_equal("by two executors")
        # An executor that is lost, and then the driver: no row is lost, none is there twice.
        kube.kubectl("--namespace", namespace, "delete", "pod", min(executors), "--wait=false")
        produced_and_equal("after an executor was lost")
        gone = running_executors(api, namespace)
        kube.kubectl("--namespace", namespace, "delete", "pod", f"{release.fullname}-history-0")
        produced_and_equal("after the driver was lost")
        assert not gone & running_executors(api, namespace)

        release.uninstall()
        kube.wait("nothing to be left", lambda: not kube.left_of(release), 180)
        assert not api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]


def test_the_history_keeps_rows_on_its_volume(api: kube.Api, broker: BrokerPod, namespace: str) -> None:
    """The example, with this cluster's image and broker, and no credentials."""
    broker.produce("orders", "history-1", 300)
    example = yaml.safe_load(HISTORY.read_text())
    pod = example["spec"]["template"]["spec"]
    [container] = pod["containers"]
    container["image"] = kube.image("CLUSTER_SPARK_IMAGE")
    container["command"] = [found_application.replace("2g", "512m") for found_application in container["command"]]
    container["resources"] = {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}}
    container["args"] = [
        argument.replace("kafka-1:9093", broker.address).replace("--interval=1m", "--interval=5s")
        for argument in container["args"]
        if "command-config" not in argument
    ]
    container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] != "secrets"]
    pod["volumes"] = [volume for volume in pod["volumes"] if volume["name"] != "secrets"]
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
