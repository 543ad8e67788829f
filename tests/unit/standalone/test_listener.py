"""The file for users' Spark drivers: it hands over, never blocks, never raises, and imports nothing of ours."""

from __future__ import annotations

import ast
import json
import sys
import time
from collections.abc import Iterator
from copy import deepcopy
from email.message import Message
from io import BytesIO
from pathlib import Path
from queue import Empty
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import pytest

from exporter.ingest.admission import MAX_BYTES
from exporter.model import Clock, TopicPartition
from exporter.spark.posts import SparkReceiver
from exporter.spark.terminations import MOST_CLASSES
from exporter.standalone import listener
from exporter.standalone.listener import MOST_QUERIES, EosListener
from exporter.words import QueryState, TerminationReason
from tests.helpers.agent_endpoint import StubEndpoint
from tests.unit.spark.test_event_log import instant, recorded

ID, RUN = "cbb8ccf7-68b1-441a-8a88-b5928436b904", "d2e81634-50b9-4725-a209-698961ae4b10"
STARTED: Any = SimpleNamespace(id=ID, runId=RUN, name="orders-copy", timestamp="2026-11-21T14:48:59.420Z")
IDLE: Any = SimpleNamespace(id=ID, runId=RUN, timestamp="2026-11-21T14:49:12.000Z")
STOPPED: Any = SimpleNamespace(id=ID, runId=RUN, exception=None, errorClassOnException=None)


def like(event: Any, **fields: Any) -> Any:
    return SimpleNamespace(**{**vars(event), **fields})


def progress(number: int = 1, partitions: int = 1, query: str = ID, **more: object) -> Any:
    """The second batch of the capture; in the driver offsets are no text but JSON."""
    document = deepcopy(recorded("QueryProgressEvent", batchId=1)[0])
    document |= {"batchId": number, "id": query, **more}
    document["sources"][0]["endOffset"] = {"orders": {str(number): 1_000_000_000 for number in range(partitions)}}
    return SimpleNamespace(progress=SimpleNamespace(json=json.dumps(document)))


class ReceivingAgent(StubEndpoint[bytes]):
    def next(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.posts.get(timeout=10)[2])
        return document


@pytest.fixture
def agent() -> Iterator[ReceivingAgent]:
    with ReceivingAgent(bytes) as agent:
        yield agent


@pytest.fixture
def eos(agent: ReceivingAgent) -> Iterator[EosListener]:
    made = EosListener(agent.url, application="billing")
    yield made
    made.close()


def taken(*posts: bytes) -> Any:
    """Return what the agent makes of these posts."""
    inbox = SparkReceiver(["prod"], 10, Clock())
    for post in posts:
        inbox.take(post)
    return inbox.queries("")[0]


def test_it_imports_nothing_but_pyspark_and_the_standard_library() -> None:
    tree = ast.parse(Path(listener.__file__).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names | {"pyspark"}


def test_it_uses_nothing_that_python_3_9_lacks() -> None:
    """Spark 3.5 runs on it, and the file is copied to where the driver is."""
    ast.parse(Path(listener.__file__).read_text(), feature_version=(3, 9))


def test_each_event_is_handed_over_as_the_state_after_it(agent: ReceivingAgent, eos: EosListener) -> None:
    states = []
    for call, event in (
        (eos.onQueryStarted, STARTED),
        (eos.onQueryProgress, progress()),
        (eos.onQueryIdle, IDLE),
        (eos.onQueryTerminated, STOPPED),
    ):
        call(event)
        states.append(agent.posts.get(timeout=10)[2])
    first, second, third, last = (taken(state) for state in states)
    assert (first.state, first.started, first.batches) == (QueryState.RUNNING, 1_795_272_539.42, None)
    assert (second.application, second.name, second.batches, second.rows) == ("billing", "orders-copy", 2, 50)
    assert second.offsets == {TopicPartition("orders", 0): 1_000_000_000}
    batch = recorded("QueryProgressEvent", batchId=1)[0]
    assert second.last_progress == instant(batch["timestamp"]) + batch["durationMs"]["triggerExecution"] / 1000
    assert (third.state, third.last_progress) == (QueryState.IDLE, 1_795_272_552.0)
    assert (last.state, [end.reason for end in last.ends]) == (QueryState.TERMINATED, [TerminationReason.STOPPED])


def test_of_an_exception_the_classes_are_handed_over_and_no_text(agent: ReceivingAgent, eos: EosListener) -> None:
    trace = (
        "org.apache.spark.SparkException: the card 4711\nCaused by: org.apache.kafka.common.errors.TimeoutException: k1"
    )
    eos.onQueryTerminated(like(STOPPED, exception=trace))
    content = agent.posts.get(timeout=10)[2]
    query = taken(content)
    assert (query.state, query.ends[0].reason, query.ends[0].run_id) == (
        QueryState.FAILED,
        TerminationReason.KAFKA,
        RUN,
    )
    assert b"4711" not in content
    assert listener.MOST_ENDS <= MOST_CLASSES


def test_nothing_of_plans_records_and_places_of_sinks_is_handed_over(agent: ReceivingAgent, eos: EosListener) -> None:
    eos.onQueryProgress(progress(sink={"description": "FileSink[/data/secret]", "numOutputRows": 3}))
    document = agent.next()
    assert document["progress"]["sink"] == {"description": "FileSink"}
    assert document.keys() == {
        *("id", "name", "state", "rows", "ends", "last_progress_at", "progress"),
        *("application", "kafka_cluster"),
    }
    assert document["progress"].keys() == {"batchId", "timestamp", "durationMs", "sources", "sink"}
    assert document["progress"]["sources"][0].keys() == {"description", "endOffset", "numInputRows"}


def test_the_token_and_the_cluster_go_along_and_are_not_in_the_repr(agent: ReceivingAgent) -> None:
    eos = EosListener(f"{agent.url}/eos/", token="t0ken", cluster="prod", application="billing")
    eos.onQueryStarted(STARTED)
    path, headers, content = agent.posts.get(timeout=10)
    assert path == "/eos/ingest/spark"
    assert headers["Authorization"] == "Bearer t0ken"
    assert json.loads(content)["kafka_cluster"] == "prod"
    assert "t0ken" not in repr(eos)
    eos.close()


def test_while_an_answer_is_awaited_events_return_at_once_and_only_the_last_state_waits(
    agent: ReceivingAgent, eos: EosListener
) -> None:
    agent.hold.clear()
    eos.onQueryStarted(STARTED)
    agent.next()
    for number in range(500):
        eos.onQueryProgress(progress(number))
    assert agent.posts.empty(), "all of that was noted while one answer was out"
    agent.hold.set()
    document = agent.next()
    assert document["progress"]["batchId"] == 499
    assert document["rows"] == 500 * 50, "what was skipped is in the sums"
    eos.close(10)
    assert eos.skipped == 499
    assert eos.posted == 2


def test_an_agent_that_is_away_gets_the_state_when_it_comes_back(
    agent: ReceivingAgent, eos: EosListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "RETRY_SECONDS", 0.05)
    agent.status = 503
    eos.onQueryTerminated(STOPPED)
    assert agent.next()["state"] == "terminated"
    assert agent.next()["state"] == "terminated"
    agent.status = 204
    eos.close(10)
    assert (eos.posted, eos.skipped) == (1, 0)


def test_what_the_agent_refuses_for_good_is_not_sent_again(agent: ReceivingAgent, eos: EosListener) -> None:
    agent.status = 400
    eos.onQueryStarted(STARTED)
    agent.next()
    eos.close(10)
    assert (eos.posted, eos.skipped) == (0, 1)
    with pytest.raises(Empty):
        agent.posts.get_nowait()


def test_a_redirect_is_not_followed(agent: ReceivingAgent, eos: EosListener) -> None:
    agent.status = 302
    eos.onQueryStarted(STARTED)
    paths = {agent.posts.get(timeout=10)[0]}
    eos.close(10)
    assert eos.posted == 0
    while not agent.posts.empty():
        paths.add(agent.posts.get()[0])
    assert paths == {"/ingest/spark"}


def test_a_query_in_a_long_batch_gives_a_sign_of_life_and_one_that_ended_does_not(
    agent: ReceivingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "SIGN_OF_LIFE_SECONDS", 0.05)
    eos = EosListener(agent.url, application="billing")
    eos.onQueryStarted(STARTED)
    assert [agent.next()["state"] for _ in range(3)] == ["running"] * 3
    eos.onQueryTerminated(STOPPED)
    while agent.next()["state"] == "running":
        """The posts that were under way."""
    other = like(STARTED, id="other")
    eos.onQueryStarted(other)
    assert {agent.next()["id"] for _ in range(5)} == {"other"}
    eos.close()


def test_a_query_in_a_long_batch_gives_a_sign_of_life_beside_one_that_has_news_all_the_time(
    agent: ReceivingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "SIGN_OF_LIFE_SECONDS", 0.3)
    eos = EosListener(agent.url, application="billing")
    eos.onQueryStarted(STARTED)
    busy, found = like(STARTED, id="busy"), []
    for _ in range(20):
        eos.onQueryStarted(busy)
        found.append(agent.next()["id"])
        time.sleep(0.05)
    eos.close()
    assert found.count(ID) > 1


def test_a_refusal_whose_text_does_not_come_does_not_end_the_posts(eos: EosListener) -> None:
    class CutText(BytesIO):
        def read(self, *_: object) -> bytes:
            raise ConnectionResetError

    def refuse(*_: object, **__: object) -> None:
        raise HTTPError("http://a", 400, "Bad Request", Message(), CutText())

    opener: Any = SimpleNamespace(open=refuse)
    assert eos._hand_over(opener, {"id": ID}) == ("400 Bad Request: ", True)


def test_offsets_of_very_many_partitions_are_left_out_so_that_the_rest_comes_in(
    agent: ReceivingAgent, eos: EosListener
) -> None:
    eos.onQueryProgress(progress(partitions=20_000))
    content = agent.posts.get(timeout=10)[2]
    assert len(content) < MAX_BYTES
    query = taken(content)
    assert (query.batches, query.offsets) == (2, {})


def test_an_event_that_is_not_understood_costs_nothing_but_itself(agent: ReceivingAgent, eos: EosListener) -> None:
    for call in (eos.onQueryStarted, eos.onQueryProgress, eos.onQueryIdle, eos.onQueryTerminated):
        call(object())  # type: ignore[arg-type]
    eos.onQueryStarted(STARTED)
    assert agent.next()["state"] == "running"


def test_more_queries_than_are_known_at_once_push_out_those_that_ended(agent: ReceivingAgent) -> None:
    eos = EosListener(agent.url, application="billing")
    eos.onQueryStarted(STARTED)
    for number in range(MOST_QUERIES + 50):
        eos.onQueryStarted(like(STARTED, id=f"q{number}"))
        eos.onQueryTerminated(like(STOPPED, id=f"q{number}"))
    assert len(eos._queries) == MOST_QUERIES
    assert ID in eos._queries
    eos.close()


def test_closing_hands_over_what_waits(agent: ReceivingAgent) -> None:
    eos = EosListener(agent.url, application="billing")
    eos.onQueryTerminated(STOPPED)
    eos.close(10)
    assert agent.next()["state"] == "terminated"
    eos.close(0)


def test_an_authority_that_cannot_be_read_is_said_when_the_listener_is_made(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        EosListener("https://agent", ca_file=str(tmp_path / "none.pem"))
