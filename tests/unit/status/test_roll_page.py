"""The page on stopping brokers: the answers of ``check roll``, and nothing that a name could break."""

from __future__ import annotations

import pytest

from exporter.roll.facts import BrokerRoll, RollAnswer, RollReason, RollRow
from exporter.status.roll_page import roll_page_pieces, said, verdict_of
from exporter.views.rolls import cluster_roll_document
from tests.unit.views.test_status import EVIL

SAFE, WAIT, NO, UNKNOWN = RollAnswer.SAFE, RollAnswer.WAIT, RollAnswer.NO, RollAnswer.UNKNOWN


def roll(broker: int, answer: RollAnswer, subject: str = "orders", seconds: float | None = None) -> BrokerRoll:
    return BrokerRoll(broker, answer, seconds, (RollRow(answer, RollReason.NOT_READ, subject, "its reason", seconds),))


@pytest.mark.parametrize(
    ("answers", "not_asked", "level", "headline"),
    [
        ([SAFE, SAFE], (), "good", "Any one of these 2 brokers may be stopped now"),
        ([SAFE, SAFE], ("3 more brokers",), "blind", "Any one of these 2 brokers may be stopped now"),
        ([SAFE, UNKNOWN], (), "blind", "Of 2 brokers: 1 unknown, 1 safe"),
        ([SAFE, WAIT, UNKNOWN], (), "warn", "Of 3 brokers: 1 wait, 1 unknown, 1 safe"),
        ([SAFE, WAIT, NO, NO], (), "bad", "Of 4 brokers: 2 no, 1 wait, 1 safe"),
        ([NO], (), "bad", "Broker 0: no"),
        ([], ("no broker answers",), "blind", "It is not known whether a broker may be stopped"),
    ],
)
def test_the_headline_is_of_the_worst_answer_and_good_only_where_all_were_asked(
    answers: list[RollAnswer], not_asked: tuple[str, ...], level: str, headline: str
) -> None:
    rolls = [roll(broker, answer) for broker, answer in enumerate(answers)]
    assert verdict_of(cluster_roll_document("prod", 60.0, rolls, not_asked, 0.0)) == (level, headline)


def test_an_answer_has_how_long_to_wait_and_its_first_reason() -> None:
    rolls = [roll(1, SAFE), roll(2, WAIT, seconds=11.2), roll(3, WAIT), roll(4, NO)]
    document = cluster_roll_document("prod", 60.0, rolls, (), 0.0)
    assert [said(one) for one in document["brokers"]] == [
        "safe",
        "wait 12s because orders: its reason",
        "wait a little because orders: its reason",
        "no because orders: its reason",
    ]


def test_names_of_the_cluster_are_text() -> None:
    document = cluster_roll_document(EVIL, 90.0, [roll(1, NO, EVIL)], (EVIL,), 0.0)
    html = b"".join(roll_page_pieces({"clusters": [document]}, "/eos")).decode()
    assert "<script" not in html
    assert 'value="1m30s"' in html
    assert 'action="/eos/roll"' in html
