"""The file of a bearer token."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exporter.settings.targets import MOST_TOKEN_BYTES, read_token


def test_a_pipe_or_a_huge_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe, huge = tmp_path / "pipe", tmp_path / "huge"
    os.mkfifo(pipe)
    huge.write_bytes(b"x" * (MOST_TOKEN_BYTES + 1))
    for file, why in ((pipe, "is no regular file"), (huge, "is larger than 64 kB")):
        with pytest.raises(ValueError, match=f"token_file cannot be read: {why}"):
            read_token(file)
