from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Iterator

import pytest

from exporter.core import logs


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in (*logs.THIRD_PARTY, "kafka.admin.client"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_text_is_one_line_of_keys_and_values() -> None:
    stream = io.StringIO()
    logs.configure("info", "text", stream)
    logging.getLogger("exporter.agent.composition").info("a %s\nb", "message", extra={"target": "prod"})
    [line] = lines(stream)
    assert line.startswith("time=2")
    assert line.endswith(r'Z level=info logger=exporter.agent.composition msg="a message\nb" target=prod')


@pytest.mark.parametrize("form", ["text", "json"])
def test_characters_that_do_not_print_are_escaped(form: str) -> None:
    stream = io.StringIO()
    logs.configure("info", form, stream)
    logging.getLogger("exporter").info("id %s", "a\x1b[2J\u202eb\u2028c\ud800", extra={"who": "x\u2066y"})
    [line] = stream.getvalue().split("\n")[:-1]
    assert line.isprintable()
    assert r"id a\u001b[2J\u202eb\u2028c\ud800" in line
    assert r"x\u2066y" in line


def test_json_has_the_same_fields() -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)
    logging.getLogger("exporter").warning("told")
    [line] = lines(stream)
    assert {key: json.loads(line)[key] for key in ("level", "logger", "msg")} == {
        "level": "warning",
        "logger": "exporter",
        "msg": "told",
    }


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_stays_in_its_line(form: str) -> None:
    stream = io.StringIO()
    logs.configure("info", form, stream)
    try:
        int("broken")
    except ValueError:
        logging.getLogger("exporter").exception("failed")
    [line] = lines(stream)
    assert "ValueError: invalid literal" in line


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_nobody_caught_is_one_line_too(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, hook in ((sys, "excepthook"), (threading, "excepthook"), (sys, "unraisablehook")):
        monkeypatch.setattr(module, hook, getattr(module, hook))  # as they were, afterwards
    stream = io.StringIO()
    logs.configure("info", form, stream)
    logs.catch_all()

    def fail() -> None:
        raise ValueError("two\nlines")

    class Unhappy:
        def __del__(self) -> None:
            fail()

    thread = threading.Thread(target=fail, name="reader")
    thread.start()
    thread.join()
    with pytest.raises(ValueError, match="two") as caught:
        fail()
    sys.excepthook(caught.type, caught.value, caught.tb)
    Unhappy()
    in_thread, in_main, unraisable = lines(stream)
    assert all(line.count("Traceback") == 1 for line in (in_thread, in_main, unraisable))
    assert "reader" in in_thread
    if form == "json":
        assert [json.loads(line)["level"] for line in (in_thread, in_main, unraisable)] == [
            "critical",
            "critical",
            "error",
        ]


def test_levels_below_the_chosen_one_are_silent() -> None:
    stream = io.StringIO()
    logs.configure("warning", "text", stream)
    logging.getLogger("exporter").info("quiet")
    assert lines(stream) == []


@pytest.mark.parametrize("name", ["kafka.admin.client", "kafka.conn", "confluent_kafka", "uvicorn.error"])
def test_the_libraries_never_speak_below_warning(name: str) -> None:
    """kafka-python writes passwords at DEBUG."""
    stream = io.StringIO()
    logs.configure("debug", "text", stream)
    logging.getLogger(name).debug("sasl_plain_password=hunter2")
    logging.getLogger(name).info("chatter")
    assert lines(stream) == []


def test_configuring_again_replaces_what_was_configured() -> None:
    old, new = io.StringIO(), io.StringIO()
    logs.configure("info", "text", old)
    logs.configure("info", "text", new)
    logging.getLogger("exporter").info("once")
    assert (len(lines(old)), len(lines(new))) == (0, 1)


class LogClock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def record(message: str, name: str = "kafka.conn") -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, "file.py", 1, message, (), None)


def test_what_a_library_repeats_is_written_once_a_minute_with_its_count() -> None:
    clock = LogClock()
    held = logs.OncePerMinute(clock)
    assert held.filter(record("node 1 lost after 12 ms"))
    clock.now = 59.0
    assert not held.filter(record("node 1 lost after 7 ms"))
    assert not held.filter(record("node 2 lost after 9 ms"))
    assert held.filter(record("another thing"))
    clock.now = 60.0
    again = record("node 1 lost after 8 ms")
    assert held.filter(again)
    assert vars(again)["repeated"] == 2


def test_our_own_lines_are_never_held_back() -> None:
    held = logs.OncePerMinute(LogClock())
    assert all(held.filter(record("the same", "exporter.core.runner")) for _ in range(3))


def test_the_memory_of_repeats_does_not_grow_for_ever() -> None:
    held = logs.OncePerMinute(LogClock())
    for number in range(5000):
        held.filter(record("x" * number))
    assert len(held._said) <= 1000


@pytest.mark.parametrize("formatter", [logs.TextFormatter(), logs.JsonFormatter()])
def test_no_control_character_or_change_of_direction_reaches_the_log(formatter: logging.Formatter) -> None:
    record = logging.makeLogRecord({"msg": "GET /\x85\x7f\u2028\u202e", "path": "\x9b"})
    line = formatter.format(record)
    assert line.isprintable()
    assert r"\u0085\u007f\u2028\u202e" in line
