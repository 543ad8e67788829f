"""The settings in a YAML file, as a layer whose scalars are texts. The messages never quote the file."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import yaml

from exporter.bounds.text import without_surrogates
from exporter.settings.file_text import FileText
from exporter.settings.layers import Layer, Problem, shown_key

_DEEPEST = 20
MOST_NODES = 20_000
"""Nodes of one, those of aliases counted as often as they are named."""
_TAGS: Mapping[type[yaml.Node], frozenset[str]] = {
    yaml.ScalarNode: frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "null", "merge")),
    yaml.SequenceNode: frozenset({"tag:yaml.org,2002:seq"}),
    yaml.MappingNode: frozenset({"tag:yaml.org,2002:map"}),
}


class TooMuchError(yaml.YAMLError):
    """More than is read, as by aliases of aliases. The text is the end of a sentence."""


class _TwiceError(yaml.MarkedYAMLError):
    """A key is twice in one mapping: YAML would silently keep the last."""


class _Texts(yaml.SafeLoader):
    """YAML in which every scalar but null stays text, and no key may be there twice."""

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> str:
        return without_surrogates(str(super().construct_scalar(node)))

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise _TwiceError(None, None, f"the key {shown_key(key.value)} is here twice", key.start_mark)
                seen.add(key.value)
        found = super().construct_mapping(node, deep=deep)
        return {("" if key is None else key): value for key, value in found.items()}


_Texts.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if tag in _TAGS[yaml.ScalarNode]]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def layer_of(file: FileText) -> Layer:
    """Return the settings in a file. A fault of form is a problem with its line and column, never the line's text."""
    if file.problem:
        return _refused(file.origin, file.problem)
    try:
        tree = loaded(file.text)
    except TooMuchError as error:
        return _refused(file.origin, str(error))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        # Text in quotes is a piece of the file: an alias or a tag, and so possibly of a password.
        what = re.sub(r"'.*'", "…", error.problem or "cannot be read")
        hint = "" if isinstance(error, _TwiceError) else "; a value that begins with one of * & ! % @ ` needs quotes"
        return _refused(file.origin, f"{where}{what}{hint}")
    except yaml.YAMLError:
        return _refused(file.origin, "is no YAML text: it holds characters that YAML does not allow")
    except RecursionError:
        return _refused(file.origin, "is nested too deeply")
    if not isinstance(tree, dict | None):
        return _refused(file.origin, "must be a mapping of settings, such as `clusters: [...]`")
    return Layer(tree or {}, {}, ())


def loaded(text: str) -> Any:  # noqa: ANN401 -- a YAML tree is anything
    """The tree of a text. Raises yaml.YAMLError and RecursionError."""
    loader = _Texts(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        for each in _nodes(node):
            _check(each)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _nodes(root: yaml.Node) -> Iterator[yaml.Node]:
    """Every node, those of an alias as often as it is named. Raises TooMuchError, before anything is made of them."""
    count, waiting = 0, [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        count += 1
        if depth > _DEEPEST:
            raise TooMuchError("is nested too deeply")
        if count > MOST_NODES:
            raise TooMuchError(f"has more than {MOST_NODES} nodes, those of aliases counted")
        yield node
        if isinstance(node, yaml.MappingNode):
            waiting += [(child, depth + 1) for pair in node.value for child in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(child, depth + 1) for child in node.value]


def _check(node: yaml.Node) -> None:
    """Raises ConstructorError for what no setting is."""
    if node.tag not in _TAGS[type(node)]:
        raise yaml.constructor.ConstructorError(None, None, "a tag is not known here", node.start_mark)
    if isinstance(node, yaml.ScalarNode) and "\0" in node.value:  # no path, name or secret has one
        raise yaml.constructor.ConstructorError(None, None, "a text has a NUL in it", node.start_mark)


def _refused(origin: str, text: str) -> Layer:
    return Layer({}, {}, (Problem((), text, origin),))
