from __future__ import annotations

from pathlib import Path

import pytest

CAPTURES = Path(__file__).parents[2] / "golden" / "captures" / "jvms"


@pytest.fixture
def captures() -> Path:
    """Answers of real JVMs; origin.json beside them says of which."""
    return CAPTURES
