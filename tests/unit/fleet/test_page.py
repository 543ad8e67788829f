"""The fleet's page: what it shows, and that nothing that an agent answers becomes markup."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from exporter.fleet.answer import read_answer
from exporter.fleet.changes import FleetChanges
from exporter.fleet.documents import fleet_document
from exporter.fleet.facts import AgentReading, FleetAgent
from exporter.fleet.fleet import links
from exporter.fleet.merge import merge
from exporter.fleet.page import MOST_HOLDERS, fleet_page_pieces
from exporter.model import Fault, Reason
from tests.helpers.fleet_agents import Json, body, cluster, stall, status

AT = 1_790_000_000.0


def page(*documents: Json, dead: bool = False, watched: float = 7200.0, **labels: str) -> str:
    readings = [
        AgentReading(
            FleetAgent(f"http://eos-{place}", labels),
            read_answer(body(document)),
            AT - 1,
            1.0,
            None,
            AT,
            0.1,
            stale=False,
        )
        for place, document in enumerate(documents)
    ]
    if dead:
        fault = Fault(Reason.TIMEOUT, "did not answer <in time>")
        readings.append(AgentReading(FleetAgent("http://dead", {}), None, None, None, fault, AT - 60, 5.0, stale=False))
    view = merge(readings, AT)
    changes = FleetChanges()
    changes.note(view)
    document: Any = fleet_document(view, changes.last_hour(AT), links(""), version="1", watched=watched)
    return " ".join(b"".join(fleet_page_pieces(document, "/eos", refresh=True)).decode().split())


class TagNames(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.hrefs: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.hrefs += [value or "" for name, value in attrs if name == "href"]


def test_the_worst_cluster_its_holder_and_a_silent_agent_are_shown() -> None:
    text = page(status(cluster(stalls=[stall()]), cluster("b")), status(cluster(), version="0.9"), dead=True, owner="x")
    assert "<h1>1 of 2 clusters needs attention</h1>" in text
    assert text.index(">prod</a>") < text.index(">b</a>")
    assert "1 agent does not answer: dead" in text
    assert "timeout: did not answer &lt;in time&gt;" in text
    assert "Versions differ: 0.2.0 on 1, 0.9 on 1." in text
    assert "stalled: pay-0 by pay-1 of pay (open)" in text
    assert "http://eos-0/?cluster=prod" in TagNames(text).hrefs
    assert '<td data-label="owner">x</td>' in text


def test_nothing_is_said_to_be_none_that_is_not_known() -> None:
    unknown = cluster(known={**cluster()["known"], "stalled_partitions": False})
    assert "None known; not every cluster&#39;s are known." in page(status(unknown)).replace(
        "cluster's", "cluster&#39;s"
    )
    assert '<p class="none">None.</p>' in page(status(cluster()))
    assert "This process asks for 1m: what changed before is not known" in page(status(cluster()), watched=60.0)


def test_texts_of_agents_are_neither_markup_nor_controls() -> None:
    evil = '"><script>alert(1)</script>\x1b[2J\u202e'
    documents = status(cluster(evil, [stall(evil, transactional_id=evil, application=evil)]), version=evil)
    text = page(documents, status(cluster(evil, cluster_id=evil)), owner=evil)
    assert TagNames(text).tags.isdisjoint({"script", "img", "iframe"})
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert all(href.startswith(("http://eos-", "/eos/", "data:,")) for href in TagNames(text).hrefs)


def test_holders_beyond_those_shown_are_counted() -> None:
    many = [stall(partition=number, producer_id=number) for number in range(MOST_HOLDERS + 7)]
    text = page(status(cluster(stalls=many)))
    assert "7 further holders are in" in text
