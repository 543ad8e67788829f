"""``transactions recent``: a list while it is short, a summary by application when it is long, each end on request."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from exporter.commands import recent, runner
from exporter.commands.log_hour import LogHour
from exporter.commands.runner import ClusterReport
from exporter.config import ClusterConfig
from exporter.model import Deadline, Facts
from exporter.transactions.facts import ExpiredId, ExpiredIds, UncleanEnds
from exporter.transactions.transaction import Transaction
from exporter.views.transactions import unclean_end_document
from tests.helpers.one_broker import OneBroker
from tests.helpers.transactions import unclean_end

NOW = 1_795_255_200.0


def ends(number: int, application: str = "pay", outcome: str = "fenced") -> tuple[Transaction, ...]:
    return tuple(
        unclean_end(f"{application}-{n % 3}", application, 1, n, outcome, NOW - n, NOW - n - 5) for n in range(number)
    )


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    def command(
        found: tuple[Transaction, ...],
        *,
        every: bool = False,
        not_asked: tuple[str, ...] = (),
        undecided: tuple[Transaction, ...] = (),
    ) -> int:
        look = ClusterReport(OneBroker().cluster(), found, not_asked, undecided).of_views(
            lambda end: unclean_end_document(end, NOW)
        )
        monkeypatch.setattr(runner, "read_all", lambda *_: [look])
        return runner.run(argparse.Namespace(), recent._views, replace(recent._FORM, every=every))

    return command


def test_up_to_fifty_ends_are_listed(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(ends(recent.MOST_ROWS)) == 1
    assert capsys.readouterr().out.count("pay-") == recent.MOST_ROWS


def test_more_are_summed_up_by_application_most_first(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run((*ends(10, "bill", "timed_out"), *ends(90), *ends(5, "pay", "timed_out")), not_asked=("broker 2",)) == 1
    printed = capsys.readouterr()
    lines = [line.split() for line in printed.out.splitlines() if line.startswith(("pay", "bill"))]
    assert [line[:4] for line in lines] == [["pay", "90", "5", "3"], ["bill", "0", "10", "3"]]
    assert "105 unclean ends in the last hour, by application: --all lists each of them." in printed.out
    assert "pay-0: 32" in printed.out
    assert "could not ask" in printed.err


def test_all_lists_each(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(ends(80), every=True) == 1
    assert capsys.readouterr().out.count("pay-") == 80


def test_what_is_not_settled_yet_is_listed_and_is_not_none(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run((), undecided=(ends(1)[0]._replace(outcome=None),)) == 2
    printed = capsys.readouterr().out
    assert "pay-0" in printed
    assert "undecided: it was aborted" in printed
    assert "no unclean ends" not in printed
    assert run(ends(90), undecided=(ends(1)[0]._replace(outcome=None),)) == 1
    assert "undecided: it was aborted" in capsys.readouterr().out


def test_ids_that_expired_are_named_with_what_follows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = tuple(ExpiredId(f"idle-{number}", "idle", NOW) for number in range(12))
    hour = LogHour(Facts({UncleanEnds: UncleanEnds(()), ExpiredIds: ExpiredIds(ids, 3)}))
    monkeypatch.setattr(recent, "read_hour", lambda *_, settle: hour)
    look = recent._views(OneBroker().cluster(), cast("ClusterConfig", None), Deadline.after(1))
    assert (look.found, look.not_asked) == ((), ())
    said = capsys.readouterr().err
    assert "15 transactional.ids expired in the last hour" in said
    assert "idle-0, idle-1" in said
    assert "INVALID_PRODUCER_ID_MAPPING until it is restarted" in said


def test_ends_beyond_the_limit_are_said_to_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "_MOST", 3)
    for number, said in ((2, ()), (3, ("there are more unclean ends than the newest 3, which are shown",))):
        hour = LogHour(Facts({UncleanEnds: UncleanEnds(ends(number))}))
        monkeypatch.setattr(recent, "read_hour", lambda *_, hour=hour, settle: hour)
        look = recent._views(OneBroker().cluster(), cast("ClusterConfig", None), Deadline.after(1))
        assert (len(look.found), look.not_asked) == (number, said)
