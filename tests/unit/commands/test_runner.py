from __future__ import annotations

import argparse
import io
import json
from contextlib import nullcontext
from typing import Annotated

import pytest
from typing_extensions import TypedDict

from exporter.cli import parser
from exporter.cluster import Cluster
from exporter.commands import runner
from exporter.commands.output import print_advice, print_next_step, print_table
from exporter.commands.runner import ClusterReport, ListForm, found_or_unknown, worst
from exporter.commands.transactions import Seen, _look
from exporter.lso.next_step import NextStep, next_step
from exporter.model import Deadline, TopicPartition
from exporter.views.columns import View, ViewColumn
from exporter.views.documents import NextStepDocument
from exporter.views.transactions import step_document
from exporter.words import BlockerKind
from tests.helpers.one_broker import OneBroker

LONG = "kafka-transactions.sh " + "x" * 500


class Thing(TypedDict):
    """A view of one field, with a next step."""

    topic: Annotated[str, ViewColumn("thing")]
    partition: int
    next_step: NextStepDocument | None


def thing(name: str) -> Thing:
    step = step_document(NextStep("do it", LONG, "it hurts")) if name.startswith("bad") else None
    return {"topic": name, "partition": 0, "next_step": step}


FORM = ListForm("things", "no things", Thing, lambda _: 0)


def run(*looks: ClusterReport[View], output: str = "text") -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "read_all", lambda *_: looks)
        return runner.run(argparse.Namespace(output=output), no_read, FORM)


def no_read(*_: object) -> ClusterReport[View]:
    raise NotImplementedError


def look(*found: str, not_asked: tuple[str, ...] = (), undecided: tuple[str, ...] = ()) -> ClusterReport[View]:
    return ClusterReport(OneBroker().cluster(), tuple(map(thing, found)), not_asked, tuple(map(thing, undecided)))


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (look(), 0),
        (look("a"), 1),
        (look(not_asked=("broker 2",)), 2),
        (look(undecided=("a",)), 2),
        (look("a", not_asked=("broker 2",)), 1),
    ],
)
def test_exit_codes_tell_clean_found_and_could_not_tell_apart(seen: ClusterReport[View], code: int) -> None:
    assert found_or_unknown(seen) == code


def test_what_one_cluster_has_is_not_hidden_by_another_that_does_not_answer() -> None:
    assert [worst(codes) for codes in ((0, 2, 1), (0, 2), (0, 0), ())] == [1, 2, 0, 0]


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("transactions", 30.0),
        ("transactions --timeout 5s stalled", 5.0),
        ("transactions stalled --timeout 7s", 7.0),
        ("check roll --all", 60.0),
        ("audit markers", 600.0),
    ],
)
def test_each_command_has_its_usual_timeout_unless_a_flag_says(
    line: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = parser().parse_args(line.split())
    monkeypatch.setattr(runner, "opened", lambda _: nullcontext([(OneBroker().cluster(), None)]))

    def read(cluster: Cluster, _: object, deadline: Deadline) -> ClusterReport[View]:
        assert options.timeout == seconds
        assert seconds - 5 < deadline.remaining() <= seconds
        return ClusterReport(cluster)

    assert len(runner.read_all(options, read)) == 1


def test_nothing_found_is_said_only_when_all_could_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    run(look())
    assert capsys.readouterr().out == "no things\n"
    run(look(not_asked=("broker 2 is down",)))
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "could not ask prod: broker 2 is down\n"


def test_the_command_to_copy_is_one_line_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    run(look("bad-1", "bad-2", "good"))
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if LONG in line] == [f"  {LONG}"]
    assert "bad-1-0, bad-2-0: do it" in out


def test_a_table_that_is_piped_is_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    name = "y" * 400
    run(look(name))
    assert name in capsys.readouterr().out


class TerminalBuffer(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_narrow_terminal_every_value_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout", terminal := TerminalBuffer())
    name = "y" * 100
    print_table(("topic", "id"), [("orders", name), ("ledger", "-")])
    assert terminal.getvalue() == f"topic  orders\nid     {name}\n\ntopic  ledger\nid     -\n"


def test_json_has_the_found_and_what_was_not_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(look("a", not_asked=("b",)), output="json") == 1
    out, _ = capsys.readouterr()
    assert json.loads(out) == {"things": [{"kafka_cluster": "prod", **thing("a")}], "not_asked": ["b"]}


def test_several_clusters_are_distinguished(capsys: pytest.CaptureFixture[str]) -> None:
    run(look("a"), look("b"))
    assert capsys.readouterr().out.startswith("cluster")


def test_an_id_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    run(look("a\x1b[31mred\nb\u202ec [bold]d[/bold]"))
    out = capsys.readouterr().out
    assert "a\\x1b[31mred\\x0ab\\u202ec [bold]d[/bold]" in out


def test_no_line_of_a_paragraph_begins_with_words_of_an_id(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    hostile = "x " + "kafka-transactions.sh abort --topic orders --partition 0 --start-offset 0 " * 5
    for width in range(30, 100):
        monkeypatch.setenv("COLUMNS", str(width))
        print_next_step("orders-0", NextStep(f"Find {hostile} and stop it.", LONG, hostile, f"{LONG} check", hostile))
        print_advice(hostile)
    out = capsys.readouterr().out
    assert {line.strip() for line in out.splitlines() if not line.startswith("# ")} == {"", LONG, f"{LONG} check"}


@pytest.mark.parametrize("column", ["application", "transactional.id"])
def test_a_row_that_begins_with_a_name_begins_with_one_word_of_a_shell(
    column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_table((column, "ids"), [("kafka-transactions.sh abort --topic orders", 1), ("pay", 2)])
    _, _, hostile, plain = capsys.readouterr().out.splitlines()
    assert hostile.split("  ")[0].strip() == "'kafka-transactions.sh abort --topic orders'"
    assert plain.startswith("pay ")


def test_late_transactions_get_their_next_step_and_others_do_not() -> None:
    partition = TopicPartition("t", 1)

    def one(world: OneBroker) -> Seen:
        [seen] = _look(world.cluster(), None, Deadline.after(5)).found  # type: ignore[arg-type]  # settings are not read
        return seen

    known = {"pay-1": (5, frozenset({partition}))}
    opened = {partition: [(5, 3, 1.0)]}
    assert one(OneBroker(opened, known, started_ago=70.0)).stall is None
    late = one(OneBroker(opened, known, started_ago=80.0)).stall
    assert late is not None
    assert (late.blocker.kind, late.leader) == (BlockerKind.OPEN, 1)
    unproven = next_step(late, "k1:9092", one(OneBroker(opened, known, started_ago=80.0)).advised)
    assert unproven.text.endswith("in at most 1m 10s.")
    blamed = one(OneBroker(opened, known, started_ago=80.0, newest_ago=0.0))
    assert blamed.stall is not None
    assert "should have ended it" in next_step(blamed.stall, "k1:9092", blamed.advised).text
    completing = one(OneBroker(opened, known, state="PrepareAbort", started_ago=80.0)).stall
    assert completing is not None
    assert completing.blocker.kind is BlockerKind.COMPLETING
