"""When the leader of a log partition changed, and when it lost records."""

from __future__ import annotations

import json

import pytest

from exporter.transactions.machine.log_changes import (
    BEFORE,
    MOST_WINDOWS,
    NO_CHANGES,
    LogChanges,
    Window,
    read_changes,
    write_changes,
)


def test_a_change_counts_from_any_instant_up_to_the_one_at_which_it_was_seen() -> None:
    changes = NO_CHANGES.with_election(Window(100.0, 105.0, 7)).with_loss(Window(BEFORE, 50.0, 3))
    assert changes.lost_since(50.0)
    assert not changes.lost_since(50.1)
    assert LogChanges({4: changes}).of(4) is changes
    assert LogChanges({4: changes}).of(5) == NO_CHANGES


def test_beyond_the_limit_the_oldest_windows_become_one_that_covers_both() -> None:
    changes = NO_CHANGES
    for number in range(MOST_WINDOWS + 2):
        changes = changes.with_loss(Window(number, number + 0.5, number))
    assert len(changes.lost) == MOST_WINDOWS
    assert changes.lost[0] == Window(0, 2.5, 2)
    assert changes.lost[-1].until == MOST_WINDOWS + 1.5


def test_saved_windows_lie_before_every_monotonic_instant_of_the_next_process() -> None:
    changes = NO_CHANGES.with_election(Window(100.25, 105.5, 7, 3.0, 8.0)).with_loss(Window(BEFORE, 50.0, 3, 1.0, 2.0))
    again = read_changes(json.loads(json.dumps(write_changes(changes))))
    assert again.elected == (Window(100.25, 105.5, 7, BEFORE, BEFORE),)
    assert again.lost == (Window(BEFORE, 50.0, 3, BEFORE, BEFORE),)


@pytest.mark.parametrize("found", [[], [[], [], []], [[[1]], []], [[["a", 1, 2]], []], [None, []]])
def test_saved_windows_of_another_form_are_refused(found: list[object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        read_changes(found)  # type: ignore[arg-type]  # from a file
