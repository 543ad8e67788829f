"""Ids that change at every start: what is a finding, and that pools, slow producers and single restarts are none."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.posture.check import CheckResult, PostureCheck
from exporter.posture.stable_ids import LEAST_STARTS, id_checks, reuse_checks
from exporter.transactions.facts import IdChanges, IdLife, OffsetPartitions, RepeatedInits

NOW = 100_000.0
PODS = ("pay-5d9c8f7b64-kxq2z", "pay-5d9c8f7b64-bw7fd", "pay-6f4b5c9d78-m4zzp", "pay-6f4b5c9d78-tn8rl")


def lives(*names: str, used: float = 10.0, every: float = 60.0, ended: float = 600.0) -> tuple[IdLife, ...]:
    """One id after another, each in use for ``used`` seconds; the last one is in use now."""
    begun = NOW - ended - every * (len(names) - 1)
    found = [IdLife(name, begun + every * at, begun + every * at + used) for at, name in enumerate(names)]
    return (*found[:-1], found[-1]._replace(last=NOW))


def judge(ids: tuple[IdLife, ...], returned: float | None = None, at: float = NOW) -> list[PostureCheck]:
    return list(id_checks({"pay": IdChanges(ids, at, returned)}, {}))


def test_ids_that_are_new_at_every_start_and_never_come_back_fail() -> None:
    (check,) = judge(lives(*PODS))
    assert (check.name, check.subject) == ("stable_transactional_ids", "pay")
    assert check.verdict is CheckResult.FAILED
    assert check.found == (
        "in the last day new ids at 4 starts, the last one 10 min ago, and 3 former ids that were not used again"
    )
    assert "StatefulSet" in check.fix
    assert "until its timeout" in check.why


def test_an_application_that_commits_its_offsets_in_transactions_gets_information() -> None:
    used = {"pay": OffsetPartitions(9, frozenset({4}))}
    (check,) = id_checks({"pay": IdChanges(lives(*PODS), NOW)}, used)
    assert check.verdict is CheckResult.INFORMATION
    assert "consumer.groupMetadata()" in check.found


def test_ids_that_name_no_application_may_be_of_several_and_get_information() -> None:
    uuids = tuple(f"{digit * 8}-1f1f-4111-8b1f-{digit * 11}c" for digit in "2345")
    (check,) = id_checks({"_uuid": IdChanges(lives(*uuids), NOW)}, {})
    assert check.verdict is CheckResult.INFORMATION
    assert "may be of several applications" in check.found


def test_offsets_of_no_group_do_not_soften_the_verdict() -> None:
    (check,) = id_checks({"pay": IdChanges(lives(*PODS), NOW)}, {"pay": OffsetPartitions(9, frozenset())})
    assert check.verdict is CheckResult.FAILED


@pytest.mark.parametrize("names", [("pay-0", "pay-1", "pay-2", "pay-3"), ("pay1", "pay2", "pay3", "pay4")])
def test_a_pool_that_grows_is_no_finding_even_where_its_first_ids_are_idle(names: tuple[str, ...]) -> None:
    assert judge(lives(*names)) == []


def floods(
    number: int, gap: float, used: float = 0.2, form: str = "txn-{:08x}-0000-4000-8000-000000000000"
) -> IdChanges:
    """One id for each transaction, so many seconds apart, until a minute ago."""
    begun = NOW - 60 - gap * number
    ids = (IdLife(form.format(at), begun + gap * at, begun + gap * at + used) for at in range(number))
    return IdChanges(tuple(ids), NOW)


@pytest.mark.parametrize("form", ["txn-{:08x}-0000-4000-8000-000000000000", "txn-{}", "order{:06}"])
@pytest.mark.parametrize(("number", "gap"), [(141, 0.85), (50, 2.0), (50, 4.9), (50, 8.0), (50, 30.0), (45, 600.0)])
@pytest.mark.parametrize("offsets", [OffsetPartitions(0, frozenset()), OffsetPartitions(9, frozenset({4}))])
def test_an_id_for_each_transaction_fails_however_fast_they_come(
    form: str, number: int, gap: float, offsets: OffsetPartitions
) -> None:
    (check,) = id_checks({"txn": floods(number, gap, form=form)}, {"txn": offsets})
    assert check.verdict is CheckResult.FAILED
    assert "an id for each transaction" in check.found
    assert "not one for each" in check.fix


def test_ids_for_one_transaction_each_that_came_within_seconds_fail_when_they_are_silent_for_an_hour() -> None:
    quick = floods(50, 0.5)
    assert list(id_checks({"txn": quick}, {})) == []
    (check,) = id_checks({"txn": quick._replace(at=NOW + 3600)}, {})
    assert check.verdict is CheckResult.FAILED


@pytest.mark.parametrize(
    "changes",
    [
        floods(30, 5.0),  # too few
        floods(50, 2.0, used=59.0, form="pay-{}"),  # a pool grows while all of its ids are in use
        floods(50, 2.0, used=0.0),  # instances that start and have nothing to write yet
        floods(50, 1.0),  # instances that start together
        floods(200, 2.0, form="sums-3-{}"),  # of Flink's form: one for each checkpoint
        floods(40, 2.0)._replace(ids=(*floods(40, 2.0).ids, *(IdLife(f"pay-{at}", NOW - 90, NOW) for at in range(9)))),
    ],
)
def test_pools_starts_and_checkpoints_are_no_ids_for_one_transaction(changes: IdChanges) -> None:
    assert list(id_checks({"pay": changes}, {})) == []


def test_start_times_at_the_end_of_ids_are_no_short_numbers() -> None:
    (check,) = judge(lives("pay-1790000000123", "pay-1790000060456", "pay-1790000120789", "pay-1790000180000"))
    assert check.verdict is CheckResult.FAILED


def test_replicas_that_are_added_and_stay_in_use_are_no_finding() -> None:
    ids = tuple(IdLife(name, NOW - 600 + 60 * at, NOW - 1) for at, name in enumerate(PODS))
    assert judge(ids) == []


def test_producers_of_a_transaction_an_hour_are_no_finding_while_the_next_one_may_come() -> None:
    ids = tuple(IdLife(name, NOW - 3000 + 60 * at, NOW - 3000 + 60 * at + 0.3) for at, name in enumerate(PODS))
    assert judge(ids) == []
    (check,) = judge(ids, at=NOW + 1200)
    assert check.verdict is CheckResult.FAILED


def test_an_id_that_paused_for_less_than_ten_times_its_use_is_not_gone() -> None:
    ids = tuple(IdLife(name, NOW - 1500 + 60 * at, NOW - 900) for at, name in enumerate(PODS))
    assert judge(ids) == []


def test_one_restart_of_many_producers_at_once_is_one_start() -> None:
    former = tuple(IdLife(f"pay-{word}-kxq2z", None, NOW - 4000) for word in ("ab", "cd", "ef", "gh"))
    new = tuple(IdLife(name, NOW - 3950 + at, NOW) for at, name in enumerate(PODS))
    assert judge((*former, *new)) == []


def test_a_rolling_update_starts_successors_before_the_former_ones_end() -> None:
    former = tuple(IdLife(f"pay-old-{word}", None, NOW - 4000 + 60) for word in ("ab", "cd", "ef", "gh"))
    new = tuple(IdLife(name, NOW - 4000 + 20 * at, NOW) for at, name in enumerate(PODS))
    (check,) = judge((*former, *new))
    assert "new ids at 4 starts" in check.found
    assert "4 former ids" in check.found


def test_former_ids_that_ended_long_after_the_new_ones_appeared_have_no_successor() -> None:
    former = tuple(IdLife(f"pay-old-{word}", None, NOW - 4000) for word in ("ab", "cd", "ef", "gh"))
    new = tuple(IdLife(name, NOW - 8000 + 20 * at, NOW) for at, name in enumerate(PODS))
    assert judge((*former, *new)) == []


def test_an_id_that_came_back_shows_that_ids_are_stable_after_an_hour_without_a_new_one() -> None:
    ids = lives(*PODS, ended=3700.0)
    (failed,) = judge(ids)
    (passed,) = judge(ids, returned=NOW - 60)
    (early,) = judge(lives(*PODS), returned=NOW - 60)
    (before,) = judge(ids, returned=NOW - 3800)
    verdicts = [check.verdict for check in (failed, passed, early, before)]
    assert verdicts == [CheckResult.FAILED, CheckResult.PASSED, CheckResult.FAILED, CheckResult.FAILED]
    assert passed.found == "an id was initialised again, and no new id came for 1 h"


@dataclass(frozen=True)
class Population:
    """Ids of an application, as a hypothesis example."""

    ids: tuple[IdLife, ...]


@st.composite
def populations(draw: st.DrawFn) -> Population:
    count = draw(st.integers(0, 12))
    found = []
    for at in range(count):
        first = draw(st.none() | st.floats(NOW - 90_000, NOW))
        last = draw(st.floats(first if first is not None else NOW - 90_000, NOW))
        found.append(IdLife(f"pay-{draw(st.sampled_from('abcdef'))}-{at}", first, last))
    return Population(tuple(found))


@given(populations())
def test_no_finding_without_three_new_ids_and_three_others_that_are_silent(population: Population) -> None:
    found = judge(population.ids)
    new = [life for life in population.ids if life.first is not None]
    silent = [life for life in population.ids if NOW - life.last > 60]
    if found:
        assert len(new) >= LEAST_STARTS
        assert len(silent) >= LEAST_STARTS
        assert len(population.ids) > LEAST_STARTS


@given(populations())
def test_no_finding_while_every_id_is_in_use(population: Population) -> None:
    assert judge(tuple(life._replace(last=NOW) for life in population.ids)) == []


def test_a_producer_that_is_initialised_for_each_transaction_is_information_with_the_counts() -> None:
    (check,) = reuse_checks({"pay": RepeatedInits(120, 2, 119, 300.0)})
    assert (check.name, check.subject, check.verdict) == ("producer_reuse", "pay", CheckResult.INFORMATION)
    assert check.found.startswith("120 inits of 2 transactional ids in 5 min, and 119 transactions")
