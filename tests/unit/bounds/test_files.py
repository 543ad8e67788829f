"""Foreign files: only regular ones, with limits on bytes and names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exporter.bounds.files import NotRegularError, TooLargeError, names_in, open_regular, read_regular, warn_of_writers
from exporter.bounds.text import decoded, printable


@pytest.mark.parametrize(("mode", "told"), [(0o600, False), (0o644, False), (0o666, True), (0o602, True)])
def test_a_file_of_a_secret_that_everybody_may_write_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, told: bool
) -> None:
    file = tmp_path / "password"
    file.write_text("secret")
    file.chmod(mode)
    warn_of_writers(file)
    warn_of_writers(tmp_path / "absent")
    assert ("everybody may write it: chmod o-w" in caplog.text) is told


def test_a_pipe_does_not_block_and_is_no_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises(NotRegularError, match="no regular file"):
            open_regular(path)


def test_no_more_is_read_than_may_be(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 3_000_000)
    assert len(read_regular(file, 3_000_000)) == 3_000_000
    with pytest.raises(TooLargeError):
        read_regular(file, 2_999_999)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none", 1)


def test_no_more_names_are_looked_at_than_may_be(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).touch()
    assert len(list(names_in(tmp_path, 3))) == 3
    assert {entry.name for entry in names_in(tmp_path)} == set("01234")


def test_text_that_is_no_utf_8_can_be_shown() -> None:
    assert printable("a\ud800b\udcff") == r"a\ud800b\udcff"
    assert printable("é😀") == "é😀"
    assert decoded(b"a\xff") == r"a\xff"
