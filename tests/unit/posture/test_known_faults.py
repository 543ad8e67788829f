from __future__ import annotations

import re
from datetime import date

import pytest

from exporter.connect.facts import ConnectState
from exporter.connect.rest import Connector
from exporter.posture.check import CheckResult
from exporter.posture.known_faults import (
    AS_OF,
    FAULTS,
    Component,
    Software,
    brokers_of,
    clients_of,
    fault_checks,
    faults_of,
    plugins_of,
    workers_of,
)
from exporter.posture.software_version import Version
from exporter.telemetry.facts import ClientSoftware


def test_each_row_has_a_source_and_spans_that_are_not_empty() -> None:
    date.fromisoformat(AS_OF)
    for fault in FAULTS:
        assert re.match(r"https://", fault.source)
        assert all(span.fixed is None or span.first < span.fixed for span in fault.affected)
        assert fault.what
        assert fault.looks_like
    assert len({fault.issue for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ((1, 6, 1), True),
        ((1, 6, 2), False),
        ((1, 7, 0), True),
        ((1, 8, 0), True),
        ((1, 8, 2), False),
        ((2, 15, 0), False),
    ],
)
def test_a_fault_with_two_fixed_releases_is_of_the_versions_before_each(version: Version, *, found: bool) -> None:
    assert bool(faults_of(Software(Component.LIBRDKAFKA, "x", version))) == found


def test_an_affected_version_fails_with_what_it_looks_like_and_the_version_that_has_the_fix() -> None:
    [check] = fault_checks([Software(Component.BROKER, "prod", (3, 9, 1))])
    assert check.verdict is CheckResult.FAILED
    assert "KAFKA-19690" in check.found
    assert check.fix == "3.9.2, or 4.3 or later"


@pytest.mark.parametrize(
    ("level", "told"),
    [
        (None, {"KAFKA-19690", "KAFKA-15653", "KAFKA-19367", "KAFKA-20090"}),
        (22, {"KAFKA-19690", "KAFKA-19367", "KAFKA-20090"}),
        (26, {"KAFKA-19690", "KAFKA-20090"}),
        (30, set()),
    ],
)
def test_brokers_are_judged_by_the_least_version_that_their_metadata_version_needs(
    level: int | None, told: set[str]
) -> None:
    """A fault that was fixed before that version is not told; one that a later version fixed may be there."""
    [check] = fault_checks([brokers_of("prod", level)])
    assert check.verdict is (CheckResult.INFORMATION if told else CheckResult.PASSED)
    assert set(re.findall(r"KAFKA-\d+", check.found)) == told


def test_workers_of_connect_are_judged_by_the_version_that_their_root_names() -> None:
    state = ConnectState("etl", (), by_rest=True, versions={"w1:8083": "3.5.1", "w2:8083": "4.3.1"})
    old, new = fault_checks(workers_of([state]))
    assert (old.subject, old.verdict, old.fix) == ("etl/w1:8083", CheckResult.FAILED, "3.6 or later")
    assert new.verdict is CheckResult.PASSED


def test_clients_that_push_are_judged_by_version_and_others_of_the_cluster_alone() -> None:
    pushed = [
        (ClientSoftware("prod", "apache-kafka-java", "4.2.0", streams=True), 3),
        (ClientSoftware("prod", "apache-kafka-java", "4.2.0", streams=False), 3),
        (ClientSoftware("prod", "", "4.2.0", streams=True), 1),  # by its MBean
        (ClientSoftware("prod", "librdkafka", "2.15.0", streams=False), 2),
        (ClientSoftware("other", "librdkafka", "1.6.1", streams=False), 1),
        (ClientSoftware("prod", "librdkafka", "", streams=False), 1),
    ]
    found = list(fault_checks(clients_of("prod", pushed)))
    checks = {check.subject: check for check in found}
    assert len(checks) == len(found)
    assert {subject: check.verdict for subject, check in checks.items()} == {
        "Kafka Streams 4.2.0": CheckResult.FAILED,
        "librdkafka 2.15.0": CheckResult.PASSED,
    }
    assert "KAFKA-20685" in checks["Kafka Streams 4.2.0"].found


@pytest.mark.parametrize(
    ("version", "found"),
    [((3, 5, 2), False), ((3, 8, 1), True), ((3, 9, 2), False), ((4, 0, 1), True), ((4, 0, 2), False), ((4, 1), True)],
)
def test_a_fault_of_several_lines_is_of_the_releases_before_the_fix_of_each(version: Version, *, found: bool) -> None:
    names = {fault.issue for fault in faults_of(Software(Component.BROKER, "x", version))}
    assert ("KAFKA-19690" in names) == found


def test_a_fault_without_a_fixed_release_says_so() -> None:
    sink = Connector("ice", "sink", plugin="org.apache.iceberg.connect.IcebergSinkConnector", version="1.11.0")
    other = Connector("file", "sink", plugin="FileStreamSink", version="4.3.1")
    [check] = fault_checks(plugins_of([ConnectState("etl", (sink, other), by_rest=True)]))
    assert (check.subject, check.verdict) == ("etl/ice", CheckResult.FAILED)
    assert "no release was known" in check.fix


def test_a_plugin_without_a_version_is_unknown() -> None:
    sink = Connector("ice", "sink", plugin="IcebergSink")
    [check] = fault_checks(plugins_of([ConnectState("etl", (sink,), by_rest=True)]))
    assert check.verdict is CheckResult.INFORMATION
    assert "unknown version" in check.found


@pytest.mark.parametrize(
    ("versions", "brokers", "version", "or_later"),
    [
        ({1: "4.3.1", 2: "4.3.1"}, 2, (4, 3, 1), False),
        ({1: "4.3.1", 2: "3.9.1"}, 2, (3, 9, 1), False),
        ({1: "4.3.1"}, 2, (4, 0), True),
        ({1: "4.3.1", 2: "unknown"}, 2, (4, 0), True),
        ({}, 1, (4, 0), True),
    ],
    ids=["all alike", "one with a fault", "one not known", "one without a number", "none known"],
)
def test_brokers_are_judged_by_their_own_versions_where_all_are_known(
    versions: dict[int, str], brokers: int, version: Version, or_later: bool
) -> None:
    found = brokers_of("prod", 22, versions, brokers)
    assert (found.version, found.or_later) == (version, or_later)


@pytest.mark.parametrize(
    ("version", "fix"),
    [((3, 6, 0), "3.9.2, or 4.3 or later"), ((4, 0, 0), "4.3 or later"), ((4, 1, 1), "4.3 or later")],
)
def test_the_release_that_is_proposed_and_those_after_it_have_no_known_fault(version: Version, fix: str) -> None:
    [check] = fault_checks([Software(Component.BROKER, "x", version)])
    assert check.fix == fix


@pytest.mark.parametrize("version", ["7.9.1-ccs", "7.6.0-ce"])
def test_of_a_vendors_build_it_is_not_known_which_fixes_it_has(version: str) -> None:
    """Confluent's 7.9.1 is made of Kafka 3.9, of which versions before 3.9.2 have a fault."""
    [check] = fault_checks([brokers_of("prod", 21, {1: version}, 1)])
    assert check.verdict is CheckResult.INFORMATION
    assert "not known whether it has KAFKA-19690" in check.found
    assert "release notes" in check.found


def test_a_vendors_build_of_a_release_without_a_known_fault_passes() -> None:
    state = ConnectState("etl", (), by_rest=True, versions={"w1:8083": "7.6.0-ccs", "w2:8083": "7.5.0-ccs"})
    newer, older = fault_checks(workers_of([state]))
    assert (newer.verdict, older.verdict) == (CheckResult.PASSED, CheckResult.INFORMATION)


def test_of_brokers_of_several_versions_the_one_that_surely_has_a_fault_is_told() -> None:
    found = brokers_of("prod", 21, {1: "4.3.1", 2: "7.9.1-ccs", 3: "3.9.1"}, 3)
    assert (found.version, found.vendor_build) == ((3, 9, 1), False)
    assert brokers_of("prod", 21, {1: "4.3.1", 2: "7.9.1-ccs"}, 2).vendor_build
