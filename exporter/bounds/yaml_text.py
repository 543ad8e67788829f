"""Foreign YAML as texts, lists and mappings: no types, no tags, and a limited number of aliased nodes.

The tree is made of the parser's events, without recursion, so depth and size are bounded while it grows.
"""

from __future__ import annotations

from typing import Any

import yaml

from exporter.bounds.text import without_surrogates

MOST_NODES = 200_000
"""Nodes of one document, those of aliases counted as often as they are named."""

MOST_DEPTH = 64

_PLAIN_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster; not every build of PyYAML has it


class YamlError(ValueError):
    """The text is no YAML, or more of it than is parsed. The text is the end of a sentence, without its content."""


class _Open:
    """A list or mapping that is not read to its end. ``size`` counts its nodes."""

    __slots__ = ("anchor", "items", "mapping", "size")

    def __init__(self, anchor: str | None, *, mapping: bool) -> None:
        self.anchor = anchor
        self.mapping = mapping
        self.items: list[Any] = []
        self.size = 1

    def value(self) -> Any:  # noqa: ANN401 -- a YAML tree is anything
        if not self.mapping:
            return self.items
        tree: dict[str, Any] = {}
        for key, value in zip(self.items[::2], self.items[1::2], strict=True):
            if not isinstance(key, str):
                raise YamlError("has a key that is no text")
            tree[key] = value
        return tree


def parse_yaml(text: str) -> Any:  # noqa: ANN401 -- a YAML tree is anything
    """The only document of a text: every scalar the text that was written, plain null None. Raises YamlError.

    Aliases stand for what they name, and count as often.
    """
    try:
        return _Builder().build(text)
    except (yaml.YAMLError, UnicodeError, RecursionError):
        raise YamlError("is no JSON or YAML") from None


def excess(text: str, most_depth: int, most_nodes: int) -> str:
    """The bound that a text exceeds, as the end of a sentence; "" if it is within bounds as far as it can be read."""
    depth = nodes = 0
    loader = _LOADER(text)
    try:
        while loader.check_event():
            event = loader.get_event()
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            nodes += isinstance(event, yaml.NodeEvent)
            if depth > most_depth:
                return "is nested too deeply"
            if nodes > most_nodes:
                return f"has more than {most_nodes} nodes"
    except (yaml.YAMLError, UnicodeError):
        return ""
    finally:
        loader.dispose()
    return ""


class _Builder:
    """Builds the tree of one document."""

    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._named: dict[str, tuple[Any, int]] = {}
        self._nodes = 0
        self._root: list[Any] = []

    def build(self, text: str) -> Any:  # noqa: ANN401
        loader = _LOADER(text)
        try:
            while loader.check_event():
                self._take(loader.get_event())
        finally:
            loader.dispose()
        return self._root[0] if self._root else None

    def _take(self, event: yaml.Event) -> None:
        match event:
            case yaml.ScalarEvent():
                if event.tag not in {None, "!", "tag:yaml.org,2002:str"}:
                    raise YamlError("has a tag: write plain texts")
                plain = event.tag is None and event.implicit[0]
                value = None if plain and event.value in _PLAIN_NULLS else without_surrogates(event.value)
                self._put(value, 1, event.anchor)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                if event.tag not in {None, "!"}:
                    raise YamlError("has a tag: write plain texts")
                if len(self._open) >= MOST_DEPTH:
                    raise YamlError(f"is nested more than {MOST_DEPTH} deep")
                self._open.append(_Open(event.anchor, mapping=isinstance(event, yaml.MappingStartEvent)))
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                done = self._open.pop()
                self._nodes -= done.size - 1  # counted below, as one
                self._put(done.value(), done.size, done.anchor)
            case yaml.AliasEvent():
                if event.anchor not in self._named:
                    raise YamlError("has an alias of nothing, or of what it stands in")
                self._put(*self._named[event.anchor], None)
            case yaml.DocumentStartEvent() if self._root:
                raise YamlError("has several documents")

    def _put(self, value: Any, size: int, anchor: str | None) -> None:  # noqa: ANN401
        self._nodes += size
        if self._nodes > MOST_NODES:
            raise YamlError(f"has more than {MOST_NODES} nodes, those of aliases counted")
        if anchor is not None:
            self._named[anchor] = value, size
        if self._open:
            self._open[-1].items.append(value)
            self._open[-1].size += size
        else:
            self._root.append(value)
