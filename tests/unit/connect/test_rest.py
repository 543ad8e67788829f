"""The REST answer of a real Connect cluster, and answers of other servers."""

from __future__ import annotations

import json

import pytest

from exporter.connect.rest import KEPT_SETTINGS, Connector, RestAnswer, parse, plugin_versions
from exporter.model import Reason
from exporter.words import FailureCause
from tests.helpers.recordings import RECORDINGS

CAPTURE = RECORDINGS / "connect" / "rest.json"
PASSWORD = "hunter2"


@pytest.fixture
def captured() -> RestAnswer:
    return parse(CAPTURE.read_bytes(), "c1:8083")


def connectors(answer: RestAnswer) -> dict[str, Connector]:
    assert answer.connectors is not None
    assert not answer.faults
    return {connector.name: connector for connector in answer.connectors}


def test_types_and_exactly_once_settings_are_read_with_their_defaults(captured: RestAnswer) -> None:
    seen = {
        name: (connector.type, connector.exactly_once_support, connector.transaction_boundary)
        for name, connector in connectors(captured).items()
    }
    assert seen == {
        "orders-source": ("source", "requested", "poll"),
        "orders-interval": ("source", "requested", "interval"),
        "steps": ("source", "required", "connector"),
        "crash": ("source", "requested", "poll"),
        "copy": ("sink", "", ""),
    }


def test_states_and_causes_of_tasks_are_read(captured: RestAnswer) -> None:
    tasks = [task for connector in connectors(captured).values() for task in connector.tasks]
    seen = {(task.connector, task.task): (task.state, task.cause) for task in tasks}
    assert seen == {
        ("orders-source", "0"): ("running", None),
        ("orders-interval", "0"): ("running", None),
        ("steps", "0"): ("failed", FailureCause.INVALID_EPOCH),
        ("steps", "1"): ("running", None),
        ("crash", "0"): ("failed", FailureCause.OTHER),
        ("copy", "0"): ("running", None),
    }


def test_the_password_of_a_connector_is_nowhere_in_what_is_kept(captured: RestAnswer) -> None:
    text = CAPTURE.read_text()
    assert PASSWORD in text
    assert text.count(PASSWORD) > 1, "it stands in the configuration and in the trace"
    assert PASSWORD not in repr(captured)
    for connector in connectors(captured).values():
        assert set(connector.settings or ()) <= set(KEPT_SETTINGS)


def test_the_reason_of_a_failure_is_kept_without_its_secret(captured: RestAnswer) -> None:
    (task,) = connectors(captured)["crash"].tasks
    assert task.error == "java.lang.IllegalStateException: cannot reach jdbc:demo://[redacted]@db/orders"


def test_a_failure_on_another_worker_has_another_mark() -> None:
    def marked(worker: str, trace: str) -> str:
        task = {"id": 0, "state": "FAILED", "worker_id": worker, "trace": trace}
        status = {"connector": {"state": "RUNNING"}, "tasks": [task], "type": "source"}
        answer = parse(json.dumps({"a": {"status": status}}).encode(), "c1:8083")
        return connectors(answer)["a"].tasks[0].mark

    assert marked("w1", "x") == marked("w1", "x")
    assert len({marked("w1", "x"), marked("w2", "x"), marked("w1", "y")}) == 3


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", Reason.MALFORMED),
        (b"<html>hello</html>", Reason.MALFORMED),
        (b'{"a": {"status": ', Reason.MALFORMED),
        (b"[" * 100_000, Reason.MALFORMED),
        (b"17", Reason.MALFORMED),
        (b'{"error_code": 500, "message": "timed out"}', Reason.MALFORMED),
        (b'["a", "b"]', Reason.UNSUPPORTED),
        (b"\xff\xfe", Reason.MALFORMED),
    ],
)
def test_what_is_no_list_of_connectors_is_a_fault_that_names_the_worker(body: bytes, reason: Reason) -> None:
    answer = parse(body, "c1:8083")
    assert answer.connectors is None
    assert [fault.reason for fault in answer.faults] == [reason]
    assert "c1:8083" in answer.faults[0].detail


@pytest.mark.parametrize("described", ['"x"', "[1]", '{"status": {"tasks": [{"id": "x"}]}}', '{"info": {"config": 3}}'])
def test_one_connector_in_an_unknown_form_loses_only_itself(described: str) -> None:
    body = f'{{"good": {{"status": {{"connector": {{"state": "RUNNING"}}, "tasks": []}}}}, "odd": {described}}}'
    answer = parse(body.encode(), "c1:8083")
    assert answer.connectors is not None
    assert [connector.name for connector in answer.connectors] == ["good"]
    assert [(fault.reason, "odd" in fault.detail) for fault in answer.faults] == [(Reason.MALFORMED, True)]


def test_a_connector_without_status_yet_has_no_state_and_no_tasks() -> None:
    body = json.dumps({"a": {"info": {"name": "a", "config": {}, "tasks": [], "type": "source"}}}).encode()
    assert connectors(parse(body, "c1:8083")) == {"a": Connector("a", "source", settings={})}


def test_versions_of_plugins_are_known_by_all_names_that_a_configuration_may_use() -> None:
    files = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    rows = [{"class": files, "type": "source", "version": "4.3.1"}, {"class": "x.Other", "version": None}, "odd"]
    found = plugin_versions(json.dumps(rows).encode())
    assert found == dict.fromkeys((files, "FileStreamSourceConnector", "FileStreamSource"), "4.3.1")


def test_a_plugin_that_is_there_in_several_versions_has_none() -> None:
    rows = [{"class": "a.Mirror", "version": "1"}, {"class": "a.Mirror", "version": "2"}]
    assert plugin_versions(json.dumps(rows).encode()) == {}
    rows = [{"class": "a.Mirror", "version": "1"}, {"class": "b.Mirror", "version": "2"}]
    assert plugin_versions(json.dumps(rows).encode()) == {"a.Mirror": "1", "b.Mirror": "2"}


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b"[1, null]", b'{"error_code": 404}', b"[" * 100_000])
def test_what_is_no_list_of_plugins_tells_no_version(body: bytes) -> None:
    assert plugin_versions(body) == {}


def test_the_class_of_a_connector_is_kept(captured: RestAnswer) -> None:
    assert connectors(captured)["copy"].plugin.endswith("FileStreamSinkConnector")
