"""One tree of settings from a YAML file, the environment and flags, with the origin of each value.

Later layers override: defaults, then the file, then the environment, then flags. All scalars stay text, as they were
written, so that a password of ``0123`` or a name of ``on`` is not turned into a number or a boolean; the models of
``exporter.config`` interpret them. No message repeats a value, a line of the file, or an odd key in full: any of them
may be a secret.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import yaml

from exporter.bounds.text import printable
from exporter.bounds.yaml_text import excess

ENVIRONMENT_PREFIX = "KAFKA_EOS_"

Path: TypeAlias = tuple[str | int, ...]
Tree: TypeAlias = dict[Any, Any]

# The shape of a key: a section, a list of sections (a tuple of one shape), Kafka's dotted properties, a list of texts,
# a text. A section that may also be a single text has TEXT under the key "".
Shape: TypeAlias = "Mapping[str, Shape] | tuple[Shape] | str"
PROPERTIES, LIST, TEXT = "properties", "list", "text"

# Kubernetes puts such variables into every pod of a namespace for a Service whose name begins with kafka-eos-.
_SERVICE_LINK = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_DEEPEST = 20
MOST_BYTES = 1024 * 1024
"""Greatest file of settings. One of a hundred clusters has 100 kB."""
MOST_NODES = 20_000
"""Nodes of one, those of aliases counted as often as they are named."""


class Problem(NamedTuple):
    """One problem of the settings. ``text`` has what is wrong and what to write instead; it never holds a secret."""

    path: Path
    text: str
    origin: str = ""

    def __str__(self) -> str:
        where = dotted(self.path)
        origin = f" (from {self.origin})" if self.origin else ""
        return f"{where}{origin}: {self.text}" if where else f"{self.origin or 'config'}: {self.text}"


class ConfigError(Exception):
    """The settings cannot be used. ``problems`` are all of them, each with its path; none holds a secret."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


class Layer(NamedTuple):
    """Settings of one origin: the values, the origin of each, and what could not be read."""

    tree: Tree
    origins: Mapping[Path, str]
    problems: tuple[Problem, ...] = ()


def dotted(path: Path) -> str:
    """``("clusters", 0, "lso")`` as ``clusters[0].lso``; a key that may hold a secret is cut at the first odd sign."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{_shown(step)}" if text else _shown(step)
    return text


def did_you_mean(key: str, known: Iterable[str]) -> str:
    """The end of a sentence on an unknown key: the nearest known one, or all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(key.lower(), names, n=1)
    return f"did you mean {near[0]}?" if near else f"known here: {', '.join(names)}"


def _shown(key: str) -> str:
    match = _PLAIN_KEY.match(key)
    plain = match.group() if match else ""
    return plain if plain == key else f"{plain}…"


# --- The file ---------------------------------------------------------------------------------------------------------


class _TwiceError(yaml.MarkedYAMLError):
    """A key is twice in one mapping: YAML would silently keep the last."""


class _Texts(yaml.SafeLoader):
    """YAML in which every scalar but null stays text, and no key may be there twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise _TwiceError(None, None, f"the key {_shown(key.value)} is here twice", key.start_mark)
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


def from_yaml(text: str, origin: str) -> Layer:
    """The settings in a YAML text. A fault of form is a problem with its line and column, never the line's text."""
    if len(text) > MOST_BYTES:
        return _refused(origin, f"is larger than {MOST_BYTES // 1024} kB")
    try:
        tree = _loaded(text)
    except _TooMuchError as error:
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


class _TooMuchError(Exception):
    """Aliases that stand for more than is read, or for what they stand in."""


def _loaded(text: str) -> Any:  # noqa: ANN401 -- a YAML tree is anything
    """The tree of a text. Raises yaml.YAMLError, RecursionError and _TooMuchError, before anything is made."""
    if beyond := excess(text, _DEEPEST + 2, MOST_NODES):  # first: PyYAML's own parser takes far longer
        raise _TooMuchError(beyond)
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
    """Raise _TooMuchError for a graph that is no tree of ``MOST_NODES``; ConstructorError for a tag."""
    sizes: dict[yaml.Node, int | None] = {}  # None while what is in it is counted
    waiting = [root]
    while waiting:
        node = waiting[-1]
        children = _children(node)
        if node not in sizes:
            sizes[node] = None
            for child in children:
                if child in sizes and sizes[child] is None:
                    raise _TooMuchError("has an alias of what it stands in")
            waiting += [child for child in children if child not in sizes]
            continue
        waiting.pop()
        if sizes[node] is None:
            sizes[node] = size = 1 + sum(sizes[child] or 0 for child in children)
            if size > MOST_NODES:
                raise _TooMuchError(f"has more than {MOST_NODES} nodes, those of aliases counted")


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
        return {("" if key is None else printable(str(key))): _with_text_keys(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_with_text_keys(child) for child in value]
    return printable(value) if isinstance(value, str) else value


# --- The environment --------------------------------------------------------------------------------------------------


def from_environment(environ: Mapping[str, str], shape: Shape) -> Layer:
    """The settings in ``KAFKA_EOS_...`` variables: ``__`` separates levels, lists are counted from 0.

    A list of texts is either one text or a YAML list in brackets. Every variable with the prefix must be a known key,
    except those that Kubernetes makes for a Service.
    """
    tree: Tree = {}
    origins: dict[Path, str] = {}
    problems: list[Problem] = []
    for name in sorted(environ):
        rest = name.removeprefix(ENVIRONMENT_PREFIX)
        if rest == name or ("__" not in rest and _SERVICE_LINK.search(rest)):
            continue
        steps = rest.split("__")
        try:
            path, leaf = _resolve(steps, shape)
        except KeyError as unknown:
            problems.append(Problem((), str(unknown.args[0]), _shown(name)))
            continue
        if whole := next((origins[path[:end]] for end in range(1, len(path)) if path[:end] in origins), ""):
            problems.append(Problem((), f"{whole} is set, too, and means the whole section: keep one", _shown(name)))
            continue
        origins[path] = name
        _put(tree, path, _texts(environ[name]) if leaf == LIST else environ[name])
    return Layer(_lists(tree), origins, tuple(problems))


def _resolve(steps: Sequence[str], shape: Shape) -> tuple[Path, str]:
    """The path that the steps of a variable's name mean, and the shape at its end. Raises KeyError with a sentence."""
    path: Path = ()
    for at, step in enumerate(steps):
        if shape == PROPERTIES:
            return (*path, "_".join(steps[at:]).lower().replace("_", ".")), TEXT
        if isinstance(shape, tuple):
            if not re.fullmatch("[0-9]{1,3}", step):
                raise KeyError(f"{dotted(path)} is a list: a number from 0 comes next, as in {_variable(path)}__0")
            path, shape = (*path, int(step)), shape[0]
        elif isinstance(shape, str):
            raise KeyError(f"unknown variable: {dotted(path)} has no keys below it")
        elif step.lower() not in shape:
            place = f" in {dotted(path)}" if path else ""
            hint = did_you_mean(step, filter(None, shape))
            raise KeyError(f"unknown variable: no key {_shown(step.lower())}{place}; {hint}")
        else:
            path, shape = (*path, step.lower()), shape[step.lower()]
    if isinstance(shape, Mapping) and "" in shape:
        return path, TEXT
    if not isinstance(shape, str) or shape == PROPERTIES:
        raise KeyError(f"names no single key: {dotted(path)} is a whole section; go on with __ and a key of it")
    return path, shape


def _variable(path: Path) -> str:
    return ENVIRONMENT_PREFIX + "__".join(str(step).upper() for step in path)


def _texts(value: str) -> object:
    """A YAML list in brackets, else the text itself: an IPv6 address such as [::1]:10618 begins with a bracket too."""
    if value.lstrip().startswith("["):
        try:
            parsed = _loaded(value)
        except (yaml.YAMLError, _TooMuchError, RecursionError):
            return value
        return parsed if isinstance(parsed, list) else value
    return value


def _put(tree: Tree, path: Path, value: object) -> None:
    for step in path[:-1]:
        tree = tree.setdefault(step, {})
    tree[path[-1]] = value


def _lists(value: Any) -> Any:  # noqa: ANN401 -- a tree of settings is anything
    """Mappings by number become sparse lists: None where a number was left out, which ``merged`` fills from below."""
    if not isinstance(value, dict):
        return value
    if value and all(isinstance(key, int) for key in value):
        return [_lists(value.get(at)) for at in range(max(value) + 1)]
    return {key: _lists(child) for key, child in value.items()}


# --- All of them ------------------------------------------------------------------------------------------------------


def merged(below: Any, above: Any) -> Any:  # noqa: ANN401 -- a tree of settings is anything
    """``above`` laid over ``below``: mappings by key, lists of sections by place, everything else replaced."""
    if above is None:
        return below
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **{key: merged(below.get(key), child) for key, child in above.items()}}
    if isinstance(below, list) and isinstance(above, list) and any(isinstance(item, dict) for item in above):
        longest = max(len(below), len(above))
        pairs = ((below[at : at + 1], above[at : at + 1]) for at in range(longest))
        return [merged(*(side[0] if side else None for side in pair)) for pair in pairs]
    return above
