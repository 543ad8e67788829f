"""Statistics that librdkafka clients post: states and their ages, limits, and authentication."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter import catalogue
from exporter.agent.receivers import IngestApp
from exporter.ingest.latest import BURST, RefusedError
from exporter.model import Clock, Deadline, Facts, Sample
from exporter.producers.source.librdkafka import ClientKey, IngestSource, LibrdkafkaReceiver
from exporter.web_server.messages import Request

# As librdkafka 2.16 writes it, cut; txn_stateage is the machine's uptime.
EOS = {
    "idemp_state": "Assigned",
    "idemp_stateage": 780,
    "txn_state": "Ready",
    "txn_stateage": 1366312,
    "txn_may_enq": False,
    "producer_id": 0,
    "producer_epoch": 0,
    "epoch_cnt": 1,
}


class IngestClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now, lambda: self.now + 1_700_000_000)


@pytest.fixture
def time() -> IngestClock:
    return IngestClock()


@pytest.fixture
def inbox(time: IngestClock) -> LibrdkafkaReceiver:
    return LibrdkafkaReceiver(["prod", "dr"], clients=3, expire_after=60.0, clock=time.clock)


def body(client_id: str = "checkout", txn_state: str = "Ready", **others: Any) -> bytes:
    document = {"client_id": client_id, "instance": "app/1", "eos": {**EOS, "txn_state": txn_state}}
    return json.dumps({**document, **others}).encode()


def series(inbox: LibrdkafkaReceiver, only_cluster: str = "prod") -> dict[tuple[str, tuple[str, ...]], Any]:
    items = list(IngestSource(inbox, lambda: only_cluster).read(Deadline.after(1), Facts()))
    return {(item.metric.name, item.labels): item.value for item in items if isinstance(item, Sample)}


def refusal(inbox: LibrdkafkaReceiver, content: bytes) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        inbox.take(content)
    return caught.value


def test_a_client_s_state_is_reported_with_the_time_since_which_it_is_in_it(
    inbox: LibrdkafkaReceiver, time: IngestClock
) -> None:
    inbox.take(body(txn_state="InTransaction", txmsgs=7))
    began = time.clock.wall()
    time.now += 20
    inbox.take(body(txn_state="InTransaction", txmsgs=9))
    labels = ("prod", "app/1", "checkout")
    assert series(inbox) == {
        (catalogue.PRODUCER_TXN_STATE.name, (*labels, "in_transaction")): 1,
        (catalogue.PRODUCER_TXN_STATE_SINCE_TIMESTAMP_SECONDS.name, (*labels, "in_transaction")): began,
        (catalogue.PRODUCER_IDEMPOTENCE_STATE.name, (*labels, "assigned")): 1,
        (catalogue.PRODUCER_IDEMPOTENCE_STATE_SINCE_TIMESTAMP_SECONDS.name, (*labels, "assigned")): began,
        (catalogue.PRODUCER_RECORDS_SENT_TOTAL.name, labels): 9,
    }


def test_a_new_state_has_a_new_age_and_the_other_keeps_its_own(inbox: LibrdkafkaReceiver, time: IngestClock) -> None:
    inbox.take(body(txn_state="InTransaction"))
    time.now += 20
    inbox.take(body(txn_state="AbortableError"))
    state = inbox.clients()[ClientKey("", "app/1", "checkout")]
    assert (state.txn_state, state.txn_since) == ("abortable_error", time.clock.wall())
    assert state.idempotence_since == time.clock.wall() - 20


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("WaitPID", "wait_pid"),
        ("CommitNotAcked", "commit_not_acked"),
        ("FatalError", "fatal_error"),
        ("Nova", "unknown"),
    ],
)
def test_states_are_reported_in_lower_case_from_a_closed_list(
    inbox: LibrdkafkaReceiver, written: str, told: str
) -> None:
    inbox.take(body(txn_state=written))
    assert [state.txn_state for state in inbox.clients().values()] == [told]
    assert told in catalogue.RDKAFKA_TXN_STATES


def test_a_client_that_is_idempotent_only_has_no_transactional_state(inbox: LibrdkafkaReceiver) -> None:
    inbox.take(body(txn_state="Init"))
    assert not any("txn_state" in name for name, _ in series(inbox))
    assert any("idempotence_state" in name for name, _ in series(inbox))


def test_a_silent_client_is_forgotten_and_makes_room(inbox: LibrdkafkaReceiver, time: IngestClock) -> None:
    for number in range(3):
        inbox.take(body(f"client-{number}"))
    assert refusal(inbox, body("client-3")).status == 429
    assert series(inbox)[catalogue.SERIES_DROPPED.name, (catalogue.PRODUCER_TXN_STATE.name,)] == 1
    time.now += 61
    assert inbox.clients() == {}
    inbox.take(body("client-3"))
    assert (catalogue.SERIES_DROPPED.name, (catalogue.PRODUCER_TXN_STATE.name,)) not in series(inbox)


def test_a_flood_is_held_back(inbox: LibrdkafkaReceiver, time: IngestClock) -> None:
    for _ in range(int(BURST)):
        inbox.take(body())
    assert refusal(inbox, body()).status == 429
    time.now += 1
    inbox.take(body())


def test_a_client_may_name_a_cluster_that_is_watched_and_no_other(inbox: LibrdkafkaReceiver) -> None:
    inbox.take(body(kafka_cluster="dr"))
    assert {labels[0] for _, labels in series(inbox, "")} == {"dr"}
    assert refusal(inbox, body(kafka_cluster="made-up")).status == 400


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no json",
        b"\xff",
        b"[" * 60_000,
        b"[]",
        b"{}",
        b'{"client_id": "c"}',
        b'{"client_id": "c", "eos": 1}',
        b'{"client_id": "c", "eos": {}}',
        b'{"client_id": 1, "eos": {"txn_state": "Ready", "idemp_state": "Init"}}',
        b'{"client_id": "", "eos": {"txn_state": "Ready", "idemp_state": "Init"}}',
        b'{"client_id": "a\\nb", "eos": {"txn_state": "Ready", "idemp_state": "Init"}}',
        b'{"client_id": "c", "eos": {"txn_state": 7, "idemp_state": "Init"}}',
        body("x" * 201),
    ],
)
def test_what_is_no_statistics_is_refused_and_leaves_nothing(inbox: LibrdkafkaReceiver, content: bytes) -> None:
    assert refusal(inbox, content).status == 400
    assert inbox.clients() == {}


@pytest.mark.parametrize("sent", [-1, True, "7", 2**70, None, 1.5])
def test_a_count_that_is_none_is_absent(inbox: LibrdkafkaReceiver, sent: object) -> None:
    inbox.take(body(txmsgs=sent))
    assert not any(name == catalogue.PRODUCER_RECORDS_SENT_TOTAL.name for name, _ in series(inbox))


# --- Admission
# ---------------------------------------------------------------------------------------------------------


class PostResult:
    """One request and what came of it."""

    def __init__(self, door: IngestApp, content: bytes = b"", method: str = "POST", **headers: str) -> None:
        given = {"content_type": "application/json", "content_length": str(len(content)), **headers}
        request = Request(method, "/ingest/x", headers={key.replace("_", "-"): text for key, text in given.items()})
        answer = door.refusal(request) or door(request, content)
        self.status, self.headers, self.text = answer.status, answer.headers, answer.body.decode()


def test_good_statistics_are_taken_without_a_word(inbox: LibrdkafkaReceiver) -> None:
    visit = PostResult(IngestApp(inbox, lambda: ""), body())
    assert (visit.status, visit.text) == (204, "")
    assert len(inbox.clients()) == 1


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("", 401),
        ("Bearer", 401),
        ("Bearer wrong", 401),
        ("Basic t0ken", 401),
        ("Bearer t0ken", 204),
        ("bearer t0ken", 204),
    ],
)
def test_the_token_is_asked_for_where_there_is_one(inbox: LibrdkafkaReceiver, given: str, status: int) -> None:
    visit = PostResult(IngestApp(inbox, lambda: "t0ken"), body(), authorization=given)
    assert visit.status == status
    assert ("WWW-Authenticate" in visit.headers) == (status == 401)
    assert "t0ken" not in visit.text


def test_a_token_that_cannot_be_read_lets_nobody_in(inbox: LibrdkafkaReceiver) -> None:
    def broken() -> str:
        raise ValueError("token_file cannot be read")

    assert PostResult(IngestApp(inbox, broken), body()).status == 503
    assert inbox.clients() == {}


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"method": "GET"}, 405),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
        ({"content_type": "application/json; charset=utf-8"}, 204),
        ({"content_length": ""}, 411),
        ({"content_length": "-1"}, 411),
        ({"content_length": "100000"}, 413),
        ({"content_length": "9" * 5000}, 413),
    ],
)
def test_a_request_of_another_kind_is_refused(inbox: LibrdkafkaReceiver, asked: dict[str, str], status: int) -> None:
    assert PostResult(IngestApp(inbox, lambda: ""), body(), **asked).status == status


@pytest.mark.parametrize(
    "sent",
    [b"[" * 60_000, b'{"a":' * 12_000, b"", b"\xff", b'{"a":' + b"9" * 60_000 + b"}", b'{"client_id":"\\ud800"}'],
)
def test_a_body_that_no_parser_should_trip_over_is_refused(inbox: LibrdkafkaReceiver, sent: bytes) -> None:
    assert PostResult(IngestApp(inbox, lambda: ""), sent).status == 400


def test_a_flood_is_reported_to_come_back_later(inbox: LibrdkafkaReceiver) -> None:
    door = IngestApp(inbox, lambda: "")
    visits = [PostResult(door, body()) for _ in range(int(BURST) + 1)]
    assert [visit.status for visit in visits[-2:]] == [204, 429]
    assert visits[-1].headers["Retry-After"]
