from __future__ import annotations

from pathlib import Path

import pytest

from exporter.exposition.revision import revision

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "exporter"
    folder.mkdir()
    return folder


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_build_that_left_its_revision_is_believed(package: Path) -> None:
    write(package / "REVISION", f"{COMMIT}\n")
    assert revision(package) == "0123456789ab"


def test_a_checkout_is_asked_for_its_branch(package: Path) -> None:
    write(package.parent / ".git" / "HEAD", "ref: refs/heads/main\n")
    write(package.parent / ".git" / "refs" / "heads" / "main", f"{COMMIT}\n")
    assert revision(package) == "0123456789ab"


def test_a_branch_may_be_packed(package: Path) -> None:
    write(package.parent / ".git" / "HEAD", "ref: refs/heads/main\n")
    write(package.parent / ".git" / "packed-refs", f"# pack-refs\n{'f' * 40} refs/heads/x\n{COMMIT} refs/heads/main\n")
    assert revision(package) == "0123456789ab"


@pytest.mark.parametrize("head", [None, "garbage\n", "ref: refs/heads/main\n"])
def test_what_cannot_be_told_is_unknown(package: Path, head: str | None) -> None:
    if head is not None:
        write(package.parent / ".git" / "HEAD", head)
    assert revision(package) == "unknown"
