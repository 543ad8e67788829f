"""Settings read by another process are those that this one would read."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exporter.config import ConfigSource
from exporter.settings import child
from exporter.settings.layers import ConfigError
from exporter.web_server.config import read_web_config

SECRET = "hunter2"
WHOLE = f"""
web: {{listen_address: "127.0.0.1:0"}}
clusters:
- name: prod
  kafka: {{bootstrap.servers: "k:1", security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: eos,
           sasl.password: {SECRET}}}
  brokers: [{{jolokia: "http://b1:8778/jolokia", username: u, password: {SECRET}, id: 3}}]
thresholds: [{{kind: topic, pattern: "a.*", reason: why, stall_warning: never}}]
ingest: {{enabled: true, token: {SECRET}}}
"""
FLAGS: Any = {("clusters", "lso", "stall_after"): ("--lso.stall-after", "7s")}
ENVIRONMENT = {"KAFKA_EOS_LOG__LEVEL": "debug", "PATH": "not passed on"}


def source(folder: Path, text: str, environ: dict[str, str] | None = None, flags: Any = None) -> ConfigSource:
    file = folder / "settings.yml"
    file.write_text(text)
    return ConfigSource(file, environ or {}, flags or {}, serving=True)


def test_the_settings_are_those_that_this_process_reads(tmp_path: Path) -> None:
    settings = source(tmp_path, WHOLE, ENVIRONMENT, FLAGS)
    found = settings.load_apart()
    assert found == settings.load()
    assert (found.clusters[0].lso.stall_after, found.log.level) == (7.0, "debug")
    assert found.clusters[0].kafka.raw["sasl.password"] == found.ingest.token == SECRET
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        ("clusters: [{kafka: {bootstrap.server: 'k:1'}, lso: {interval: 5}, nam: x}]\nlog: {level: loud}", {}),
        ("clusters: [", {}),
        ("clusters: !!python/object/apply:os.system [true]", {}),
        ("a: &a [x]\n" + "\n".join(f"{name}: [*a, *a, *a]" for name in "bcd"), {"KAFKA_EOS_NOTHING": "1"}),
        ("", {}),
        ("\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), {}),
    ],
)
def test_every_problem_is_the_one_that_this_process_finds(tmp_path: Path, text: str, environ: dict[str, str]) -> None:
    settings = source(tmp_path, text, environ)
    with pytest.raises(ConfigError) as here:
        settings.load()
    with pytest.raises(ConfigError) as apart:
        settings.load_apart()
    assert apart.value.problems == here.value.problems


def test_a_web_config_and_its_problems_are_those_that_this_process_reads(tmp_path: Path) -> None:
    file = tmp_path / "web.yml"
    file.write_text("http_server_config: {headers: {X-Frame-Options: deny}}\nrate_limit: {interval: 2s, burst: 3}\n")
    assert read_web_config(file, apart=True) == read_web_config(file)
    assert read_web_config(file).config is not None
    file.write_text("http_server_config: {headers: {X-Frame-Options: never}}\ntls: {}\n")
    assert read_web_config(file, apart=True) == read_web_config(file)


class _Ended:
    """A process that ended, and what it was started with."""

    def __init__(self, returncode: int = 0, stdout: bytes = b"", stderr: bytes = b"") -> None:
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr
        self.arguments: list[str] = []

    def __call__(self, arguments: list[str], **_: object) -> _Ended:
        self.arguments = arguments
        return self


@pytest.mark.parametrize(
    ("ended", "text"),
    [
        (_Ended(1), "ended with exit code 1"),
        (_Ended(-9), "ended with signal 9"),
        (_Ended(-24), "ended with signal 24"),
        (_Ended(0, b""), "gave no answer"),
        (_Ended(0, b"[]"), "gave no answer"),
        (_Ended(0, b'{"document": 1}'), "gave no answer"),
        (_Ended(0, b"[" * 100_000), "gave no answer"),
        (_Ended(0, b'{"document": {"state": 1}, "problems": []}'), "settings of another version"),
    ],
)
def test_a_process_that_fails_is_a_problem_and_no_secret_is_an_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: _Ended, text: str
) -> None:
    monkeypatch.setattr(subprocess, "run", ended)
    with pytest.raises(ConfigError, match=text):
        source(tmp_path, WHOLE).load_apart()
    assert SECRET not in " ".join(ended.arguments)


def test_an_answer_that_is_too_large_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "MOST_ANSWER_BYTES", 1)
    [problem] = child.ask_child({"kind": "settings", "file": None, "environ": {}, "flags": []}).problems
    assert problem.text == "cannot be read: they make more than 0 MB"


def test_one_that_hangs_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(arguments: list[str], **_: object) -> None:
        raise subprocess.TimeoutExpired(arguments, 60)

    monkeypatch.setattr(subprocess, "run", hangs)
    with pytest.raises(ConfigError, match="were not read within 60 s"):
        source(tmp_path, WHOLE).load_apart()


def test_what_it_writes_to_standard_error_is_logged_without_controls_and_cut(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(subprocess, "run", _Ended(1, b"", b"\x1b[31mred" + b"x" * 100_000))
    with caplog.at_level(logging.WARNING):
        child.ask_child({})
    [record] = caplog.records
    assert r"\x1b[31mred" in record.getMessage()
    assert len(record.getMessage()) < 3000


def test_the_process_leaves_no_core_of_its_memory() -> None:
    program = (
        "import exporter.settings.__main__ as m, io, resource, sys\n"
        "m._answer = lambda _: {'core': resource.getrlimit(resource.RLIMIT_CORE)[0]}\n"
        "sys.stdin = io.StringIO('{}')\n"
        "m.main()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == '{"core": 0}'


def ended_with(error: str) -> subprocess.CompletedProcess[str]:
    program = (
        "import exporter.settings.__main__ as m, io, sys\n"
        f"def fails(_): raise {error}\n"
        "m._answer = fails\n"
        'sys.stdin = io.StringIO(\'{"file": ["a.yml", "", ""]}\')\n'
        "sys.exit(m.main())"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_a_defect_is_named_by_its_place_and_quotes_nothing() -> None:
    ended = ended_with(f"ValueError('{SECRET}')")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("ValueError at ")
    assert SECRET not in ended.stderr
