"""Completion in a real bash, and in fish the same."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from exporter.cli import main, parser
from exporter.commands.generate_completion import bash, fish, zsh

PROGRAM = "kafka-eos-exporter"


def completed(tmp_path: Path, line: str) -> set[str]:
    """Return what bash offers for the last word of a line."""
    script = tmp_path / "completion.bash"
    script.write_text(bash(parser()))
    words = line.split(" ")
    ask = (
        f"source {script}; COMP_WORDS=({' '.join(word or chr(39) * 2 for word in words)}); COMP_CWORD={len(words) - 1};"
        ' _kafka_eos_exporter; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-euc", ask], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        (f"{PROGRAM} tra", {"transactions"}),
        (f"{PROGRAM} transactions st", {"stalled"}),
        (f"{PROGRAM} transactions stalled --sta", {"--stall-after"}),
        (f"{PROGRAM} transactions stalled --output ", {"text", "json"}),
        (f"{PROGRAM} transactions --output json recent --a", {"--all"}),
        (f"{PROGRAM} generate completion z", {"zsh"}),
        (f"{PROGRAM} nothing-of-ours", set()),
    ],
)
def test_bash_offers_commands_flags_and_their_values(tmp_path: Path, line: str, offered: set[str]) -> None:
    assert completed(tmp_path, line) == offered


def test_every_command_is_offered(tmp_path: Path) -> None:
    offered = completed(tmp_path, f"{PROGRAM} ")
    assert {"run", "top", "transactions", "history", "audit", "check", "generate"} <= offered


def test_fish_has_the_commands_and_flags_of_bash() -> None:
    script = fish(parser())
    at = 'complete -c kafka-eos-exporter -n \'test "$(__kafka_eos_exporter_path)" = "{}"\''
    for command in re.findall(r'path="([^"]+)" ;;', bash(parser())):
        before, _, last = command.rpartition(" ")
        assert f"{at.format(before)} -a {last}" in script
    assert f"{at.format('transactions stalled')} -l output -x -a 'text json'" in script
    assert f"{at.format('transactions stalled')} -l stall-after -r -F -d " in script


def test_they_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "completion", "zsh"]) == 0
    assert capsys.readouterr().out == zsh(parser())
