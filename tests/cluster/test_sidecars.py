"""The example of sidecars: the agent in the pod of a producer, found by the example's PodMonitor."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.chart.tools import CHART, EXAMPLE, Charts, of_kind
from tests.cluster import kube
from tests.cluster.conftest import BrokerPod

SLEEP = ["python", "-c", "import signal; signal.sigwait([15])"]


@pytest.mark.usefixtures("definitions")
def test_the_sidecar_serves_beside_a_producer(
    api: kube.Api, charts: Charts, broker: BrokerPod, namespace: str, tmp_path: Path
) -> None:
    """Of the example, what belongs to the producer: its own image is made up, and so is that of the two others."""
    shutil.copytree(CHART, tmp_path / "kafka-eos-exporter")
    example = shutil.copytree(EXAMPLE, tmp_path / "examples" / "sidecars")
    charts.helm("dependency", "build", example)
    image = kube.image("CLUSTER_IMAGE")
    values = tmp_path / "values.yaml"
    cluster = {"name": "prod", "watch": False, "kafka": {"bootstrap.servers": broker.address}}
    producer = {
        "image": kube.image_values(image),
        "config": {"clusters": [cluster], "producers": [{"jolokia": "http://127.0.0.1:8778/jolokia"}]},
    }
    values.write_text(yaml.safe_dump({"producer-eos": producer}))
    text = charts.helm("template", "app", example, "--namespace", namespace, "--values", values)
    objects = [resource for resource in yaml.safe_load_all(text) if resource]
    [deployment] = [
        manifest for manifest in of_kind(objects, "Deployment") if manifest["metadata"]["name"] == "app-orders"
    ]
    pod = deployment["spec"]["template"]["spec"]
    [application] = [container for container in pod["containers"] if container["name"] == "orders"]
    # The application is one that does nothing; all else is the example's.
    application |= {"image": image, "command": SLEEP, "securityContext": {**kube.RESTRICTED, "runAsUser": 10618}}
    kube.apply(
        *(_inside(resource, namespace) for resource in (deployment, *of_kind(objects, "ConfigMap", "PodMonitor")))
    )
    words = ("--namespace", namespace, "rollout", "status", "deployment/app-orders", f"--timeout={kube.READY_SECONDS}s")
    kube.kubectl(*words)
    [monitor] = of_kind(objects, "PodMonitor")
    [(key, value)] = monitor["spec"]["selector"]["matchLabels"].items()
    found = api.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={key}%3D{value}")["items"]
    assert len(found) == 2
    for pod_name in map(kube.name_of, found):

        def page(pod_name: str = pod_name) -> str:
            return api.page(namespace, pod_name, "/metrics") or ""

        assert "kafka_eos_exporter_build_info{" in page()
        # It watches the producer only: Jolokia's agent is not there, which it says; the cluster is another agent's.
        kube.wait("the producer's source", lambda: 'source="producers"' in page())
        assert 'source="txnlog"' not in page()
    assert all(map(kube.ready, found))


def _inside(thing: dict[str, object], namespace: str) -> dict[str, object]:
    metadata = dict(thing["metadata"])  # type: ignore[call-overload]
    return {**thing, "metadata": {**metadata, "namespace": namespace}}
