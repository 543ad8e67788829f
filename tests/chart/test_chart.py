"""Tests of what the chart renders, feature by feature: valid, hardened, and in words that the agent understands."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import exporter
from exporter.cli import parser
from exporter.config import ConfigSource
from exporter.kafka.properties.accepted import SECRETS
from tests.chart.tools import (
    CHART,
    CI,
    ROOT,
    Charts,
    Object,
    ToolRefusedError,
    announced,
    container,
    needed,
    of_kind,
    workloads,
)

RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
SELECTORS = Path(__file__).with_name("selectors.yaml")
EVERYTHING = CHART / "ci" / "everything-values.yaml"


@pytest.mark.parametrize("values", CI, ids=lambda file: file.stem)
def test_every_feature_lints_renders_and_is_valid(charts: Charts, values: Path) -> None:
    charts.helm("lint", "--strict", CHART, "--values", values)
    charts.judge(charts.text(values))


@pytest.mark.parametrize("values", CI, ids=lambda file: file.stem)
def test_the_agent_takes_the_flags_that_it_is_given(charts: Charts, values: Path) -> None:
    for workload in workloads(charts.objects(values)):
        assert parser().parse_args(container(workload)["args"])


@pytest.mark.parametrize("values", CI, ids=lambda file: file.stem)
def test_every_pod_meets_the_restricted_profile(charts: Charts, values: Path) -> None:
    for workload in workloads(charts.objects(values)):
        pod = workload["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10618
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container(workload)["securityContext"] == RESTRICTED
        for resource in (*pod["containers"], *pod.get("initContainers", ())):
            assert resource["securityContext"]["allowPrivilegeEscalation"] is False, resource["name"]
            assert resource["securityContext"]["capabilities"] == {"drop": ["ALL"]}, resource["name"]
        assert container(workload)["resources"]["limits"]["memory"]
        assert not container(workload)["image"].endswith(("latest", ":"))


@pytest.mark.parametrize("values", CI, ids=lambda file: file.stem)
def test_a_values_file_says_what_must_exist_before_it(charts: Charts, values: Path) -> None:
    said = announced(values)
    objects = charts.objects(values)
    there = {f"{resource['kind']}/{resource['metadata']['name']}" for resource in objects}
    assert {name for name in needed(objects) if name not in there} == said


def test_what_the_agent_writes_to_is_a_volume(charts: Charts) -> None:
    """The root is read-only: its state, and /tmp."""
    for name in ("default", "persistence"):
        [workload] = workloads(charts.objects(CHART / "ci" / f"{name}-values.yaml"))
        mounts = {mount["mountPath"]: mount["name"] for mount in container(workload)["volumeMounts"]}
        claims = [template["metadata"]["name"] for template in workload["spec"].get("volumeClaimTemplates", ())]
        empty = [volume["name"] for volume in workload["spec"]["template"]["spec"]["volumes"] if "emptyDir" in volume]
        assert mounts["/var/lib/kafka-eos-exporter"] in (claims if name == "persistence" else empty)
        assert mounts["/tmp"] in empty


def test_the_settings_reach_the_agent_as_they_were_given(charts: Charts, tmp_path: Path) -> None:
    objects = charts.objects(EVERYTHING)
    text = of_kind(objects, "ConfigMap")[-1]["data"].get("config.yml") or next(
        manifest["data"]["config.yml"] for manifest in of_kind(objects, "ConfigMap") if "config.yml" in manifest["data"]
    )
    assert yaml.safe_load(text) == yaml.safe_load(EVERYTHING.read_text())["config"]
    for name in ("password", "ca.pem"):
        (tmp_path / name).write_text("made up")
    settings = yaml.safe_load(text.replace("/etc/eos", str(tmp_path)))
    del settings["clusters"][0]["kafka"]["ssl.ca.location"]  # a certificate that is one is looked for
    (tmp_path / "config.yml").write_text(yaml.safe_dump(settings))
    assert ConfigSource(tmp_path / "config.yml", {}).load().clusters[0].name == "prod"
    [workload] = workloads(objects)
    volumes = {volume["name"]: volume for volume in workload["spec"]["template"]["spec"]["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container(workload)["volumeMounts"]}
    assert mounts["/etc/eos"]["secret"]["secretName"] == "eos-kafka"
    assert mounts["/etc/kafka-eos-exporter/config"]["configMap"] == {"name": "eos-kafka-eos-exporter"}


def test_changed_settings_bring_new_pods_and_nothing_else_does(charts: Charts) -> None:
    def pod(**more: Any) -> Object:
        config = {"clusters": [{"name": "a", "kafka": {"bootstrap.servers": "k:9092"}, **more}]}
        [workload] = workloads(charts.objects({"config": config}))
        template: Object = workload["spec"]["template"]
        return template

    assert pod() == pod()
    assert pod() != pod(posture={"interval": "10m"})


def test_the_service_monitor_selects_the_service(charts: Charts) -> None:
    objects = charts.objects(EVERYTHING)
    [service], [monitor] = of_kind(objects, "Service"), of_kind(objects, "ServiceMonitor")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["namespaceSelector"]["matchNames"] == [service["metadata"]["namespace"]]
    assert monitor["spec"]["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert monitor["metadata"]["labels"]["release"] == "kube-prometheus-stack"


def test_probes_ask_as_the_listener_answers(charts: Charts) -> None:
    def liveness(name: str) -> Object:
        [workload] = workloads(charts.objects(CHART / "ci" / f"{name}-values.yaml"))
        probe: Object = container(workload)["livenessProbe"]
        return probe

    assert liveness("default")["httpGet"] == {"path": "/-/healthy", "port": "http"}
    assert liveness("web-existing")["httpGet"] == {"path": "/-/healthy", "port": "http", "scheme": "HTTPS"}
    # The kubelet has no password: it would be refused, and the agent restarted for it.
    users = liveness("web-tls")
    assert (users["tcpSocket"], users["failureThreshold"]) == ({"port": "http"}, 10)
    assert "httpGet" not in users
    assert liveness("environment")["httpGet"]["path"] == "/eos/-/healthy"


def test_a_network_policy_lets_in_who_is_named(charts: Charts) -> None:
    [policy] = of_kind(charts.objects(EVERYTHING), "NetworkPolicy")
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    [rule] = policy["spec"]["ingress"]
    assert rule["ports"] == [{"port": "http", "protocol": "TCP"}]
    assert rule["from"][0]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "monitoring"}


def test_a_network_policy_is_closed_but_for_prometheus_and_the_ingress_of_the_values(charts: Charts) -> None:
    def peers(**policy: Any) -> Any:
        values = {**yaml.safe_load((CHART / "ci" / "canary-values.yaml").read_text()), "networkPolicy": policy}
        found = [manifest["spec"]["ingress"] for manifest in of_kind(charts.objects(values), "NetworkPolicy")]
        assert len(found) == 2
        assert found[0] == found[1]
        return [peer for rule in found[0] for peer in rule["from"]]

    def namespace(name: str) -> Any:
        return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}

    assert peers() == [namespace("monitoring")]
    assert peers(prometheus=[]) == []
    assert peers(ingress=[namespace("web")]) == [namespace("monitoring"), namespace("web")]


def test_a_network_policy_lets_in_the_audits_of_the_release(charts: Charts) -> None:
    objects = charts.objects(CHART / "ci" / "audits-values.yaml")
    asking = [
        manifest["spec"].get("jobTemplate", manifest)["spec"]["template"]["metadata"]["labels"]
        for manifest in (*of_kind(objects, "Deployment"), *of_kind(objects, "CronJob"))
    ]
    policy = next(
        manifest["spec"]
        for manifest in of_kind(objects, "NetworkPolicy")
        if manifest["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "agent"
    )
    [rule] = policy["ingress"]
    [ours] = [peer["podSelector"]["matchLabels"].items() for peer in rule["from"] if "podSelector" in peer]
    assert all(ours <= labels.items() for labels in asking)


def test_secrets_stay_out_of_config_maps(charts: Charts) -> None:
    objects = charts.objects(CHART / "ci" / "secret-config-values.yaml")
    [secret] = of_kind(objects, "Secret")
    assert "made-up" in secret["stringData"]["config.yml"]
    rest = [resource for resource in objects if resource is not secret]
    assert "made-up" not in json.dumps(rest)


def test_a_constraint_without_a_selector_gets_its_workloads(charts: Charts) -> None:
    [workload] = workloads(charts.objects(CHART / "ci" / "scheduling-values.yaml"))
    pod = workload["spec"]["template"]["spec"]
    [constraint] = pod["topologySpreadConstraints"]
    assert constraint["labelSelector"] == {"matchLabels": workload["spec"]["selector"]["matchLabels"]}
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert workload["metadata"]["namespace"] == "observability"


def test_extra_manifests_are_templates(charts: Charts) -> None:
    names = {resource["metadata"]["name"] for resource in charts.objects(CHART / "ci" / "extras-values.yaml")}
    assert {"eos-kafka-eos-exporter-more", "eos-text"} <= names


def test_the_dashboards_are_the_generated_ones(charts: Charts) -> None:
    maps = [
        manifest
        for manifest in of_kind(charts.objects(EVERYTHING), "ConfigMap")
        if "config.yml" not in manifest["data"]
    ]
    shipped = {name: text for config_map in maps for name, text in config_map["data"].items()}
    generated = {file.name: file.read_text().rstrip() for file in (ROOT / "dashboards" / "generated").glob("*.json")}
    assert shipped == generated
    for resource in maps:
        assert resource["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert resource["metadata"]["namespace"] == "grafana"
        assert len(resource["metadata"]["name"]) <= 63


@pytest.mark.parametrize("name", ["default", "persistence"])
def test_an_upgrade_changes_no_selector(charts: Charts, name: str) -> None:
    """Kubernetes refuses that. The file is what the first version of the chart selected: it is never changed."""
    before = yaml.safe_load(SELECTORS.read_text())[name]
    now = {
        f"{workload['kind']}/{workload['metadata']['name']}": workload["spec"]["selector"]["matchLabels"]
        for workload in workloads(charts.objects(CHART / "ci" / f"{name}-values.yaml"))
    }
    assert now == before


def test_a_package_holds_all_that_the_folder_renders(charts: Charts, tmp_path: Path) -> None:
    charts.helm("package", CHART, "--destination", tmp_path)
    [package] = tmp_path.glob("*.tgz")
    with tarfile.open(package) as archive:
        names = archive.getnames()
    assert not [name for name in names if "/ci/" in name]
    boards = {Path(name).name for name in names if "/files/dashboards/" in name}
    assert boards == {path.name for path in (ROOT / "dashboards" / "generated").iterdir()}
    assert charts.text(EVERYTHING, package) == charts.text(EVERYTHING)
    # A release is kept in a Secret, which holds a megabyte.
    assert package.stat().st_size < 300_000


def test_the_chart_installs_this_version_of_the_agent() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == exporter.__version__


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"replica": 2}, "replica"),
        ({"replicas": "two"}, "replicas"),
        ({"image": {"tags": "1"}}, "tags"),
        ({"image": {"digest": "sha256:123"}}, "digest"),
        ({"log": {"format": "xml"}}, "format"),
        ({"service": {"type": "clusterip"}}, "type"),
        ({"serviceMonitor": {"enable": True}}, "enable"),
        ({"serviceMonitor": {"interval": "15"}}, "interval"),
        ({"state": {"persistence": {"size": "lots"}}}, "size"),
        ({"secretMounts": [{"secretName": "a", "mount": "/x"}]}, "mount"),
        ({"fullnameOverride": "EOS_agent"}, "fullnameOverride"),
        ({"podLabels": {"app.kubernetes.io/name": "mine"}}, "podLabels/app.kubernetes.io"),
        ({"webConfig": {"content": {"basic_auth": {}}}}, "basic_auth"),
        (
            {"prometheusRule": {"enabled": True, "settings": {"stall_warning": "5m"}}},
            "additional properties 'stall_warning'",
        ),
        ({"prometheusRule": {"enabled": True, "settings": {"runbook_url": 3}}}, "runbook_url"),
        ({"prometheusRule": {"enabled": True, "overrides": {"KafkaEosLsoStaled": {}}}}, "no such alert"),
        (
            {"prometheusRule": {"enabled": True, "overrides": {"KafkaEosLsoStalled": {"severity": "critical"}}}},
            "both severities",
        ),
        ({"prometheusRule": {"overrides": {"KafkaEosProducerFenced": {"severity": "page"}}}}, "severity"),
        ({"prometheusRule": {"overrides": {"KafkaEosProducerFenced": {"forr": "1m"}}}}, "forr"),
        ({"bootstrapServers": ""}, "which cluster?"),
        ({"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}, "scrape the same pods twice"),
        ({"mode": "sidecar", "serviceMonitor": {"enabled": True}}, "enable podMonitor instead"),
        ({"config": {"a": 1}, "existingConfig": {"secret": "b"}}, "set one of them"),
        *(
            ({"config": {"clusters": [{"kafka": {name: "x"}}]}}, "a ConfigMap is no place")
            for name in (*sorted(SECRETS), "ssl.keystore.key", "sasl.oauthbearer.client.credentials.client.secret")
        ),
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_by_name(charts: Charts, values: dict[str, Any], word: str) -> None:
    with pytest.raises(ToolRefusedError, match=word.replace("?", r"\?").replace(".", r"\.")):
        charts.text({"bootstrapServers": "kafka:9092", **values})


def test_the_schema_knows_every_value_and_lets_no_other_in() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def walk(known: Object, given: Object, path: str) -> None:
        assert known["additionalProperties"] is False, path
        assert given.keys() - known["properties"].keys() == set(), path
        for key, value in given.items():
            inner = known["properties"][key]
            if isinstance(value, dict) and "properties" in inner and value:
                walk(inner, value, f"{path}.{key}")

    walk(schema, values, "")


def test_the_notes_say_what_to_do_next(charts: Charts) -> None:
    def notes(name: str) -> str:
        output = charts.helm(
            *("install", "eos", CHART, "--namespace", "kafka", "--dry-run=client"),
            *("--values", CHART / "ci" / f"{name}-values.yaml"),
        )
        return output.partition("NOTES:")[2]

    assert "port-forward service/eos-kafka-eos-exporter 10618" in notes("default")
    assert "check connection --bootstrap-server kafka-1:9092,kafka-2:9092" in notes("default")
    assert "Nothing scrapes it yet" in notes("default")
    assert "Nothing scrapes it yet" not in notes("everything")
    assert "kafka-eos-exporter.sidecar" in notes("sidecar")
