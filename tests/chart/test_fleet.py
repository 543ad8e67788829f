"""The fleet of the chart: a pod and a Service of its own, with the users and TLS of the endpoint."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from exporter.cli import parser
from tests.chart.tools import CHART, Charts, Object, ToolRefusedError, container, of_kind, workloads

MONITORING = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
VALUES = CHART / "ci" / "fleet-values.yaml"


def values(top: dict[str, Any] | None = None, **fleet: Any) -> dict[str, Any]:
    given: dict[str, Any] = yaml.safe_load(VALUES.read_text())
    return {**given, **(top or {}), "fleet": {**given["fleet"], **fleet}}


def fleet_of(objects: list[Object]) -> Object:
    [found] = [workload for workload in workloads(objects) if container(workload)["args"][0] == "fleet"]
    return found


def test_without_the_switch_there_is_no_fleet(charts: Charts) -> None:
    objects = charts.objects(values(enabled=False))
    assert [container(workload)["args"][0] for workload in workloads(objects)] == ["run"]
    assert not [resource for resource in objects if resource["metadata"]["name"].endswith("-fleet")]


def test_the_command_takes_its_arguments_and_its_agents_are_a_file(charts: Charts) -> None:
    objects = charts.objects(VALUES)
    [listed] = [
        manifest for manifest in of_kind(objects, "ConfigMap") if manifest["metadata"]["name"].endswith("-fleet")
    ]
    assert listed["data"]["agents.txt"].split() == [
        "http://kafka-eos-exporter.team-a:10618",
        "https://kafka-eos-exporter.team-b:10618",
    ]
    options = parser().parse_args(container(fleet_of(objects))["args"])
    assert options.agents == ["/etc/kafka-eos-exporter/fleet/agents.txt", "http://discovery.example.com/eos"]
    assert (options.interval, options.timeout, options.username) == (15.0, 5.0, "fleet")
    assert options.external_url == "https://{host}.eos.example.com"
    assert (str(options.password_file), str(options.ca_file)) == ("/etc/eos-fleet/password", "/etc/eos-fleet/ca.crt")
    mounts = {mount["mountPath"] for mount in container(fleet_of(objects))["volumeMounts"]}
    assert mounts == {"/tmp", "/etc/kafka-eos-exporter/fleet", "/etc/eos-fleet"}


def test_its_service_its_policy_and_its_monitor_select_it_and_those_of_the_agent_do_not(charts: Charts) -> None:
    objects = charts.objects(VALUES)
    labels = fleet_of(objects)["spec"]["template"]["metadata"]["labels"].items()
    selecting = [manifest for manifest in of_kind(objects, "Service") if manifest["spec"]["selector"].items() <= labels]
    assert [resource["metadata"]["name"][-6:] for resource in selecting] == ["-fleet"]
    assert selecting[0]["spec"]["ports"][0]["port"] == 10619
    policies = [
        manifest
        for manifest in of_kind(objects, "NetworkPolicy")
        if manifest["spec"]["podSelector"]["matchLabels"].items() <= labels
    ]
    [policy] = policies
    assert policy["spec"]["ingress"][0]["from"] == [MONITORING]
    assert policy["spec"]["egress"] == [{"ports": [{"port": 10618, "protocol": "TCP"}]}]
    [monitor] = of_kind(objects, "PodMonitor")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels
    assert sum(workload["spec"]["selector"]["matchLabels"].items() <= labels for workload in workloads(objects)) == 1


def test_its_policy_may_name_its_own_peers_only(charts: Charts) -> None:
    peer = {"ipBlock": {"cidr": "10.0.0.0/8"}}
    objects = charts.objects(values(networkPolicy={"from": [peer]}))
    labels = fleet_of(objects)["spec"]["template"]["metadata"]["labels"].items()
    [policy] = [
        manifest
        for manifest in of_kind(objects, "NetworkPolicy")
        if manifest["spec"]["podSelector"]["matchLabels"].items() <= labels
    ]
    assert policy["spec"]["ingress"][0]["from"] == [peer]


@pytest.mark.parametrize("mode", ["agent", "sidecar"])
def test_it_serves_with_the_web_configuration_of_the_agent(charts: Charts, mode: str) -> None:
    web = {
        "content": {"basic_auth_users": {"me": "$2b$04$x"}, "tls_server_config": {"cert_file": "/a", "key_file": "/b"}}
    }
    objects = charts.objects(values({"webConfig": web, "mode": mode}))
    pod = fleet_of(objects)["spec"]["template"]["spec"]
    found = container(fleet_of(objects))
    assert "--web.config.file=/etc/kafka-eos-exporter/web/web.yml" in found["args"]
    assert {"tcpSocket": {"port": "http"}}.items() <= found["livenessProbe"].items()
    secrets = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
    assert any(secret.endswith("-web") for secret in secrets)


@pytest.mark.parametrize(
    ("fleet", "said"),
    [
        ({"agents": [], "lists": []}, "fleet: which agents"),
        ({"agents": ["http://user:secret@eos"]}, "agents"),
        ({"externalUrl": "javascript:1"}, "externalUrl"),
    ],
)
def test_values_that_cannot_work_are_refused(charts: Charts, fleet: dict[str, Any], said: str) -> None:
    with pytest.raises(ToolRefusedError, match=said):
        charts.text(values(**fleet))
