"""Processes that never outlive their owner: started, logged, paused, stopped by pid."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, ClassVar, Self
from weakref import WeakSet

from exporter.model import Deadline

_POLL_SECONDS = 0.02

JvmOptions = Callable[[str], Sequence[str]]
"""Further options for the JVM of the process with this name, such as the agents of ``jvm_agents``."""


class Child:
    """One started process. Made by ``ProcessGroup.start``; its output is in ``log``."""

    def __init__(self, name: str, process: subprocess.Popen[str], log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process
        self._paused = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def stdin(self) -> IO[str]:
        if self._process.stdin is None:
            raise ValueError(f"{self.name} was started without pipes")
        return self._process.stdin

    @property
    def stdout(self) -> IO[str]:
        if self._process.stdout is None:
            raise ValueError(f"{self.name} was started without pipes")
        return self._process.stdout

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens when the process is gone already."""
        if self.running:
            self._process.send_signal(number)

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        self.signal(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        self.signal(signal.SIGCONT)
        self._paused = False

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self._process.wait()
        self._close_pipes()

    def stop(self, deadline: Deadline) -> int:
        """SIGTERM, then SIGKILL at the deadline. Returns the exit code."""
        if self._paused:
            self.resume()
        self.signal(signal.SIGTERM)
        try:
            self._process.wait(deadline.remaining())
        except subprocess.TimeoutExpired:
            self.kill()
        self._close_pipes()
        return self._process.wait()

    def wait(self, deadline: Deadline) -> int:
        """Wait for the process to end by itself. Raises TimeoutError at the deadline."""
        try:
            return self._process.wait(deadline.remaining())
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.name} still runs") from None

    def tail(self, lines: int = 30) -> str:
        """The last lines that it logged."""
        try:
            text = self.log.read_text(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue


class ProcessGroup:
    """Owns processes: ``close`` stops them newest first; ``reaper.py`` kills them should the owner die without it.

    ``close`` copies their logs to the folder that DEMO_LOGS in the environment names, into one named as ``logs`` is.
    """

    open: ClassVar[WeakSet[ProcessGroup]] = WeakSet()

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.open.add(self)
        self._children: list[Child] = []
        self._reaper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("reaper.py"))],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        pipes: bool = False,
    ) -> Child:
        """Start a process in a session of its own, so that a Ctrl-C in the terminal leaves stopping to its owner.

        Output is appended to ``NAME.log``; with ``pipes`` only standard error is: stdin and stdout are the caller's.
        """
        log = self.logs / f"{name}.log"
        with log.open("a") as sink:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipes else sink,
                stderr=sink,
                text=True,
                bufsize=1 if pipes else -1,
                cwd=directory,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        self._notify_reaper(f"+{process.pid}")
        self._children = [child for child in self._children if not self._reaped(child)]
        child = Child(name, process, log)
        self._children.append(child)
        return child

    def close(self, deadline: Deadline) -> None:
        """Stop all, newest first: all get the signal at once, so that a slow one does not delay the others."""
        for child in reversed(self._children):
            child.resume()
            child.signal(signal.SIGTERM)
        for child in reversed(self._children):
            child.stop(deadline)
        if self._reaper.stdin is not None:
            for child in self._children:
                self._notify_reaper(f"-{child.pid}")
            self._reaper.stdin.close()
        self._reaper.wait()
        self._children = []
        self.open.discard(self)
        if kept := os.environ.get("DEMO_LOGS"):
            folder = Path(kept) / self.logs.name
            folder.mkdir(parents=True, exist_ok=True)
            for log in self.logs.glob("*.log"):
                shutil.copy(log, folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close(Deadline.after(20))

    def _reaped(self, child: Child) -> bool:
        if child.running:
            return False
        self._notify_reaper(f"-{child.pid}")
        return True

    def _notify_reaper(self, line: str) -> None:
        if self._reaper.stdin is None:
            raise ValueError("the group is closed")
        self._reaper.stdin.write(line + "\n")
        self._reaper.stdin.flush()


QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
"""Of JVMs that live for seconds or minutes, with jars that are verified elsewhere: a quick start beats peak speed."""


def java(
    heap_mb: int, lib: Path, main: str, *arguments: str, classes: Path | None = None, log_level: str = "info"
) -> list[str]:
    """The command line of a Java program from the jars in ``lib``; ``classes`` come first on the class path."""
    class_path = ":".join([*([str(classes)] if classes else []), str(lib / "*")])
    return [
        "java",
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        *QUICK_START,
        "-Djava.awt.headless=true",
        f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        "-cp",
        class_path,
        main,
        *arguments,
    ]


def run_to_end(argv: Sequence[str], deadline: Deadline) -> subprocess.CompletedProcess[str]:
    """Run a short-lived command. Raises TimeoutError at the deadline; the command is killed then."""
    try:
        return subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=deadline.remaining(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{argv[0]} did not end in time") from None


def poll(deadline: Deadline, seconds: float = _POLL_SECONDS) -> bool:
    """Sleep a moment between two looks at something; False once the deadline is over."""
    time.sleep(min(seconds, deadline.remaining()))
    return not deadline.over
