"""Answers of another cluster, or of another transaction log, are refused."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from exporter.kafka.client import AskError, ClusterClient
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.metadata import TRANSACTION_STATE, metadata_request
from exporter.model import Deadline, Fault, Reason
from tests.helpers.kafka import FakeBroker, broker, metadata_response

FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2)


class Who:
    """A broker's answer about its cluster, which may change while its address stays."""

    def __init__(self) -> None:
        self.cluster_id = "cluster-1"
        self.topic_id = FIRST

    def answers(self, port: Callable[[], int]) -> Callable[[str, Any], Any]:
        def answer(name: str, _: Any) -> Any:
            if name not in {"Metadata", "Identity"}:
                return None
            said = metadata_response([(1, "127.0.0.1", port())], {TRANSACTION_STATE: [1]})
            said.cluster_id = self.cluster_id
            said.topics[0].topic_id = self.topic_id
            return said

        return answer


def soon() -> Deadline:
    return Deadline.after(20)


@pytest.fixture
def who() -> Who:
    return Who()


def served(who: Who) -> Any:
    found: list[FakeBroker] = []
    one = broker(who.answers(lambda: found[0].port))
    found.append(one.__enter__())
    return one, found[0]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cluster_id": "standby"}, "belongs to the cluster standby, and this process reads cluster-1"),
        ({"topic_id": SECOND}, f"with the topic id {SECOND} and not {FIRST}: the cluster was formatted again"),
    ],
)
def test_another_cluster_at_the_same_address_is_refused_at_its_first_connection(
    who: Who, change: dict[str, Any], why: str
) -> None:
    context, one = served(who)
    client = ClusterClient(Properties.parse({"bootstrap.servers": one.address}))
    try:
        assert client.metadata(soon()).cluster_id == "cluster-1"
        client.verify_identity(soon())
        before = vars(who).copy()
        vars(who).update(change)
        with pytest.raises(AskError) as refused:
            client.verify_identity(soon())
        assert refused.value.fault.reason is Reason.IDENTITY
        assert why in refused.value.fault.detail
        one.hang_up()
        answer = client.ask({1: metadata_request(None)}, soon())[1]
        assert isinstance(answer, Fault), "a new connection is checked before any request"
        assert answer.reason is Reason.IDENTITY
        with pytest.raises(AskError) as refused:
            client.metadata(soon())
        assert refused.value.fault.reason is Reason.IDENTITY
        vars(who).update(before)
        client.verify_identity(soon())
    finally:
        client.close()
        context.__exit__(None, None, None)


def test_a_topic_that_is_missing_or_has_no_id_is_not_compared(who: Who) -> None:
    context, one = served(who)
    client = ClusterClient(Properties.parse({"bootstrap.servers": one.address}))
    try:
        client.metadata(soon())
        who.topic_id = uuid.UUID(int=0)
        client.verify_identity(soon())
    finally:
        client.close()
        context.__exit__(None, None, None)
