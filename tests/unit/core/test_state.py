"""State that survives a restart, and that its loss is safe."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from exporter.core.state import StateDir, StateInUseError, lock_state


def test_a_document_comes_back_under_its_cluster_only(tmp_path: Path) -> None:
    StateDir(tmp_path / "deep").save("c-1", "stalls", {"orders": {"0": [1, 2.5]}})
    again = StateDir(tmp_path / "deep")
    assert again.load("c-1", "stalls") == {"orders": {"0": [1, 2.5]}}
    assert again.load("c-2", "stalls") == {}
    assert again.load("c-1", "txnlog") == {}


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "\x00"])
def test_a_document_that_cannot_be_used_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "txnlog.json").write_text(text)
    assert StateDir(tmp_path).load("c", "txnlog") == {}


def test_bytes_that_are_no_text_are_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "txnlog.json").write_bytes(b"\xff\xfe{}")
    assert StateDir(tmp_path).load("c", "txnlog") == {}


def test_what_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.save("c", "x", {"a": 1})
    path = tmp_path / "c" / "x.json"
    first = path.stat().st_ino
    state.save("c", "x", {"a": 1})
    assert path.stat().st_ino == first
    state.save("c", "x", {"a": 2})
    assert StateDir(tmp_path).load("c", "x") == {"a": 2}


def test_a_folder_that_vanished_is_made_and_written_again(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    for _ in range(2):
        assert state.save("c", "x", {"a": 1})
        assert state.append("c", "x", {"n": 1})
        assert StateDir(tmp_path / "state").load("c", "x") == {"a": 1}
        assert StateDir(tmp_path / "state").journal("c", "x") == [{"n": 1}]
        shutil.rmtree(tmp_path / "state")


def test_a_directory_that_cannot_be_written_is_one_warning_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    state = StateDir(tmp_path / "file" / "below")
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            state.save("c", "x", {"a": number})
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "not writable" in caplog.text


def test_a_document_in_a_folder_that_cannot_be_searched_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = StateDir(tmp_path)
    state.save("c", "x", {"a": 1})
    assert state.has("c", "x")
    monkeypatch.setattr(Path, "exists", _refused)
    assert not state.has("c", "x")


@pytest.mark.parametrize("text", ["{", "[1]", "{}" + " " * 100])
def test_a_document_that_cannot_be_used_is_set_aside_with_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr("exporter.core.state.MOST_BYTES", 100)
    state = StateDir(tmp_path)
    state.append("c", "x", {"n": 1})
    (tmp_path / "c" / "x.json").write_text(text)
    assert (state.load("c", "x"), state.journal("c", "x")) == ({}, [])
    assert state.save("c", "x", {"a": 1})
    assert (tmp_path / "c" / "x.unusable.json").read_text() == text
    assert state.journal("c", "x.unusable") == [{"n": 1}]


def test_a_journal_that_is_too_large_is_set_aside_without_its_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exporter.core.state.MOST_BYTES", 10)
    state = StateDir(tmp_path)
    state.save("c", "x", {"a": 1})
    state.append("c", "x", {"n": "long"})
    assert (state.load("c", "x"), state.journal("c", "x")) == ({"a": 1}, [])
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["x.json", "x.unusable.journal"]


@pytest.mark.parametrize("unread", ["x.json", "x.journal"])
def test_a_file_that_cannot_be_read_is_not_written_over_while_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unread: str
) -> None:
    state = StateDir(tmp_path)
    state.save("c", "x", {"a": 1})
    state.append("c", "x", {"n": 1})
    before = {path: path.read_bytes() for path in (tmp_path / "c").iterdir()}
    with monkeypatch.context() as refused:
        refused.setattr("exporter.core.state.read_regular", _refused)
        assert (state.load("c", "x") if unread == "x.json" else state.journal("c", "x")) in ({}, [])
    assert "cannot be read: Permission denied" in state.trouble
    assert not state.save("c", "x", {"a": 2})
    assert not state.append("c", "x", {"n": 2})
    state.forget_journal("c", "x")
    assert state.save("c", "other", {"a": 1})
    assert unread in state.trouble
    assert {path: path.read_bytes() for path in before} == before
    (tmp_path / "c" / unread).unlink()
    assert state.save("c", "x", {"a": 2})
    assert state.append("c", "x", {"n": 2})
    state.forget_journal("c", "x")
    assert state.trouble == ""


def test_a_cluster_id_never_leads_out_of_the_directory(tmp_path: Path) -> None:
    inner = tmp_path / "state"
    StateDir(inner).save("../../evil/id", "x", {"a": 1})
    assert [path.parent.parent for path in tmp_path.rglob("x.json")] == [inner]


def test_without_a_directory_or_a_cluster_id_nothing_is_kept(tmp_path: Path) -> None:
    for state, cluster_id in ((StateDir(None), "c"), (StateDir(tmp_path), "")):
        state.save(cluster_id, "x", {"a": 1})
        assert state.load(cluster_id, "x") == {}
    assert list(tmp_path.iterdir()) == []


def test_a_durable_document_replaces_the_one_before(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    for number in range(3):
        state.save("c", "x", {"a": number}, durable=True)
    assert StateDir(tmp_path).load("c", "x") == {"a": 2}
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["x.json"]


def test_a_journal_gives_back_its_lines_up_to_the_first_that_is_not_whole(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    assert state.journal("c", "x") == []
    for number in range(3):
        state.append("c", "x", {"n": number})
    assert state.journal("c", "x") == [{"n": 0}, {"n": 1}, {"n": 2}]
    path = tmp_path / "c" / "x.journal"
    path.write_bytes(path.read_bytes()[:-3])
    assert StateDir(tmp_path).journal("c", "x") == [{"n": 0}, {"n": 1}]
    path.write_bytes(b'{"n": 0}\n[1]\n{"n": 2}\n')
    assert StateDir(tmp_path).journal("c", "x") == [{"n": 0}]
    state.forget_journal("c", "x")
    assert state.journal("c", "x") == []


@pytest.mark.parametrize("value", [0.1 + 0.2, 1e22, -0.0, 2**70, "\ud800", 'é\n"', (1, [None, True]), {1: {"2": []}}])
def test_what_is_appended_comes_back_as_from_a_document(tmp_path: Path, value: object) -> None:
    state = StateDir(tmp_path)
    assert state.append("c", "x", {"n": value})
    assert state.save("c", "x", {"n": value})
    assert state.journal("c", "x") == [state.load("c", "x")]


def test_a_document_and_its_journal_are_set_aside_whole(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.save("c", "txnlog", {"format": 9})
    state.append("c", "txnlog", {"line": 1})
    assert state.set_aside("c", "txnlog") == str(tmp_path / "c" / "txnlog.unusable.json")
    assert (state.load("c", "txnlog"), state.journal("c", "txnlog")) == ({}, [])
    assert state.load("c", "txnlog.unusable") == {"format": 9}
    assert state.journal("c", "txnlog.unusable") == [{"line": 1}]
    assert state.set_aside("c", "txnlog") == ""


def test_a_journal_that_cannot_be_written_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    state = StateDir(tmp_path / "file" / "below")
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            state.append("c", "x", {"n": number})
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_second_agent_on_one_folder_says_who_has_it_and_exits_2(tmp_path: Path) -> None:
    held = lock_state(tmp_path)
    assert held is not None
    words = [sys.executable, "-m", "exporter", "run", "--bootstrap-server", "127.0.0.1:1"]
    words += ["--web.listen-address", "127.0.0.1:0", "--state.dir", str(tmp_path)]
    second = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 2, second.stderr
    assert f"state.dir {tmp_path} is in use by process {os.getpid()} on {socket.gethostname()}" in second.stderr
    held.close()
    again = lock_state(tmp_path)
    assert again is not None
    again.close()


def test_a_lock_that_vanished_with_its_folder_is_taken_again_before_a_write(tmp_path: Path) -> None:
    held = lock_state(tmp_path / "state")
    assert held is not None
    state = StateDir(tmp_path / "state", held)
    for write in (state.save, state.append):
        shutil.rmtree(tmp_path / "state")
        assert write("c", "x", {"a": 1})
        with pytest.raises(StateInUseError, match="in use by process"):
            lock_state(tmp_path / "state")
    held.close()


def test_a_folder_that_another_process_locked_meanwhile_is_not_written(tmp_path: Path) -> None:
    held = lock_state(tmp_path)
    assert held is not None
    state = StateDir(tmp_path, held)
    state.save("c", "x", {"a": 1})
    shutil.rmtree(tmp_path)
    other = lock_state(tmp_path)
    assert other is not None
    StateDir(tmp_path, other).save("c", "x", {"a": 2})
    assert not state.save("c", "x", {"a": 3})
    assert not state.append("c", "x", {"a": 3})
    assert state.set_aside("c", "x") == ""
    assert f"in use by process {os.getpid()}" in state.trouble
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["x.json"]
    assert state.load("c", "x") == {"a": 2}
    other.close()
    assert state.save("c", "x", {"a": 3})
    assert state.append("c", "x", {"a": 3})
    assert state.trouble == ""
    held.close()
    assert not state.append("c", "x", {"a": 3})


def test_a_lock_is_not_written_through_a_link(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / ".lock").symlink_to(tmp_path / "victim")
    assert lock_state(tmp_path) is None
    assert (tmp_path / "victim").read_text() == "precious"
    assert "cannot be locked" in caplog.text


@pytest.mark.parametrize("linked", [True, False])
def test_a_lock_file_of_somebody_else_keeps_its_content(tmp_path: Path, linked: bool) -> None:
    victim = tmp_path / ("victim" if linked else ".lock")
    victim.write_text("precious")
    if linked:
        (tmp_path / ".lock").hardlink_to(victim)
    held = lock_state(tmp_path)
    assert (held is None) == linked
    assert victim.read_text() == "precious"
    if held is not None:
        held.close()


def test_a_full_disk_locks_all_the_same_and_a_folder_without_locks_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("os.write", fails)
        held = lock_state(tmp_path)
    assert held is not None
    assert caplog.text == ""
    with pytest.raises(StateInUseError, match="in use by another agent"):
        lock_state(tmp_path)
    held.close()
    monkeypatch.setattr("fcntl.flock", fails)
    assert lock_state(tmp_path) is None
    assert "cannot be locked" in caplog.text


def test_a_folder_that_cannot_be_made_is_not_locked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert lock_state(tmp_path / "file" / "state") is None
    assert lock_state(None) is None


def _refused(*_: object) -> bytes:
    raise PermissionError(errno.EACCES, "Permission denied")


def _lives(parent: int, _: int) -> bool:
    return os.getppid() == parent


KILLS = int(os.environ.get("STATE_KILLS", "40"))


def test_a_writer_that_is_killed_leaves_a_whole_document_and_whole_lines(tmp_path: Path) -> None:
    for turn in range(KILLS):
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            state = StateDir(tmp_path)
            for number in itertools.takewhile(partial(_lives, parent), itertools.count()):
                state.save("c", "txnlog", {"number": number, "rest": "x" * 200_000}, durable=bool(turn % 2))
                state.append("c", "txnlog", {"number": number, "rest": "y" * 20_000})
            os._exit(1)
        until = time.monotonic() + (turn % 10 + 1) / 500
        while time.monotonic() < until:
            pass
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        again = StateDir(tmp_path)
        document = again.load("c", "txnlog")
        assert document == {} or len(document["rest"]) == 200_000
        assert all(len(entry["rest"]) == 20_000 for entry in again.journal("c", "txnlog"))
        again.forget_journal("c", "txnlog")
