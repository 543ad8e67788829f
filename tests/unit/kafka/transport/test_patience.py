"""How long a late broker is waited for, on a clock of numbers."""

from __future__ import annotations

import pytest

from exporter.kafka.transport.patience import (
    OWED_SECONDS,
    PATIENCE,
    SLOW_AFTER,
    SLOW_PATIENCE,
    STALE_REPLY_SECONDS,
    Patience,
)
from exporter.model import Deadline

KIND = "ListOffsetsRequest"


def seconds(patience: Patience, deadline: float = 60.0) -> float:
    """Return what the next request gets of a deadline, on a clock that stands."""
    return patience.for_request(Deadline.after(deadline, lambda: 0.0)).remaining()


def test_a_broker_that_answers_gets_the_whole_deadline() -> None:
    patience = Patience()
    patience.answered(KIND)
    assert not patience.late
    assert seconds(patience) == 60.0


@pytest.mark.parametrize(("deadline", "expected"), [(60.0, 20.0), (3.0, PATIENCE), (1.0, 1.0)])
def test_after_a_timeout_a_request_gets_a_third_of_the_deadline(deadline: float, expected: float) -> None:
    patience = Patience()
    patience.missed(KIND, 0.0)
    assert patience.late
    assert seconds(patience, deadline) == expected


def test_an_outstanding_answer_is_waited_for_in_all_not_by_each_request() -> None:
    patience = Patience()
    patience.missed(KIND, 100.0)
    assert patience.for_owed(100.5) == OWED_SECONDS - 0.5
    patience.missed(KIND, 101.5)  # the next request found the answer outstanding
    assert patience.for_owed(101.5) == OWED_SECONDS - 1.5
    assert patience.for_owed(110.0) == STALE_REPLY_SECONDS


def test_a_broker_whose_answer_came_soon_after_all_is_not_slow() -> None:
    patience = Patience()
    patience.missed(KIND, 0.0)
    patience.arrived(5.0)
    assert patience.for_owed(5.0) == OWED_SECONDS
    assert seconds(patience) == 20.0


def test_a_slow_broker_gets_little_time_until_it_answers_what_it_was_late_with() -> None:
    patience = Patience()
    patience.missed(KIND, 0.0)
    patience.arrived(SLOW_AFTER)
    assert seconds(patience) == SLOW_PATIENCE
    patience.answered("MetadataRequest")
    assert seconds(patience) == SLOW_PATIENCE
    patience.answered(KIND)
    assert seconds(patience) == 60.0


def test_the_answer_that_a_slow_broker_owes_is_not_waited_for_longer_than_a_request() -> None:
    patience = Patience()
    patience.missed(KIND, 0.0)
    patience.arrived(30.0)
    patience.missed(KIND, 40.0)
    assert patience.for_owed(40.0) == SLOW_PATIENCE
    assert patience.for_owed(40.0 + SLOW_PATIENCE) == STALE_REPLY_SECONDS


def test_a_slow_broker_that_is_a_little_late_is_slow_no_longer() -> None:
    patience = Patience()
    patience.missed(KIND, 0.0)
    patience.arrived(30.0)
    patience.missed(KIND, 40.0)
    patience.arrived(40.5)
    assert seconds(patience) == 20.0


def test_a_connection_that_was_closed_owes_nothing() -> None:
    patience = Patience()
    patience.missed(KIND, 0.0)
    patience.dropped()
    assert patience.outstanding(50.0) == 0.0
    patience.missed(KIND, 50.0)
    assert patience.outstanding(51.0) == 1.0


def test_a_quota_does_not_make_a_broker_late() -> None:
    patience = Patience()
    patience.missed(KIND, 0.0, late=False)
    assert not patience.late
    assert patience.outstanding(1.0) == 1.0
