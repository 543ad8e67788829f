"""From a document of JSON values to frozen dataclasses, by their types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


class DocumentError(TypeError):
    """The document does not have the form of its class. The text has the place, never a value."""


def from_document(kind: type[T], document: object) -> T:
    """Return the ``kind`` that the document describes: a dataclass with all of its keys, and no other.

    Fields are texts, numbers, booleans, paths, literals, dataclasses, tuples and mappings of one type, or one of these
    or None. Raises DocumentError.
    """
    return cast("T", _made(kind, document, kind.__name__))


def _made(kind: Any, value: object, place: str) -> Any:  # noqa: ANN401 -- a type is anything
    if isinstance(kind, type) and is_dataclass(kind):
        types = _types(kind)
        if not isinstance(value, dict) or value.keys() != types.keys():
            raise DocumentError(f"{place}: other keys than those of {kind.__name__}")
        return kind(**{name: _made(of, value[name], f"{place}.{name}") for name, of in types.items()})
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        [of] = [annotation for annotation in inner if annotation is not type(None)]
        return None if value is None else _made(of, value, place)
    if origin is tuple and isinstance(value, list):
        return tuple(_made(inner[0], item, f"{place}[{at}]") for at, item in enumerate(value))
    if origin is Mapping and isinstance(value, dict):
        return {_made(inner[0], key, place): _made(inner[1], item, f"{place}.{key}") for key, item in value.items()}
    if origin is Literal and isinstance(value, str) and value in inner:
        return value
    if kind is Path and isinstance(value, str):
        return Path(value)
    if kind is float and type(value) in {int, float}:
        return float(cast("float", value))
    if kind in {str, int, bool} and type(value) is kind:
        return value
    raise DocumentError(f"{place}: no value of the type {kind}")


@cache
def _types(kind: type) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {entry.name: hints[entry.name] for entry in fields(kind)}
