"""Logging to standard error: one line per event, as ``key=value`` text or as JSON.

Both Kafka libraries log through Python's logging too. kafka-python repeats a message many times a second while a broker
is away, and at DEBUG writes its whole configuration, passwords included: its loggers stay at WARNING, at every level of
the agent, and a repeated line is written once a minute with the number of repetitions.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO

from exporter.bounds.text import printable_json
from exporter.core.durations import instant

THIRD_PARTY = ("kafka", "confluent_kafka", "librdkafka", "uvicorn")
REPEAT_SECONDS = 60.0

# Standard LogRecord attributes. Every other attribute came from `extra=` and becomes a field.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "repeated"}
_PLAIN = re.compile(r"[\w.:/@+,\[\]()*-]+")
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")


def configure(level: str, form: str, stream: TextIO | None = None) -> None:
    """Send all logs to ``stream`` (standard error) at ``level`` in ``form`` (text or json); may be called again."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(OncePerMinute())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in THIRD_PARTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    # A level set on the child itself would otherwise win over its parent's.
    logging.getLogger("kafka.admin.client").setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(capture=True)


def catch_all() -> None:
    """Log uncaught exceptions, in the main thread, in another, or where Python cannot raise: one line each, too."""
    log = logging.getLogger(__name__)

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
        else:
            log.critical("uncaught error", exc_info=(kind, error, trace))

    def in_thread(uncaught: threading.ExceptHookArgs) -> None:
        if uncaught.exc_value is not None and not isinstance(uncaught.exc_value, SystemExit):
            name = uncaught.thread.name if uncaught.thread else ""
            info = (uncaught.exc_type, uncaught.exc_value, uncaught.exc_traceback)
            log.critical("a thread ended by an uncaught error", exc_info=info, extra={"thread_name": name})

    def unraisable(uncaught: sys.UnraisableHookArgs) -> None:
        where = uncaught.err_msg or "an error where none can be raised"
        if uncaught.exc_value is None:
            log.error("%s", where)
        else:
            log.error("%s", where, exc_info=(uncaught.exc_type, uncaught.exc_value, uncaught.exc_traceback))

    sys.excepthook, threading.excepthook, sys.unraisablehook = uncaught, in_thread, unraisable


class TextFormatter(logging.Formatter):
    """``time=... level=... logger=... msg=... key=value``; a traceback stays in the line, its newlines escaped."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_quoted(value)}" for key, value in _fields(self, record).items())


class JsonFormatter(logging.Formatter):
    """One JSON object per line with the same fields as the text."""

    def format(self, record: logging.LogRecord) -> str:
        return printable_json(json.dumps(_fields(self, record), ensure_ascii=False, default=str))


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {"time": instant(record.created), "level": record.levelname.lower(), "logger": record.name}
    fields["msg"] = record.getMessage()
    fields |= {key: value for key, value in vars(record).items() if key not in _OWN}
    if repeated := getattr(record, "repeated", 0):
        fields["repeated"] = repeated
    if record.exc_info and record.exc_info[0] is not None:
        fields["error"] = formatter.formatException(record.exc_info)
    return fields


def _quoted(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else printable_json(json.dumps(text, ensure_ascii=False))


class OncePerMinute(logging.Filter):
    """Passes a warning of a third-party library once a minute, with the number of suppressed repetitions.

    Two lines are the same when only their numbers differ: connection ids and ports change with every attempt.
    """

    _MOST = 1000

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._said: dict[tuple[str, int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.partition(".")[0] not in THIRD_PARTY:
            return True
        key = (record.name, record.levelno, _NUMBERS.sub("#", record.getMessage()))
        now = self._monotonic()
        last, held_back = self._said.get(key, (float("-inf"), 0))
        if now - last < REPEAT_SECONDS:
            self._said[key] = (last, held_back + 1)
            return False
        if len(self._said) >= self._MOST:
            self._said.clear()
        self._said[key] = (now, 0)
        record.repeated = held_back
        return True
