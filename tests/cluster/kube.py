"""The cluster that KUBECONFIG names: its API through one ``kubectl proxy``, and helm."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from exporter.model import Deadline
from tests.chart.tools import CHART, Charts, Object

RUN_SECONDS = 300
ASK_SECONDS = 30
READY_SECONDS = 240
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
ENFORCED = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"}


def image(variable: str) -> str:
    """The name of an image as the nodes know it, by an environment variable that ``make cluster`` sets."""
    found = os.environ.get(variable, "")
    assert found, f"{variable} is not set: run `make cluster`"
    return found


def image_values(name: str) -> dict[str, str]:
    """An image's name as values of the chart."""
    repository, _, tag = name.rpartition(":")
    return {"registry": "", "repository": repository, "tag": tag, "digest": ""}


def kubectl(*words: str | Path, text: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["kubectl", *words], input=text, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )
    assert not check or done.returncode == 0, f"kubectl {' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
    return done


def apply(*objects: Object) -> None:
    kubectl("apply", "--server-side", "--filename", "-", text=yaml.safe_dump_all(objects))


def wait(what: str, true: Callable[[], Any], seconds: float = READY_SECONDS, every: float = 0.5) -> Any:
    """Wait until this gives something, and return it."""
    until = Deadline.after(seconds)
    while not (found := true()):
        assert not until.over, f"not within {seconds:.0f} s: {what}"
        time.sleep(every)
    return found


def ready(pod: Object) -> bool:
    """Whether the endpoints have it: it is ready, and does not end."""
    conditions = {condition["type"]: condition["status"] for condition in pod["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def name_of(thing: Object) -> str:
    return str(thing["metadata"]["name"])


@dataclass(frozen=True)
class Api:
    """Kubernetes' API. Methods that ask raise HTTPError for what it refuses."""

    address: str

    def ask(self, path: str, body: Object | None = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://{self.address}{path}", data, {"Content-Type": "application/json"} if data else {}
        )
        with urllib.request.urlopen(request, timeout=ASK_SECONDS) as answer:  # noqa: S310 -- kubectl proxy, on loopback
            found: bytes = answer.read()
            return found

    def get(self, path: str) -> Object:
        return dict(json.loads(self.ask(path)))

    def pods(self, namespace: str, release: str) -> list[Object]:
        """The agents' pods of a release."""
        labels = f"app.kubernetes.io/instance={release},app.kubernetes.io/component=agent"
        found: list[Object] = self.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={labels}")["items"]
        return found

    def page(self, namespace: str, pod: str, path: str, scheme: str = "http") -> str | None:
        """Return what a pod's port answers to GET; None when it does not."""
        try:
            return self.ask(f"/api/v1/namespaces/{namespace}/pods/{scheme}:{pod}:10618/proxy{path}").decode()
        except (urllib.error.HTTPError, OSError):
            return None

    def evict(self, namespace: str, pod: str) -> int:
        """The status of a request to evict: 201, or 429 where a disruption budget forbids it."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        try:
            self.ask(f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction", body)
        except urllib.error.HTTPError as refusal:
            return refusal.code
        return 201


@contextmanager
def api() -> Iterator[Api]:
    proxy = subprocess.Popen(
        ["kubectl", "proxy", "--port=0", "--accept-hosts=^127[.]0[.]0[.]1$"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert proxy.stdout is not None
        said = proxy.stdout.readline()
        address = re.search(r"127\.0\.0\.1:\d+", said)
        assert address, f"kubectl proxy: {said!r}"
        yield Api(address[0])
    finally:
        proxy.terminate()
        proxy.wait(timeout=10)
        if proxy.stdout is not None:
            proxy.stdout.close()


@contextmanager
def namespace(name: str) -> Iterator[str]:
    """A new namespace that enforces the restricted profile, removed with all that is in it."""
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": ENFORCED}})
    try:
        yield name
    finally:
        kubectl("delete", "namespace", name, "--wait=false")


@dataclass(frozen=True)
class Release:
    """A release of the chart in a namespace."""

    charts: Charts
    name: str
    namespace: str

    def install(self, values: Sequence[Path | Mapping[str, Any]], chart: Path = CHART, *, wait: bool = True) -> None:
        """Install or upgrade. Raises ToolRefusedError where helm does not succeed within its time."""
        files: list[str | Path] = []
        for at, value in enumerate(values):
            if not isinstance(value, Path):
                file = self.charts.home / f"{self.name}-{at}.yaml"
                file.write_text(yaml.safe_dump(dict(value)))
                value = file  # noqa: PLW2901 -- the same values, as a file
            files += ["--values", value]
        waiting = ["--wait", "--timeout", f"{READY_SECONDS}s"] if wait else []
        self.charts.helm("upgrade", "--install", self.name, chart, "--namespace", self.namespace, *files, *waiting)

    def uninstall(self) -> None:
        self.charts.helm("uninstall", self.name, "--namespace", self.namespace, "--wait", "--ignore-not-found")

    @property
    def fullname(self) -> str:
        return f"{self.name}-kafka-eos-exporter"


@contextmanager
def release(charts: Charts, name: str, in_namespace: str) -> Iterator[Release]:
    """A release to install, uninstalled at the end; what its pods printed is shown where the test failed."""
    found = Release(charts, name, in_namespace)
    try:
        yield found
    except BaseException:
        for words in (
            ("get", "pods,events"),
            ("logs", "--tail=30", "--selector", f"app.kubernetes.io/instance={name}"),
        ):
            print(kubectl("--namespace", in_namespace, *words, check=False).stdout[-6000:])
        raise
    finally:
        found.uninstall()


def left_of(release: Release) -> set[str]:
    """Return the objects of a release that still exist, as KIND/NAME: by its label, anywhere, and helm's records."""
    kinds = kubectl("api-resources", "--verbs=list", "--output=name").stdout.split()
    asked = ",".join(sorted(set(kinds) - {"events", "events.events.k8s.io", "componentstatuses"}))
    label = f"app.kubernetes.io/instance={release.name}"
    found = kubectl("get", asked, "--all-namespaces", "--selector", label, "--output=name").stdout.split()
    records = kubectl(
        *("get", "secrets,configmaps", "--namespace", release.namespace, "--output=name"),
        *("--selector", f"owner=helm,name={release.name}"),
    ).stdout.split()
    return {*found, *records}
