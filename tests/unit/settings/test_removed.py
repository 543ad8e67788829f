"""Removed commands, flags and settings: an error that names the page of upgrading, and nothing for the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter import cli
from exporter.config import ConfigError, ConfigSource
from exporter.settings import environment, reading, removed
from exporter.settings.root import Config

ROWS = {
    "old": "use run",
    "generate old": "use generate docs",
    "run --old": "leave it out",
    "audit --output old": "use --output json",
    "--older": "leave it out",
}
PAGE = "see docs/upgrading.md"
SETTINGS = {"old": "leave it out", "clusters[].lso.old": "use clusters[].lso.interval"}


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("old", "old"),
        ("old --flag", "old"),
        ("generate old", "generate old"),
        ("run --state.dir /x --old", "run --old"),
        ("run --old=3", "run --old"),
        ("audit topic --output old", "audit --output old"),
        ("audit topic --output=old", "audit --output old"),
        ("top --older", "--older"),
    ],
)
def test_what_was_removed_is_named_with_what_to_use(line: str, row: str) -> None:
    expected = f"{row} was removed: {ROWS[row]}; see docs/upgrading.md"
    assert removed.removed_argument(line.split(), ROWS) == expected


@pytest.mark.parametrize("line", ["", "run", "run old", "generate", "top --old", "audit old", "audit --output json"])
def test_other_arguments_are_not_refused(line: str) -> None:
    assert removed.removed_argument(line.split(), ROWS) == ""


def test_the_command_line_refuses_what_was_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "removed_argument", lambda arguments: removed.removed_argument(arguments, ROWS))
    assert cli.main(["old"]) == cli.UNKNOWN
    assert capsys.readouterr() == ("", "kafka-eos-exporter: old was removed: use run; see docs/upgrading.md\n")


def test_the_file_and_the_environment_refuse_a_setting_that_was_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in (environment, reading):
        monkeypatch.setattr(module, "removed_setting", lambda path: removed.removed_setting(path, SETTINGS))
    file = tmp_path / "settings.yml"
    file.write_text("old: {a: 1}\nclusters: [{kafka: {bootstrap.servers: 'k:9092'}, lso: {old: 5s}}]\n")
    source = ConfigSource(file, {"KAFKA_EOS_OLD__A": "1", "KAFKA_EOS_CLUSTERS__0__LSO__OLD": "5s"}, {})
    with pytest.raises(ConfigError) as error:
        source.load()
    lines = sorted(str(error.value).splitlines())
    assert lines == [
        f"KAFKA_EOS_CLUSTERS__0__LSO__OLD: clusters[0].lso.old was removed: {SETTINGS['clusters[].lso.old']}; {PAGE}",
        "KAFKA_EOS_OLD__A: old was removed: leave it out; see docs/upgrading.md",
        "clusters[0].lso.old: was removed: use clusters[].lso.interval; see docs/upgrading.md",
        "old: was removed: leave it out; see docs/upgrading.md",
    ]


def test_no_row_is_of_a_command_or_a_section_that_exists() -> None:
    assert not removed.ARGUMENTS.keys() & cli.COMMANDS.keys()
    assert not removed.SETTINGS.keys() & reading.keys_of(Config).keys()
