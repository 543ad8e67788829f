"""Tests of what happened on the page: the newest events that the filter shows, nothing that a name could break, and
tables.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from exporter import catalogue
from exporter.status.filters import Filter
from exporter.transactions.facts import CoordinatorTime, OpenTransaction, OpenTransactions
from exporter.words import TransactionState
from tests.helpers.pages import page
from tests.unit.views.test_status import EVIL, FINE, NOW, OPEN, hour, status


def event(number: int, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "recorded_timestamp": NOW + number,
        "timestamp": NOW + number,
        "time": None,
        "cluster": "prod",
    }
    found |= {"agent": "a", "kind": "fenced", "key": str(number), "what": f"event {number}", "subject": {}}
    found |= {"partitions": [], "evidence": {}, "how": None, "duration_seconds": None, "count": 1, "owner": None}
    return {**found, **more}


HELD = [{"topic": "orders", "partition": 7, "offset": 1, "since_timestamp": NOW, "records": 5, "seconds": 60.0}]
EVENTS = [
    event(1),
    event(2, kind="stall_ended", subject={"application": "pay"}, partitions=HELD, how="committed", duration_seconds=60),
    event(3, kind="torn", subject={"topic": "billing", "partition": 1}, owner="team-a", count=3),
    event(4, cluster="test"),
]


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        (Filter(), "1234"),
        (Filter(clusters=frozenset({"prod"})), "123"),
        (Filter(applications=frozenset({"pay"})), "2"),
        (Filter(topics=frozenset({"orders"})), "2"),
        (Filter(topics=frozenset({"billing"})), "3"),
        (Filter(owners=frozenset({"team-a"})), "3"),
    ],
)
def test_the_page_has_the_events_that_the_filter_shows(shown: Filter, found: str) -> None:
    html = page(status(*FINE), happened=EVENTS, shown=shown)
    assert "".join(number for number in "1234" if f"event {number}" in html) == found


def test_an_event_shows_its_end_its_partition_and_links_to_its_topic_application_and_owner() -> None:
    html = page(status(*FINE), happened=EVENTS)
    assert "committed 1m" in " ".join(html.split())
    assert '<a href="/?topic=orders#happened">orders-7</a>' in html
    assert '<a href="/?application=pay#happened">pay</a>' in html
    assert '<a href="/?owner=team-a#happened">team-a</a>' in html
    assert "billing-1" in html


def test_names_of_events_are_text() -> None:
    evil = event(1, what=EVIL, owner=EVIL, subject={"application": EVIL, "topic": EVIL, "partition": 1}, cluster=EVIL)
    html = page(status(*FINE), happened=[evil])
    assert "<script>" not in html
    assert "<img" not in html


def test_fence_storms_beyond_those_that_are_listed_are_counted() -> None:
    storms = [catalogue.RECENT_PRODUCER_FENCES(7.0, "prod", "pay", f"pay-{number}") for number in range(52)]
    html = page(status(*FINE, hour(*storms)))
    assert html.count("was fenced 7 times in 10 minutes") == 50
    assert '<p class="warning">and 2 more ids: <a href="/api/v1/status">' in html
    assert "more ids" not in page(status(*FINE, hour(*storms[:50])))


def test_a_page_of_an_agent_without_a_journal_has_no_section_and_one_without_events_says_so() -> None:
    assert "What happened" not in page(status(*FINE))
    assert "Nothing yet." in page(status(*FINE), happened=[])


def test_a_cluster_whose_brokers_are_known_has_a_link_to_the_page_on_stopping_them() -> None:
    link = '<a href="/roll?cluster=prod">'
    assert link in page(status(*FINE), rolls=True)
    assert link not in page(status(*FINE))


@pytest.mark.parametrize(
    ("opened", "said"),
    [
        (OPEN, "in 11m 40s"),
        (OPEN._replace(timeout=1100.0), "in 15m"),
        (OPEN._replace(timeout=195.0), "5s ago"),
        (OPEN._replace(timeout=100.0), '<span class="mark-bad">1m 40s ago</span>'),
        (OPEN._replace(timeout=100.0, state=TransactionState.PREPARE_COMMIT), "decided"),
        (OPEN._replace(timeout=None), "never"),
        (OPEN._replace(scan_behind=None), "not known"),
        (OPEN._replace(started=None), "not known"),
    ],
)
def test_when_an_open_transaction_times_out_is_by_the_clock_of_its_coordinator(
    opened: OpenTransaction, said: str
) -> None:
    ours = 300.0  # by so much is the agent's clock ahead
    if opened.started is not None:
        opened = opened._replace(started=opened.started - ours)
    listed = OpenTransactions("txnlog", (opened,), complete=True)
    html = page(status(*FINE, listed, CoordinatorTime(ours, ours)))
    assert f'<td data-label="times out" class="now">{said}</td>' in html


TEMPLATES = Path(__file__).parents[3] / "exporter/status/templates"


@pytest.mark.parametrize("template", [file.name for file in TEMPLATES.glob("*.html") if "<td" in file.read_text()])
def test_on_a_phone_each_cell_of_a_table_stands_under_the_other_with_the_name_of_its_column(template: str) -> None:
    text = (TEMPLATES / template).read_text()
    assert re.findall(r"<table(?! class=\"rows\")[^>]*>", text) == []
    columns = re.findall(r'<th scope="col">([^<]+)</th>', text)
    assert re.findall(r'<td(?: data-label="([^"]+)")?', text) == columns
