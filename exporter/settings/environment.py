"""The settings in ``KAFKA_EOS_...`` variables of the environment, and those of flags, as layers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from exporter.settings.layers import (
    ENVIRONMENT_PREFIX,
    LIST,
    PROPERTIES,
    TEXT,
    Layer,
    Path,
    Problem,
    Shape,
    Tree,
    did_you_mean,
    dotted,
    merged,
    shown_key,
)
from exporter.settings.removed import removed_setting
from exporter.settings.yaml_file import loaded

# Kubernetes puts such variables into every pod of a namespace for a Service kafka-eos, or whose name begins so.
_SERVICE_LINK = re.compile(
    r"(\w{1,63}_)?(SERVICE_HOST|SERVICE_PORT(_\w{1,15})?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)


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
        if rest == name or ("__" not in rest and _SERVICE_LINK.fullmatch(rest)):
            continue
        steps = rest.split("__")
        try:
            path, leaf = _resolve(steps, shape)
        except KeyError as unknown:
            problems.append(Problem((), str(unknown.args[0]), shown_key(name)))
            continue
        if whole := next((origins[path[:end]] for end in range(1, len(path)) if path[:end] in origins), ""):
            problems.append(Problem((), f"{whole} is set, too, and means the whole section: keep one", shown_key(name)))
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
            if removed := removed_setting((*path, step.lower())):
                raise KeyError(f"{dotted((*path, step.lower()))} {removed}")
            place = f" in {dotted(path)}" if path else ""
            hint = did_you_mean(step, shape)
            raise KeyError(f"unknown variable: no key {shown_key(step.lower())}{place}; {hint}")
        else:
            path, shape = (*path, step.lower()), shape[step.lower()]
    if not isinstance(shape, str) or shape == PROPERTIES:
        raise KeyError(f"names no single key: {dotted(path)} is a whole section; go on with __ and a key of it")
    return path, shape


def _variable(path: Path) -> str:
    return ENVIRONMENT_PREFIX + "__".join(str(step).upper() for step in path)


def _texts(value: str) -> object:
    """A YAML list in brackets, else the text itself: an IPv6 address such as [::1]:10618 begins with a bracket too."""
    if value.lstrip().startswith("["):
        try:
            parsed = loaded(value)
        except (yaml.YAMLError, RecursionError):
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


def from_flags(flags: Mapping[Path, tuple[str, object]], clusters: int) -> Layer:
    """The settings of flags, each by its path with the flag and its value, where so many clusters are configured.

    A path ``("clusters", "lso", ...)`` without a number means every cluster.
    """
    tree: Tree = {}
    origins: dict[Path, str] = {}
    problems: list[Problem] = []
    for path, (flag, value) in flags.items():
        if path[0] != "clusters":
            targets = [path]
        elif clusters > 1 and path[1:2] in {("name",), ("kafka",)}:
            problems.append(Problem((), f"means one cluster, and {clusters} are configured: set it in the file", flag))
            continue
        else:
            targets = [("clusters", at, *path[1:]) for at in range(max(1, clusters))]
        for target in targets:
            origins[target] = flag
            tree = merged(tree, _branch(target, value))
    return Layer(tree, origins, tuple(problems))


def _branch(path: Path, value: object) -> Any:  # noqa: ANN401 -- a tree of settings is anything
    for step in reversed(path):
        value = [*([None] * step), value] if isinstance(step, int) else {step: value}
    return value
