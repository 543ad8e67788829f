"""The offsets of an audit while leaders move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from exporter.jobs.audit import offset_range
from exporter.jobs.audit.offset_range import OffsetSpan, cover, lost_since, parse_bound
from exporter.kafka.client import AskError
from exporter.model import Deadline, Fault, Reason
from tests.helpers.kafka import FakeCluster, cluster_of, offsets

UNKNOWN_LEADER_EPOCH = 75
TOPIC_AUTHORIZATION_FAILED = 29


class Moving(FakeCluster):
    """Its partition answers with an error this many times, then with offset 7."""

    def __init__(self, times: int, code: int = UNKNOWN_LEADER_EPOCH) -> None:
        self.left = times
        super().__init__(
            lambda _node, request: offsets(request, {"t-0": code} if self.spend() else {}), cluster_of({"t": [1]})
        )

    def spend(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def config(self, _kind: str, _name: str, _keys: Sequence[str], _deadline: Deadline) -> dict[str, str]:
        return {}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_range, "RETRY_SECONDS", 0.001)


def covered(client: Any, seconds: float = 60) -> dict[int, OffsetSpan]:
    return dict(cover(client, "t", parse_bound("beginning"), None, Deadline.after(seconds)).spans)


@pytest.mark.parametrize("times", [0, 1, 9])
def test_a_leader_that_moves_is_waited_for(times: int) -> None:
    assert covered(Moving(times))[0].end == 7
    assert lost_since(Moving(times), "t", {0: OffsetSpan(0, 7, 9)}, Deadline.after(60)) == ()  # type: ignore[arg-type]


def test_an_end_that_the_log_has_not_reached_is_not_told_as_an_open_transaction() -> None:
    [said] = cover(Moving(0), "t", parse_bound("7"), parse_bound("9"), Deadline.after(60)).unknown  # type: ignore[arg-type]
    assert said == "t-0: end 9 is beyond the last stable offset: what is there is not decided, or not written yet"


def test_offsets_that_were_deleted_are_found_after_a_leader_moved() -> None:
    [said] = lost_since(Moving(5), "t", {0: OffsetSpan(0, 3, 9)}, Deadline.after(60))  # type: ignore[arg-type]
    assert "retention took records" in said


def test_a_leader_that_does_not_come_back_ends_the_audit_at_its_time_limit() -> None:
    with pytest.raises(AskError) as caught:
        covered(Moving(10**9), 0.2)
    assert caught.value.fault.reason is Reason.NO_LEADER


def test_what_waiting_does_not_help_is_not_asked_again() -> None:
    client = Moving(10**9, TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(AskError) as caught:
        covered(client)
    assert caught.value.fault.reason is Reason.AUTHORIZATION
    assert len(client.asked) == 1


def test_a_topic_that_does_not_exist_is_not_waited_for() -> None:
    client = FakeCluster(
        lambda _node, request: offsets(request), cluster_of({}, errors={"t": Fault(Reason.UNKNOWN_TOPIC, "no t")})
    )
    with pytest.raises(AskError, match="no t"):
        covered(client)
    assert len(client.refreshes) == 1
