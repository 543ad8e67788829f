from __future__ import annotations

import pytest

from exporter.commands.connection import FORM, NEEDS, Capability, features
from exporter.commands.runner import ClusterReport
from tests.helpers.one_broker import OneBroker


def test_what_no_answer_can_tell_is_said_beside_a_good_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    good = Capability("transactional ids", "no open transactions", (), unseen="a DENY on single ids cannot be seen")
    assert good.verdict == "ok"
    answered = (good, *(Capability(kind, "", ()) for kind in KINDS if kind != good.name))
    FORM.print([ClusterReport(OneBroker().cluster(), answered)])
    said = capsys.readouterr().out
    assert "transactional ids: a DENY on single ids cannot be seen" in said


KINDS = tuple(dict.fromkeys(need for needs in NEEDS.values() for need in needs))


def of(missing: tuple[str, ...] = (), unproven: tuple[str, ...] = ()) -> dict[str, str]:
    """Return what works where these kinds of requests are refused, or cannot be proven."""
    answered = [
        Capability(kind, "", (f"grant {kind}",) if kind in missing else (), "nothing there" if kind in unproven else "")
        for kind in KINDS
    ]
    return {feature.name: feature.works for feature in features(answered)}


def test_all_works_where_everything_is_answered_and_nothing_where_nothing_is() -> None:
    assert {*of().values()} == {"yes"}
    assert {*of(KINDS).values()} == {"no"}
    assert {*of(unproven=KINDS).values()} == {"unproven"}


@pytest.mark.parametrize(("missing", "works"), [("transaction log", "no"), ("transactional ids", "yes")])
def test_only_the_log_gives_outcomes(missing: str, works: str) -> None:
    assert of((missing,))["outcomes, fences and timeouts"] == works


def test_a_part_that_does_not_work_says_the_grant_that_is_missing() -> None:
    answered = [Capability(kind, "", ("grant READ",) if kind == "transaction log" else ()) for kind in KINDS]
    why = {feature.name: feature.why for feature in features(answered)}
    assert why["times of transactions, Flink jobs, commits of Connect's tasks"] == "grant READ"
    assert why["outcomes, fences and timeouts"] == "grant READ"
    assert why["stalled partitions, and since when"] == ""
