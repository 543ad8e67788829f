"""The regular expressions that meet text of others, each with the method that is called and what slows backtracking.

python -m tests.hostile.patterns MODULE:NAME  tries one on a megabyte each.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LENGTH = 1_000_000
INLINE = "inline"
UNITS = (" ", "a", "A", "0", ":", ",", '"', "\\", "/", "-", "_", ".")

# The method, what a text begins with, and what is repeated beside UNITS.
Use = tuple[str, str, Sequence[str]]

FOREIGN: dict[str, Use] = {
    "exporter.bounds.json_text:_ESCAPE": ("sub", "", ("\\u", "\\ud800", "\\udbff\\u")),
    "exporter.bounds.properties_text:LINE_END": ("sub", "", ("\r", "\n")),
    "exporter.bounds.properties_text:_ENTRY": ("match", "", ("\\=", "=:", " =")),
    "exporter.bounds.properties_text:_ESCAPED": ("sub", "", ("\\u", "\\u0041", "\\\\")),
    "exporter.bounds.text:_LOOKS_ESCAPED": ("sub", "", ("\\x", "\\u202e", "\\")),
    "exporter.bounds.text:_SURROGATE": ("sub", "", ("\ud800",)),
    "exporter.journal.segments:_NAME": ("fullmatch", "", ("0",)),
    "exporter.linter.client_rules:_APPLICATION_NAME": ("sub", "", ("${spring.application.name:", "${spring")),
    "exporter.linter.client_rules:_RANDOM": ("search", "", ("pod", "pod.", " pi")),
    "exporter.linter.files:_BLOCK": ("fullmatch", "", ("a", "\t", ":", '"a')),
    "exporter.linter.files:_DOCUMENT_END": ("fullmatch", "#---", ("\t",)),
    "exporter.linter.files:_NO_YAML": ("sub", "", ("\\", "\\u", "\\ud8", "\t")),
    "exporter.linter.files:_SECRET": ("search", "", ("api", ".ke")),
    "exporter.linter.forms:_ASSIGNED": ("fullmatch", "export ", ("a=", " =", "\t")),
    "exporter.linter.forms:_CHANNEL_VARIABLE": ("fullmatch", "MP_MESSAGING_INCOMING_", ("A_", "_ACKS", "_TOPIC_")),
    "exporter.linter.forms:_DEBEZIUM": ("match", "debezium.sink.", ("kafka.", "debezium.")),
    "exporter.linter.forms:_LINE_OF_PROPERTIES": ("fullmatch", "", ("a=", "a =", "\t", "#")),
    "exporter.linter.forms:_OF_QUARKUS": ("fullmatch", "mp.messaging.incoming.", ('"', "a.", '".')),
    "exporter.linter.forms:_PROFILE": ("fullmatch", "%", ("%a.", "a,", "a.")),
    "exporter.linter.forms:_QUARKUS": ("match", "%", ("%a.", "mp.messaging.", "a,")),
    "exporter.linter.forms:_SHELL_DEFAULT": ("sub", "", ("${", "${a:-", "${a-b", ":-")),
    "exporter.linter.forms:_SPRING_DEFAULT": ("sub", "", ("${", "${a:", "${a:b", "${a:b}")),
    "exporter.linter.forms:_VARIABLE": ("fullmatch", "A", ("A_",)),
    "exporter.linter.rule:PLACEHOLDER": ("search", "", ("<", "$", "%", "@a", "@", "a.")),
    "exporter.linter.spring:_ELEMENT": ("finditer", "", ("[", "a.", "[a]", "[a")),
    "exporter.linter.spring:_OF_BINDER": ("fullmatch", "spring.cloud.stream.binders.", ("a.", "environment.")),
    "exporter.linter.spring:_OF_BINDING": ("match", "spring.cloud.stream.", ("bindings.", "kafka.", "a")),
    "exporter.linter.sql:_TOKEN": ("finditer", "", ("/*", "*/", "--", "'", "`", "/* ", "\n")),
    "exporter.linter.views:_DURATION": ("fullmatch", "1", ("ms", "1 ms")),
    "exporter.linter.views:_ISO": ("fullmatch", "PT", ("1H", "1S", "P1D")),
    "exporter.connect.failures:_ASSIGNED": (
        "sub",
        "",
        ("password", "password ", "password=", 'token="', "secret='", "pwd = "),
    ),
    "exporter.connect.failures:_FRAME": ("match", "", ("\t", " [", "... 1")),
    "exporter.connect.failures:_SECRET_KEY": ("search", "", ("api", "connection.", "acces", "privat")),
    "exporter.connect.failures:_USER_INFO": ("sub", "x://", ("://", "x://", ":@", "x://:")),
    "exporter.core.durations:_FORM": ("fullmatch", "", ("1h", "1")),
    "exporter.core.durations:_GO_PART": ("match", "1", ("1.", "1h")),
    "exporter.core.logs:_NUMBERS": ("sub", "", ("0x", "0xa")),
    "exporter.core.logs:_PLAIN": ("fullmatch", "", ("[",)),
    "exporter.core.target_files:_ADDRESS": ("fullmatch", "[", ("a:1",)),
    "exporter.telemetry.clients:_OF_PROCESS": (
        "search",
        "",
        ("01234567-89ab-cdef-0123-456789abcdef", "0123abcd-", "-StreamThread-1"),
    ),
    "exporter.jvm.jmx_exporter:_ESCAPE": ("sub", "", ('\\"',)),
    "exporter.jvm.jmx_exporter:_LABEL": ("match", 'a="', ('\\"', 'a="b",', '" ')),
    "exporter.jvm.jmx_exporter:_NAME": ("fullmatch", "", ()),
    "exporter.jvm.mbeans:_ESCAPE": ("sub", "", ()),
    "exporter.jvm.mbeans:_PROPERTY": ("match", "", ("a=", 'a="', '\\"', "a=b,", " =")),
    "exporter.streams.streams_samples:_THREADS_CONSUMER": (
        "fullmatch",
        "",
        ("-StreamThread-1", "-StreamThread-1-consumer"),
    ),
    "exporter.streams.streams_samples:_THREADS_PRODUCER": ("fullmatch", "", ("-StreamThread-1", "-0_1-producer")),
    "exporter.kafka.auth.jaas:_ENTRY": ("match", "a required ", ("a required ", "a ", "; ")),
    "exporter.kafka.auth.jaas:_ESCAPED": ("sub", "", ()),
    "exporter.kafka.auth.jaas:_OPTION": ("match", "a=", ("a=", 'a="', "a = ", '\\"')),
    "exporter.kafka.auth.oauth:_ERROR_CODE": ("fullmatch", "", ()),
    "exporter.lso.saved_stalls:_PARTITION": ("fullmatch", "", ()),
    "exporter.groups.source.holder_groups:_UUID": ("finditer", "", ("00000000-", "0000-", "0")),
    "exporter.posture.offsets:_WORD": ("finditer", "", ("a", "a1", "_")),
    "exporter.posture.software_version:_CONFLUENT": ("search", "", ("-cc", "-c")),
    "exporter.posture.software_version:_NUMBERS": ("match", "", ("1.", "1", "v1.1")),
    "exporter.posture.stable_ids:_CHECKPOINT": ("fullmatch", "a", ("-1", "-1-", "1-11")),
    "exporter.posture.stable_ids:_SHORT_NUMBER": ("sub", "", ("12345", "1-")),
    "exporter.settings.layers:_PLAIN_KEY": ("match", "", ()),
    "exporter.settings.environment:_SERVICE_LINK": ("search", "", ("_PORT", "_SERVICE_PORT_", "_PORT_1_TCP")),
    "exporter.settings.thresholds:WINDOW": ("fullmatch", "", ("01:00-", "1")),
    "exporter.settings.values:_SIZE": ("fullmatch", "1", ("Mi",)),
    "exporter.streams.source:_CLIENT_ID": ("fullmatch", "", ("-01234567-89ab-cdef-0123-456789abcdef", "0123abcd-")),
    "exporter.spark.application_log:DELIVERED": ("fullmatch", "eventlog", ("-2026-11-28--10-00", ".gz")),
    "exporter.spark.application_log:_ROLLED": ("fullmatch", "events_1_", (".compact", "events_1_")),
    "exporter.spark.checkpoint:_NUMBER": ("fullmatch", "", ()),
    "exporter.spark.events:_KAFKA": ("match", "KafkaSource", ()),
    "exporter.spark.terminations:_CLASS": (
        "sub",
        "",
        ("AException", "\nCaused by: A", "a\n", "KafkaError{code=", "a.Error"),
    ),
    "exporter.spark.terminations:_USER_CLASS": ("search", "", ("PYTHON", "USER_")),
    "exporter.spark.terminations:_USER_EXCEPTION": ("search", "", (".PythonException",)),
    **{f"exporter.spark.terminations:_BY_ERROR_CLASS.{at}.1": ("search", "", ("_LOG_", "STATE_")) for at in range(3)},
    **{
        f"exporter.spark.terminations:_BY_EXCEPTION.{at}.1": (
            "search",
            "",
            ("StateStore", ".StateStore", "A_", "_A", ".a"),
        )
        for at in range(5)
    },
    "exporter.applications.applications:_CONNECT_LEADER": ("fullmatch", "connect-cluster-", ()),
    "exporter.applications.applications:_MAY_BE_FLINK": ("fullmatch", "a", ("-1", "-1-", "1-11", "-0a")),
    "exporter.applications.applications:_TASK": ("fullmatch", "", ("-1", "1-")),
    "exporter.applications.naming:_BARE_UUID": ("fullmatch", "", ()),
    "exporter.applications.naming:_TWO_NUMBERS": ("fullmatch", "", ("-1", "-1-", "1-11")),
    "exporter.applications.naming:_GLUED": ("fullmatch", "", ("aaa1", "a1")),
    **{
        f"exporter.applications.naming:_INSTANCES.{at}.2": (
            "sub",
            "",
            (
                "a.a",
                "." + "a" * 63,
                "1.",
                "10-",
                "10-0-",
                "192-168-0-1-",
                "a:",
                "fe80:",
                "fe80::",
                "a-4567bcdf",
                "a-4567bcdf-x2x4",
                "a-1a2b3c4d-x7k",
                "jet.job-07cf-",
                "2026-11-28T",
                "1.2.",
                ".a.a.com",
                "eu-west-1",
                "application_",
                "local-1",
                "spark-0",
                "01234567-",
                "abcdef01",
            ),
        )
        for at in range(9)
    },
    "exporter.applications.naming:_LETTER_AND_NUMBER": ("fullmatch", "p", ()),
    "exporter.applications.naming:_URL_BASE64": ("search", "", ("-", "_-", "aA1-", "-aaaaaaaaaaaaaaaaaaaaa")),
    "exporter.applications.naming:_WORD_AND_NUMBER": ("fullmatch", "", ("aaa1", "aaa")),
    "exporter.applications.made_up:_ALPHANUMERIC": ("fullmatch", "", ()),
    "exporter.applications.made_up:_CHANGES": ("findall", "", ("a1", "aA")),
    "exporter.applications.made_up:_HEX": ("fullmatch", "", ()),
    "exporter.applications.made_up:_HEX_NAME": ("fullmatch", "abcde", ("1", "a", "1a")),
    "exporter.applications.made_up:_LETTERS": ("findall", "", ("Aa", "A")),
    "exporter.applications.made_up:_VOWEL": ("search", "", ()),
    "exporter.applications.naming:_KSQL": ("fullmatch", "_confluent-ksql-", ("transient", "transient-")),
    "exporter.applications.naming:_MIRROR_MAKER": ("fullmatch", "a-mm2", ("-mm2", "-mm2-MirrorSourceConnector-", "-1")),
    "exporter.applications.naming:_NUMBERED": ("fullmatch", "", ("-1", "1-", "-01234567-89ab-cdef-0123-456789abcdef")),
    "exporter.applications.naming:_SPRING": ("fullmatch", "", (".1", "1.", "a.1")),
    "exporter.applications.naming:_STREAMS_V1": ("fullmatch", "", ("-0_0", "-0")),
    "exporter.applications.naming:_STREAMS_V2": (
        "fullmatch",
        "",
        ("-0_0", "-01234567-89ab-cdef-0123-456789abcdef-1"),
    ),
    "exporter.applications.naming:_TOKENS": ("search", "", ()),
}

ELSEWHERE = {
    "exporter.exposition.revision:_COMMIT": "reads git's own files",
    "exporter.kafka.auth.msk:_REGION": "reads an address of the settings",
    "exporter.standalone.listener:_EXCEPTION": "is terminations:_CLASS, in a file that imports nothing of ours",
}
"""Patterns that meet no text of others, or are tried under another name."""

# Requests are bounded before a pattern of web meets them; the others read what the agent or its operator wrote.
OF_OTHER_ROOMS = (
    "exporter.jobs.",
    "exporter.web_server.",
    "exporter.status.",
    "exporter.commands.",
    "exporter.alerts.",
    "exporter.dashboards.",
)


METHODS = ("match", "search", "fullmatch", "sub", "finditer")


def inline() -> Iterator[tuple[str, str]]:
    """The patterns that are written where they are used: method and pattern; not those that are put together."""
    for file in sorted((ROOT / "exporter").rglob("*.py")):
        where = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        if where.startswith(OF_OTHER_ROOMS):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=method), args=[ast.Constant(value=str(text)), *_]
                ) if method in METHODS:
                    yield method, text


def texts(use: Use) -> Iterator[str]:
    _, head, units = use
    for unit in (*UNITS, *units):
        for end in ("", "!"):
            yield head + unit * (LENGTH // len(unit)) + end


def pattern_of(name: str) -> re.Pattern[str]:
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for step in path.split("."):
        found = found[int(step)] if step.isdigit() else getattr(found, step)
    assert isinstance(found, re.Pattern)
    return found


def main(name: str) -> None:
    if name == INLINE:
        for method, written in inline():
            for text in texts((method, "", ())):
                _try(re.compile(written), method, text)
        return
    for text in texts(FOREIGN[name]):
        _try(pattern_of(name), FOREIGN[name][0], text)


def _try(pattern: re.Pattern[str], method: str, text: str) -> None:
    match method:
        case "sub":
            pattern.sub("", text)
        case "search":
            pattern.search(text)
        case "match":
            pattern.match(text)
        case "fullmatch":
            pattern.fullmatch(text)
        case "finditer":
            deque(pattern.finditer(text), 0)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        main(argument)
