"""Two replicas through an upgrade and a drain, volumes, probes: what only a cluster shows."""

from __future__ import annotations

import re
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.tools import CHART, ROOT, Charts
from tests.cluster import kube
from tests.cluster.conftest import BrokerPod

KEEP_FIRING_SECONDS = 7 * 60
"""keep_firing_for of the alerts on stalls."""
STALL_SECONDS = 600_000
STATE = "/var/lib/kafka-eos-exporter"
LINKED = ("alerts/generated", "dashboards/generated")
"""Folders that the chart's files/ has links into."""
PRESENT = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]


def git(*words: str) -> str:
    done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout if done.returncode == 0 else ""


def previous_chart(folder: Path) -> Path:
    """The chart as it was before its version became the present one; without that history, the present one with
    another version, which changes no more than its labels.
    """
    path = CHART.relative_to(ROOT)
    for commit in git("log", "--format=%H", "--", f"{path}/Chart.yaml").split():
        text = git("show", f"{commit}:{path}/Chart.yaml")
        if text and yaml.safe_load(text)["version"] != PRESENT:
            newest = git(
                "log", "--reverse", "--ancestry-path", "--format=%H", f"{commit}..HEAD", "--", f"{path}/Chart.yaml"
            )
            before = f"{newest.split()[0]}^"
            archive = folder / "chart.tar"
            archive.write_bytes(
                subprocess.run(
                    ["git", "-C", ROOT, "archive", before, str(path), *LINKED],
                    capture_output=True,
                    timeout=60,
                    check=True,
                ).stdout
            )
            with tarfile.open(archive) as opened:
                opened.extractall(folder, filter="data")
            return folder / path
    copy = folder / "kafka-eos-exporter"
    subprocess.run(["cp", "-rL", CHART, copy], check=True, timeout=60)
    (copy / "Chart.yaml").write_text(
        (CHART / "Chart.yaml").read_text().replace(f"version: {PRESENT}", "version: 0.0.1")
    )
    return copy


@contextmanager
def stalled(broker: BrokerPod, topic: str) -> Iterator[None]:
    """A transaction that is open over ``topic`` for as long as this is."""
    words = broker.producing(topic, "billing-1", records=1_000_000, milliseconds=STALL_SECONDS)
    producer = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        producer.terminate()
        producer.wait(timeout=30)
        # kubectl ends, and what it started does not.
        kube.kubectl(*broker.command("sh", "-c", "kill $(pgrep -f billing-1) || true")[1:], check=False)


@dataclass
class Watch(threading.Thread):
    """Asks all the time which agents are ready and what they answer."""

    api: kube.Api
    release: kube.Release
    over: threading.Event = field(default_factory=threading.Event)
    samples: int = 0
    seen: set[str] = field(default_factory=set)
    gaps: list[str] = field(default_factory=list)
    blind_since: float | None = None
    longest_blind: float = 0.0

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        while not self.over.is_set():
            self.look()
            self.over.wait(0.1)

    def look(self) -> None:
        now = time.monotonic()
        names = [
            kube.name_of(pod) for pod in self.api.pods(self.release.namespace, self.release.name) if kube.ready(pod)
        ]
        pages = [self.api.page(self.release.namespace, name, "/metrics") for name in names]
        self.samples += 1
        self.seen |= set(names)
        if not any(pages):
            self.gaps.append(f"at {now:.1f}: {len(names)} ready pods, no answer")
        if any(stalls(page) for page in pages):
            self.blind_since = None
        else:
            self.blind_since = self.blind_since or now
            self.longest_blind = max(self.longest_blind, now - self.blind_since)


def stalls(page: str | None) -> float:
    """Partitions that this page shows as stalled."""
    found = re.findall(r"^kafka_eos_stalled_partitions\{[^}]*\} (\S+)$", page or "", re.MULTILINE)
    return sum(map(float, found))


@pytest.fixture(scope="module")
def pair(
    charts: Charts, api: kube.Api, broker: BrokerPod, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kube.Release]:
    """Two replicas of the previous chart with a disruption budget, and a stall that both show."""
    with (
        kube.namespace(f"{broker.namespace}-pair") as where,
        stalled(broker, "payments"),
        kube.release(charts, "eos", where) as release,
    ):
        before = previous_chart(tmp_path_factory.mktemp("previous"))
        print("previous chart:", yaml.safe_load((before / "Chart.yaml").read_text())["version"])
        began = time.monotonic()
        release.install([pair_values(broker)], before)
        print(f"two replicas ready in {time.monotonic() - began:.1f} s")

        def shown() -> bool:
            pages = [api.page(where, kube.name_of(pod), "/metrics") for pod in api.pods(where, "eos")]
            return [stalls(page) for page in pages] == [1.0, 1.0]

        kube.wait("both replicas to show the stall", shown, 300)
        yield release


def pair_values(broker: BrokerPod) -> dict[str, Any]:
    return {
        "image": kube.image_values(kube.image("CLUSTER_IMAGE")),
        "replicas": 2,
        "bootstrapServers": broker.address,
        "podDisruptionBudget": {"enabled": True},
        "extraArgs": ["--lso.stall-after=5s"],
    }


def test_an_upgrade_from_the_previous_chart_leaves_no_gap(pair: kube.Release, api: kube.Api, broker: BrokerPod) -> None:
    old = {kube.name_of(pod) for pod in api.pods(pair.namespace, "eos")}
    watch = Watch(api, pair)
    watch.look()
    watch.start()
    began = time.monotonic()
    pair.install([pair_values(broker), {"podAnnotations": {"upgraded": "yes"}}])
    took = time.monotonic() - began
    kube.wait(
        "the new pods alone",
        lambda: old.isdisjoint(now := {kube.name_of(pod) for pod in api.pods(pair.namespace, "eos")}) and len(now) == 2,
    )
    kube.wait("the stall on the new pods", lambda: watch.blind_since is None)
    watch.over.set()
    watch.join(60)
    print(f"upgrade in {took:.1f} s, {watch.samples} looks; the stall was away for {watch.longest_blind:.1f} s at most")
    assert len(watch.seen) == 4, watch.seen
    assert watch.samples > 10
    assert not watch.gaps, watch.gaps
    assert watch.longest_blind < KEEP_FIRING_SECONDS
    deployment = api.get(f"/apis/apps/v1/namespaces/{pair.namespace}/deployments/{pair.fullname}")
    assert deployment["metadata"]["labels"]["helm.sh/chart"].endswith(PRESENT)


def test_the_budget_refuses_the_second_eviction_until_there_are_two_again(pair: kube.Release, api: kube.Api) -> None:
    first, second = (kube.name_of(pod) for pod in api.pods(pair.namespace, "eos"))
    assert api.evict(pair.namespace, first) == 201
    assert api.evict(pair.namespace, second) == 429
    assert api.page(pair.namespace, second, "/metrics")
    kube.wait("a replacement", lambda: sum(map(kube.ready, api.pods(pair.namespace, "eos"))) == 2)
    kube.wait("the budget to allow it", lambda: api.evict(pair.namespace, second) == 201, 60)


def test_a_rollback_to_the_previous_chart_is_taken(pair: kube.Release, api: kube.Api) -> None:
    pair.charts.helm("rollback", "eos", "1", "--namespace", pair.namespace, "--wait", "--timeout", "240s")
    deployment = api.get(f"/apis/apps/v1/namespaces/{pair.namespace}/deployments/{pair.fullname}")
    assert deployment["status"]["readyReplicas"] == 2
    assert "upgraded" not in deployment["spec"]["template"]["metadata"]["annotations"]


def test_a_volume_outlives_its_pod(api: kube.Api, charts: Charts, broker: BrokerPod, namespace: str) -> None:
    with kube.release(charts, "eos", namespace) as release:
        release.install([{**pair_values(broker), "replicas": 1, "state": {"persistence": {"enabled": True}}}])
        [pod] = api.pods(namespace, "eos")
        name = kube.name_of(pod)
        broker.produce("orders", "kept-1", 100)
        state = ("--namespace", namespace, "exec", name, "--", "sh", "-c", f"cat {STATE}/*/txnlog.json")
        kube.wait("state on the volume", lambda: "kept" in kube.kubectl(*state, check=False).stdout, 120)
        kube.kubectl("--namespace", namespace, "delete", "pod", name, "--wait=false")

        def back() -> bool:
            now = api.pods(namespace, "eos")
            return [kube.ready(resource) for resource in now] == [True] and now[0]["metadata"]["uid"] != pod[
                "metadata"
            ]["uid"]

        kube.wait("the same pod anew", back)
        assert "kept" in kube.kubectl(*state).stdout


def test_a_pod_whose_liveness_fails_is_restarted_and_keeps_its_state(
    api: kube.Api, charts: Charts, broker: BrokerPod, namespace: str
) -> None:
    with kube.release(charts, "eos", namespace) as release:
        wrong = {"httpGet": {"path": "/nothing", "port": "http"}, "periodSeconds": 2, "failureThreshold": 10}
        release.install([{**pair_values(broker), "replicas": 1, "livenessProbe": wrong}])
        [pod] = api.pods(namespace, "eos")
        mark = ("sh", "-c", "echo kept > /var/lib/kafka-eos-exporter/mark")
        kube.kubectl("--namespace", namespace, "exec", kube.name_of(pod), "--", *mark)

        def restarted() -> bool:
            [now] = api.pods(namespace, "eos")
            return bool(now["status"]["containerStatuses"][0]["restartCount"]) and kube.ready(now)

        kube.wait("a restart", restarted, 120)
        read = ("exec", kube.name_of(pod), "--", "cat", "/var/lib/kafka-eos-exporter/mark")
        assert kube.kubectl("--namespace", namespace, *read).stdout.strip() == "kept"


def test_an_agent_without_a_kafka_is_ready(api: kube.Api, charts: Charts, broker: BrokerPod, namespace: str) -> None:
    with kube.release(charts, "eos", namespace) as release:
        release.install([{**pair_values(broker), "replicas": 1, "bootstrapServers": "127.0.0.1:9"}])
        [pod] = api.pods(namespace, "eos")
        assert kube.ready(pod)

        def said() -> bool:
            page = api.page(namespace, kube.name_of(pod), "/metrics") or ""
            return (
                'source="lso"' in page
                and re.search(r'kafka_eos_source_up\{[^}]*source="lso"[^}]*\} 0', page) is not None
            )

        kube.wait("the source to be down", said, 120)


def test_the_namespace_refuses_what_is_not_restricted(namespace: str) -> None:
    """Without this, nothing is said about the profile by the pods that the other tests start."""
    spec = {
        "containers": [{"name": "root", "image": kube.image("CLUSTER_IMAGE"), "securityContext": {"privileged": True}}]
    }
    pod = yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root"}, "spec": spec})
    done = kube.kubectl("--namespace", namespace, "apply", "--filename", "-", text=pod, check=False)
    assert done.returncode
    assert 'violates PodSecurity "restricted' in done.stderr
