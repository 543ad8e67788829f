"""The command line as a person or a script meets it. What needs a cluster is in the end-to-end tests."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from exporter import __version__
from exporter.cli import main, parser
from exporter.commands.output import say
from exporter.model import CommandError

PROGRAM = [sys.executable, "-m", "exporter"]


def test_alone_it_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("usage: kafka-eos-exporter")
    assert "examples:" in out
    assert err == ""


def test_the_version_names_revision_and_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"kafka-eos-exporter, version {__version__} (revision: ")


def test_what_another_program_answered_is_printed_without_control_characters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Sequence[str]) -> int:
        say("\x1b]0;a\x07 \u202e\nnext")
        raise CommandError("Not \x9b2J found\nsee \x1b[1m")

    monkeypatch.setattr("exporter.cli._run", refused)
    assert main([]) == 2
    assert capsys.readouterr().err.splitlines() == [
        r"\x1b]0;a\x07 \u202e",
        "next",
        r"Not \x9b2J found",
        r"see \x1b[1m",
    ]


def test_a_name_of_a_file_that_is_no_text_is_printed_with_escapes(tmp_path: Path) -> None:
    file = os.fsencode(tmp_path) + b"/\xff.yml"
    Path(os.fsdecode(file)).write_text("clusters: [{kafka: {bootstrap.servers: '127.0.0.1:9'}}]")
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run([*PROGRAM, "check", "config", file], capture_output=True, env=environment, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
    assert b"\\udcff.yml" in done.stdout


COMMANDS = [
    ["run"],
    ["check"],
    ["check", "config"],
    ["check", "connection"],
    ["transactions"],
    ["transactions", "hanging"],
    ["transactions", "stalled"],
    ["transactions", "recent"],
    ["generate"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_of_every_command_has_examples_that_parse(
    command: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help"]) == 0
    out = capsys.readouterr().out
    examples = [line.split("#")[0].split() for line in out.splitlines() if line.startswith("  kafka-eos-exporter ")]
    assert examples
    for example in examples:
        assert example[1 : 1 + len(command)] == list(command)
        assert parser().parse_args(example[1:]).command


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["rum"], "invalid choice: 'rum'"),
        (["run", "--bootstrap-sever", "k:1"], "did you mean --bootstrap-server?"),
        (["run", "extra"], "unknown argument extra"),
        (["check", "config", "--config", "eos.yml"], "unknown argument --config of this command"),
        (["run", "--bootstrap"], "unknown argument --bootstrap"),
        (["transactions", "--output", "xml"], "invalid choice: 'xml'"),
        (["transactions", "stalled", "--stall-after", "30"], "write a number with its unit"),
        (["check", "config"], "the following arguments are required: FILE"),
    ],
)
def test_a_usage_error_is_one_line_and_exit_code_2(
    arguments: Sequence[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert hint in err
    assert "--help" in err


@pytest.mark.parametrize("command", [["run"], ["transactions"], ["transactions", "stalled"], ["check", "connection"]])
def test_without_a_cluster_it_says_what_to_give(command: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "clusters: no cluster is configured: give --bootstrap-server HOST:PORT, or clusters in the file of --config"
    ]


def test_check_config_prints_every_problem_and_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yml"
    file.write_text("clusters: [{kafka: {bootstrap.servers: 'k:1'}, lso: {stall_after: 30}}]\nlog: {level: loud}\n")
    assert main(["check", "config", str(file)]) == 1
    out, err = capsys.readouterr()
    assert [line.split(":")[0] for line in out.splitlines()] == ["log.level", "clusters[0].lso.stall_after"]
    assert err == f"{file}: 2 problems\n"


def test_check_config_says_ok(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yml"
    file.write_text("clusters: [{name: prod, kafka: {bootstrap.servers: 'k:1'}}]\n")
    assert main(["check", "config", str(file)]) == 0
    assert capsys.readouterr().out == f"OK: {file}, 1 cluster: prod\n"


def test_print_config_shows_flags_and_hides_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        'sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n  username="eos" '
        'password="hunter2";\n'
    )
    arguments = ["run", "--bootstrap-server", "k:1", "--command-config", str(properties), "--lso.stall-after", "90s"]
    assert main([*arguments, "--web.listen-address", ":1", "--web.listen-address", ":2", "--print-config"]) == 0
    out = capsys.readouterr().out
    assert "stall_after: 1m30s" in out
    assert "- :1\n  - :2\n" in out
    assert "sasl.username: eos" in out
    assert "hunter2" not in out


def test_a_cluster_that_nobody_answers_for_is_exit_code_2_and_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:  # bound and not listening: refused at once, and nobody else can take the port
        taken.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["transactions", "--bootstrap-server", server, "--timeout", "2s"]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert f"could not ask {server}: no broker answers" in err
        assert main(["transactions", "--bootstrap-server", server, "--timeout", "2s", "--output", "json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["transactions"] == []
    assert len(document["not_asked"]) == 1


def test_a_cluster_of_the_file_is_picked_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yml"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{taken.getsockname()[1]}"
        clusters = (f"{{name: {name}, kafka: {{bootstrap.servers: '{server}'}}}}" for name in ("a", "b"))
        file.write_text(f"clusters: [{', '.join(clusters)}]")
        assert main(["transactions", "--config", str(file), "--timeout", "2s"]) == 2
        err = capsys.readouterr().err
        assert "could not ask a:" in err
        assert "could not ask b:" in err
        assert main(["transactions", "--config", str(file), "--cluster.name", "b", "--timeout", "2s"]) == 2
        err = capsys.readouterr().err
        assert "could not ask a:" not in err
        assert "could not ask b:" in err
    assert main(["transactions", "--config", str(file), "--cluster.name", "c"]) == 2
    assert capsys.readouterr().err == f"--cluster.name c: no such cluster in {file}; there are: a, b\n"


def test_control_c_is_quiet_and_exits_130() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        # A shell starts a background job with SIGINT ignored, which a child inherits: not what is tested here.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            process = subprocess.Popen(
                [*PROGRAM, "transactions", "--bootstrap-server", server], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        finally:
            signal.signal(signal.SIGINT, before)
        with process:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=50)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_a_reader_that_leaves_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [*PROGRAM, "run", "--bootstrap-server", "k:1", "--print-config"]
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert done.stderr == b""
    assert done.returncode == 128 + signal.SIGPIPE
