"""The chart as helm renders it, and the tools that judge what comes out."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "kafka-eos-exporter"
EXAMPLE = ROOT / "helm" / "examples" / "sidecars"
CI = sorted((CHART / "ci").glob("*-values.yaml"))
KUBERNETES = ("1.25.0", "1.37.0")
CUSTOM = ("ServiceMonitor", "PodMonitor", "PrometheusRule", "AlertmanagerConfig", "SparkApplication")
GET_TOOLS_SECONDS = 3000
RUN_SECONDS = 120

Object = dict[str, Any]


def install() -> Path:
    """The folder of the tools. The first time they are built, which takes minutes."""
    done = subprocess.run(
        [ROOT / "scripts" / "install-chart-tools"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=GET_TOOLS_SECONDS,
        check=True,
    )
    return Path(done.stdout.strip())


class ToolRefusedError(Exception):
    """A tool said no; the text is what it said."""


@dataclass(frozen=True)
class Charts:
    """helm and its judges, with a home of their own."""

    tools: Path
    home: Path
    _rendered: dict[tuple[Path, Path], str] = field(default_factory=dict)
    """By file of values and chart: many tests look at the same ones."""

    def helm(self, *words: str | Path) -> str:
        return self.run(self.tools / "helm", *words)

    def run(self, *words: str | Path, text: str = "") -> str:
        """Return what a command prints. Raises ToolRefusedError."""
        home = {f"HELM_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            words,
            input=text,
            env={**os.environ, **home},
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        if done.returncode:
            raise ToolRefusedError(done.stdout + done.stderr)
        return done.stdout

    def text(self, values: Path | Mapping[str, Any], chart: Path = CHART) -> str:
        """The rendered objects of a release called eos, in namespace kafka. Raises ToolRefusedError."""
        if isinstance(values, Path):
            if (values, chart) not in self._rendered:
                self._rendered[values, chart] = self._template(values, chart)
            return self._rendered[values, chart]
        given = self.home / "values.yaml"
        given.write_text(yaml.safe_dump(dict(values)))
        return self._template(given, chart)

    def _template(self, values: Path, chart: Path) -> str:
        return self.helm("template", "eos", chart, "--namespace", "kafka", "--values", values)

    def objects(self, values: Path | Mapping[str, Any], chart: Path = CHART) -> list[Object]:
        """As ``text``, parsed."""
        return [resource for resource in yaml.load_all(self.text(values, chart), yaml.CSafeLoader) if resource]

    def judge(self, text: str, versions: Sequence[str] = KUBERNETES) -> None:
        """Kubernetes' schemas, oldest and newest, and the operators' types. Raises ToolRefusedError."""
        for version in versions:
            schema = f"{self.tools}/schemas/{version}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
            self.run(
                *(self.tools / "kubeconform", "-strict", "-kubernetes-version", version),
                *("-skip", ",".join(CUSTOM), "-schema-location", schema, "-"),
                text=text,
            )
        self.run(self.tools / "crds", text=text)


def of_kind(objects: Sequence[Object], *kinds: str) -> list[Object]:
    return [resource for resource in objects if resource["kind"] in kinds]


def workloads(objects: Sequence[Object]) -> list[Object]:
    return of_kind(objects, "Deployment", "StatefulSet")


def container(workload: Object) -> Object:
    """The agent's container."""
    [found] = [
        container
        for container in workload["spec"]["template"]["spec"]["containers"]
        if container["name"] == "kafka-eos-exporter"
    ]
    return dict(found)


def announced(values: Path) -> set[str]:
    """Return what a values file of ci/ says in its comments that must exist before it, as KIND/NAME."""
    return set(re.findall(r"[A-Z][A-Za-z]+/[\w.-]+", "".join(re.findall(r"(?m)^#.*", values.read_text()))))


def needed(objects: Sequence[Object]) -> Iterator[str]:
    """Yield what the rendered objects rest on, as KIND/NAME; what they bring themselves is among it."""
    yield from (
        f"Namespace/{found}"
        for described in objects
        if (found := described["metadata"].get("namespace", "kafka")) != "kafka"
    )
    custom = {
        custom_resource["kind"]
        for custom_resource in objects
        if custom_resource["apiVersion"].startswith("monitoring.coreos.com/")
    }
    yield from (f"CustomResourceDefinition/{kind.lower()}s.monitoring.coreos.com" for kind in custom)
    for monitor in of_kind(objects, "ServiceMonitor"):
        user = monitor["spec"]["endpoints"][0].get("basicAuth")
        if user:
            yield f"Secret/{user['password']['name']}"
    for workload in workloads(objects):
        pod = workload["spec"]["template"]["spec"]
        yield f"ServiceAccount/{pod['serviceAccountName']}"
        for volume in pod["volumes"]:
            if "configMap" in volume:
                yield f"ConfigMap/{volume['configMap']['name']}"
            if "secret" in volume:
                yield f"Secret/{volume['secret']['secretName']}"
        for resource in container(workload).get("envFrom", ()):
            yield f"ConfigMap/{resource['configMapRef']['name']}"
        for resource in container(workload).get("env", ()):
            if "secretKeyRef" in resource.get("valueFrom", {}):
                yield f"Secret/{resource['valueFrom']['secretKeyRef']['name']}"
        for claim in workload["spec"].get("volumeClaimTemplates", ()):
            if name := claim["spec"].get("storageClassName"):
                yield f"StorageClass/{name}"
