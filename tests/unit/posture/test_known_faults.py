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
    Version,
    brokers_of,
    fault_checks,
    faults_of,
    plugins_of,
    version_of,
)


def test_each_row_has_a_source_and_spans_that_are_not_empty() -> None:
    date.fromisoformat(AS_OF)
    for fault in FAULTS:
        assert re.match(r"https://", fault.source)
        assert all(span.fixed is None or span.first < span.fixed for span in fault.affected)
        assert fault.what
        assert fault.looks_like
    assert len({fault.issue for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("4.3.1", (4, 3, 1)),
        ("v3.9.2-ccs", (3, 9, 2)),
        ("1.11.0-SNAPSHOT", (1, 11, 0)),
        ("7.8", (7, 8)),
        ("", None),
        ("null", None),
        ("1" * 50 + ".0", None),
    ],
)
def test_a_version_is_its_numbers(text: str, version: Version | None) -> None:
    assert version_of(text) == version


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
    assert check.fix == "3.9.2 or later"


@pytest.mark.parametrize(
    ("level", "verdict"),
    [(None, "information"), (7, "information"), (21, "information"), (22, "passed"), (27, "passed")],
)
def test_brokers_are_judged_by_the_least_version_that_their_metadata_version_needs(
    level: int | None, verdict: str
) -> None:
    [check] = fault_checks([brokers_of("prod", level)])
    assert check.verdict == verdict
    assert ("not known whether" in check.found) == (verdict == "information")


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
