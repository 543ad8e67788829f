"""The running fleet: views, samples, links; and the command over 200 agents, in its memory."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from exporter.commands.generate_schemas import schema
from exporter.fleet.facts import FleetAgent
from exporter.fleet.fleet import DISPUTE_SECONDS, NOT_LISTED, RunningFleet, links
from exporter.fleet.source.agents import AgentCredentials, FleetAgents
from exporter.model import Clock, Sample
from tests.helpers.fleet_agents import (
    Reply,
    StandInAgents,
    body,
    cluster,
    endless,
    hang,
    redirects,
    stall,
    status,
)
from tests.helpers.fleet_process import fleet_process, within

MOST_RESIDENT = 150 * 1024 * 1024
NOW = [1000.0]
CLOCK = Clock(lambda: NOW[0], lambda: NOW[0] + 1.79e9)


def fleet_of(server: StandInAgents, published: list[list[Sample]] | None = None) -> RunningFleet:
    listed = [FleetAgent(url, {}) for url in server.urls]
    agents = FleetAgents(lambda: (listed, ()), AgentCredentials(), 15.0, 60.0, CLOCK)
    return RunningFleet(agents, links(""), CLOCK, published.append if published is not None else lambda _: None)


def test_the_document_has_the_published_form_and_its_texts_are_lines() -> None:
    odd = stall(topic="t\n\x1b[2J", transactional_id="<b>\u202e", application="\ud800")
    replies: list[Reply] = [body(status(cluster(stalls=[odd]))), b"{}"]
    with StandInAgents(replies) as server:
        fleet = fleet_of(server)
        document = fleet.once()
        fleet.stop()
    jsonschema.validate(document, schema("fleet"))
    assert document["clusters"][0]["link"] == f"{server.urls[0]}/?cluster=prod"
    assert fleet.ready


def test_agents_that_disagree_for_long_contradict_each_other() -> None:
    with StandInAgents([body(status(cluster(stalls=[stall(kind=kind)]))) for kind in ("hanging", "open")]) as server:
        fleet = fleet_of(server)
        assert fleet.once()["clusters"][0]["contradictions"] == []
        NOW[0] += DISPUTE_SECONDS
        [contradiction] = fleet.once()["clusters"][0]["contradictions"]
        fleet.stop()
    assert "contradict each other about pay-0" in contradiction


def test_the_samples_are_of_agents_and_clusters_and_no_number_is_of_what_is_not_known() -> None:
    unknown = cluster("unknown", known={**cluster()["known"], "stalled_partitions": False})
    with StandInAgents([body(status(cluster(stalls=[stall()]), unknown)), b"{}"]) as server:
        published: list[list[Sample]] = []
        fleet = fleet_of(server, published)
        fleet.once()
        fleet.stop()
    names = [url.removeprefix("http://") for url in server.urls]
    found = {
        (sample.metric.name.removeprefix("kafka_eos_fleet_"), *sample.labels): sample.value for sample in published[-1]
    }
    assert (found["agent_up", names[0]], found["agent_up", names[1]]) == (1.0, 0.0)
    assert ("agent_last_answer_timestamp_seconds", names[1]) not in found
    assert found["cluster_stalled_partitions", "prod"] == 1.0
    assert ("cluster_stalled_partitions", "unknown") not in found
    assert [found["cluster_state", "prod", state] for state in ("good", "warn", "blind", "bad")] == [0, 0, 0, 1]


def test_two_clusters_of_one_name_are_one_series() -> None:
    with StandInAgents([body(status(cluster(cluster_id=which))) for which in "ab"]) as server:
        published: list[list[Sample]] = []
        fleet = fleet_of(server, published)
        fleet.once()
        fleet.stop()
    series = [(sample.metric.name, sample.labels) for sample in published[-1]]
    assert len(series) == len(set(series))
    assert ("kafka_eos_fleet_cluster_stalled_partitions", ("prod",)) not in series


@pytest.mark.parametrize(
    ("template", "cluster_name", "link"),
    [
        ("", "", "http://eos-1:10618/p/"),
        ("", "a b", "http://eos-1:10618/p/?cluster=a%20b"),
        ("https://{host}.example.com/", "", "https://eos-1.example.com/"),
        ("https://{host}.example.com", "prod", "https://eos-1.example.com/?cluster=prod"),
        ("https://eos.example.com/{host}/{port}", "", "https://eos.example.com/eos-1/10618"),
        ("https://eos.example.com/{cluster}", "a/../b", "https://eos.example.com/a%2F..%2Fb"),
    ],
)
def test_a_link_leads_to_the_page_of_the_agent_or_where_the_template_says(
    template: str, cluster_name: str, link: str
) -> None:
    assert links(template)(FleetAgent("http://eos-1:10618/p", {}), cluster_name) == link


def test_no_agent_is_known_and_none_is_new_until_the_lists_are_read() -> None:
    may_list, asked = threading.Event(), threading.Event()
    with StandInAgents([body(status(cluster()))]) as server:

        def list_agents() -> tuple[list[FleetAgent], tuple[str, ...]]:
            asked.set()
            may_list.wait(60)
            return [FleetAgent(url, {}) for url in server.urls], ()

        fleet = RunningFleet(FleetAgents(list_agents, AgentCredentials(), 15.0, 60.0, Clock()), links(""), Clock())
        fleet.start()
        asked.wait(60)
        document = fleet.document()
        assert NOT_LISTED in " ".join([document["text"], *document["details"]])
        assert not fleet.ready
        may_list.set()
        within(60, lambda: fleet.ready)
        document = fleet.document()
        fleet.stop()
    assert [agent["answers"] for agent in document["agents"]] == [True]
    assert document["changes"] == []


# --- The command ------------------------------------------------------------------------------------------------------


def test_200_agents_with_5000_stalls_take_at_most_150_mb_and_every_row_is_right(tmp_path: Path) -> None:
    """One of them has 1,000 stalls, a cluster of two replicas counts once, and five hang or lie."""
    hostile: list[Reply] = [hang, endless, redirects("file:///etc/passwd"), b"[" * 3_000_000, b'{"clusters": [7]}']
    counts = [1000, *[21] * 190]
    replies: list[Reply] = [
        body(
            status(
                cluster(
                    f"c{place:03}",
                    [stall(f"topic-{n}", n, producer_id=n // 3, transactional_id=f"id-{n // 3}") for n in range(count)],
                )
            )
        )
        for place, count in enumerate(counts)
    ]
    replies += [replies[1]] * (200 - len(replies) - len(hostile)) + hostile
    with StandInAgents(replies) as server:
        file = tmp_path / "agents"
        file.write_text("\n".join(server.urls))
        with fleet_process("--agents", str(file), "--interval", "5s", "--timeout", "5s") as fleet:
            within(120, lambda: all(agent["answers"] is not None for agent in fleet.document()["agents"]))
            first = len(server.requests)
            within(120, lambda: len(server.requests) > first + 400)  # two rounds more

            def settled() -> dict[str, Any] | None:
                """The document, once a busy machine lets all others answer in time."""
                found = fleet.document()
                silent = {agent["url"] for agent in found["agents"] if agent["answers"] is False}
                return found if silent == set(server.urls[-5:-1]) else None

            document = within(120, settled)
            assert document
            pages = [fleet.get("/"), fleet.get("/metrics")]
            peak = fleet.peak()
    assert {cluster["name"]: cluster["stalled_partitions"] for cluster in document["clusters"]} == {
        f"c{place:03}": count for place, count in enumerate(counts)
    }
    assert sum(cluster["stalled_partitions"] for cluster in document["clusters"]) == 4990
    assert document["clusters"][0]["name"] == "c000"
    assert [len(cluster["holders"]) for cluster in document["clusters"]] == [334, *[7] * 190]
    assert len(next(cluster for cluster in document["clusters"] if cluster["name"] == "c001")["agents"]) == 5
    silent = {agent["url"]: agent["reason"] for agent in document["agents"] if agent["answers"] is False}
    assert silent == dict(zip(server.urls[-5:-1], ("timeout", "malformed", "malformed", "malformed"), strict=True))
    [odd] = [agent for agent in document["agents"] if agent["url"] == server.urls[-1]]
    assert (odd["answers"], odd["unreadable_entries"], odd["clusters"]) == (True, 1, [])
    assert b"191 of 191 clusters need attention" in pages[0]
    assert b'kafka_eos_fleet_cluster_stalled_partitions{kafka_cluster="c000"} 1000' in pages[1]
    print(f"peak {peak / 1024 / 1024:.0f} MB")
    assert peak <= MOST_RESIDENT
