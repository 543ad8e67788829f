"""``fleet --once``, its exit codes, and flags that cannot work."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from exporter.cli import main
from exporter.commands.generate_schemas import schema
from tests.helpers.fleet_agents import Json, StandInAgents, body, cluster, stall, status

NOT_KNOWN = cluster(known={**cluster()["known"], "stalled_partitions": False})


@pytest.mark.parametrize(
    ("found", "code", "said"),
    [
        (cluster(), 0, "All fine"),
        (cluster(stalls=[stall()]), 1, "1 of 1 cluster needs attention"),
        (NOT_KNOWN, 2, "Cannot see everything"),
    ],
)
def test_once_prints_the_fleet_and_its_exit_code_is_its_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], found: Json, code: int, said: str
) -> None:
    with StandInAgents([body(status(found))]) as server:
        (tmp_path / "agents").write_text(server.urls[0])
        assert main(["fleet", "--agents", str(tmp_path / "agents"), "--once"]) == code
        text = capsys.readouterr().out
        assert said in text
        assert "agents: 1, 0 of them do not answer" in text
        assert main(["top", "--agents", str(tmp_path / "agents"), "--once"]) == 0
        assert said in capsys.readouterr().out
        assert main(["fleet", "--agents", str(tmp_path / "agents"), "--once", "--output", "json"]) == code
        jsonschema.validate(json.loads(capsys.readouterr().out), schema("fleet"))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--agents", "dns+srv:_http._tcp.eos"], "is not as dns+srv://_http._tcp.eos-exporter.example.com"),
        (["--agents", "x", "--token-file", "t", "--username", "u"], "one Authorization header"),
        (["--agents", "x", "--password-file", "p"], "needs --username"),
        (["--agents", "x", "--external-url", "javascript:1"], "must begin with http"),
        (["--agents", "x", "--web.listen-address", "nowhere"], "--web.listen-address"),
        (["--agents", "x", "--web.config.file", "/none"], "/none"),
        ([], "--agents"),
    ],
)
def test_flags_that_cannot_work_are_refused_with_what_to_do(
    capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    assert main(["fleet", *flags]) == 2
    assert said in capsys.readouterr().err
