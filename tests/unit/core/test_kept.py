"""A kept value is made again after a change only."""

from __future__ import annotations

import pytest

from exporter.core.kept import KeptValue


def test_it_is_made_again_once_what_it_is_made_of_changes() -> None:
    kept = KeptValue(0)
    assert [kept.of((key,), lambda before: before + 1) for key in ("a", "a", "b", "b", "a")] == [1, 1, 2, 2, 3]


def test_what_is_forgotten_is_made_again_from_the_last_value() -> None:
    kept = KeptValue(0)
    kept.of(("a",), lambda before: before + 1)
    kept.forget()
    assert kept.of(("a",), lambda before: before + 1) == 2


def test_a_value_that_could_not_be_made_is_made_at_the_next_call() -> None:
    kept = KeptValue(5)
    with pytest.raises(ZeroDivisionError):
        kept.of(("a",), lambda before: before // 0)
    assert kept.of(("a",), lambda before: before + 1) == 6
