"""The screen of ``top``: rows that do not fit are counted, unknown values are named, ids are escaped."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from exporter.commands.top_view import view
from exporter.lso.facts import Stalls
from exporter.model import TopicPartition
from exporter.transactions.facts import OpenTransactions
from exporter.views.columns import blocks
from exporter.words import Outcome
from tests.unit.views.test_status import FINE, IDENTITY, OPEN, STALL, evil_facts, hour, status


def screen(*facts: Any, height: int = 60, width: int = 100) -> str:
    sink = io.StringIO()
    Console(file=sink, width=width, force_terminal=False, highlight=False, markup=False, emoji=False).print(
        view(status(*facts), "http://eos:10618", height)
    )
    return sink.getvalue()


def test_what_finds_no_place_is_counted() -> None:
    held = tuple(
        STALL._replace(partition=TopicPartition("orders", number), blocker=STALL.blocker._replace(producer_id=number))
        for number in range(100)
    )
    printed = screen(*FINE[:1], Stalls(held), height=24)
    assert "stalled partitions: 100 (" in printed
    assert "not shown)" in printed
    assert len(printed.splitlines()) <= 24


@pytest.mark.parametrize(("width", "height"), [(60, 20), (80, 24), (40, 12)])
def test_stalls_are_shown_before_all_else(width: int, height: int) -> None:
    held = tuple(
        STALL._replace(
            partition=TopicPartition(f"orders{number}", 0), blocker=STALL.blocker._replace(producer_id=number)
        )
        for number in range(2)
    )
    printed = screen(*FINE, hour(), Stalls(held), width=width, height=height)
    assert "orders0-0" in printed
    assert "orders1-0" in printed
    assert len(printed.splitlines()) <= height


def test_what_is_not_known_is_not_called_zero() -> None:
    printed = screen(IDENTITY)
    assert "stalled partitions: not known" in printed
    assert "open transactions: not known" in printed
    assert "the transaction log is not read" in printed


def test_a_screen_of_any_width_and_height_is_drawn() -> None:
    for width, height in ((20, 3), (40, 10), (300, 80)):
        assert "kafka" in screen(*FINE, hour(), Stalls((STALL,)), width=width, height=height)


def test_no_name_steers_the_terminal() -> None:
    evil = STALL._replace(partition=TopicPartition("a\x1b[2Jb", 1))
    assert "\x1b" not in screen(*FINE[:1], Stalls((evil,)))
    assert "\x1b" not in screen(*evil_facts())


def test_an_application_has_its_rate_of_the_last_full_minute_and_its_ends() -> None:
    printed = screen(*FINE, hour(pay={Outcome.FENCED: 7}))
    [line] = [line for line in printed.splitlines() if line.startswith("pay ")]
    assert line.split() == ["pay", "?", "0", "0", "0", "7", "none", "in", "1", "min"]


@pytest.mark.parametrize(
    ("behind", "left"), [(0.0, "in 11m 40s"), (90.0, "in 13m 10s"), (-800.0, "1m 40s ago"), (None, "not known")]
)
def test_the_time_that_an_open_transaction_has_left_is_by_the_clock_of_its_coordinator(
    behind: float | None, left: str
) -> None:
    opened = OpenTransactions("txnlog", (OPEN._replace(scan_behind=behind),), complete=True)
    [line] = [line for line in screen(IDENTITY, Stalls(()), opened).splitlines() if " pay-3 " in line]
    assert left in line


def test_a_spark_line_is_as_high_as_its_number_and_nothing_is_a_space() -> None:
    assert blocks([0, 1, 4, 8]) == " ▁▄█"
    assert blocks([]) == ""
    assert len(blocks(list(range(100)))) == 20
