"""``check connection --connect``: the worker's file and the connectors, and what people and programs are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.commands.connection_connect import documents, print_grants, worker_of
from exporter.commands.settings import UsageError
from exporter.connect.grants import Grant, GrantVerdict, Need

FILE = "group.id=etl\nconfig.storage.topic=c\noffset.storage.topic=o\nstatus.storage.topic=s\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "worker.properties"
    path.write_text(FILE)
    return path


def test_names_come_from_the_file_and_tasks_from_the_connectors(file: Path) -> None:
    worker = worker_of(file, ["orders=2", "eu=west=1", "plain"], ["t"])
    assert (worker.group, worker.config_topic, worker.offset_topic, worker.status_topic) == ("etl", "c", "o", "s")
    assert worker.tasks == {"orders": 2, "eu=west": 1, "plain": 1}
    assert [name for name, _ in worker.transactional_ids] == [
        "connect-cluster-etl",
        "etl-eu=west-0",
        "etl-orders-0",
        "etl-orders-1",
        "etl-plain-0",
    ]


@pytest.mark.parametrize("connector", ["orders=", "orders=0", "orders=x", "=3", "orders=²", "orders=-1"])
def test_a_connector_without_a_number_of_tasks_is_refused(file: Path, connector: str) -> None:
    with pytest.raises(UsageError, match="expected NAME or NAME=TASKS"):
        worker_of(file, [connector], [])


def test_more_tasks_than_are_asked_for_are_refused(file: Path) -> None:
    with pytest.raises(UsageError, match="more than 1000 tasks"):
        worker_of(file, ["a=600", "b=600"], [])


@pytest.mark.parametrize(("text", "problem"), [("a=b\n", "no group.id"), ("\0", "NUL"), (None, "cannot be read")])
def test_a_file_that_is_none_of_a_worker_is_named(tmp_path: Path, text: str | None, problem: str) -> None:
    path = tmp_path / "w.properties"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=problem) as refused:
        worker_of(path, [], [])
    assert str(path) in str(refused.value)


def test_people_see_why_a_grant_is_needed_where_it_is_missing_and_programs_see_all(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grants = (
        Grant(Need("WRITE", "TransactionalId", "etl-orders-0", "task 0 commits with it"), GrantVerdict.REFUSED),
        Grant(Need("READ", "Group", "etl", "it does not join"), GrantVerdict.GRANTED),
        Grant(Need("READ", "Topic", "c", "it does not start"), GrantVerdict.NOT_KNOWN, "no answer"),
    )
    print_grants(worker_of(file, [], []), grants)
    said = " ".join(capsys.readouterr().out.split())
    assert "WRITE on TransactionalId:etl-orders-0 refused task 0 commits with it" in said
    assert "it does not join" not in said
    assert "READ on Topic:c: no answer" in said
    assert "--connector NAME=TASKS" in said
    assert [document["verdict"] for document in documents(grants)] == ["refused", "granted", "not known"]
