"""How long tests that wait for real programs may take: longer than the limit of a unit test."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest


def allow(seconds: float, folder: Path, items: Iterable[pytest.Item]) -> None:
    """Give the tests in ``folder`` this limit, but for those that name one of their own."""
    for item in items:
        if folder in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(seconds))
