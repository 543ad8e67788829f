"""Which clock a command uses for ages, and its message about it."""

from __future__ import annotations

import pytest

from exporter.commands.clock import coordinators_clock, say_clock, shown_now
from exporter.model import Deadline, TopicPartition
from exporter.transactions.facts import CoordinatorTime
from tests.helpers.one_broker import NOW, OneBroker


@pytest.mark.parametrize(
    ("newest_ago", "starts", "shown", "said"),
    [
        (1.0, [NOW - 50], NOW, ""),
        (-80.0, [], NOW + 80, "80 s or more behind"),
        (30.0, [NOW - 20, None], NOW, "ages in prod are by this machine's clock ("),
        (None, [NOW - 2], NOW, ""),
        (None, [], NOW, "the coordinators' clock is not known"),
    ],
)
def test_ages_are_by_our_clock_unless_theirs_is_known_to_be_ahead(
    newest_ago: float | None, starts: list[float], shown: float, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = OneBroker({TopicPartition("orders", 0): []}, newest_ago=newest_ago).cluster()
    time = coordinators_clock(cluster, starts, Deadline.after(5))
    assert shown_now(time, NOW) == pytest.approx(shown)
    say_clock(cluster, time, NOW)
    err = capsys.readouterr().err
    assert said in err
    assert bool(err) is bool(said)


def test_what_the_log_and_no_start_bound_is_not_known() -> None:
    cluster = OneBroker().cluster()
    assert coordinators_clock(cluster, [], Deadline.after(5)) == CoordinatorTime()
