"""The address of an agent that a command asks."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from exporter.commands.agent_access import add_access_flags, agent_endpoint
from exporter.commands.settings import UsageError

PARSER = argparse.ArgumentParser()
add_access_flags(PARSER, "agent's")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://u:s3cret@eos:10618", "http://[hidden]@eos:10618: give --username and --password-file"),
        ("htp://u:s3cret@eos", "htp://[hidden]@eos: give the agent's address"),
        ("u:s3cret@eos", "[hidden]@eos: give the agent's address"),
        ("http://u:s3cret@[::1", "http://[hidden]@[::1: give the agent's address"),
    ],
)
def test_credentials_in_it_are_refused_and_not_repeated(url: str, text: str) -> None:
    with pytest.raises(UsageError) as raised:
        agent_endpoint(url, PARSER.parse_args([]))
    assert str(raised.value).startswith(text)


def test_a_file_of_a_secret_that_everybody_may_write_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "secret"
    file.touch()
    file.chmod(0o666)
    options = PARSER.parse_args(["--password-file", str(file), "--username", "eos"])
    agent_endpoint("http://eos:10618", options)
    assert f"{file} is about access, and everybody may write it" in caplog.text


def test_an_address_is_taken_as_it_is() -> None:
    assert agent_endpoint("https://eos.example.com/a@b", PARSER.parse_args([])).url == "https://eos.example.com/a@b"
