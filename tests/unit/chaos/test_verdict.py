"""The rules of the chaos verdict: a truthful agent passes, and each kind of falsehood is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.agent import AgentRun, AgentScrape
from tests.chaos.evidence import FollowedLine, LostRecords, PlantedOrphan, RunEvidence
from tests.chaos.modes import MODES
from tests.chaos.oracle.data_log import DataTransaction
from tests.chaos.oracle.offset_observer import OffsetObservation
from tests.chaos.oracle.transaction_log import COMPLETE_COMMIT, ONGOING, PREPARE_COMMIT, State
from tests.chaos.verdict import judge
from tests.chaos.workloads import APPLICATIONS, KnownTokens

APP = APPLICATIONS[0]
ID = f"{APP}-0"
PLACE = ("orders", 0)
READ_AT = "kafka_eos_source_last_success_timestamp_seconds"


def commit(started: float, decided: float, completed: float) -> list[State]:
    """The records of one committed transaction."""
    steps = ((started, ONGOING), (decided, PREPARE_COMMIT), (completed, COMPLETE_COMMIT))
    begun = round(started * 1000)
    return [
        State(
            3,
            round(at * 10),
            round(at * 1000),
            ID,
            status,
            7,
            0,
            90_000,
            round(at * 1000),
            begun,
            0,
            frozenset({PLACE}),
        )
        for at, status in steps
    ]


def stall(since: float, **blocker: Any) -> dict[str, Any]:
    named = {"kind": "open", "transactional_id": ID, "producer_id": 7, "producer_epoch": 0, "start_offset": 10}
    return {
        "topic": PLACE[0],
        "partition": PLACE[1],
        "last_stable_offset": 10,
        "since_timestamp": since,
        "blocker": named | blocker,
        "next_step": {"text": "wait"},
    }


def scrape(at: float, committed: int, *stalls: dict[str, Any], life: int = 0, **more: float) -> AgentScrape:
    def series(name: str, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
        return name, tuple(sorted(labels.items()))

    samples = {
        series("kafka_eos_transactions_total", application=APP, outcome="committed"): float(committed),
        series("kafka_eos_source_up", source="lso"): more.get("up", 1.0),
        series(READ_AT, source="lso"): more.get("read_at", at - 0.5),
        series("kafka_eos_overdue_transactions", application=APP): more.get("overdue", 0.0),
    }
    return AgentScrape(at, life, False, "", samples, {"clusters": [{"stalled_partitions": list(stalls)}]})


def truth() -> RunEvidence:
    """One commit at 50, and another one that held its partition from 100 to 150; a truthful agent."""
    looks = [
        OffsetObservation(float(at), 10 if 100 <= at < 150 else 9 if at < 100 else 20, 9 if at < 100 else 20)
        for at in range(200)
    ]
    held = [
        DataTransaction(7, 0, 5, 9, True, {f"{ID}/1.1": 49.5}, 49.5, 50.05),
        DataTransaction(7, 0, 10, 19, True, {f"{ID}/1.2": 99.8}, 99.8, 149.05),
    ]
    states = [*commit(49, 50, 50.1), *commit(99.5, 149, 149.1)]
    scrapes = [
        scrape(float(at), 0 if at < 51 else 1 if at < 150 else 2, *([stall(100.0)] if 112 <= at <= 151 else []))
        for at in range(200)
    ]
    books = KnownTokens(committed={f"{ID}/1.1", f"{ID}/1.2"})
    return RunEvidence(
        seed=1,
        began=0.0,
        quiet_at=150.0,
        episodes=[],
        lives=[AgentRun(-50.0, 300.0, 0)],
        pauses=[],
        crashes=[],
        scrapes=scrapes,
        looks={PLACE: looks},
        states=states,
        held={PLACE: held},
        books=books,
        orphans=[],
    )


def told(at: int, become: Callable[[AgentScrape], AgentScrape], evidence: RunEvidence) -> RunEvidence:
    """The same, with one other scrape."""
    return replace(evidence, scrapes=[become(scrape) if scrape.at == at else scrape for scrape in evidence.scrapes])


def rules(evidence: RunEvidence) -> set[str]:
    return {disagreement.rule for disagreement in judge(evidence)}


def test_a_truthful_agent_has_no_disagreement() -> None:
    assert judge(truth()) == []


FALSEHOODS: dict[str, tuple[int, Callable[[AgentScrape], AgentScrape]]] = {
    "outcomes": (199, lambda _: scrape(199.0, 3)),
    "counters go on": (120, lambda _: scrape(120.0, 0, stall(100.0))),
    "stall of what moved": (180, lambda _: scrape(180.0, 2, stall(100.0))),
    "stall too early": (104, lambda _: scrape(104.0, 1, stall(100.0))),
    "a stall begins again": (140, lambda _: scrape(140.0, 1, stall(130.0))),
    "since": (120, lambda _: scrape(120.0, 1, stall(60.0))),
    "holder": (120, lambda _: scrape(120.0, 1, stall(100.0, producer_id=8))),
    "hanging, invented": (120, lambda _: scrape(120.0, 1, stall(100.0, kind="hanging", transactional_id=""))),
    "overdue, invented": (120, lambda _: scrape(120.0, 1, stall(100.0), overdue=1.0)),
    "answers": (120, lambda scrape: scrape._replace(error="refused", samples={}, status=None)),
}


@pytest.mark.parametrize("rule", FALSEHOODS)
def test_a_falsehood_is_found(rule: str) -> None:
    at, become = FALSEHOODS[rule]
    assert rule in rules(told(at, become, truth()))


def test_a_deposed_leader_that_shows_an_old_high_watermark_does_not_move_the_begin_of_a_stall() -> None:
    evidence = truth()
    looks = [look._replace(stable=10, high=10) if 100 <= look.at < 109 else look for look in evidence.looks[PLACE]]
    assert judge(replace(evidence, looks={PLACE: looks})) == []
    late = [_appended(transaction, 109.0) for transaction in evidence.held[PLACE]]
    assert rules(replace(evidence, looks={PLACE: looks}, held={PLACE: late})) == {"stall too early", "since"}


def test_a_completing_holder_is_wrong_before_it_was_decided_and_right_after() -> None:
    early = told(120, lambda _: scrape(120.0, 1, stall(100.0, kind="completing")), truth())
    assert "holder" in rules(early)
    late = told(150, lambda _: scrape(150.0, 2, stall(100.0, kind="completing")), truth())
    assert judge(late) == []


def behind(since: float, *, known: bool) -> RunEvidence:
    """The same from an agent whose clock is 40 s behind, and that measured it, or not."""

    def become(transaction: AgentScrape) -> AgentScrape:
        samples = {
            series: value - 40.0 if series[0] == READ_AT else value for series, value in transaction.samples.items()
        }
        if known:
            samples["kafka_eos_clock_distance_seconds", ()] = -40.0
        stalls = [stall(since)] if 112 <= transaction.at <= 151 else []
        return transaction._replace(samples=samples, status={"clusters": [{"stalled_partitions": stalls}]})

    evidence = truth()
    return replace(
        evidence, lives=[AgentRun(-50.0, 300.0, -40)], scrapes=[become(scrape) for scrape in evidence.scrapes]
    )


def test_since_of_an_agent_with_a_wrong_clock_is_by_its_own_until_it_knows_the_distance() -> None:
    assert judge(behind(60.0, known=False)) == []
    assert judge(behind(100.0, known=True)) == []
    assert rules(behind(60.0, known=True)) == {"since"}
    assert rules(behind(20.0, known=False)) == {"since"}


def test_a_date_that_an_agent_with_a_wrong_clock_left_to_the_next_one_is_judged() -> None:
    evidence = behind(100.0, known=True)
    lives = [AgentRun(-50.0, 130.0, -40), AgentRun(130.0, 300.0, 0)]
    scrapes = [scrape._replace(life=0 if scrape.at < 130 else 1) for scrape in evidence.scrapes]
    assert judge(replace(evidence, lives=lives, scrapes=scrapes)) == []
    wrong = told(140, lambda _: scrape(140.0, 1, stall(60.0)), replace(evidence, lives=lives, scrapes=scrapes))
    assert rules(told(140, lambda scrape: scrape._replace(life=1), wrong)) == {"since"}


def test_a_date_before_the_agent_looked_is_judged_by_the_holders_start() -> None:
    """The transaction before held the partition until 100; the holder began at 99.5, the agent that says so at 105."""

    def dated(since: float) -> RunEvidence:
        evidence = truth()
        scrapes = [
            scrape(
                transaction.at,
                0 if transaction.at < 51 else 1 if transaction.at < 150 else 2,
                *([stall(since)] if 116 <= transaction.at <= 151 else []),
            )
            for transaction in evidence.scrapes
            if transaction.at > 105
        ]
        return replace(evidence, lives=[AgentRun(105.0, 300.0, 0)], scrapes=scrapes)

    assert "since" not in rules(dated(97.0))
    assert "since" in rules(dated(90.0))


def test_a_date_after_reads_that_failed_for_long_is_judged_by_the_holders_start() -> None:
    """The holder begins at 99.5 and reaches this partition at 104; the agent reads well until 99."""

    def dated(since: float, read_again: float) -> RunEvidence:
        evidence = truth()
        looks = [look._replace(stable=9, high=9) if look.at < 104 else look for look in evidence.looks[PLACE]]
        held = [
            transaction if transaction.start != 10 else _appended(transaction, 104.0)
            for transaction in evidence.held[PLACE]
        ]
        scrapes = [
            scrape(
                transaction.at,
                0 if transaction.at < 51 else 1 if transaction.at < 150 else 2,
                *([stall(since)] if 116 <= transaction.at <= 151 else []),
                read_at=99.0 if 99 <= transaction.at < read_again else transaction.at,
            )
            for transaction in evidence.scrapes
        ]
        return replace(evidence, looks={PLACE: looks}, held={PLACE: held}, scrapes=scrapes)

    assert "since" in rules(dated(99.5, read_again=104.9)), "the reading before was kept"
    assert "since" not in rules(dated(99.5, read_again=106.0))
    assert "since" in rules(dated(90.0, read_again=106.0))


def _appended(transaction: DataTransaction, at: float) -> DataTransaction:
    return DataTransaction(
        transaction.producer_id,
        transaction.epoch,
        transaction.start,
        transaction.end,
        transaction.committed,
        transaction.tokens,
        at,
    )


def test_the_time_in_which_an_agent_is_stopped_is_none_that_its_start_takes() -> None:
    silent = [scrape._replace(error="refused", samples={}, status=None) for scrape in truth().scrapes if scrape.at < 70]
    evidence = replace(truth(), lives=[AgentRun(0.0, 300.0, 0)], scrapes=silent)
    assert "answers" in rules(evidence)
    assert "answers" not in rules(replace(evidence, pauses=[(20.0, 40.0)]))


def test_a_stall_that_is_never_told_is_missed() -> None:
    silent = replace(truth(), scrapes=[scrape._replace(status={"clusters": []}) for scrape in truth().scrapes])
    assert rules(silent) == {"stall missed"}


def test_a_source_that_is_down_when_all_is_quiet_is_found() -> None:
    evidence = truth()
    scrapes = [
        scrape(transaction.at, 2, up=0.0) if transaction.at > 170 else transaction for transaction in evidence.scrapes
    ]
    assert rules(replace(evidence, scrapes=scrapes)) == {"at rest"}


def test_a_stall_is_not_missed_by_an_agent_that_is_stopped_meanwhile() -> None:
    silent = replace(truth(), scrapes=[scrape._replace(status={"clusters": []}) for scrape in truth().scrapes])
    assert judge(replace(silent, pauses=[(125.0, 149.0)])) == []


def test_an_orphan_from_before_the_faults_must_be_found() -> None:
    assert {"orphan", "at rest"} <= rules(replace(with_orphan(), began=11.0))
    assert "orphan" not in rules(with_orphan()), "it is unknown after an election of the log"


def with_orphan() -> RunEvidence:
    """One planted at 10, that the agent never tells."""
    evidence, place = truth(), ("orphans", 0)
    held = {**evidence.held, place: [DataTransaction(900, 0, 4, tokens={"ghost": 10.0}, appended=10.0)]}
    return replace(evidence, orphans=[PlantedOrphan(place, 900, 4, 10.0)], held=held)


# --- Promises ---

LINE = "kafka-transactions.sh --bootstrap-server b:9092 abort --topic orders --partition 0 --start-offset 10"


def lost_marker(*, committed: bool) -> RunEvidence:
    """The holder of 100 to 149 has no marker for good."""
    evidence = truth()
    first, second = evidence.held[PLACE]
    held = {PLACE: [first, replace(second, end=None, committed=False, ended=None)]}
    states = evidence.states if committed else [state for state in evidence.states if state.offset < 900]
    known = KnownTokens(committed={f"{ID}/1.1", *([f"{ID}/1.2"] if committed else [])})
    return replace(evidence, held=held, books=known, states=states)


def with_line(transaction: AgentScrape) -> AgentScrape:
    stalled = stall(100.0, kind="hanging", transactional_id="") | {"next_step": {"text": "run", "command": LINE}}
    return scrape(transaction.at, 2, stalled)


def test_a_line_for_a_transaction_that_a_client_was_told_is_committed_is_found() -> None:
    assert {"abort line", "hanging, invented"} <= rules(told(180, with_line, lost_marker(committed=True)))


def test_a_line_for_records_that_no_transaction_of_the_log_has_is_none() -> None:
    assert "abort line" not in rules(told(180, with_line, lost_marker(committed=False)))


def test_a_later_transaction_of_the_producer_holds_records_that_an_earlier_one_left() -> None:
    evidence = truth()
    first, second = evidence.held[PLACE]
    later = told(120, lambda _: scrape(120.0, 1, stall(100.0, producer_epoch=6)), evidence)
    assert "holder" in rules(later)
    assert "holder" not in rules(replace(later, held={PLACE: [first, replace(second, last_epoch=6)]}))


def test_a_line_for_a_transaction_that_is_open_is_found() -> None:
    assert "abort line" in rules(told(130, with_line, truth()))


def test_a_committed_record_that_a_followed_line_dropped_is_found() -> None:
    evidence = lost_marker(committed=True)
    first, second = evidence.held[PLACE]
    held = {PLACE: [first, replace(second, end=20, ended=181.0)]}
    line = FollowedLine(180.0, 182.0, "page", LINE, PLACE, 7, 10, 0, "")
    assert {"abort line", "lost by following"} <= rules(replace(evidence, held=held, followed=[line]))
    refused = line._replace(code=1)
    assert "lost by following" not in rules(replace(evidence, held=held, followed=[refused]))


def test_a_commit_that_a_client_had_acknowledged_and_that_is_not_in_the_log_is_an_error_of_the_oracle() -> None:
    books = KnownTokens(committed={f"{ID}/1.1", f"{ID}/1.9"})
    assert rules(replace(truth(), books=books)) == {"oracle"}


def test_a_partition_that_nobody_answers_for_must_take_a_source_down() -> None:
    silent = {
        ("orders", 1): [
            OffsetObservation(float(at), None, None) if at > 100 else OffsetObservation(float(at), 0, 0)
            for at in range(200)
        ]
    }
    evidence = truth()
    assert rules(replace(evidence, looks={**evidence.looks, **silent})) == {"sources down"}


def told_event(kind: str, at: float, *, seconds: float = 0.0, **more: Any) -> dict[str, Any]:
    held = {"topic": PLACE[0], "partition": PLACE[1], "offset": 10, "since_timestamp": 100.0, "seconds": seconds}
    subject = {"application": APP, "transactional_id": ID, "producer_id": 7, **more.pop("subject", {})}
    partitions = [held] if kind.startswith("stall") else []
    return {"kind": kind, "timestamp": at, "subject": subject, "partitions": partitions, "evidence": {}, **more}


STARTED = told_event("agent_started", -49.0)
BEGUN = told_event("stall_begun", 100.0)
ENDED = told_event("stall_ended", 150.0, seconds=50.0)


@pytest.mark.parametrize(
    ("journal", "rules_broken"),
    [
        ((STARTED, BEGUN, ENDED), set()),
        ((STARTED,), {"journal: stall"}),
        ((STARTED, BEGUN), {"journal: stall"}),
        ((STARTED, BEGUN, told_event("stall_ended", 130.0, seconds=30.0)), {"journal: stall"}),
        ((STARTED, BEGUN, {**ENDED, "how": "committed"}), set()),
        ((STARTED, BEGUN, {**ENDED, "how": "timed_out"}), {"journal: stall"}),
        (
            (STARTED, BEGUN, told_event("stall_ended", 150.0, seconds=50.0, subject={"producer_id": 8})),
            {"journal: stall"},
        ),
        ((STARTED, BEGUN, ENDED, told_event("fenced", 149.1)), {"journal: unclean end"}),
        (
            (STARTED, BEGUN, ENDED, told_event("torn", 149.1, subject={"topic": PLACE[0], "partition": PLACE[1]})),
            {"journal: torn"},
        ),
    ],
)
def test_a_journal_tells_each_stall_with_holder_and_end_and_nothing_else(
    journal: tuple[dict[str, Any], ...], rules_broken: set[str]
) -> None:
    assert rules(replace(truth(), journal=journal)) == rules_broken


@pytest.mark.parametrize(("mode", "told_at", "broken"), [
    ("ordinary", 149.1, 0), ("ordinary", 149.2, 2), ("clocks", 150.0, 0), ("clocks", 152.0, 2), ("clocks", 59.1, 2),
])  # fmt: skip
def test_unclean_ends_are_dated_by_the_log_and_where_clocks_are_apart_by_their_estimated_distance(
    mode: str, told_at: float, broken: int
) -> None:
    ongoing, *decided = truth().states[3:]
    fenced = [state._replace(status=state.status and state.status + 1, epoch=state.epoch + 1) for state in decided]
    evidence = replace(truth(), states=[*truth().states[:3], ongoing, *fenced], mode=MODES[mode])
    found = judge(replace(evidence, journal=(STARTED, BEGUN, ENDED, told_event("fenced", told_at))))
    assert sum(transaction.rule == "journal: unclean end" for transaction in found) == broken, (
        "missing, and another one"
    )


def test_what_an_agent_could_not_see_is_in_a_gap_of_its_journal() -> None:
    away = replace(truth(), lives=[AgentRun(-50.0, 95.0, 0), AgentRun(155.0, 300.0, 0)], scrapes=[scrape(199.0, 2)])
    again = told_event("agent_started", 156.0)
    seen = {**again, "evidence": {"not_seen_from_timestamp": 95.0}}
    silent = {**again, "evidence": {"not_seen_from_timestamp": 155.5}}
    assert "journal: stall" not in rules(replace(away, journal=(STARTED, seen)))
    late = replace(away, looks={PLACE: [look for look in away.looks[PLACE] if look.at < 140]})
    assert "journal: stall" in rules(replace(late, journal=(STARTED, silent)))


# --- Modes ---


def test_what_lost_logs_had_may_be_counted_or_not_and_nothing_else() -> None:
    evidence = replace(truth(), mode=MODES["unclean"])
    last = evidence.transactions[-1]
    assert rules(told(199, lambda _: scrape(199.0, 3), evidence)) == {"outcomes"}
    lost = replace(evidence, lost=LostRecords((last,), {}))
    assert rules(lost) == rules(told(199, lambda _: scrape(199.0, 3), lost)) == set()
    assert "outcomes" in rules(told(199, lambda _: scrape(199.0, 4), lost))
    assert "outcomes" in rules(told(199, lambda _: scrape(199.0, 1), lost)), "fewer than the log still has"


def test_a_line_for_what_an_unclean_election_took_is_wrong_where_a_client_was_told_that_it_is_committed() -> None:
    evidence = truth()
    gone, kept = evidence.held[PLACE][1], evidence.held[PLACE][:1]
    line = stall(100.0, kind="hanging", transactional_id="")
    line["next_step"] = "kafka-transactions.sh abort --topic orders --partition 0 --start-offset 10"
    evidence = told(120, lambda _: scrape(120.0, 1, line), replace(evidence, mode=MODES["unclean"], held={PLACE: kept}))
    assert "abort line" in rules(evidence)
    there = replace(evidence, lost=LostRecords((), {PLACE: [gone]}))
    assert "abort line" in rules(there)
    unpromised = replace(there, books=replace(there.books, committed=set()), states=there.states[:3])
    assert "abort line" not in rules(unpromised)


def test_counts_and_stalls_of_another_cluster_and_a_missing_fault_are_found() -> None:
    fault = {"sources": [{"source": "txnlog", "faults": [{"reason": "identity"}]}], "stalled_partitions": []}
    blind = [scrape(at, 2)._replace(status={"clusters": [fault]}) for at in (0.0, 30.0, 90.0)]
    assert rules(replace(truth(), elsewhere=blind)) == set()
    mixed = [*blind, blind[-1]._replace(samples=scrape(90.0, 3).samples)]
    silent = [*blind, scrape(90.0, 2)._replace(status={"clusters": [{"sources": [], "stalled_partitions": []}]})]
    stalled = [*blind, blind[-1]._replace(status={"clusters": [fault | {"stalled_partitions": [stall(80.0)]}]})]
    for wrong in (mixed, silent, stalled, blind[:2]):
        assert rules(replace(truth(), elsewhere=wrong)) == {"another cluster"}


def test_what_was_written_before_the_agent_began_to_count_is_not_expected() -> None:
    before = [state._replace(transactional_id="elsewhere-1", offset=90) for state in commit(10, 11, 11.1)]
    evidence = truth()
    assert "outcomes" not in rules(replace(evidence, states=[*before, *evidence.states]))
