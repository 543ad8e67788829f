"""From a tree of texts to frozen dataclasses by their types, with every problem, and back to a tree without secrets.

A section is a frozen dataclass: its fields are its keys, and the text below a field is its row in
docs/configuration.md. ``Annotated`` gives a field the ``ValueForm`` in which its value is written. What the keys of a
section mean together is checked by its method ``contradictions``, which yields pairs of a path below the section and
the end of a sentence.

No library does this: msgspec stops at the first problem, its sentences repeat values, and it takes 8 MB.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path as FilePath
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from exporter.kafka.properties.client import Properties
from exporter.settings.layers import LIST, PROPERTIES, TEXT, Path, Problem, Shape, did_you_mean
from exporter.settings.removed import removed_setting

T = TypeVar("T")

Contradiction: TypeAlias = tuple[Path, str]
"""A path below a section, and the end of a sentence that holds no secret."""

_SWITCH = {
    **dict.fromkeys(("true", "yes", "on", "y", "t", "1"), True),
    **dict.fromkeys(("false", "no", "off", "n", "f", "0"), False),
}
_WORDS = {
    str: "must be a text",
    int: "must be a whole number",
    bool: "must be true or false",
    FilePath: "must be a path",
}
_NO_SECTION = "must be a section: a mapping of keys"


class SettingError(ValueError):
    """A value with several problems: each a path below it, and the end of a sentence that holds no secret."""

    def __init__(self, *problems: Contradiction) -> None:
        super().__init__("; ".join(text for _, text in problems))
        self.problems = problems


def _same(value: Any) -> Any:  # noqa: ANN401 -- a value is anything
    return value


class ValueForm(NamedTuple):
    """How a setting is written: ``before`` makes what its type is read from, ``after`` takes and returns its value.

    Both may raise ValueError, whose text is the end of a sentence that holds no secret. ``write`` makes what is
    printed. ``missing`` is the problem where a required key is missing.
    """

    before: Callable[[Any], Any] = _same
    after: Callable[[Any], Any] = _same
    write: Callable[[Any], Any] = _same
    missing: str = "is required"


class Key(NamedTuple):
    """A key of a section; ``default`` is ``dataclasses.MISSING`` where it is required."""

    annotation: Any
    default: Any


def read(kind: type[T], tree: object, origins: Mapping[Path, str]) -> tuple[T | None, tuple[Problem, ...]]:
    """Return the section that the tree means, None where it has a problem, and every problem. Never raises.

    ``origins`` are where settings come from: a problem has that of the nearest setting at or above it.
    """
    reader = _TreeReader()
    value = reader.value(kind, tree, ())
    problems = tuple(Problem(path, text, _origin(path, origins)) for path, text in reader.problems)
    return None if problems else cast("T", value), problems


def written(section: object) -> Any:  # noqa: ANN401 -- a tree of settings is anything
    """Return the tree that is read back as this section, secrets redacted."""
    return _written(type(section), section)


@cache
def keys_of(kind: type) -> Mapping[str, Key]:
    """Return the keys of a section by name, in the order of their declaration."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        field.name: Key(
            hints[field.name], field.default if field.default_factory is MISSING else field.default_factory()
        )
        for field in fields(kind)
    }


def form_of(annotation: Any) -> tuple[Any, ValueForm]:  # noqa: ANN401 -- an annotation is anything
    """Return the type of an annotation, without ``| None``, and its form."""
    if get_origin(annotation) in {UnionType, Union}:
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    if get_origin(annotation) is not Annotated:
        return annotation, ValueForm()
    kind, *metadata = get_args(annotation)
    return form_of(kind)[0], next((form for form in metadata if isinstance(form, ValueForm)), ValueForm())


def section_of(annotation: Any) -> type | None:  # noqa: ANN401 -- an annotation is anything
    """Return the section that a key holds, alone or in a list."""
    kind, _ = form_of(annotation)
    inner = get_args(kind)[0] if get_origin(kind) is tuple else kind
    return inner if is_dataclass(inner) and isinstance(inner, type) and inner is not Properties else None


def shape_of(kind: type) -> Mapping[str, Shape]:
    """Return the keys of a section and what each may hold, for the environment."""
    return {name: _shape_of(key.annotation) for name, key in keys_of(kind).items()}


def _shape_of(annotation: Any) -> Shape:  # noqa: ANN401 -- as above
    kind, _ = form_of(annotation)
    section, several = section_of(annotation), get_origin(kind) is tuple
    if section is not None:
        return (shape_of(section),) if several else shape_of(section)
    return PROPERTIES if kind is Properties else LIST if several else TEXT


def _origin(path: Path, origins: Mapping[Path, str]) -> str:
    return next((origins[path[:end]] for end in range(len(path), -1, -1) if path[:end] in origins), "")


class _TreeReader:
    """Reads values, and collects problems. A value that is returned after a problem means nothing."""

    def __init__(self) -> None:
        self.problems: list[Contradiction] = []

    def value(self, annotation: Any, value: Any, path: Path) -> Any:  # noqa: ANN401 -- a value is anything
        kind, form = form_of(annotation)
        count = len(self.problems)
        for step in (form.before, lambda value: self._typed(kind, value, path), form.after):
            try:
                value = step(value)
            except SettingError as error:
                self.problems += [((*path, *below), text) for below, text in error.problems]
            except ValueError as error:
                self.problems.append((path, str(error)))
            if len(self.problems) > count:
                break
        return value

    def _typed(self, kind: Any, value: Any, path: Path) -> Any:  # noqa: ANN401 -- as above
        """Raises ValueError."""
        origin, inner = get_origin(kind), get_args(kind)
        if origin is tuple:
            if not isinstance(value, list):
                raise ValueError("must be a list")
            return tuple(self.value(inner[0], item, (*path, at)) for at, item in enumerate(value))
        if origin is Mapping:
            if not isinstance(value, dict):
                raise ValueError(_NO_SECTION)
            return {key: self.value(inner[1], item, (*path, key)) for key, item in value.items()}
        if origin is Literal:
            if value not in inner:
                *others, last = map(repr, inner)
                raise ValueError(f"must be one of {', '.join(others)} or {last}")
            return value
        if isinstance(value, kind):
            return value
        return self._section(kind, value, path) if is_dataclass(kind) else _scalar(kind, value)

    def _section(self, kind: Any, tree: object, path: Path) -> object:  # noqa: ANN401 -- as above
        if not isinstance(tree, dict):
            raise ValueError(_NO_SECTION)  # noqa: TRY004 -- as for every value
        count = len(self.problems)
        keys, values = keys_of(kind), {}
        for name, key in keys.items():
            # A key without a value (``exclude:``) means its default, as whoever comments out a line expects.
            if tree.get(name) is not None:
                values[name] = self.value(key.annotation, tree[name], (*path, name))
            elif key.default is MISSING:
                self.problems.append(((*path, name), form_of(key.annotation)[1].missing))
        for name in (name for name in tree if name not in keys):
            text = removed_setting((*path, name)) or f"unknown key; {did_you_mean(name, keys)}"
            self.problems.append(((*path, name), text))
        if len(self.problems) > count:
            return None
        section = kind(**values)
        contradictions = getattr(section, "contradictions", tuple)
        self.problems += [((*path, *below), text) for below, text in contradictions()]
        return cast("object", section)


def _scalar(kind: Any, value: object) -> object:  # noqa: ANN401 -- as above
    """Raises ValueError."""
    if isinstance(value, str):
        if kind is FilePath:
            return FilePath(value)
        if kind is bool and value.lower() in _SWITCH:
            return _SWITCH[value.lower()]
        if kind is int and re.fullmatch("[+-]?[0-9]{1,18}", value.strip()):
            return int(value)
    raise ValueError(_WORDS[kind])


def _written(annotation: Any, value: Any) -> Any:  # noqa: ANN401 -- as above
    kind, form = form_of(annotation)
    value = form.write(value)
    if is_dataclass(value):
        return {name: _written(key.annotation, getattr(value, name)) for name, key in keys_of(kind).items()}
    if isinstance(value, tuple):
        return [_written(get_args(kind)[0], item) for item in value]
    return str(value) if isinstance(value, FilePath) else value
