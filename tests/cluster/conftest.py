"""Fixtures of all tests of the cluster: helm, the API, a broker in a pod, the operator's definitions."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chart.tools import Charts, install
from tests.cluster import kube
from tests.helpers.time_limits import allow

TEST_SECONDS = 900
OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.89.0"
PORT = 9092
_NUMBERS = itertools.count()
"""Namespaces are removed in the background: no name is used twice."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    allow(TEST_SECONDS, Path(__file__).parent, items)


@pytest.fixture(scope="session")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Charts:
    return Charts(install(), tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def api() -> Iterator[kube.Api]:
    with kube.api() as found:
        print(found.get("/version")["gitVersion"])
        yield found


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace for one test."""
    word = "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower().removeprefix("test_"))
    with kube.namespace(f"eos-{os.getpid()}-{next(_NUMBERS)}-{word[:20].strip('-')}") as found:
        yield found


@pytest.fixture(scope="session")
def definitions() -> Iterator[None]:
    """The Prometheus operator's own CustomResourceDefinitions, from its Go module. Those that were there stay."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", OPERATOR], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    folder = Path(json.loads(done.stdout)["Dir"]) / "example" / "prometheus-operator-crd"
    there = set(kube.kubectl("get", "crds", "--output=name").stdout.split())
    ours = []
    for kind in ("servicemonitors", "podmonitors", "prometheusrules", "alertmanagerconfigs"):
        name = f"customresourcedefinition.apiextensions.k8s.io/{kind}.monitoring.coreos.com"
        if name not in there:
            kube.kubectl("apply", "--server-side", "--filename", folder / f"monitoring.coreos.com_{kind}.yaml")
            ours.append(name)
    if ours:
        kube.kubectl("wait", "--for=condition=Established", "--timeout=60s", *ours)
    yield
    for name in ours:
        kube.kubectl("delete", name)


@dataclass(frozen=True)
class BrokerPod:
    """A Kafka of one broker in a pod, at the pod's address: it needs neither DNS nor a Service."""

    namespace: str
    address: str

    def command(self, *words: str) -> list[str]:
        return ["kubectl", "--namespace", self.namespace, "exec", "kafka", "--", *words]

    def create(self, topic: str, partitions: int = 1) -> None:
        tool = ("/opt/kafka/bin/kafka-topics.sh", "--bootstrap-server", self.address, "--create", "--if-not-exists")
        words = (*tool, "--topic", topic, "--partitions", str(partitions))
        kube.kubectl(*self.command(*words)[1:])

    def producing(self, topic: str, transactional_id: str, *, records: int, milliseconds: int) -> list[str]:
        """The command that writes records in transactions of this length, by Kafka's own tool."""
        return self.command(
            *("/opt/kafka/bin/kafka-producer-perf-test.sh", "--topic", topic, "--num-records", str(records)),
            *("--throughput", "50", "--record-size", "100", "--transactional-id", transactional_id),
            *("--transaction-duration-ms", str(milliseconds), "--producer-props"),
            *(f"bootstrap.servers={self.address}", "transaction.timeout.ms=900000"),
        )

    def produce(self, topic: str, transactional_id: str, records: int) -> None:
        words = self.producing(topic, transactional_id, records=records, milliseconds=500)
        done = subprocess.run(words, capture_output=True, text=True, timeout=kube.RUN_SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def _pod() -> dict[str, object]:
    settings = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": f"PLAINTEXT://:{PORT},CONTROLLER://localhost:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://$(POD_IP):{PORT}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "4",
    }
    address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    container = {
        "name": "kafka",
        "image": kube.image("CLUSTER_KAFKA_IMAGE"),
        "env": [address, *({"name": key, "value": value} for key, value in settings.items())],
        "securityContext": {**kube.RESTRICTED, "runAsUser": 1000},
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1, "failureThreshold": 120},
    }
    spec = {"containers": [container], "automountServiceAccountToken": False, "enableServiceLinks": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kafka"}, "spec": spec}


@pytest.fixture(scope="session")
def broker(api: kube.Api) -> Iterator[BrokerPod]:
    with ExitStack() as stack:
        name = stack.enter_context(kube.namespace(f"eos-{os.getpid()}-kafka"))
        kube.kubectl("--namespace", name, "apply", "--filename", "-", text=json.dumps(_pod()))
        pod = kube.wait(
            "the broker",
            lambda: kube.ready(found := api.get(f"/api/v1/namespaces/{name}/pods/kafka")) and found,
        )
        found = BrokerPod(name, f"{pod['status']['podIP']}:{PORT}")
        for topic in ("orders", "payments"):
            found.create(topic)
        yield found
