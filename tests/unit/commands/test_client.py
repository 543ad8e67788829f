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
    good = write(tmp_path, "good.properties", "value.serializer=a\ntransactional.id=a-1\n")
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
        "its names do not tel",
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
