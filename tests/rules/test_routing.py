"""Tests of what Alertmanager makes of the alerts, by amtool and by the configuration itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from exporter.alerts import table
from tests.rules.alertmanager import running
from tests.rules.table import CASES
from tests.rules.written import written

TEXT = written()["alerts/generated/alertmanager.yaml"]
CONFIG = yaml.safe_load(TEXT)


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "alertmanager.yml"
    path.write_text(TEXT)
    return str(path)


def test_amtool_accepts_it(config: str) -> None:
    done = subprocess.run(["amtool", "check-config", config], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_amtool_accepts_what_the_page_of_the_alerts_shows(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text()
    (example,) = re.findall(r"^```yaml\n(route:.*?)^```$", page, re.MULTILINE | re.DOTALL)
    path = tmp_path / "alertmanager.yml"
    path.write_text(example)
    done = subprocess.run(["amtool", "check-config", path], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("severity", "receiver"), [("critical", "kafka-eos-pages"), ("warning", "kafka-eos-tickets")])
def test_severity_decides_who_is_reported(config: str, severity: str, receiver: str) -> None:
    labels = ["alertname=KafkaEosLsoStalled", f"severity={severity}", "kafka_cluster=prod", "producer_id=7"]
    tool = ["amtool", "config", "routes", "test", f"--config.file={config}", *labels]
    done = subprocess.run(tool, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout.split() == [receiver]


def test_forty_stalled_partitions_are_one_page() -> None:
    for route in CONFIG["route"]["routes"]:
        assert route["group_by"] == ["alertname", "kafka_cluster"]


def test_every_alert_that_inhibits_or_is_inhibited_exists() -> None:
    for rule in CONFIG["inhibit_rules"]:
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            name, is_regex, value = re.fullmatch(r'(\w+)=(~?)"(.*)"', matcher).groups()  # type: ignore[union-attr]
            if name == "alertname":
                assert [name for name in table.names() if re.fullmatch(value if is_regex else re.escape(value), name)]


def sent(firing: list[dict[str, str]]) -> list[str]:
    """The names of the alerts that Alertmanager notifies of: those that no other one inhibits."""

    def matches(matchers: list[str], alert: dict[str, str]) -> bool:
        parts = [re.fullmatch(r'(\w+)=(~?)"(.*)"', matcher).groups() for matcher in matchers]  # type: ignore[union-attr]
        return all(
            re.fullmatch(value if is_regex else re.escape(value), alert.get(label, ""))
            for label, is_regex, value in parts
        )

    def inhibits(rule: dict[str, list[str]], source: dict[str, str], target: dict[str, str]) -> bool:
        both = matches(rule["source_matchers"], source) and matches(rule["target_matchers"], target)
        equal = all(source.get(label, "") == target.get(label, "") for label in rule["equal"])
        return both and equal and not matches(rule["target_matchers"], source)

    return [
        notified["alertname"]
        for notified in firing
        if not any(inhibits(rule, other, notified) for rule in CONFIG["inhibit_rules"] for other in firing)
    ]


def page(name: str, **labels: str) -> dict[str, str]:
    return {"alertname": f"KafkaEos{name}", "severity": "critical", "kafka_cluster": "prod", **labels}


OUTAGE = [
    page("TransactionLogUnderMinIsr"),
    page("LsoStalled", producer_id="7"),
    page("CompletionSlow", application="pay"),
    page("AbortRatioHigh", application="pay", reason="fast"),
    page("ApplicationSilent", application="pay"),
    {**page("LongRunningTransaction", application="pay"), "severity": "warning"},
]


def test_an_outage_of_the_transaction_log_is_one_page() -> None:
    assert sent(OUTAGE) == ["KafkaEosTransactionLogUnderMinIsr"]
    assert len(sent(OUTAGE[1:])) == len(OUTAGE) - 1


def test_an_outage_of_one_cluster_withholds_no_page_of_another_and_no_hanging_transaction() -> None:
    hanging = page("HangingTransaction", producer_id="8")
    elsewhere = page("LsoStalled", producer_id="7") | {"kafka_cluster": "other"}
    assert sent([*OUTAGE, hanging, elsewhere]) == [
        "KafkaEosTransactionLogUnderMinIsr",
        "KafkaEosHangingTransaction",
        "KafkaEosLsoStalled",
    ]


def test_a_page_is_withheld_by_its_cause_alone() -> None:
    """The transaction of its own holder that never ends, the fences of its own application, or the transaction log
    without its replicas.
    """
    pages = [rule for rule in CONFIG["inhibit_rules"] if 'severity="warning"' not in rule["target_matchers"]]
    tickets = (['alertname="KafkaEosProducerFenced"'], ['alertname="KafkaEosSourceDown"'])
    causes = [rule for rule in pages if rule["target_matchers"] not in tickets]
    assert [rule["source_matchers"] for rule in causes] == [
        ['alertname="KafkaEosCanaryFailing"', 'reason="cluster"'],
        ['alertname=~"KafkaEos(Hanging|Unmarked)Transaction"'],
        ['alertname="KafkaEosProducerFenceStorm"'],
        ['alertname="KafkaEosTransactionLogUnderMinIsr"'],
    ]
    assert "producer_id" in causes[1]["equal"]
    assert "application" in causes[2]["equal"]


def test_a_page_withholds_the_ticket_about_the_same_subject_alone() -> None:
    """Each label that an alert of both severities has takes part, so that a page about A leaves the ticket about B."""
    for alert, label in (
        ("GroupLagHigh", "group"),
        ("GroupLagHigh", "topic"),
        ("StreamsFailed", "client_id"),
        ("ProducerFatalError", "client_id"),
        ("ProducerFatalError", "target"),
        ("ConnectTaskFailed", "task"),
        ("SparkQueryTerminated", "query"),
        ("AbortRatioHigh", "application"),
        ("LsoStalled", "producer_id"),
    ):
        one = page(alert, **{label: "a"})
        assert sent([one, {**one, "severity": "warning"}]) == [one["alertname"]]
        assert len(sent([one, {**one, "severity": "warning", label: "b"}])) == 2


def test_every_label_of_an_alert_of_both_severities_is_compared() -> None:
    both = {
        name
        for name in table.names()
        if {"critical", "warning"}
        <= {one.value for alert in table.alerts() if alert.name == name for one in alert.severities}
    }
    fired = [
        labels for case in CASES if case.alert.split()[0] in both for check in case.checks for labels in check.alerts
    ]
    told = {"severity", "owner", "reason", "job", "instance", "pod", "kafka_cluster", "coordinator"}
    compared = {*CONFIG["inhibit_rules"][-1]["equal"]}
    assert {label for labels in fired for label in labels} - told <= compared


def test_kafka_down_is_one_page() -> None:
    """The canary shows that it is the cluster; that no agent reads anything says the same later."""
    down = [
        page("CanaryFailing", reason="cluster"),
        page("ClusterBlind"),
        *(
            {**page("SourceDown", source=text, target="prod"), "severity": "warning"}
            for text in ("lso", "txnlog", "groups")
        ),
    ]
    assert sent(down) == ["KafkaEosCanaryFailing"]
    assert sent(down[1:]) == ["KafkaEosClusterBlind"]
    one = [page("CanaryFailing", reason="coordinator"), page("ClusterBlind")]
    assert len(sent(one)) == 2
    elsewhere = {**down[2], "kafka_cluster": "other"}
    assert sent([*down, elsewhere]) == ["KafkaEosCanaryFailing", "KafkaEosSourceDown"]


def test_the_watchdog_goes_to_a_receiver_of_its_own(config: str) -> None:
    tool = ["amtool", "config", "routes", "test", f"--config.file={config}"]
    labels = ["alertname=KafkaEosWatchdog", "severity=none"]
    done = subprocess.run([*tool, *labels], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout.split() == ["kafka-eos-watchdog"]


def test_nothing_inhibits_what_is_of_another_cluster_or_of_one_with_the_same_name_in_another_region() -> None:
    for rule in CONFIG["inhibit_rules"]:
        assert {"kafka_cluster", "cluster", "region", "env", "namespace"} <= {*rule["equal"]}


def test_the_situations_of_the_demo_are_one_page_each_as_alertmanager_sends_them(tmp_path: Path) -> None:
    """The alerts are those that Prometheus had after a quarter of an hour of `make demo`."""

    def alert(name: str, severity: str, **labels: str) -> dict[str, str]:
        return {"alertname": f"KafkaEos{name}", "severity": severity, "kafka_cluster": "demo", **labels}

    firing = [
        alert("HangingTransaction", "critical", producer_id="777"),
        alert("TornTransaction", "critical", topic="receipts"),
        alert("VerificationFailures", "warning", broker="1"),
        alert("ZombieProducers", "warning", reason="refused"),
        alert("LsoStalled", "critical", producer_id="777"),
        *(alert("LsoStalled", "warning", producer_id=holder) for holder in ("777", "5")),
        alert("LongRunningTransaction", "warning", application="stuck"),
        *(alert("TransactionTimeouts", "warning", application=name) for name in ("nightly", "reports", "stuck")),
        *(alert("PostureFailed", "warning", check=name) for name in ("internal_topic_replication", "topic_min_isr")),
    ]
    for application in ("pay", "ship"):
        firing += [
            alert("ProducerFenceStorm", "critical", application=application),
            alert("ProducerFenced", "warning", application=application),
        ]
    for application in ("pay", "ship", "nightly", "reports", "crawler", "importer"):
        firing += [
            alert("AbortRatioHigh", "critical", application=application, reason="fast"),
            alert("AbortRatioHigh", "warning", application=application, reason="slow"),
        ]
    subjects = ("application", "producer_id", "topic", "broker", "reason", "check")
    with running(TEXT, tmp_path) as alertmanager:
        alertmanager.send([{"labels": labels} for labels in firing])
        got = [
            (notification.receiver, labels["alertname"], next(labels[name] for name in subjects if name in labels))
            for notification in alertmanager.received(10)
            for labels in notification.alerts
        ]
        assert alertmanager.notified.empty()
    pages = sorted((name, subject) for receiver, name, subject in got if receiver == "kafka-eos-pages")
    assert pages == [
        *(("KafkaEosAbortRatioHigh", name) for name in ("crawler", "importer", "nightly", "reports")),
        ("KafkaEosHangingTransaction", "777"),
        ("KafkaEosProducerFenceStorm", "pay"),
        ("KafkaEosProducerFenceStorm", "ship"),
        ("KafkaEosTornTransaction", "receipts"),
    ]
    assert sorted(notified[1:] for notified in got if notified[0] == "kafka-eos-tickets") == [
        ("KafkaEosLongRunningTransaction", "stuck"),
        ("KafkaEosLsoStalled", "5"),
        ("KafkaEosPostureFailed", "internal_topic_replication"),
        ("KafkaEosPostureFailed", "topic_min_isr"),
        *(("KafkaEosTransactionTimeouts", name) for name in ("nightly", "reports", "stuck")),
        ("KafkaEosVerificationFailures", "1"),
        ("KafkaEosZombieProducers", "refused"),
    ]
