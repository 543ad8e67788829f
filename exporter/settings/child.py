"""Settings that another process reads: YAML and what checks it are never in the memory of the agent.

The process runs ``exporter.settings`` for one request on standard input, and ends. It limits its own memory and
processor time; its answer has the checked values as JSON, or every problem.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from exporter.bounds.text import cut, decoded, printable
from exporter.settings.layers import Problem

SECONDS = 60.0
"""Longest wait for the process, whatever else the machine does."""
MOST_ANSWER_BYTES = 16 * 1024 * 1024
LONGEST_STDERR = 2000
"""Characters of its standard error that are logged."""

log = logging.getLogger(__name__)


class ChildAnswer(NamedTuple):
    """The document, None where there is none, and every problem."""

    document: Any
    problems: tuple[Problem, ...]


def ask_child(request: Mapping[str, object]) -> ChildAnswer:
    """Return the answer to a request (``exporter.settings.__main__``). Never raises.

    A request has secrets, so it goes through a pipe: the arguments of a process can be read by others.
    """
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "exporter.settings"],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    except subprocess.TimeoutExpired:
        return _failed(f"were not read within {SECONDS:.0f} s")
    except OSError as error:
        return _failed(f"cannot be read: no process can be started: {error.strerror}")
    if said := printable(decoded(ended.stderr[: 4 * LONGEST_STDERR]).strip()):
        log.warning("while the settings were read: %s", cut(said, LONGEST_STDERR))
    if len(ended.stdout) > MOST_ANSWER_BYTES:
        return _failed(f"cannot be read: they make more than {MOST_ANSWER_BYTES >> 20} MB")
    if ended.returncode:
        how = f"signal {-ended.returncode}" if ended.returncode < 0 else f"exit code {ended.returncode}"
        return _failed(f"cannot be read: the process that reads them ended with {how}")
    try:
        answer = json.loads(ended.stdout)
        problems = tuple(Problem(tuple(path), text, origin) for path, text, origin in answer["problems"])
        return ChildAnswer(answer["document"], problems)
    except (ValueError, KeyError, TypeError, RecursionError):
        return _failed("cannot be read: the process that reads them gave no answer")


def _failed(text: str) -> ChildAnswer:
    return ChildAnswer(None, (Problem((), text, "settings"),))
