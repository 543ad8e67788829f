"""``top`` in a real pseudo terminal: it draws, refreshes, reports an unreachable agent, and restores the terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from exporter.cli import main
from exporter.commands import top
from exporter.http_client import HttpError
from exporter.lso.facts import Stalls
from tests.unit.views.test_status import FINE, STALL, hour, status

# Each wait is for a text or for the end of the child, however long a busy machine takes to start it.
LOOK_SECONDS = 0.2


@contextmanager
def terminal_of(*words: str, **environment: str) -> Iterator[PseudoTerminal]:
    terminal = PseudoTerminal(*words, **environment)
    try:
        yield terminal
    finally:
        terminal.close()


@contextmanager
def agent(answer: Callable[[], bytes]) -> Iterator[str]:
    class StatusHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answer()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Keep the test's output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), StatusHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def document(*facts: Any) -> bytes:
    return json.dumps(status(*FINE, hour(), *facts)).encode()


def _at_a_terminal() -> None:
    """Ctrl-C is a signal, also where the tests are a background job, whose children ignore it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class PseudoTerminal:
    """A child on a pseudo terminal of 100 columns and 40 lines."""

    def __init__(self, *words: str, **environment: str) -> None:
        self._main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.before = termios.tcgetattr(other)
        self._other = other
        self.child = subprocess.Popen(
            [sys.executable, "-m", "exporter", "top", *words],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**os.environ, "TERM": "xterm-256color", **environment},
            start_new_session=True,
            preexec_fn=_at_a_terminal,  # noqa: PLW1509 -- nothing else runs between fork and exec
        )
        self.seen = ""

    def wait(self, text: str) -> None:
        """Read until the text is there. Fails when the child ended without it."""
        while text not in self.seen:
            ended = self.child.poll() is not None
            if not self._read() and ended:
                pytest.fail(f"{text!r} is not in {self.seen!r}")

    def press(self, key: str) -> None:
        os.write(self._main, key.encode())

    def end(self) -> int:
        """Read until the child has ended; its exit code."""
        while self.child.poll() is None:
            self._read()
        return self.child.returncode

    def close(self) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self._main)
        os.close(self._other)

    def _read(self) -> bool:
        """Whether there was something to read."""
        if not select.select([self._main], [], [], LOOK_SECONDS)[0]:
            return False
        self.seen += os.read(self._main, 65536).decode(errors="replace")
        return True

    @property
    def attributes(self) -> list[Any]:
        return termios.tcgetattr(self._other)


def test_it_shows_stalls_follows_the_agent_and_ends_by_q_with_the_terminal_as_it_was() -> None:
    facts: list[Any] = []
    with agent(lambda: document(*facts)) as url, terminal_of(url, "--interval", "500ms") as terminal:
        terminal.wait("All fine")
        facts.append(Stalls((STALL,)))
        terminal.wait("1 partition stalled")
        terminal.wait("orders-7")
        terminal.press("x")
        terminal.press("q")
        terminal.wait("\x1b[?1049l")  # the alternate screen is left
        assert terminal.end() == 0
        assert terminal.attributes == terminal.before


def test_ctrl_c_gives_the_terminal_back() -> None:
    with agent(document) as url, terminal_of(url) as terminal:
        terminal.wait("All fine")
        terminal.press("\x03")
        assert terminal.end() == 130
        assert terminal.attributes == terminal.before


def test_an_agent_that_stops_answering_is_said_and_nothing_old_stays() -> None:
    answers = [document()]
    with agent(lambda: answers[0]) as url, terminal_of(url, "--interval", "500ms") as terminal:
        terminal.wait("All fine")
        answers[0] = b"[]"
        terminal.seen = ""
        terminal.wait("does not answer")
        assert "All fine" not in terminal.seen.rpartition("does not answer")[2]
        terminal.press("q")
        assert terminal.end() == 0


def test_no_color_is_heeded() -> None:
    with agent(lambda: document(Stalls((STALL,)))) as url, terminal_of(url, NO_COLOR="1") as terminal:
        terminal.wait("1 partition stalled")
        terminal.press("q")
        terminal.end()
        assert "\x1b[31m" not in terminal.seen
        assert "\x1b[1;31m" not in terminal.seen


def test_into_a_pipe_it_is_printed_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        top, "ANSWER_SECONDS", 250.0
    )  # the agent is a thread of this process, which may wait for a core
    with agent(lambda: document(Stalls((STALL,)))) as url:
        assert main(["top", url]) == 0
    printed = capsys.readouterr().out
    assert "1 partition stalled" in printed
    assert "\x1b" not in printed


def test_an_agent_that_is_not_there_or_too_old_is_exit_code_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top, "ANSWER_SECONDS", 250.0)
    assert main(["top", "http://127.0.0.1:1"]) == 2
    assert "http://127.0.0.1:1" in capsys.readouterr().err
    with agent(lambda: b'{"version": "0.1.0", "clusters": [{}]}') as url:
        assert main(["top", url]) == 2
    assert "version 0.2 or later" in capsys.readouterr().err
    with agent(lambda: b'{"version": 5, "clusters": []}') as url:
        assert main(["top", url]) == 2
    assert "version 0.2 or later" in capsys.readouterr().err
    assert main(["top", "kafka-1:9092"]) == 2
    assert "give the agent's address" in capsys.readouterr().err


def places_in(document: Any) -> Iterator[tuple[Any, Any]]:
    """Each container of a document with each of its keys."""
    keys = document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    for key in keys:
        yield document, key
        yield from places_in(document[key])


@pytest.mark.parametrize("odd", [None, 7, -1e300, "x", [5], {}], ids=str)
def test_a_part_of_another_form_is_drawn_or_no_status(odd: object) -> None:
    sound = json.loads(document(Stalls((STALL,))))
    refused = set()
    for place, key in list(places_in(sound)):
        kept, place[key] = place[key], odd
        try:
            top.drawn(sound, "http://eos:10618", 40)
        except HttpError as error:
            refused.add(str(error))
        place[key] = kept
    (text,) = refused
    assert "http://eos:10618/api/v1/status is no status" in text


def test_the_agent_itself_never_imports_what_top_needs() -> None:
    code = (
        "import sys; from exporter.cli import main; main(['run', '--print-config', '--bootstrap-server', 'a:1']);"
        "sys.exit(any(name in sys.modules for name in ('rich', 'exporter.commands.top_view')))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0


@pytest.mark.parametrize("arguments", [("top",), ("incident", "--from", "2h")])
def test_a_password_without_a_user_is_refused_and_not_left_out(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--password-file", "p"]) == 2
    assert "--password-file needs --username" in capsys.readouterr().err
