"""Foreign YAML as texts, lists and mappings: no types, no tags, and a limit of depth and nodes."""

from __future__ import annotations

from typing import Any

import yaml

from exporter.bounds.text import without_surrogates

MOST_NODES = 100_000
"""Nodes of one document, of 450 bytes each while they are composed."""
MOST_DEPTH = 64

_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # ten times faster; not every build of PyYAML has it


class YamlError(ValueError):
    """The text is no YAML, or more of it than is parsed. The text is the end of a sentence, without its content."""


class _TextLoader(_LOADER):  # type: ignore[misc, valid-type]  # one of two
    """Scalars are the texts that were written."""

    def construct_scalar(self, node: yaml.ScalarNode) -> str:
        return without_surrogates(super().construct_scalar(node))


def parse_yaml(text: str) -> Any:  # noqa: ANN401 -- a YAML tree is anything
    """The tree of one document. Raises YamlError. An alias is the node itself: do not walk a graph."""
    if problem := excess(text, MOST_DEPTH, MOST_NODES):  # first: libyaml composes by recursion
        raise YamlError(problem)
    try:
        return yaml.load(text, Loader=_TextLoader)  # noqa: S506 -- it makes texts, lists and mappings only
    except (yaml.YAMLError, ValueError, RecursionError):
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
