"""Read a settings file of a Kafka client: Java properties, JSON or YAML, as documents with the lines of values."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import yaml
from yaml.reader import Reader

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
_DOCUMENT_END = re.compile(r"[#!]---[ \t]*")  # Spring Boot begins another document there
_BLOCK = re.compile(r"[ \t]*[\w.\"-]{1,200}[ \t]*[:=]?[ \t]*\{.*")
_NO_YAML = re.compile(rf"(\\\\)|\\u[dD][89a-fA-F][0-9a-fA-F]{{2}}|[\t\x85\u2028\u2029]|{Reader.NON_PRINTABLE.pattern}")
"""What JSON has and YAML has not, and a backslash that is escaped: halves of characters, tabs, breaks of lines."""
_SECRET = re.compile(r"password|secret|jaas|credential|token|\.key$|key\.pem$|api[.-]?key|user\.info$", re.IGNORECASE)


def table(file: str) -> dict[str, Any]:
    """A TOML file of this package: names or rules."""
    return tomllib.loads(files(__package__).joinpath(file).read_text("utf-8"))


class Setting(NamedTuple):
    """One setting: its name as it is written (dotted in YAML and JSON), its value as text, its line from 1."""

    name: str
    value: str
    line: int

    @property
    def shown(self) -> str:
        """The value for people; never a secret."""
        return "[hidden]" if _SECRET.search(self.name) else self.value


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of a document as text, and its line from 1: that of its name, or its own in a list."""

    value: str
    line: int


Tree: TypeAlias = "Scalar | list[Tree] | dict[str, Tree]"
"""A document, without types: of a name that is set twice the last value, as Java's and Spring's readers have it."""


class FileError(Exception):
    """The file cannot be read. The text is one line: what is wrong and, where known, in which line."""


def read_text(path: Path) -> str:
    """The text of a settings file. Raises FileError for what is no UTF-8 text, no regular file, or too large."""
    try:
        data = read_regular(path, MOST_BYTES)
    except TooLargeError:
        raise FileError(f"is larger than {MOST_BYTES} bytes") from None
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError("is no UTF-8 text") from None


def parse(text: str, suffix: str = "") -> tuple[Setting, ...]:
    """The settings of all documents of a text, flat. Raises FileError as ``documents`` does."""
    by_name = {setting.name: setting for tree in documents(text, suffix) for setting in flat(tree)}
    return tuple(by_name.values())


def documents(text: str, suffix: str = "", lines_before: int = 0) -> list[Tree]:
    """The documents of a text: several of YAML, and of Spring's properties. ``suffix`` is the file's ending.

    Any other than a known suffix is guessed from the text. Raises FileError where the text has none of the forms.
    """
    if suffix in {".yml", ".yaml"}:
        return _yaml(text, lines_before)
    if suffix == ".json" or (suffix not in {".properties", ".env"} and text.lstrip()[:1] in {"{", "["}):
        return [_json(text, lines_before)]
    lines = LINE_END.split(text)
    if suffix == ".conf" and any(map(_BLOCK.fullmatch, lines)):
        raise FileError("has blocks in braces, as HOCON and JAAS: not read; give settings as properties, JSON or YAML")
    ends = [at for at, line in enumerate(lines) if _DOCUMENT_END.fullmatch(line)]
    starts = [0, *ends]
    parts = ("\n".join(lines[start:end]) for start, end in zip(starts, [*ends, len(lines)], strict=True))
    return [_properties(part, start + lines_before) for start, part in zip(starts, parts, strict=True)]


def flat(tree: Tree, name: str = "") -> tuple[Setting, ...]:
    """The settings below a place of a document, by dotted names as Java's and Spring's readers make them of YAML."""
    by_name: dict[str, Setting] = {}

    def take(tree: Tree, name: str) -> None:
        if isinstance(tree, dict):
            for key, value in tree.items():
                take(value, f"{name}{key}" if key[:1] == "[" or not name else f"{name}.{key}")
        elif isinstance(tree, Scalar):
            by_name[name] = Setting(name, tree.value, tree.line)
        elif leaves := [element for element in tree if isinstance(element, Scalar)]:
            by_name[name] = Setting(name, ",".join(leaf.value for leaf in leaves), leaves[0].line)
        else:
            for at, element in enumerate(tree):
                take(element, f"{name}[{at}]")
        if len(by_name) > _MOST_VALUES:
            raise FileError(f"has more than {_MOST_VALUES} settings")

    take(tree, name)
    return tuple(by_name.values())


def _properties(text: str, lines_before: int) -> Tree:
    found: dict[str, Tree] = {}
    for entry in parse_properties(text):
        line = entry.line + lines_before
        if "\0" in entry.name + entry.value:
            raise FileError(f"line {line}: holds a NUL byte: no properties file")
        _check_name(entry.name, f"line {line}: ")
        found[entry.name] = Scalar(entry.value.strip(), line)
        if len(found) > _MOST_VALUES:
            raise FileError(f"has more than {_MOST_VALUES} settings")
    return found


def _json(text: str, lines_before: int) -> Tree:
    """JSON by YAML's reader, which knows lines. What it cannot read is left out: no name or value of a rule has it."""
    try:
        tree = json.loads(text, parse_int=str)  # Python refuses numbers of more than 4,300 digits
    except json.JSONDecodeError as error:
        raise FileError(f"line {error.lineno}: no JSON: {error.msg}") from None
    except RecursionError:
        raise FileError("is nested too deeply") from None
    if not isinstance(tree, dict) and not (isinstance(tree, list) and any(isinstance(part, dict) for part in tree)):
        raise FileError("is no JSON object")
    return _yaml(_NO_YAML.sub(r"\1", text), lines_before)[0]


def _check_name(name: str, where: str = "") -> None:
    if len(name) > LONGEST_NAME:
        raise FileError(f"{where}has a name of more than {LONGEST_NAME} characters")


def _yaml(text: str, lines_before: int) -> list[Tree]:
    found: list[Tree] = []
    try:
        if problem := excess(text, _DEEPEST + 1, _MOST_NODES):
            raise FileError(problem)
        visits = count()
        for document in yaml.compose_all(text, _LOADER):
            if isinstance(document, yaml.ScalarNode) and not document.value:
                continue
            if not isinstance(document, yaml.CollectionNode) or not (
                isinstance(document, yaml.MappingNode)
                or any(isinstance(element, yaml.MappingNode) for element in document.value)
            ):
                raise FileError("is no YAML mapping")
            found.append(_yaml_tree(document, "", 1 + lines_before, 0, visits, lines_before))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise FileError(f"line {mark.line + 1 if mark else 1}: no YAML: {error.problem}") from None
    except yaml.YAMLError:
        raise FileError("no YAML: a character that YAML does not allow") from None
    except RecursionError:
        raise FileError("is nested too deeply") from None
    return found


def _yaml_tree(node: yaml.Node, name: str, line: int, depth: int, visits: Iterator[int], lines_before: int) -> Tree:
    """The tree of a node. Aliases stand for what they name: a few can stand for gigabytes, so visits are counted."""
    if depth > _DEEPEST:
        raise FileError("is nested too deeply")
    if next(visits) > _MOST_NODES:
        raise FileError(f"has more than {_MOST_NODES} nodes, those of aliases counted")
    _check_name(name, f"line {line}: ")
    if isinstance(node, yaml.ScalarNode):
        return Scalar("" if node.tag == "tag:yaml.org,2002:null" else node.value, line)
    if isinstance(node, yaml.SequenceNode):
        return [
            _yaml_tree(item, name, item.start_mark.line + 1 + lines_before, depth + 1, visits, lines_before)
            for item in node.value
        ]
    merged: dict[str, Tree] = {}
    found: dict[str, Tree] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if key.value == "<<":
            for parent in reversed(value.value) if isinstance(value, yaml.SequenceNode) else [value]:
                tree = _yaml_tree(parent, name, line, depth + 1, visits, lines_before)
                merged.update(tree if isinstance(tree, dict) else {})
            continue
        at = key.start_mark.line + 1 + lines_before
        path = f"{name}.{key.value}" if name else key.value
        found[key.value] = _yaml_tree(value, path, at, depth + 1, visits, lines_before)
    return {**merged, **found}
