"""Documents for programs, made of facts."""

from __future__ import annotations

from typing import TypeVar, cast

from exporter.core.durations import instant
from exporter.model import TopicPartition

D = TypeVar("D")


def document_of(kind: type[D], fact: object, **others: object) -> D:
    """Return a document of this TypedDict: ``others`` by key, and the fields of the fact under their own names.

    An instant of the fact is Unix seconds as ``NAME_timestamp``, and as ``NAME`` beside that a text. A set becomes a
    sorted list, a tuple a list, and a partition an object. Raises AttributeError for a key that is neither.
    """
    keys = kind.__annotations__

    def value(key: str) -> object:
        if key in others:
            return others[key]
        if f"{key}_timestamp" in keys:
            return instant(cast("float | None", value(f"{key}_timestamp")))
        return _plain(getattr(fact, key.removesuffix("_timestamp")))

    return cast("D", {key: value(key) for key in keys})


def _plain(value: object) -> object:
    if isinstance(value, TopicPartition):
        return value._asdict()
    if isinstance(value, frozenset):
        return sorted(value)
    return list(map(_plain, value)) if isinstance(value, tuple) else value
