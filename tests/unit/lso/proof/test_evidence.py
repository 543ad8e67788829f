"""The evidence: complete rounds make a proof, incomplete ones do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from exporter.lso.proof.evidence import (
    CONFIRM_SECONDS,
    HangingProof,
    Loaded,
    OpenInLog,
    OpenStart,
    Overdue,
    Round,
    lacking,
)
from exporter.model import TopicPartition
from exporter.transactions.facts import OpenTransaction, OpenTransactions
from exporter.words import TransactionState
from tests.helpers.proofs import log_read, proof_of, whole_round

HELD = OpenStart(TopicPartition("orders", 7), 4711, 100)
FIRST = whole_round(HELD, 0.0)
SECOND = whole_round(HELD, FIRST.asked_again + CONFIRM_SECONDS)


def test_two_whole_rounds_half_a_minute_apart_prove_it() -> None:
    proof = HangingProof(FIRST, SECOND)
    assert proof.held == HELD
    assert list(lacking(FIRST, SECOND)) == []


def test_a_proof_cannot_be_changed_into_one_of_something_else() -> None:
    with pytest.raises(ValueError, match="two transactions"):
        replace(proof_of(), first=whole_round(HELD._replace(producer_id=1), 0.0))


SPOILT: dict[str, Callable[[Round], Round]] = {
    "not open in the partition any more": lambda round_: replace(round_, again=None),
    "not open in the partition any": lambda round_: replace(round_, again=HELD._replace(start_offset=101)),
    "before the transaction log was read": lambda round_: replace(round_, asked_again=round_.log.ended - 0.1),
    "before the partition was asked": lambda round_: replace(
        round_, log=replace(round_.log, asked=round_.described - 0.1)
    ),
    "for its producers": lambda round_: replace(round_, loaded=replace(round_.loaded, asked=round_.described - 0.1)),
    "the number of partitions of __transaction_state is not known": lambda round_: replace(
        round_, log=replace(round_.log, partitions=0)
    ),
    "the end of partition 3": lambda round_: replace(round_, log=replace(round_.log, partitions=4)),
    "the end of partition 2": lambda round_: replace(
        round_, log=replace(round_.log, high_watermarks={0: 10, 1: 10}, reached={0: 10, 1: 10})
    ),
    "not read to its end in partition 1": lambda round_: replace(
        round_, log=replace(round_.log, reached={0: 10, 1: 9, 2: 10})
    ),
    "not read to its end in partition 2": lambda round_: replace(
        round_, log=replace(round_.log, reached={0: 10, 1: 10})
    ),
    "not understood": lambda round_: replace(round_, log=replace(round_.log, undecodable=("a value of version 9",))),
    "'pay-1' has a transaction open": lambda round_: replace(round_, log=replace(round_.log, open_ids={4711: "pay-1"})),
    "does not prove to have": lambda round_: replace(
        round_, loaded=Loaded(round_.loaded.asked, frozenset({0, 2}), {1: "NOT_COORDINATOR (16)"})
    ),
    "it was not asked": lambda round_: replace(round_, loaded=Loaded(round_.loaded.asked, frozenset({0, 2}), {})),
}


@pytest.mark.parametrize("gap", SPOILT)
@pytest.mark.parametrize("which", ["first", "second"])
def test_a_gap_in_either_round_is_named_and_leaves_no_proof(gap: str, which: str) -> None:
    spoilt = SPOILT[gap]
    first, second = (spoilt(FIRST), SECOND) if which == "first" else (FIRST, spoilt(SECOND))
    assert any(gap in text for text in lacking(first, second))
    with pytest.raises(ValueError, match=gap):
        HangingProof(first, second)


def test_two_rounds_less_than_half_a_minute_apart_are_one() -> None:
    early = whole_round(HELD, FIRST.asked_again + CONFIRM_SECONDS - 0.01)
    assert any("less than 30 s apart" in text for text in lacking(FIRST, early))


def test_a_log_that_got_another_number_of_partitions_proves_nothing() -> None:
    at = FIRST.asked_again + CONFIRM_SECONDS
    grown = replace(
        whole_round(HELD, at),
        log=log_read(at + 1, at + 3, {0: 1, 1: 1, 2: 1, 3: 1}),
        loaded=Loaded(at + 1, frozenset(range(4)), {}),
    )
    assert list(lacking(FIRST, grown)) == ["the number of partitions of __transaction_state changed between the rounds"]


def test_a_log_of_which_no_partition_is_known_proves_nothing_in_either_round() -> None:
    def nothing(look: Round) -> Round:
        log = replace(look.log, partitions=0, high_watermarks={}, reached={})
        return replace(look, log=log, loaded=replace(look.loaded, proven=frozenset(), unproven={}))

    assert list(lacking(nothing(FIRST), nothing(SECOND))) == [
        "the number of partitions of __transaction_state is not known"
    ]


OPEN = OpenTransaction("pay-1", "pay", 7, 3, TransactionState.ONGOING, 100.0, 60.0, None, frozenset({HELD.partition}))


def test_only_the_log_read_to_its_end_is_evidence_of_an_open_transaction() -> None:
    whole = OpenTransactions("txnlog", (OPEN,), complete=True)
    assert OpenInLog.of(whole, OPEN, watched=5, flink=False) == OpenInLog("pay-1", 7, 3, 60.0, 5, flink=False)
    for behind in (20.0, None):
        of_present = OpenInLog.of(whole, OPEN._replace(scan_behind=behind), watched=5, flink=False)
        assert of_present is not None
        assert of_present.scan_behind == behind
    rare = OpenInLog.of(whole, OPEN._replace(scan_late=140.0), watched=5, flink=False)
    assert rare is not None
    assert rare.scan_late == 140.0
    assert OpenInLog.of(replace(whole, complete=False), OPEN, watched=5, flink=False) is None
    assert OpenInLog.of(replace(whole, origin="transactions"), OPEN, watched=5, flink=False) is None
    for state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        assert OpenInLog.of(whole, OPEN._replace(state=state), watched=5, flink=False) is None
    assert OpenInLog.of(whole, OPEN._replace(transactional_id=""), watched=5, flink=False) is None


@pytest.mark.parametrize(
    ("changes", "late"),
    [
        ({"watched": 75.1}, True),
        ({"watched": 75.0}, False),
        ({"watched": 0.0}, False),
        ({"watched": 1e9, "timeout": None}, False),  # two-phase commit
        ({"watched": 1e9, "flink": True}, False),
        ({"watched": 95.0, "scan_behind": 20.0}, False),  # its coordinator was elected 20 s after the timeout
        ({"watched": 95.1, "scan_behind": 20.0}, True),
        ({"watched": 75.0, "scan_behind": -20.0}, False),
        ({"watched": 215.0, "scan_late": 140.0}, False),  # its coordinator looks for it every 150 s
        ({"watched": 215.1, "scan_late": 140.0}, True),
        ({"watched": 1e9, "scan_behind": None}, False),  # no record shows the clock of its coordinator
    ],
)
def test_overdue_is_watched_for_longer_than_the_timeout_and_the_scan_and_never_what_may_be_flinks(
    changes: dict[str, object], late: bool
) -> None:
    opened = replace(OpenInLog("pay-1", 7, 3, 60.0, 0.0, flink=False), **changes)  # type: ignore[arg-type]
    assert Overdue.holds(opened) == late
    if late:
        assert Overdue(opened).opened == opened
    else:
        with pytest.raises(ValueError, match="not overdue"):
            Overdue(opened)
