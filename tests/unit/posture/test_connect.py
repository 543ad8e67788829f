"""Tests of what the posture says of a connector that asks for exactly-once, by what is known of its tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.connect.exactly_once import LoggedIds
from exporter.connect.facts import ConnectState
from exporter.connect.preflight import PluginSupport
from exporter.connect.rest import Connector, Task
from exporter.posture.check import CheckResult, PostureCheck
from exporter.posture.connect import connect_checks, interval_hint
from exporter.transactions.facts import ConnectTaskId

RECENT, OLD = ConnectTaskId(recent=True, timeout=15.0), ConnectTaskId(recent=False, timeout=15.0)
WORKER, OFFSETS, SINK, BOUNDARY, COLLISION = (
    f"connect_{name}"
    for name in ("worker_exactly_once", "offsets_topic", "sink_isolation", "boundary_interval", "transactional_ids")
)


def source(name: str, tasks: int = 1, **settings: str) -> Connector:
    made = tuple(Task(name, str(number), "running", f"c{number + 1}:8083") for number in range(tasks))
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    return Connector(name, "source", settings=dotted, tasks=made, plugin="Some")


def group(group_id: str, *connectors: Connector, **known: object) -> ConnectState:
    return ConnectState(group_id or "main", connectors, True, group_id=group_id, **known)  # type: ignore[arg-type]


def log(*groups: str, **ids: ConnectTaskId) -> LoggedIds:
    return LoggedIds({name.replace("_", "-"): entry for name, entry in ids.items()}, frozenset(groups))


def judge(
    *connects: ConnectState, known: LoggedIds | None = None, beyond: tuple[str, str] | None = None
) -> dict[tuple[str, str], PostureCheck]:
    found = connect_checks(connects, known, "no READ", frozenset({beyond} if beyond else ()))
    return {(check.name, check.subject): check for check in found}


def test_a_connector_does_not_pass_by_the_id_of_another_whose_name_ends_alike() -> None:
    orders, eu = group("etl", source("orders")), group("etl-eu", source("eu-orders"))
    found = judge(orders, eu, known=log("etl", "etl-eu", etl_eu_eu_orders_0=RECENT))
    check = found[WORKER, "etl/orders"]
    assert check.verdict is CheckResult.UNKNOWN
    assert "no id etl-orders-0" in check.error
    assert found[WORKER, "etl-eu/eu-orders"].verdict is CheckResult.PASSED


@pytest.mark.parametrize("read", [True, False], ids=["both groups read", "the other one known by its leader"])
def test_an_id_that_two_groups_can_have_settles_nothing(read: bool) -> None:
    ours, theirs = group("etl", source("eu-stock")), group("etl-eu", source("stock"))
    found = judge(*((ours, theirs) if read else (ours,)), known=log("etl", "etl-eu", etl_eu_stock_0=RECENT))
    check = found[WORKER, "etl/eu-stock"]
    assert check.verdict is CheckResult.UNKNOWN
    assert "may also be that of task 0 of connector stock of group etl-eu" in check.error


def test_two_tasks_that_write_in_transactions_with_one_id_fail_and_name_each_other() -> None:
    writes, plain = {("eu-stock", "0"): True}, {("stock", "0"): False}
    ours = group("etl", source("eu-stock"), transactional=writes)
    theirs = group("etl-eu", source("stock"), transactional={("stock", "0"): True})
    found = judge(ours, theirs)
    check = found[COLLISION, "etl/eu-stock"]
    assert check.verdict is CheckResult.FAILED
    both = "etl-eu-stock-0 is the id of its task 0 and of task 0 of connector stock of group etl-eu"
    assert both in check.found
    assert "task 0 of connector eu-stock of group etl" in found[COLLISION, "etl-eu/stock"].found
    assert (COLLISION, "etl/eu-stock") not in judge(ours, group("etl-eu", source("stock"), transactional=plain))
    assert (COLLISION, "etl/eu-stock") not in judge(ours, group("etl-eu", source("other")))
    unsure = judge(group("etl", source("eu-stock")), group("etl-eu", source("stock")))[COLLISION, "etl/eu-stock"]
    assert unsure.verdict is CheckResult.UNKNOWN
    assert both in unsure.error


def test_an_id_that_no_connector_of_the_other_group_can_have_is_ours() -> None:
    ours, theirs = group("etl", source("eu-stock")), group("etl-eu", source("other"))
    found = judge(ours, theirs, known=log("etl", "etl-eu", etl_eu_stock_0=RECENT))
    assert found[WORKER, "etl/eu-stock"].verdict is CheckResult.PASSED


def test_an_old_id_proves_nothing_after_a_rollback() -> None:
    check = judge(group("etl", source("orders")), known=log("etl", etl_orders_0=OLD))[WORKER, "etl/orders"]
    assert check.verdict is CheckResult.UNKNOWN
    assert "more than an hour old" in check.error


def test_mbeans_are_believed_before_rest_and_rest_before_the_log() -> None:
    known = log("etl", etl_orders_0=RECENT)
    no_transactions = {("orders", "0"): False}
    by_mbeans = group("etl", source("orders"), transactional=no_transactions, workers={"c1:8083": True})
    assert judge(by_mbeans, known=known)[WORKER, "etl/orders"].verdict is CheckResult.FAILED
    by_rest = group("etl", source("orders"), workers={"c1:8083": False})
    assert judge(by_rest, known=known)[WORKER, "etl/orders"].verdict is CheckResult.FAILED


@pytest.mark.parametrize(
    ("known", "fix"),
    [
        ({}, "exactly.once.source.support=preparing on every worker"),
        ({"leader_transactional": False}, "exactly.once.source.support=preparing on every worker"),
        ({"leader_transactional": True}, "the workers are prepared"),
        ({"workers": {"c9:8083": True}}, "exactly.once.source.support=enabled on the workers that do not"),
    ],
    ids=["disabled", "disabled by MBeans", "preparing", "half way"],
)
def test_each_stage_of_the_upgrade_has_its_next_step(known: dict[str, object], fix: str) -> None:
    state = group("etl", source("orders"), transactional={("orders", "0"): False}, **known)
    check = judge(state)[WORKER, "etl/orders"]
    assert check.verdict is CheckResult.FAILED
    assert check.fix.startswith(fix)


def test_tasks_of_two_kinds_are_counted_and_the_restart_is_to_be_finished() -> None:
    both = {("orders", "0"): True, ("orders", "1"): False}
    check = judge(group("etl", source("orders", 2), transactional=both))[WORKER, "etl/orders"]
    assert check.verdict is CheckResult.FAILED
    assert "1 of 2 tasks" in check.found
    assert "finish the rolling restart" in check.fix


def test_a_worker_without_exactly_once_fails_a_connector_whose_tasks_do_not_run_there_yet() -> None:
    workers = {"c1:8083": True, "c2:8083": False}
    check = judge(group("etl", source("orders"), transactional={("orders", "0"): True}, workers=workers))[
        WORKER, "etl/orders"
    ]
    assert check.verdict is CheckResult.FAILED
    assert "may move" in check.found
    assert "finish the rolling restart" in check.fix


def test_a_task_without_evidence_keeps_the_others_from_passing() -> None:
    check = judge(group("etl", source("orders", 2), transactional={("orders", "0"): True}))[WORKER, "etl/orders"]
    assert check.verdict is CheckResult.UNKNOWN


def test_a_plugin_that_has_no_exactly_once_is_information_unless_it_is_required() -> None:
    plugins = {"orders": PluginSupport.UNSUPPORTED}
    off = {("orders", "0"): False}
    workers = {"c1:8083": False}
    chosen = judge(group("etl", source("orders"), transactional=off, supports=plugins, workers=workers))[
        WORKER, "etl/orders"
    ]
    assert "not enabled on c1:8083" in chosen.found
    assert chosen.verdict is CheckResult.INFORMATION
    assert "at-least-once by choice" in chosen.found
    required = source("orders", exactly_once_support="required")
    asked = judge(group("etl", required, transactional=off, supports=plugins))[WORKER, "etl/orders"]
    assert asked.verdict is CheckResult.FAILED


def test_what_tasks_do_wins_over_what_their_plugin_answers() -> None:
    writes = group(
        "etl", source("orders"), transactional={("orders", "0"): True}, supports={"orders": PluginSupport.UNSUPPORTED}
    )
    check = judge(writes)[WORKER, "etl/orders"]
    assert check.verdict is CheckResult.PASSED
    assert "by choice" not in check.found


def test_a_plugin_that_is_unsupported_without_settings_is_not_at_least_once_by_its_choice() -> None:
    unsupported = {"Some": PluginSupport.UNSUPPORTED}
    off = {("orders", "0"): False}
    check = judge(group("etl", source("orders"), transactional=off, plugins=unsupported))[WORKER, "etl/orders"]
    assert check.verdict is CheckResult.FAILED
    assert "by choice" not in check.found


def test_workers_of_other_addresses_speak_for_all_only_when_as_many_answer() -> None:
    all_of_them = group("etl", source("orders", 2), workers={"lb-1:80": False, "lb-2:80": False})
    assert judge(all_of_them)[WORKER, "etl/orders"].verdict is CheckResult.FAILED
    one = group("etl", source("orders", 2), workers={"lb-1:80": False})
    assert judge(one)[WORKER, "etl/orders"].verdict is CheckResult.UNKNOWN


def test_the_offsets_topic_is_a_matter_of_connectors_with_transactions_alone() -> None:
    off = group("etl", source("orders"), transactional={("orders", "0"): False})
    assert (OFFSETS, "etl/orders") not in judge(off)
    on = group("etl", source("orders"), transactional={("orders", "0"): True})
    assert judge(on)[OFFSETS, "etl/orders"].verdict is CheckResult.FAILED


@pytest.mark.parametrize(
    ("interval", "override", "verdict"),
    [
        ("40000", "15000", CheckResult.FAILED),
        ("15000", "15000", CheckResult.FAILED),
        ("14999", "15000", CheckResult.PASSED),
        ("14000", "", CheckResult.PASSED),  # the log has 15 s
        ("16000", "", CheckResult.FAILED),
        ("", "15000", CheckResult.UNKNOWN),
        ("²", "15000", CheckResult.UNKNOWN),
    ],
)
def test_the_boundary_interval_is_compared_with_the_timeout(interval: str, override: str, verdict: CheckResult) -> None:
    settings = {"transaction_boundary": "interval"}
    if interval:
        settings["transaction_boundary_interval_ms"] = interval
    if override:
        settings["producer_override_transaction_timeout_ms"] = override
    state = group("etl", source("orders", 1, **settings), transactional={("orders", "0"): True})
    assert judge(state, known=log("etl", etl_orders_0=RECENT))[BOUNDARY, "etl/orders"].verdict is verdict


def sink(**settings: str) -> ConnectState:
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    return group("etl", Connector("copy", "sink", settings=dotted))


def test_a_sink_without_override_is_unknown_as_the_workers_setting_is_unseen() -> None:
    assert judge(sink())[SINK, "etl/copy"].verdict is CheckResult.UNKNOWN
    level = sink(consumer_override_isolation_level="read_committed")
    assert judge(level)[SINK, "etl/copy"].verdict is CheckResult.PASSED


def test_a_sink_whose_group_read_uncommitted_records_fails_whatever_it_is_set_to() -> None:
    level = sink(consumer_override_isolation_level="read_committed")
    check = judge(level, beyond=("connect-copy", "orders"))[SINK, "etl/copy"]
    assert check.verdict is CheckResult.FAILED
    own = sink(consumer_override_group_id="mine")
    assert judge(own, beyond=("mine", "orders"))[SINK, "etl/copy"].verdict is CheckResult.FAILED
    assert judge(own, beyond=("connect-copy", "orders"))[SINK, "etl/copy"].verdict is CheckResult.UNKNOWN


def test_a_connector_without_tasks_has_nothing_to_check() -> None:
    stopped = replace(source("orders"), tasks=())
    assert not judge(group("etl", stopped))


def test_an_interval_above_the_timeout_explains_a_failed_task_and_nothing_else_does() -> None:
    def hint(interval: str, timeout: str = "", boundary: str = "interval") -> str | None:
        settings = {"transaction.boundary": boundary, "transaction.boundary.interval.ms": interval}
        more = {"producer.override.transaction.timeout.ms": timeout} if timeout else {}
        return interval_hint(replace(source("orders"), settings={**settings, **more}))

    said = hint("40000", "15000") or ""
    assert "transaction.boundary.interval.ms=40000 is not below 15000, producer.override.transaction.timeout.ms" in said
    assert "the default of transaction.timeout.ms" in (hint("60000") or "")
    assert hint("10000", "15000") is None
    assert hint("", "15000") is None
    assert hint("40000", "15000", boundary="poll") is None


@pytest.mark.parametrize(
    ("versions", "verdict"),
    [
        ({"c1:8083": "3.3.0", "c2:8083": "4.3.1"}, CheckResult.PASSED),
        ({"c1:8083": "3.2.3", "c2:8083": "4.3.1"}, CheckResult.FAILED),
        ({"c1:8083": "7.2.1-ccs"}, CheckResult.FAILED),
        ({"c1:8083": "7.3.0-ccs"}, CheckResult.PASSED),
        ({"c1:8083": "6.2.0-ce"}, CheckResult.FAILED),
        ({"c1:8083": "8.0.0-ccs"}, CheckResult.PASSED),
        ({"c1:8083": "unknown"}, None),
        ({"c1:8083": "4.3.1", "c2:8083": "unknown"}, CheckResult.UNKNOWN),
        ({"c1:8083": "3.2.3", "c2:8083": "unknown"}, CheckResult.FAILED),
        ({}, None),
    ],
)
def test_workers_before_exactly_once_fail_by_the_number_of_kafka_and_not_of_a_platform(
    versions: dict[str, str], verdict: CheckResult | None
) -> None:
    found = judge(group("etl", versions=versions))
    check = found.get(("connect_worker_version", "etl"))
    assert (None if check is None else check.verdict) is verdict
    assert check is None or verdict is not CheckResult.FAILED or "c1:8083" in check.found
