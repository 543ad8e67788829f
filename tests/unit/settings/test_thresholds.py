"""Thresholds by pattern, and what is exposed beside what they judge."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import time
from pathlib import Path
from time import process_time

import pytest

from exporter import catalogue
from exporter.agent.with_thresholds import WithThresholds
from exporter.applications.applications import Grouping
from exporter.bounds.patterns import MOST_SECONDS, BoundedPattern
from exporter.config import ConfigError, ConfigSource
from exporter.core.reading import read_source
from exporter.core.thresholds import DEFAULTS, UNOWNED, Override, Owners, Team, Thresholds
from exporter.lso.facts import Blocker, Stall, Stalls
from exporter.model import (
    Clock,
    Deadline,
    Fact,
    Facts,
    Fault,
    IgnoredSource,
    IgnoredSubject,
    IgnoredSubjects,
    Reason,
    Sample,
    SampleBatch,
    TopicPartition,
)
from exporter.transactions.facts import CoordinatorTime, LoggedTransactions, OpenTransactions
from exporter.words import BlockerKind

NEVER_LATE = {"fresh_within": math.inf}
NOON, NIGHT = 12 * 3600.0, 26 * 3600.0


def override(pattern: str, reason: str = "why", *, kind: str = "topic", **values: float) -> Override:
    return Override(kind, BoundedPattern(pattern, "thresholds", whole=True), values, reason)


def test_without_overrides_the_defaults_hold() -> None:
    assert Thresholds().of("topic", "orders", NOON) == {"stall_warning": 300, "stall_critical": 900, **NEVER_LATE}


def test_the_first_override_that_names_a_threshold_decides_it() -> None:
    ours = Thresholds((override("nightly-.*", stall_warning=60), override(".*", stall_warning=1, stall_critical=2)))
    assert ours.of("topic", "nightly-a", NOON) == {"stall_warning": 60, "stall_critical": 2, **NEVER_LATE}
    assert ours.of("topic", "daily", NOON) == {"stall_warning": 1, "stall_critical": 2, **NEVER_LATE}


def test_a_pattern_matches_the_whole_name_and_one_kind_only() -> None:
    ours = Thresholds((override("orders", stall_warning=60), override(".*", kind="audit", overdue_warning=1)))
    assert ours.of("topic", "orders-2", NOON) == DEFAULTS["topic"]
    assert ours.of("audit", "orders", NOON) == {"overdue_warning": 1}


@pytest.mark.parametrize(
    ("window", "now", "holds"),
    [
        ((time(1), time(3)), NIGHT, True),
        ((time(1), time(2)), NIGHT, False),
        ((time(2), time(3)), NIGHT, True),
        ((time(22), time(5)), NIGHT, True),
        ((time(22), time(5)), NOON, False),
        ((time(22), time(5)), 22 * 3600.0, True),
        ((time(22), time(5)), 5 * 3600.0, False),
    ],
)
def test_a_window_of_the_day_begins_and_ends_to_the_minute_over_midnight_too(
    window: tuple[time, time], now: float, holds: bool
) -> None:
    ours = Override(
        "topic", BoundedPattern(".*", "thresholds", whole=True), {"stall_warning": 60}, "batch", window=window
    )
    assert ours.holds(now) is holds


def test_what_is_ignored_has_no_threshold_that_can_be_passed_and_a_reason() -> None:
    ours = Thresholds(
        (Override("topic", BoundedPattern("test-.*", "thresholds", whole=True), {}, "a playground", ignored=True),)
    )
    assert set(ours.of("topic", "test-1", NOON).values()) == {math.inf}
    assert ours.ignored("topic", "test-1", NOON) == "a playground"
    assert ours.ignored("topic", "orders", NOON) is None


def test_what_has_a_threshold_by_an_earlier_override_is_not_ignored() -> None:
    everything = Override("topic", BoundedPattern(".*", "thresholds", whole=True), {}, "a playground", ignored=True)
    ours = Thresholds((override("orders", stall_warning=60), override("x", stall_warning=math.inf), everything))
    assert ours.of("topic", "orders", NOON)["stall_warning"] == 60
    assert [ours.ignored("topic", name, NOON) for name in ("orders", "x")] == [None, "a playground"]
    assert ours.ignored("source", "lso/prod", NOON) is None


NONE = Thresholds()


@dataclass
class GivenSource:
    """A source that gives what it was given."""

    items: tuple[Sample | Fault | Fact, ...]
    name: str = "txnlog"
    target: str = "prod"
    cluster: str = "prod"
    pace: float = 1.0
    interval: float = 5.0
    timeout: float = 10.0
    closed: bool = False

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        del deadline, facts
        yield from self.items

    def close(self) -> None:
        self.closed = True


def read(source: GivenSource, thresholds: Thresholds = NONE, *facts: Fact) -> list[Sample | Fault | Fact]:
    judged = WithThresholds(source, lambda: thresholds, Clock(wall=lambda: NOON))
    items = judged.read(Deadline.after(1), Facts({type(fact): fact for fact in facts}))
    return [sample for item in items for sample in (item.samples if isinstance(item, SampleBatch) else (item,))]


def test_what_a_source_shows_has_its_owner_where_the_settings_have_owners() -> None:
    def team(name: str, **patterns: str) -> Team:
        return Team(name, "", {kind: (BoundedPattern(text, "owners", whole=True),) for kind, text in patterns.items()})

    ours = Owners((team("payments", application="pay.*"), team("fraud", topic="scores")))

    def held(number: int, application: str, topic: str) -> Stall:
        holder = Blocker("", application, number, 1, 1, BlockerKind.HANGING)
        return Stall(TopicPartition(topic, 0), NOON, 1, 2, 1, holder)

    items = (
        catalogue.APPLICATION_INFO(1.0, "prod", "pay-eu", "producer", "", ""),
        catalogue.APPLICATION_INFO(1.0, "prod", "other", "producer", "", ""),
        catalogue.SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS(NOON, "prod", "", "pay-etl", "orders"),
        Stalls((held(7, "", "scores"), held(7, "", "x"), held(8, "pay", "scores"), held(9, "other", "x"))),
    )

    def owned(owners: Owners) -> set[tuple[str, ...]]:
        judged = WithThresholds(GivenSource(items), lambda: NONE, Clock(wall=lambda: NOON), owners=lambda: owners)
        found = [item for item in judged.read(Deadline.after(1), Facts()) if isinstance(item, SampleBatch)]
        return {sample.labels[1:] for item in found for sample in item.samples if sample.metric is catalogue.OWNER_INFO}

    assert owned(Owners()) == set()
    assert owned(ours) == {
        ("application", "pay-eu", "payments"),
        ("application", "other", "unowned"),
        ("query", "pay-etl/orders", "payments"),
        ("cluster", "prod", "unowned"),
        ("holder", "7", "fraud"),
        ("holder", "8", "payments"),
        ("holder", "9", "unowned"),
    }


def test_a_subject_that_a_pattern_takes_too_long_for_is_a_fault_and_has_the_defaults() -> None:
    slow = "a" * 100 + "!"
    ours = Thresholds((override("(a|a)*", kind="application", unclean=0.01),))
    items = read(GivenSource((catalogue.APPLICATION_INFO(1.0, "prod", slow, "producer", "", ""),)), ours)
    shown = {item.labels[2]: item.value for item in items[1:] if isinstance(item, Sample)}
    assert shown["unclean"] == 0.05
    (fault,) = [item for item in items if isinstance(item, Fault)]
    assert fault.detail.startswith("thresholds: '(a|a)*' takes too long")


@pytest.mark.parametrize("kind", ["applications", "topics", "groups", "connectors"])
def test_a_subject_that_an_owners_pattern_of_the_settings_takes_too_long_for_is_unowned_with_a_fault(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "settings.yml"
    clusters = "clusters: [{name: prod, kafka: {bootstrap.servers: 'k:9092'}}]\n"
    path.write_text(f"{clusters}owners: [{{team: slow, {kind}: ['(a|a)*']}}, {{team: fast, {kind}: ['b+']}}]\n")
    ours = ConfigSource(path, environ={}).load().owned()
    began = process_time()
    assert ours.of(kind.removesuffix("s"), "a" * 100 + "!") == UNOWNED
    assert process_time() - began < MOST_SECONDS + 0.5
    assert ours.of(kind.removesuffix("s"), "bbb") == "fast"
    judged = WithThresholds(GivenSource(()), lambda: NONE, Clock(wall=lambda: NOON), owners=lambda: ours)
    (fault,) = [item for item in judged.read(Deadline.after(1), Facts()) if isinstance(item, Fault)]
    assert fault.detail.startswith("owners: '(a|a)*' takes too long")


def test_a_fault_of_the_applications_patterns_is_one_of_the_source_that_reads_next() -> None:
    grouping = Grouping(["^(?P<application>(a|a)*)$"])
    grouping.of("a" * 100 + "!")
    judged = WithThresholds(GivenSource(()), lambda: NONE, Clock(wall=lambda: NOON), grouping)
    (fault,) = judged.read(Deadline.after(1), Facts())
    assert isinstance(fault, Fault)
    assert list(judged.read(Deadline.after(1), Facts())) == []


def test_thresholds_are_beside_each_application_once() -> None:
    shown = (
        catalogue.APPLICATION_INFO(1.0, "prod", "pay", "producer", "", ""),
        catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS(1.0, "prod", "pay"),
    )
    ours = Thresholds((override("pay", kind="application", unclean=0.01),))
    made = [fact for fact in read(GivenSource(shown), ours) if isinstance(fact, Sample)][2:]
    assert {(str(sample.metric), *sample.labels[1:]): sample.value for sample in made} == {
        ("kafka_eos_application_threshold_seconds", "pay", "open_warning"): 900,
        ("kafka_eos_application_threshold_seconds", "pay", "completion_critical"): 300,
        ("kafka_eos_application_threshold_seconds", "pay", "silent_critical"): math.inf,
        ("kafka_eos_application_threshold_ratio", "pay", "unclean"): 0.01,
    }
    assert len(made) == 4


def test_an_application_that_the_log_shows_has_no_thresholds_beside_its_oldest_transaction() -> None:
    oldest = tuple(
        catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS(1.0, "prod", name) for name in ("pay", "ship")
    )
    opened = OpenTransactions("txnlog", (), complete=True)
    logged = LoggedTransactions(opened, CoordinatorTime(), frozenset({"pay"}))
    made = [fact for fact in read(GivenSource(oldest, "transactions"), NONE, logged) if isinstance(fact, Sample)]
    assert {sample.labels[1] for sample in made[2:]} == {"ship"}
    shown = (catalogue.APPLICATION_INFO(1.0, "prod", "pay", "producer", "", ""),)
    beside = [fact for fact in read(GivenSource(shown), NONE, logged) if isinstance(fact, Sample)][1:]
    assert {sample.labels[1] for sample in beside} == {"pay"}


def test_a_query_and_a_connector_are_named_with_what_they_belong_to() -> None:
    shown = (
        catalogue.SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS(1.0, "prod", "log", "etl", "orders"),
        catalogue.CONNECT_CONNECTOR_INFO(1.0, "prod", "main", "main", "jdbc", "source", "", ""),
    )
    ours = Thresholds(
        (
            override("etl/orders", kind="query", stalled_warning=1),
            override("main/jdbc", kind="connector", commit_failures=0.5),
        )
    )
    made = [fact for fact in read(GivenSource(shown), ours) if isinstance(fact, Sample)][2:]
    assert [(sample.labels, sample.value) for sample in made] == [
        (("prod", "etl", "orders", "stalled_warning"), 1),
        (("prod", "main", "jdbc", "commit_failures"), 0.5),
    ]


def test_what_is_ignored_is_a_series_with_its_reason() -> None:
    shown = (catalogue.AUDIT_LAST_RUN_TIMESTAMP_SECONDS(1.0, "prod", "file", "nightly", "orders"),)
    ours = Thresholds(
        (Override("audit", BoundedPattern(".*", "thresholds", whole=True), {}, "moved away", ignored=True),)
    )
    assert catalogue.IGNORED_INFO(1.0, "prod", "audit", "nightly", "moved away") in read(GivenSource(shown), ours)


def test_what_shows_nothing_has_no_thresholds_and_faults_pass() -> None:
    fault = Fault(Reason.TIMEOUT, "late")
    assert read(GivenSource((fault,))) == [fault]


def config(text: str, tmp_path: object) -> Thresholds:
    file = tmp_path / "eos.yml"  # type: ignore[operator]
    file.write_text("clusters: [{kafka: {bootstrap.servers: 'k:1'}}]\nthresholds:\n" + text)
    return ConfigSource(file, {}).load().in_force()


def test_the_settings_say_thresholds_by_pattern(tmp_path: object) -> None:
    ours = config(
        "- {kind: topic, pattern: n-.*, stall_warning: 1h, stall_critical: never, reason: it, between: '22:00-05:00'}\n"
        "- {kind: application, pattern: flink, ignore: true, reason: two-phase commit}\n",
        tmp_path,
    )
    assert ours.of("topic", "n-1", NIGHT) == {"stall_warning": 3600, "stall_critical": math.inf, **NEVER_LATE}
    assert ours.of("topic", "n-1", NOON) == DEFAULTS["topic"]
    assert ours.ignored("application", "flink", NOON) == "two-phase commit"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{kind: topic, pattern: a, unclean: 0.1, reason: x}", "unclean is none of a topic"),
        ("{kind: topic, pattern: a, reason: x}", "needs either a threshold or ignore"),
        ("{kind: topic, pattern: a, ignore: true, stall_warning: 5m, reason: x}", "needs either a threshold or ignore"),
        ("{kind: topic, pattern: a, stall_warning: soon, reason: x}", "must be a duration"),
        ("{kind: application, pattern: a, unclean: 2, reason: x}", "must be a share"),
        ("{kind: topic, pattern: a, ignore: true, reason: x, between: '9-5'}", "HH:MM-HH:MM"),
        (
            "{kind: topic, pattern: a, ignore: true, reason: x, between: '09:00-09:00'}",
            "leave it out for the whole day",
        ),
        ("{kind: topic, pattern: a, ignore: true}", "reason"),
        ("{kind: topic, pattern: '(', ignore: true, reason: x}", "no regular expression"),
    ],
)
def test_a_threshold_that_means_nothing_is_refused(entry: str, problem: str, tmp_path: object) -> None:
    with pytest.raises(ConfigError, match=problem):
        config(f"- {entry}\n", tmp_path)


def test_a_group_has_the_thresholds_that_were_given_and_no_others() -> None:
    shown = tuple(
        catalogue.GROUP_READ_COMMITTED_LAG_OFFSETS(1.0, "prod", group, topic)
        for group in ("billing", "audit")
        for topic in ("orders", "refunds")
    )
    ours = Thresholds((override("billing", kind="group", lag_warning=1000),))
    made = [fact for fact in read(GivenSource(shown, "groups"), ours) if isinstance(fact, Sample)][len(shown) :]
    assert made == [catalogue.GROUP_THRESHOLD_OFFSETS(1000.0, "prod", "billing", "lag_warning")]


def test_what_is_ignored_is_a_fact_for_the_page_as_long_as_the_stalls_that_are_shown() -> None:
    now = [NOON]
    window = (time(11), time(13))
    ours = Thresholds(
        (
            replace(override("test-.*", "a playground"), ignored=True, window=window),
            replace(override("try", "a trial", kind="application"), ignored=True, window=window),
        )
    )
    held = [
        Stall(TopicPartition(topic, number), NOON - 9, 1, 2, 1, Blocker("", "", None, None, 1, BlockerKind.UNKNOWN))
        for topic in ("test-1", "orders")
        for number in (0, 1)
    ]
    shown = catalogue.APPLICATION_INFO(1.0, "prod", "try", "producer", "", "")
    source = GivenSource((shown, Stalls(tuple(held))), "lso")
    judged = WithThresholds(source, lambda: ours, Clock(wall=lambda: now[0]))

    def told() -> list[Fact]:
        return [item for item in judged.read(Deadline.after(1), Facts()) if isinstance(item, IgnoredSubjects)]

    both = (IgnoredSubject("application", "try", "a trial"), IgnoredSubject("topic", "test-1", "a playground"))
    assert told() == [IgnoredSubjects(both)]
    whole, source.items = source.items, (Fault(Reason.TIMEOUT, "late"),)
    assert told() == []  # the stalls of the last read are still shown, and ignored
    source.items = whole
    now[0] += 3600.0
    assert told() == [IgnoredSubjects(())]


def test_a_source_that_may_be_down_says_why_also_when_it_raises() -> None:
    ours = Thresholds(
        (
            Override(
                "source", BoundedPattern("txnlog/.*", "thresholds", whole=True), {}, "READ is refused", ignored=True
            ),
        )
    )
    assert read(GivenSource((), "txnlog"), ours) == [IgnoredSource("READ is refused")]
    assert read(GivenSource((), "lso"), ours) == []

    class RaisingSource(GivenSource):
        def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
            yield from super().read(deadline, facts)
            raise ValueError

    clock = Clock(wall=lambda: NOON)
    judged = WithThresholds(RaisingSource((), "txnlog"), lambda: ours, clock)
    snapshot = read_source(judged, Deadline.after(1), Facts(), clock, lambda *_: None)
    assert snapshot.facts == (IgnoredSource("READ is refused"),)


@pytest.mark.parametrize(
    ("entry", "word"),
    [
        ("{kind: group, pattern: a, reason: b, lag_warning: -1}", "number of offsets above 0"),
        ("{kind: group, pattern: a, reason: b, lag_warning: .inf}", "number of offsets above 0"),
        ("{kind: group, pattern: a, reason: b, lag_warning: 5m}", "number of offsets above 0"),
        ("{kind: source, pattern: a, reason: b, stall_warning: 5m}", "no threshold and can be ignored"),
        ("{kind: source, pattern: a, reason: b}", "needs either a threshold or ignore"),
    ],
)
def test_a_wrong_lag_or_source_is_refused(tmp_path: Path, entry: str, word: str) -> None:
    file = tmp_path / "settings.yml"
    file.write_text(f"clusters: [{{name: prod, kafka: {{bootstrap.servers: a:1}}}}]\nthresholds: [{entry}]\n")
    with pytest.raises(ConfigError) as error:
        ConfigSource(file, {}).load()
    assert word in str(error.value)
