"""The settings in a YAML file, as a layer whose scalars are texts. The messages never quote the file."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any

import yaml

from exporter.bounds.text import without_surrogates
from exporter.bounds.yaml_text import excess
from exporter.settings.file_text import MOST_BYTES, FileText, too_large
from exporter.settings.layers import Layer, Problem, shown_key

_DEEPEST = 20
MOST_NODES = 20_000
"""Nodes of one, those of aliases counted as often as they are named."""


class _TwiceError(yaml.MarkedYAMLError):
    """A key is twice in one mapping: YAML would silently keep the last."""


class _Texts(yaml.SafeLoader):
    """YAML in which every scalar but null stays text, and no key may be there twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise _TwiceError(None, None, f"the key {shown_key(key.value)} is here twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


_Texts.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if tag in {"tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"}]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


_TAGS: Mapping[type[yaml.Node], frozenset[str]] = {
    yaml.ScalarNode: frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "null", "merge")),
    yaml.SequenceNode: frozenset({"tag:yaml.org,2002:seq"}),
    yaml.MappingNode: frozenset({"tag:yaml.org,2002:map"}),
}


def layer_of(file: FileText) -> Layer:
    """Return the settings in a file."""
    return _refused(file.origin, file.problem) if file.problem else from_yaml(file.text, file.origin)


def from_yaml(text: str, origin: str) -> Layer:
    """The settings in a YAML text. A fault of form is a problem with its line and column, never the line's text."""
    if len(text) > MOST_BYTES:
        return _refused(origin, too_large())
    try:
        tree = loaded(text)
    except TooMuchError as error:
        return _refused(origin, str(error))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        # Text in quotes is a piece of the file: an alias or a tag, and so possibly of a password.
        what = re.sub(r"'.*'", "…", error.problem or "cannot be read")
        hint = "" if isinstance(error, _TwiceError) else "; a value that begins with one of * & ! % @ ` needs quotes"
        return _refused(origin, f"{where}{what}{hint}")
    except yaml.YAMLError:
        return _refused(origin, "is no YAML text: it holds characters that YAML does not allow")
    except RecursionError:
        return _refused(origin, "is nested too deeply")
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        return _refused(origin, "must be a mapping of settings, such as `clusters: [...]`")
    if _too_deep(tree, _DEEPEST):
        return _refused(origin, "is nested too deeply")
    return Layer(_with_text_keys(tree), {}, ())


class TooMuchError(Exception):
    """Aliases that stand for more than is read, or for what they stand in."""


def loaded(text: str) -> Any:  # noqa: ANN401 -- a YAML tree is anything
    """The tree of a text. Raises yaml.YAMLError, RecursionError and TooMuchError, before anything is made."""
    if beyond := excess(text, _DEEPEST + 2, MOST_NODES):  # first: PyYAML's own parser takes far longer
        raise TooMuchError(beyond)
    loader = _Texts(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _bounded(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _bounded(root: yaml.Node) -> None:
    """Raise TooMuchError for a graph that is no tree of ``MOST_NODES``; ConstructorError for a tag."""
    sizes: dict[yaml.Node, int | None] = {}  # None while what is in it is counted
    waiting = [root]
    while waiting:
        node = waiting[-1]
        children = _children(node)
        if node not in sizes:
            sizes[node] = None
            for child in children:
                if child in sizes and sizes[child] is None:
                    raise TooMuchError("has an alias of what it stands in")
            waiting += [child for child in children if child not in sizes]
            continue
        waiting.pop()
        if sizes[node] is None:
            sizes[node] = size = 1 + sum(sizes[child] or 0 for child in children)
            if size > MOST_NODES:
                raise TooMuchError(f"has more than {MOST_NODES} nodes, those of aliases counted")


def _children(node: yaml.Node) -> list[yaml.Node]:
    if node.tag not in _TAGS[type(node)]:
        raise yaml.constructor.ConstructorError(None, None, "a tag is not known here", node.start_mark)
    if isinstance(node, yaml.ScalarNode) and "\0" in node.value:  # no path, name or secret has one
        raise yaml.constructor.ConstructorError(None, None, "a text has a NUL in it", node.start_mark)
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _refused(origin: str, text: str) -> Layer:
    return Layer({}, {}, (Problem((), text, origin),))


def _too_deep(value: object, left: int) -> bool:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return left == 0 or any(_too_deep(child, left - 1) for child in children)


def _with_text_keys(value: Any) -> Any:  # noqa: ANN401 -- a YAML tree is anything
    if isinstance(value, dict):
        return {
            ("" if key is None else without_surrogates(str(key))): _with_text_keys(child)
            for key, child in value.items()
        }
    if isinstance(value, list):
        return [_with_text_keys(child) for child in value]
    return without_surrogates(value) if isinstance(value, str) else value
