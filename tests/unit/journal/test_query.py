"""The query of ``/api/v1/events``: filters, cursors and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.journal import query as module
from exporter.journal.documents import EventDocument
from exporter.journal.query import EventQuery, Line, QueryError, instant_of, page_of
from tests.helpers.journal_events import document_of_event

NOW = 1_795_255_200.0


def event(number: int, **more: Any) -> EventDocument:
    found = {"recorded_timestamp": NOW + number, "timestamp": NOW + number, "kind": "fenced", "key": str(number)}
    return document_of_event({**found, "cluster": "prod", "subject": {"application": "pay"}, **more})


def journal(*events: EventDocument) -> Any:
    def lines(since: float | None, before: float | None) -> list[Line]:
        order = sorted(events, key=lambda event: event["recorded_timestamp"], reverse=since is None)
        kept = [
            recorded
            for recorded in order
            if (since is None or recorded["recorded_timestamp"] > since)
            and (before is None or recorded["recorded_timestamp"] < before)
        ]
        return [(row["recorded_timestamp"], 10, lambda known_id=row: known_id) for row in kept]  # type: ignore[misc]

    return lines


HELD = {"topic": "orders", "partition": 2, "offset": 1, "since_timestamp": NOW, "records": 1, "seconds": 1.0}
EVENTS = (
    event(1),
    event(2, cluster="test"),
    event(3, kind="torn", subject={"topic": "orders", "partition": 1}),
    event(4, kind="stall_begun", partitions=[HELD], owner="team-a"),
    event(5, subject={"application": "billing"}),
)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", "54321"),
        ("cluster=test", "2"),
        ("cluster=test&cluster=prod&limit=2", "54"),
        ("application=pay", "421"),
        ("topic=orders", "43"),
        ("owner=team-a", "4"),
        ("kind=torn&kind=stall_begun", "43"),
        (f"from={NOW + 2}&to={NOW + 3}", "32"),
        (f"since={NOW + 3}", "45"),
        (f"before={NOW + 3}", "21"),
    ],
)
def test_filters(query: str, found: str) -> None:
    page = page_of(EventQuery.parse(query), [journal(*EVENTS)], None)
    assert "".join(event["key"] for event in page["events"]) == found


@pytest.mark.parametrize(
    "query",
    [
        *(
            "kind=nonsense",
            "limit=0",
            "limit=1001",
            "limit=0000000011001",
            "limit=x",
            "from=yesterday",
            "since=1&before=2",
            "since=1e5",
        ),
        *("typo=1", "cluster=" + "x" * 5000, "&".join(["topic=a"] * 200)),
    ],
)
def test_a_query_that_is_none_is_refused_with_a_sentence(query: str) -> None:
    with pytest.raises(QueryError, match=r"\.$"):
        EventQuery.parse(query)


@pytest.mark.parametrize("text", ["2026-11-21T10:00:00Z", "2026-11-21T11:00:00+01:00", "2026-11-21 10:00", str(NOW)])
def test_an_instant_is_rfc_3339_or_unix_seconds(text: str) -> None:
    assert instant_of(text) == NOW


def test_the_next_page_keeps_the_filters() -> None:
    page = page_of(EventQuery.parse("application=pay&limit=1&kind=fenced"), [journal(*EVENTS)], None)
    following = EventQuery.parse(page["next"] or "")
    assert following == EventQuery(
        applications=frozenset({"pay"}), kinds=frozenset({"fenced"}), before=NOW + 2, limit=1
    )
    assert [event["key"] for event in page_of(following, [journal(*EVENTS)], None)["events"]] == ["1"]


def test_a_search_that_finds_nothing_ends_at_its_limit_of_bytes_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SCANNED_BYTES", 25)
    query: EventQuery | None = EventQuery.parse("cluster=nowhere")
    pages = []
    while query is not None:
        pages.append(page_of(query, [journal(*EVENTS)], None))
        following = pages[-1]["next"]
        query = EventQuery.parse(following) if following else None
    assert [page["truncated"] for page in pages] == [True, False]
