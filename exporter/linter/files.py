"""Read a settings file of a Kafka client: Java properties, JSON or YAML, flattened to dotted names with their lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from exporter.bounds.files import TooLargeError, read_regular
from exporter.bounds.properties_text import LINE_END, parse_properties
from exporter.bounds.yaml_text import excess

MOST_BYTES = 1_000_000
_DEEPEST = 30
_MOST_VALUES = 20_000
_MOST_NODES = 4 * _MOST_VALUES
LONGEST_NAME = 500
"""Characters of a flattened name; clients' own have about 100. Each of 20,000 settings repeats its parents' names."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster; not every build of PyYAML has it
_SECRET = re.compile(r"password|secret|jaas|credential|token|\.key$|key\.pem$|api[.-]?key|user\.info$", re.IGNORECASE)


class Setting(NamedTuple):
    """One setting: its name as it is written (dotted in YAML and JSON), its value as text, its line from 1."""

    name: str
    value: str
    line: int

    @property
    def shown(self) -> str:
        """The value for people; never a secret."""
        return "[hidden]" if _SECRET.search(self.name) else self.value


class FileError(Exception):
    """The file cannot be read. The text is one line: what is wrong and, where known, in which line."""


def read(path: Path) -> tuple[Setting, ...]:
    """All settings of a file. Raises FileError for what is no UTF-8 text, too large, or of none of the three forms."""
    try:
        data = read_regular(path, MOST_BYTES)
    except TooLargeError:
        raise FileError(f"is larger than {MOST_BYTES} bytes") from None
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError("is no UTF-8 text") from None
    return parse(text, path.suffix.lower())


def parse(text: str, suffix: str = "") -> tuple[Setting, ...]:
    """The settings of a text. ``suffix`` is the file's ending; any other than a known one is guessed from the text."""
    if suffix == ".json" or (suffix not in {".properties", ".yml", ".yaml"} and text.lstrip()[:1] == "{"):
        return _last_of_each(_json(text))
    if suffix in {".yml", ".yaml"}:
        return _last_of_each(_yaml(text))
    return _last_of_each(_properties(text))


def _last_of_each(found: Iterator[Setting]) -> tuple[Setting, ...]:
    """Java's Properties and both librdkafka's and Spring's readers keep the last value of a name."""
    by_name: dict[str, Setting] = {}
    for setting in found:
        by_name[setting.name] = setting
        if len(by_name) > _MOST_VALUES:
            raise FileError(f"has more than {_MOST_VALUES} settings")
    return tuple(by_name.values())


def _properties(text: str) -> Iterator[Setting]:
    for entry in parse_properties(text):
        if "\0" in entry.name + entry.value:
            raise FileError(f"line {entry.line}: holds a NUL byte: no properties file")
        name = _joined("", entry.name, f"line {entry.line}: ")
        yield Setting(name, entry.value.strip(), entry.line)


def _json(text: str) -> Iterator[Setting]:
    try:
        tree = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except json.JSONDecodeError as error:
        raise FileError(f"line {error.lineno}: no JSON: {error.msg}") from None
    except RecursionError:
        raise FileError("is nested too deeply") from None
    if not isinstance(tree, dict):
        raise FileError("is no JSON object")
    lines = _lines_of_names(text)
    for name, value, leaf in _flat(tree, "", 0):
        yield Setting(name, value, lines.get(leaf, 1))


def _lines_of_names(text: str) -> dict[str, int]:
    """The first line in which each quoted name is followed by a colon."""
    found: dict[str, int] = {}
    for number, line in enumerate(LINE_END.split(text), 1):
        for match in re.finditer(r'"([^"\\]{1,300})"[ \t]{0,50}:', line):
            found.setdefault(match[1], number)
    return found


def _joined(prefix: str, key: str, where: str = "") -> str:
    if len(prefix) + len(key) > LONGEST_NAME:
        raise FileError(f"{where}has a name of more than {LONGEST_NAME} characters")
    return prefix + key


def _flat(tree: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, str, str]]:
    if depth > _DEEPEST:
        raise FileError("is nested too deeply")
    for key, value in tree.items():
        name = _joined(prefix, key)
        if isinstance(value, dict):
            yield from _flat(value, f"{name}.", depth + 1)
        elif isinstance(value, list):
            yield name, ",".join(map(_scalar, value)), key
        else:
            yield name, _scalar(value), key


def _scalar(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _yaml(text: str) -> Iterator[Setting]:
    try:
        if problem := excess(text, _DEEPEST + 1, _MOST_NODES):
            raise FileError(problem)
        for event in yaml.parse(text, _LOADER):
            if isinstance(event, yaml.AliasEvent):  # a few aliases can stand for gigabytes
                mark = event.start_mark
                raise FileError(f"line {mark.line + 1 if mark else 1}: YAML aliases are not read: write the value out")
        for document in yaml.compose_all(text, _LOADER):
            if not isinstance(document, yaml.MappingNode):
                raise FileError("is no YAML mapping")
            yield from _yaml_flat(document, "", 0)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise FileError(f"line {mark.line + 1 if mark else 1}: no YAML: {error.problem}") from None
    except yaml.YAMLError:
        raise FileError("no YAML: a character that YAML does not allow") from None
    except RecursionError:
        raise FileError("is nested too deeply") from None


def _yaml_flat(node: yaml.MappingNode, prefix: str, depth: int) -> Iterator[Setting]:
    if depth > _DEEPEST:
        raise FileError("is nested too deeply")
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        line = key.start_mark.line + 1
        name = _joined(prefix, key.value, f"line {line}: ")
        if isinstance(value, yaml.MappingNode):
            yield from _yaml_flat(value, f"{name}.", depth + 1)
        elif isinstance(value, yaml.SequenceNode):
            texts = [element.value for element in value.value if isinstance(element, yaml.ScalarNode)]
            yield Setting(name, ",".join(texts), line)
        else:
            text = "" if value.tag == "tag:yaml.org,2002:null" else value.value
            yield Setting(name, text, line)
