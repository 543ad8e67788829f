from __future__ import annotations

from pathlib import Path

import pytest

from exporter.core.files import replace_file


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
