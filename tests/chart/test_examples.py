"""The examples beside the chart: sidecars as a chart that depends on it, and the jobs as plain objects."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from exporter.cli import parser
from exporter.config import ConfigSource
from tests.chart.tools import CHART, EXAMPLE, KUBERNETES, ROOT, Charts, Object, of_kind
from tests.container.dockerfile import stages

JOBS = sorted((ROOT / "docs" / "examples" / "kubernetes").glob("*.yaml"))


@pytest.fixture(scope="module")
def sidecars(charts: Charts, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The example, rendered from copies: helm keeps the charts that another depends on in its folder."""
    folder = tmp_path_factory.mktemp("sidecars")
    shutil.copytree(CHART, folder / "kafka-eos-exporter")
    example = shutil.copytree(EXAMPLE, folder / "examples" / "sidecars")
    charts.helm("dependency", "build", example)
    charts.helm("lint", "--strict", example)
    return charts.helm("template", "app", example)


def pods(objects: list[Object]) -> dict[str, tuple[Object, Object]]:
    """By name: the labels of the pod, and what it holds; of a SparkApplication the driver's."""
    found = {
        manifest["metadata"]["name"]: (
            manifest["spec"]["template"]["metadata"]["labels"],
            manifest["spec"]["template"]["spec"],
        )
        for manifest in of_kind(objects, "Deployment")
    }
    for manifest in of_kind(objects, "SparkApplication"):
        driver = manifest["spec"]["driver"]
        pod = {"containers": driver["sidecars"], "volumes": manifest["spec"]["volumes"]}
        found[manifest["metadata"]["name"]] = (driver["labels"], pod)
    return found


def test_sidecars_are_valid_beside_all_three(charts: Charts, sidecars: str) -> None:
    charts.judge(sidecars)
    objects = [resource for resource in yaml.safe_load_all(sidecars) if resource]
    assert len(of_kind(objects, "Deployment")) == 2
    assert len(pods(objects)) == 3


def test_a_sidecar_has_its_volumes_settings_and_label(sidecars: str, tmp_path: Path) -> None:
    objects = [resource for resource in yaml.safe_load_all(sidecars) if resource]
    settings = {
        manifest["metadata"]["name"]: manifest["data"]["config.yml"] for manifest in of_kind(objects, "ConfigMap")
    }
    (tmp_path / "token").write_text("made up")
    for labels, pod in pods(objects).values():
        assert labels["kafka-eos-exporter/sidecar"] == "true"
        [ours] = [container for container in pod["containers"] if container["name"] == "kafka-eos-exporter"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert {mount["name"] for mount in ours["volumeMounts"]} == volumes.keys()
        # The pod's security is its owner's: the container brings its own.
        assert ours["securityContext"]["runAsNonRoot"] is True
        assert ours["securityContext"]["readOnlyRootFilesystem"] is True
        assert parser().parse_args(ours["args"])
        file = tmp_path / "config.yml"
        text = settings[volumes["eos-config"]["configMap"]["name"]]
        file.write_text(text.replace("/etc/eos-ingest", str(tmp_path)))
        [cluster] = ConfigSource(file, {}).load().clusters
        assert (cluster.name, cluster.watch) == ("prod", False)


def test_one_pod_monitor_finds_every_sidecar(sidecars: str) -> None:
    objects = [resource for resource in yaml.safe_load_all(sidecars) if resource]
    [monitor] = of_kind(objects, "PodMonitor")
    assert monitor["spec"]["selector"]["matchLabels"] == {"kafka-eos-exporter/sidecar": "true"}
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    for _, pod in pods(objects).values():
        ports = {port["name"] for container in pod["containers"] for port in container.get("ports", ())}
        assert endpoint["port"] in ports


@pytest.mark.parametrize("file", JOBS, ids=lambda file: file.stem)
def test_every_job_is_valid(charts: Charts, file: Path) -> None:
    charts.judge(file.read_text(), KUBERNETES[-1:])


@pytest.mark.parametrize("file", JOBS, ids=lambda file: file.stem)
def test_every_job_gives_the_command_what_it_takes(file: Path) -> None:
    job = yaml.safe_load(file.read_text())["spec"]
    script = next(
        resource.words[-1] + Path(resource.words[0]).name
        for resource in stages((ROOT / "Dockerfile").read_text())["spark"].all("COPY")
        if resource.words[0].endswith("job.py")
    )
    if "arguments" in job:
        words, main = job["arguments"], job["mainApplicationFile"].removeprefix("local://")
    else:
        job = job.get("jobTemplate", {}).get("spec", job)
        [container] = job["template"]["spec"]["containers"]
        words, main = container["args"], container["command"][-1]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert job["template"]["spec"]["securityContext"]["runAsUser"] == 10618
    assert parser().parse_args(words)
    assert main == script
