from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.recordings import RECORDINGS

CAPTURES = RECORDINGS / "jvms"


@pytest.fixture
def captures() -> Path:
    """Answers of real JVMs; origin.json beside them says of which."""
    return CAPTURES
