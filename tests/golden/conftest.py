from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew instead of comparing")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(Path(__file__).parent, update=request.config.getoption("--update-golden", default=False))


class Golden:
    """Golden files: whole pages, compared byte by byte."""

    def __init__(self, folder: Path, *, update: bool) -> None:
        self._folder, self._update = folder, update

    def check(self, name: str, text: str) -> None:
        file = self._folder / name
        if self._update:
            file.write_text(text, encoding="utf-8", newline="")
        with file.open(encoding="utf-8", newline="") as stream:
            assert text == stream.read(), f"{file.name} differs; look at it, then --update-golden"
