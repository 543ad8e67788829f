"""The tables of a Flink SQL script that are topics of Kafka, each with the options of its WITH."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from exporter.linter.files import Setting

_TOKEN = re.compile(
    r"--[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?|'(?P<text>[^']*)'|`(?P<quoted>[^`]*)`|(?P<word>[\w][\w.$-]*)|(?P<sign>[(),=;])"
)
_KAFKA = {"kafka", "upsert-kafka"}


class KafkaTable(NamedTuple):
    """A table, and whether the script writes and reads it."""

    name: str
    options: tuple[Setting, ...]
    is_written: bool
    is_read: bool


class _Token(NamedTuple):
    kind: str
    value: str
    line: int

    @property
    def keyword(self) -> str:
        """A word or sign in upper case; "" for texts and quoted names."""
        return self.value.upper() if self.kind in {"word", "sign"} else ""


def has_tables(text: str) -> bool:
    """Return whether a text looks like a script with tables."""
    return re.search(r"\bCREATE\s{1,20}(TEMPORARY\s{1,20})?TABLE\b", text, re.IGNORECASE) is not None


def tables(text: str, lines_before: int = 0) -> list[KafkaTable]:
    """The tables of Kafka in a script. Settings of ``SET`` are options of each."""
    shared: list[Setting] = []
    created: list[tuple[str, list[Setting]]] = []
    written: set[str] = set()
    read: set[str] = set()
    for statement in _statements(text, lines_before):
        words = [token.keyword for token in statement]
        if words[0] == "SET" and len(statement) == 4 and words[2] == "=":
            shared.append(Setting(statement[1].value, statement[3].value, statement[1].line))
        if words[0] == "CREATE" and "TABLE" in words[:3]:
            name, options = _created(statement, words)
            created.append((name, options))
            if "SELECT" in words:  # CREATE TABLE ... AS SELECT
                written.add(name)
        for before, token in zip(words, statement[1:], strict=False):
            if token.kind not in {"word", "quoted"}:
                continue
            name = token.value.rpartition(".")[2]
            if before in {"INTO", "OVERWRITE"}:
                written.add(name)
            elif before in {"FROM", "JOIN"}:
                read.add(name)
    return [
        KafkaTable(name, (*options, *shared), name in written, name in read)
        for name, options in created
        if any(option.name == "connector" and option.value.lower() in _KAFKA for option in options)
    ]


def _statements(text: str, lines_before: int) -> Iterator[list[_Token]]:
    statement: list[_Token] = []
    line, end = 1 + lines_before, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", end, match.start())
        end = match.start()
        kind = match.lastgroup
        if kind is None:
            continue  # a comment
        if match[0] == ";":
            if statement:
                yield statement
            statement = []
        else:
            statement.append(_Token(kind, match[kind], line))
    if statement:
        yield statement


def _created(statement: list[_Token], words: list[str]) -> tuple[str, list[Setting]]:
    """The name of the table that a statement creates, and the options of its last WITH."""
    name = ""
    for token in statement[words.index("TABLE") + 1 :]:
        if token.keyword in {"(", "WITH", "AS", "LIKE", "COMMENT"}:
            break
        if token.keyword not in {"IF", "NOT", "EXISTS"}:
            name = token.value.rpartition(".")[2]
    opened = [at for at in range(len(words) - 1) if words[at : at + 2] == ["WITH", "("]]
    options: list[Setting] = []
    if opened:
        inside = statement[opened[-1] + 2 :]
        for key, sign, value in zip(inside, inside[1:], inside[2:], strict=False):
            if key.kind == "sign" and key.value == ")":
                break
            if key.kind == value.kind == "text" and sign.value == "=":
                options.append(Setting(key.value, value.value, key.line))
    return name, options
