"""Every command in runbooks and on pages exists and parses."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from exporter import alerts, catalogue
from exporter.alerts.settings import knobs
from exporter.alerts.table import alerts as all_alerts
from exporter.alerts.table import names
from exporter.cli import parser
from exporter.lso.next_step import MEANING
from exporter.words import BlockerKind

OURS = "kafka-eos-exporter"
TEXTS = {path.stem: path.read_text() for path in sorted((Path(alerts.__file__).parent / "runbooks").glob("*.md"))}
CODE = re.compile(r"^    (\S.*)$", re.MULTILINE)
QUOTED = re.compile(r"`([^`]+)`")
SECTIONS = ("## First step", "## When to wake whom")
EXAMPLES = {"N": "0", "OFFSET": "42"}
"""Numbers for the words that stand for them; the other capitals may stay."""


def accepted(line: str) -> bool:
    """Whether our command line takes a whole line."""
    words = [EXAMPLES.get(word, word) for word in shlex.split(line)[1:]]
    try:
        _, unknown = parser().parse_known_args(words)
    except SystemExit:
        return False
    return not unknown


def exists(line: str) -> bool:
    """Whether there is such a command; what it needs may be left out."""
    try:
        parser().parse_known_args([*shlex.split(line)[1:], "--help"])
    except SystemExit as leaving:
        return leaving.code == 0
    return False


@pytest.mark.parametrize("name", TEXTS)
def test_every_line_with_our_command_is_accepted(name: str) -> None:
    lines = [line for line in CODE.findall(TEXTS[name]) if line.startswith(f"{OURS} ")]
    assert [line for line in lines if not accepted(line)] == []


@pytest.mark.parametrize("name", TEXTS)
def test_every_command_of_ours_that_is_named_exists(name: str) -> None:
    quoted = [text.replace("\n", " ") for text in QUOTED.findall(TEXTS[name])]
    named = [text for text in quoted if text.startswith(f"{OURS} ")]
    named += [f"{OURS} {text}" for text in quoted if text.startswith(("check ", "transactions "))]
    assert [text for text in named if not (accepted(text) if "--" in text else exists(text))] == []


def test_every_command_of_ours_in_an_alert_exists() -> None:
    for alert in all_alerts():
        for text in QUOTED.findall(alert.description):
            if text.startswith(f"{OURS} "):
                assert exists(text), alert.name


@pytest.mark.parametrize("name", TEXTS)
def test_a_runbook_names_only_metrics_alerts_and_settings_that_exist(name: str) -> None:
    text = TEXTS[name]
    assert {*re.findall(r"kafka_eos_\w+", text)} <= {row.name for row in catalogue.rows()}
    assert {*re.findall(r"KafkaEos\w+", text)} <= {*names()}
    assert {*re.findall(r"--set (\w+)=", text)} <= {key for key, _, _ in knobs()}


@pytest.mark.parametrize("name", TEXTS)
def test_a_runbook_says_what_it_means_the_first_step_and_when_to_wake_whom(name: str) -> None:
    text = TEXTS[name]
    assert text.startswith(f"# {name}\n\n")
    places = [text.find(section) for section in SECTIONS]
    assert -1 not in places
    assert places == sorted(places)


def test_the_words_for_a_decided_transaction_are_true_of_every_wait() -> None:
    """Its marker may be in the partition's log and not replicated: then no leader lacks it."""
    words = [
        MEANING[BlockerKind.COMPLETING],
        *(TEXTS[name] for name in ("KafkaEosLsoStalled", "KafkaEosCompletionSlow")),
    ]
    words += [alert.description for alert in all_alerts() if alert.name == "KafkaEosCompletionSlow"]
    assert len(words) == 4
    assert all("replicated" in word for word in words)


@pytest.mark.parametrize("name", TEXTS)
def test_a_line_with_a_tool_of_kafka_says_which_cluster(name: str) -> None:
    lines = [*CODE.findall(TEXTS[name]), *(text for text in QUOTED.findall(TEXTS[name]) if " --describe " in text)]
    tools = [line for line in lines if re.match(r"kafka-[\w-]+\.sh ", line)]
    assert [line for line in tools if "--bootstrap-server HOST:PORT" not in line] == []


def test_the_runbook_of_audits_has_every_kind_of_finding() -> None:
    assert [kind for kind in catalogue.AUDIT_KINDS if kind not in TEXTS["KafkaEosAuditNotClean"]] == []
