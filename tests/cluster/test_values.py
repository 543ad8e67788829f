"""Every values file of the chart's ci/ is installed, serves, and leaves nothing when it is uninstalled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.certificates import Authority
from tests.chart.tools import CI, Charts, Object, announced, of_kind
from tests.cluster import kube
from tests.cluster.conftest import BrokerPod

ZONE = "topology.kubernetes.io/zone"
PLAIN = "clusters: [{name: prod, kafka: {bootstrap.servers: 'kafka:9092'}}]"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Return what is in the ConfigMaps and Secrets that the values files need, as a platform team would have it. A need
    without an entry fails its test.
    """
    folder = tmp_path_factory.mktemp("authority")
    authority = Authority(folder)
    issued = authority.issue("eos", ("eos-kafka-eos-exporter",))
    ca, certificate, key = (
        Path(resource).read_text() for resource in (authority.certificate, issued.certificate, issued.key)
    )
    return {
        "ConfigMap/eos-environment": {"KAFKA_EOS_CLUSTERS__0__NAME": "prod"},
        "ConfigMap/krb5": {"krb5.conf": "[libdefaults]\n"},
        "Secret/eos": {"password": "made-up"},
        "Secret/eos-canary": {"password": "made-up"},
        "Secret/eos-kafka": {"password": "made-up", "ca.crt": ca},
        "Secret/eos-settings": {"settings.yaml": PLAIN},
        "Secret/eos-scrape": {"username": "prometheus", "password": "password"},
        "Secret/eos-tls": {"tls.crt": certificate, "tls.key": key, "ca.crt": ca},
        "Secret/eos-web": {"web.yml": yaml.safe_dump({"tls_server_config": {"cert": certificate, "key": key}})},
    }


@contextmanager
def made_first(needs: set[str], namespace: str, data: dict[str, dict[str, str]]) -> Iterator[None]:
    """Return what must exist before. Namespaces that were there are left as they are."""
    with ExitStack() as stack:
        for need in sorted(needs):
            kind, _, name = need.partition("/")
            if kind == "Namespace":
                if kube.kubectl("get", "namespace", name, check=False).returncode:
                    stack.enter_context(kube.namespace(name))
            elif kind == "ServiceAccount":
                kube.apply({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}})
            elif kind in {"ConfigMap", "Secret"}:
                meta = {"name": name, "namespace": namespace}
                field = "data" if kind == "ConfigMap" else "stringData"
                kube.apply({"apiVersion": "v1", "kind": kind, "metadata": meta, field: data[need]})
            else:
                assert kind in {"CustomResourceDefinition", "StorageClass"}, f"{need}: how is it made?"
        yield


def default_class(api: kube.Api) -> str:
    """The cluster's default StorageClass."""
    found = [
        kube.name_of(item)
        for item in api.get("/apis/storage.k8s.io/v1/storageclasses")["items"]
        if item["metadata"].get("annotations", {}).get("storageclass.kubernetes.io/is-default-class") == "true"
    ]
    assert found, "the cluster has no default StorageClass: volumes cannot be tried"
    return found[0]


def adapted(api: kube.Api, given: dict[str, Any], broker: BrokerPod) -> dict[str, Any]:
    """Return what is this cluster's: the image, the broker, the StorageClass; and in place of containers that are made
    up, one that does nothing.
    """
    image = kube.image("CLUSTER_IMAGE")
    over: dict[str, Any] = {"image": kube.image_values(image)}
    if given.get("bootstrapServers"):
        over["bootstrapServers"] = broker.address
    if "storageClassName" in given.get("state", {}).get("persistence", {}):
        over["state"] = {"persistence": {"storageClassName": default_class(api)}}
    for kind, code in (("initContainers", "pass"), ("extraContainers", "import signal; signal.sigwait([15])")):
        if kind in given:
            over[kind] = [{**resource, "image": image, "command": ["python", "-c", code]} for resource in given[kind]]
    return over


def zones(api: kube.Api, stack: ExitStack) -> int:
    """How many zones the nodes are in; where none has a label, all get the same one for this test."""
    nodes = api.get("/api/v1/nodes")["items"]
    found = {node["metadata"]["labels"].get(ZONE) for node in nodes} - {None}
    if not found:
        for node in nodes:
            kube.kubectl("label", "node", kube.name_of(node), f"{ZONE}=one")
            stack.callback(kube.kubectl, "label", "node", kube.name_of(node), f"{ZONE}-")
        found = {"one"}
    return len(found)


def agents(given: dict[str, Any]) -> int:
    """How many pods of agents these values ask for."""
    return 0 if given.get("mode") == "sidecar" else int(given.get("replicas", 1))


@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize("values", CI, ids=lambda file: file.stem.removesuffix("-values"))
def test_every_values_file_installs_serves_and_leaves_nothing(
    values: Path,
    api: kube.Api,
    charts: Charts,
    broker: BrokerPod,
    namespace: str,
    data: dict[str, dict[str, str]],
) -> None:
    given = yaml.safe_load(values.read_text())
    where = given.get("namespaceOverride", namespace)
    with ExitStack() as stack:
        stack.enter_context(made_first(announced(values), namespace, data))
        expected = agents(given)
        if given.get("affinity"):
            expected = min(expected, zones(api, stack))
        whole = expected == agents(given)
        release = stack.enter_context(kube.release(charts, f"eos-{values.stem.removesuffix('-values')}", namespace))
        release.install([values, adapted(api, given, broker)], wait=whole)

        def serving() -> list[Object]:
            found = [pod for pod in api.pods(where, release.name) if kube.ready(pod)]
            return found if len(found) == expected else []

        pods = kube.wait(f"{expected} agents", serving) if expected else []
        if not whole:
            # A required anti-affinity by zone: what finds no zone of its own waits, and Kubernetes says why.
            waiting = [pod for pod in api.pods(where, release.name) if not kube.ready(pod)]
            assert [resource["status"]["phase"] for resource in waiting] == ["Pending"] * (agents(given) - expected)
            assert "anti-affinity" in json.dumps([resource["status"]["conditions"] for resource in waiting])
        for pod in pods:
            assert [status["restartCount"] for status in pod["status"]["containerStatuses"]] == [0] * len(
                pod["spec"]["containers"]
            )
            scheme = "https" if given.get("webConfig") else "http"
            if "basic_auth_users" not in given.get("webConfig", {}).get("content", {}):
                prefix = "/eos" if "/eos" in json.dumps(given.get("extraArgs", [])) else ""
                page = api.page(where, kube.name_of(pod), f"{prefix}/metrics", scheme)
                assert "kafka_eos_exporter_build_info{" in (page or "")
        stored_as_rendered(charts, release)
        release.uninstall()
        kept = given.get("state", {}).get("persistence", {}).get("whenDeleted") == "Retain"
        claims = {f"persistentvolumeclaim/{claim_name(pod)}" for pod in pods if kept}
        kube.wait("nothing to be left", lambda: kube.left_of(release) == claims, 120)


def claim_name(pod: Object) -> str:
    [found] = [
        volume["persistentVolumeClaim"] for volume in pod["spec"]["volumes"] if "persistentVolumeClaim" in volume
    ]
    return str(found["claimName"])


CUSTOM = (
    "ServiceMonitor",
    "PodMonitor",
    "PrometheusRule",
    "AlertmanagerConfig",
    "NetworkPolicy",
    "PodDisruptionBudget",
)


def stored_as_rendered(charts: Charts, release: kube.Release) -> None:
    """The API server has what helm rendered: it drops fields of custom resources that their definitions do not know."""
    manifest = charts.helm("get", "manifest", release.name, "--namespace", release.namespace)
    for rendered in of_kind([resource for resource in yaml.safe_load_all(manifest) if resource], *CUSTOM):
        meta = rendered["metadata"]
        text = kube.kubectl(
            *("--namespace", meta["namespace"], "get", rendered["kind"], meta["name"], "--output=json")
        ).stdout
        missing = list(lost(rendered["spec"], json.loads(text)["spec"], rendered["kind"]))
        assert not missing, f"{rendered['kind']} {meta['name']}: not stored: {missing}"


def lost(rendered: Any, stored: Any, path: str) -> Iterator[str]:
    """Paths of what was rendered and is not stored."""
    if isinstance(rendered, dict) and isinstance(stored, dict):
        for key, value in rendered.items():
            yield from lost(value, stored.get(key), f"{path}.{key}")
    elif isinstance(rendered, list) and isinstance(stored, list) and len(rendered) == len(stored):
        for at, (left, right) in enumerate(zip(rendered, stored, strict=True)):
            yield from lost(left, right, f"{path}[{at}]")
    elif rendered != stored and rendered not in (None, {}, []):
        yield f"{path}: {rendered!r} became {stored!r}"
