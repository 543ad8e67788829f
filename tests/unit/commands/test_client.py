"""``check client``: outputs and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exporter.cli import main
from tests.helpers.schemas import conform


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_clean_file_is_zero_and_a_finding_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path, "good.properties", "value.serializer=a\ntransactional.id=a-${HOSTNAME}\n")
    assert main(["check", "client", good]) == 0
    assert capsys.readouterr().out == f"{good}: producer, 2 settings, for exactly-once: nothing found\n"
    bad = write(tmp_path, "bad.properties", "value.serializer=a\nacks=1\ntransactional.id=a\n")
    assert main(["check", "client", good, bad]) == 1
    out = capsys.readouterr().out
    assert f"{bad}:2: error: acks=1 contradicts idempotence: the client refuses to start [acks-not-all]" in out


def test_a_file_that_cannot_be_read_loses_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path, "good.properties", "value.serializer=a\ntransactional.id=a-1\n")
    broken = write(tmp_path, "broken.json", "{")
    broker = write(tmp_path, "server.properties", "process.roles=broker\n")
    unclear = write(tmp_path, "unclear.properties", "a=b\n")
    assert main(["check", "client", broken, good, broker, unclear]) == 2
    done = capsys.readouterr()
    assert "good.properties: producer" in done.out
    assert [line.partition(": ")[2][:20] for line in done.err.splitlines()] == [
        "line 1: no JSON: Exp",
        "these are a broker's",
        "not understood: its ",
    ]


def test_json_and_sarif_are_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = write(tmp_path, "bad.properties", "group.id=g\nisolation.level=read_uncommitted\nsasl.password=x\n")
    assert main(["check", "client", bad, "--output", "json"]) == 1
    [document] = conform("check-client", json.loads(capsys.readouterr().out))["files"]
    assert [finding["rule"] for finding in document["findings"]] == [
        "isolation-read-uncommitted",
        "offsets-outside-transaction",
    ]
    assert main(["check", "client", bad, "--output", "sarif"]) == 1
    assert json.loads(capsys.readouterr().out)["version"] == "2.1.0"


def test_a_cluster_that_does_not_answer_is_said_and_the_files_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write(tmp_path, "good.properties", "value.serializer=a\ntransactional.id=a-1\n")
    code = main(["check", "client", good, "--bootstrap-server", "127.0.0.1:1", "--timeout", "1s"])
    done = capsys.readouterr()
    assert code == 2
    assert "could not ask the cluster" in done.err
    assert "nothing found" in done.out


@pytest.mark.parametrize(
    ("name", "text", "kind", "code"),
    [
        ("kafkajs.json", '{"clientId": "a", "producer": {"transactionalId": "b"}}', "producer", 2),
        ("managed.json", '{"connector.class": "MySource", "kafka.auth.mode": "KAFKA_API_KEY"}', None, 2),
        ("fixed.properties", "value.serializer=a\ntransactional.id=a\n", None, 0),
        ("compose.yml", "services: {a: {environment: {CONNECT_OFFSET_STORAGE_TOPIC: o}}}", None, 0),
        ("list.json", '[{"name": "a", "config": {"connector.class": "x.MySource"}}]', None, 1),
        ("dotted.properties", "spring.kafka.consumer.isolation.level=read_committed", None, 1),
    ],
)
def test_exit_codes_of_what_is_not_understood_noted_and_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, kind: str | None, code: int
) -> None:
    file = write(tmp_path, name, text)
    assert main(["check", "client", file, *(["--kind", kind] if kind else [])]) == code
    done = capsys.readouterr()
    assert "is not set" not in done.out or code != 2
    assert bool(done.err) is (code == 2)


def test_a_part_of_a_file_has_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, "list.json", '[{"name": "a", "config": {"connector.class": "x.MySource"}}]')
    assert main(["check", "client", file]) == 1
    assert capsys.readouterr().out.startswith(f"{file} (a): connector, 1 settings, for exactly-once: 1 found")
    assert main(["check", "client", file, "--output", "json"]) == 1
    [document] = conform("check-client", json.loads(capsys.readouterr().out))["files"]
    assert document["part"] == "a"
