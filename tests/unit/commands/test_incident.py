"""``incident``: from a ``state.dir`` and from an agent, as Markdown and JSON; hostile names stay text."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.cli import main
from exporter.journal.facts import Event, EventSubject, HeldPartition
from exporter.journal.journal import Instants, Journal, JournalSettings
from exporter.journal.query import EventQuery, page_of
from exporter.journal.segments import DAY, KeptLimits
from exporter.words import EventKind, StallEnd
from tests.helpers.schemas import conform

NOW = 1_795_255_200.0  # 10:00 UTC
EVIL = "x|`a`\n\x1b[31m<script>*"
HELD = HeldPartition("orders", 7, 100, NOW, 42, 60.0)
HOLDER = EventSubject("pay", EVIL, 4711, 5)
SPAN = ("--from", str(NOW - 60), "--to", str(NOW + 600))


def journal(folder: Path, name: str = "prod", cluster_id: str = "id-1", *, over: bool = True) -> Journal:
    made = Journal(JournalSettings(folder, KeptLimits(50 * 1024**2, 30 * DAY), Instants()), lambda: name, lambda _: ())
    made.open(cluster_id)
    begun = Event(EventKind.STALL_BEGUN, NOW, "stall_begun:orders-7@100", EVIL, HOLDER, (HELD._replace(seconds=0),))
    ended = Event(
        *(EventKind.STALL_ENDED, NOW + 60, "stall_ended:orders-7@100", "over", HOLDER, (HELD,)),
        how=StallEnd.COMMITTED,
        duration=60.0,
    )
    made.record([begun], NOW + 1)
    if over:
        made.record([ended], NOW + 61)
    for path in folder.glob("*/journal/*"):
        os.utime(path, (NOW + 61, NOW + 61))
    return made


def test_a_state_dir_gives_a_report_in_markdown_whose_names_are_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal(tmp_path)
    assert main(["incident", *SPAN, "--state-dir", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "# Incident on prod" in text
    assert "1 stall of 1 partition, the longest for 1m" in text
    assert "committed: 1" in text
    assert re.search("Gap from [0-9:]+ UTC to 10:00:01 UTC: no event from before is kept", text)
    assert "Gap from 10:01:01 UTC to 10:10:00 UTC: the agent did not run, as far as its journal shows" in text
    assert "\x1b" not in text
    assert "<script" not in text.replace("\\<", "")
    (row,) = [line for line in text.splitlines() if line.startswith("| orders-7")]
    assert row.replace("\\|", "").count("|") == 8
    assert "()" not in row


def test_the_records_of_a_stall_that_lasts_are_those_of_its_last_event_or_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal(tmp_path, over=False)
    assert main(["incident", *SPAN, "--state-dir", str(tmp_path)]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| orders-7")]
    assert "| 42 or more |" in row


@pytest.mark.parametrize("by", ["--state-dir", "--agent"])
def test_a_stall_and_a_gap_that_have_lasted_for_days_are_in_the_report_of_the_last_hour(
    by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Journal(JournalSettings(tmp_path, KeptLimits(2**20, 30 * DAY), Instants()), lambda: "prod", lambda _: ())
    made.open("id-1")
    held = HELD._replace(since=NOW - 4 * DAY, seconds=0.0)
    down = EventSubject(source="txnlog", target="prod")
    made.record(
        [
            Event(EventKind.STALL_BEGUN, held.since, "b", "", HOLDER, (held,)),
            Event(EventKind.SOURCE_DOWN, held.since, "d", "", down),
        ],
        held.since,
    )
    fenced = [Event(EventKind.FENCED, NOW - 3 * DAY, f"fenced:{number}", "x" * 300) for number in range(1000)]
    made.record(fenced, NOW - 3 * DAY)
    made.record([Event(EventKind.FENCED, NOW, "fenced:now", "")], NOW)

    def ask(endpoint: object, deadline: object, *, path: str) -> Any:
        query = EventQuery.parse(path.partition("?")[2])
        return SimpleNamespace(body=json.dumps(page_of(query, [made.lines], made.kept_since)).encode())

    monkeypatch.setattr("exporter.commands.incident.ask", ask)
    where = str(tmp_path) if by == "--state-dir" else "http://agent:10618"
    assert main(["incident", *SPAN, by, where, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(stall["began_timestamp"], stall["ended"]) for stall in found["blocked"]] == [(held.since, None)]
    assert [event["key"] for event in found["timeline"]] == ["fenced:now"]
    assert "the source txnlog did not answer in full" in [gap["why"] for gap in found["gaps"]]


@pytest.mark.parametrize("application", [7, None])
def test_an_event_whose_application_is_no_text_is_left_out(
    application: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal(tmp_path)
    (file,) = tmp_path.glob("*/journal/*")
    fenced = {"recorded_timestamp": NOW + 2, "timestamp": NOW, "kind": "fenced", "key": "f", "cluster": "prod"}
    with file.open("a") as lines:
        for subject in ({"application": application}, {"application": "billing"}):
            lines.write(json.dumps({**fenced, "subject": subject}) + "\n")
    assert main(["incident", *SPAN, "--state-dir", str(tmp_path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["unclean_ends"] == {"billing": {"fenced": 1}}


def test_two_state_dirs_of_one_cluster_are_one_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        journal(folder)
    argv = [part for folder in folders for part in ("--state-dir", str(folder))]
    assert main(["incident", *SPAN, *argv, "--format", "json"]) == 0
    found = conform("incident", json.loads(capsys.readouterr().out))
    assert len(found["blocked"]) == 1
    assert [event["kind"] for event in found["timeline"]] == ["stall_begun", "stall_ended"]


def test_with_several_clusters_one_must_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal(tmp_path)
    journal(tmp_path, "test", "id-2")
    assert main(["incident", *SPAN, "--state-dir", str(tmp_path)]) == 2
    assert "prod, test: choose one" in capsys.readouterr().err
    assert main(["incident", *SPAN, "--state-dir", str(tmp_path), "--cluster", "test"]) == 0


def test_a_folder_without_a_journal_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["incident", *SPAN, "--state-dir", str(tmp_path)]) == 2
    assert "has no journal" in capsys.readouterr().err


def test_an_agent_is_asked_page_by_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = journal(tmp_path)
    asked: list[str] = []

    class EventsReply:
        def __init__(self, document: Any) -> None:
            self.body = json.dumps(document).encode()

    def ask(endpoint: object, deadline: object, *, path: str) -> EventsReply:
        asked.append(path)
        query = EventQuery.parse(path.partition("?")[2])
        return EventsReply(conform("events", dict(page_of(query, [made.lines], made.kept_since))))

    one_by_one: Callable[..., EventsReply] = ask
    monkeypatch.setattr("exporter.commands.incident.ask", one_by_one)
    monkeypatch.setattr("exporter.commands.incident.MOST_EVENTS", 1)
    assert main(["incident", *SPAN, "--agent", "http://agent:10618", "--format", "json"]) == 0
    assert len(asked) == 4
    document = json.loads(capsys.readouterr().out)
    assert len(document["timeline"]) == 2
    assert [gap["end_timestamp"] for gap in document["gaps"]] == [NOW + 1]


@pytest.mark.parametrize("events", [0, 1])
def test_an_agent_whose_pages_do_not_end_is_asked_a_bounded_number_of_times_and_the_report_says_so(
    tmp_path: Path, events: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = journal(tmp_path)
    first: dict[str, Any] = {**page_of(EventQuery.parse(f"since={NOW - 60}&limit=1"), [made.lines], made.kept_since)}
    asked: list[str] = []

    class EndlessReply:
        body = json.dumps(first | {"events": first["events"][:events], "truncated": True}).encode()

    def ask(endpoint: object, deadline: object, *, path: str) -> EndlessReply:
        asked.append(path)
        assert len(asked) <= 4
        return EndlessReply()

    monkeypatch.setattr("exporter.commands.incident.ask", ask)
    monkeypatch.setattr("exporter.commands.incident.MOST_READ", 3)
    agents = ["--agent", "http://agent:10618", "--state-dir", str(tmp_path)]
    assert main(["incident", *SPAN, *agents, "--format", "json"]) == 0
    assert len(asked) == 4
    unread = f"Events of http://agent:10618 are missing: it has more than the {events * 2} that were read."
    assert unread in json.loads(capsys.readouterr().out)["unknown"]


def test_a_state_dir_with_more_events_than_are_read_is_named_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal(tmp_path)
    monkeypatch.setattr("exporter.commands.incident.MOST_READ", 1)
    assert main(["incident", *SPAN, "--state-dir", str(tmp_path), "--format", "json"]) == 0
    unknown = json.loads(capsys.readouterr().out)["unknown"]
    assert f"Events of {tmp_path} are missing: it has more than the 1 that were read." in unknown


def test_two_clusters_of_one_name_are_said_to_be_told_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for cluster_id in ("id-1", "id-2"):
        journal(tmp_path, cluster_id=cluster_id)
    assert main(["incident", *SPAN, "--state-dir", str(tmp_path), "--format", "json"]) == 0
    unknown = json.loads(capsys.readouterr().out)["unknown"]
    assert "Several clusters have this name, and are told as one: ids id-1, id-2." in unknown
