from __future__ import annotations

import os
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.core.files import PRIVATE, append_line, replace_file


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_written_and_replaced(tmp_path: Path, *, durable: bool) -> None:
    file = tmp_path / "x.json"
    for text in ("one", "two"):
        replace_file(file, text, durable=durable)
        assert file.read_text() == text
    assert list(tmp_path.iterdir()) == [file]


def test_a_write_that_fails_leaves_the_old_content(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    replace_file(file, "old")
    (tmp_path / "x.json.new").mkdir()
    with pytest.raises(OSError, match=r"x\.json\.new"):
        replace_file(file, "new")
    assert file.read_text() == "old"


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """As a disk that is full: the kernel takes the part of a write that fits, and refuses the next."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("durable", [False, True])
def test_a_full_disk_leaves_the_old_content_and_no_draft(tmp_path: Path, *, durable: bool) -> None:
    file = tmp_path / "x.json"
    replace_file(file, "old")
    with files_of_at_most(100), pytest.raises(OSError, match="too large"):
        replace_file(file, "n" * 200, durable=durable)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_line_is_added_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "x.journal"
    append_line(file, b"one\n")
    with files_of_at_most(100), pytest.raises(OSError, match="too large"):
        append_line(file, b"n" * 200 + b"\n")
    append_line(file, b"two\n")
    assert file.read_bytes() == b"one\ntwo\n"


def victim(folder: Path) -> Path:
    file = folder / "victim"
    file.write_text("precious")
    file.chmod(0o644)
    return file


@pytest.mark.parametrize("put", [Path.symlink_to, Path.hardlink_to])
def test_a_link_under_the_name_of_a_draft_is_not_written_to(tmp_path: Path, put: Callable[[Path, Path], None]) -> None:
    other, file = victim(tmp_path), tmp_path / "x.json"
    put(tmp_path / "x.json.new", other)
    replace_file(file, "new", mode=PRIVATE)
    assert (file.read_text(), other.read_text()) == ("new", "precious")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("put", [Path.symlink_to, Path.hardlink_to])
def test_a_line_is_not_added_to_a_link(tmp_path: Path, put: Callable[[Path, Path], None]) -> None:
    other, file = victim(tmp_path), tmp_path / "x.journal"
    put(file, other)
    with pytest.raises(OSError, match=r"x\.journal"):
        append_line(file, b"line\n")
    assert other.read_text() == "precious"


def test_a_pipe_under_the_name_of_a_journal_does_not_keep_the_writer_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.journal")
    with pytest.raises(OSError, match=r"x\.journal"):
        append_line(tmp_path / "x.journal", b"line\n")


def test_a_journal_is_private(tmp_path: Path) -> None:
    append_line(tmp_path / "x.journal", b"line\n")
    assert stat.S_IMODE((tmp_path / "x.journal").stat().st_mode) == 0o600
