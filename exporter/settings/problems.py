"""Validation errors of pydantic as sentences, with the path and the nearest known key."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from exporter.kafka.properties.client import Properties
from exporter.settings.layers import LIST, PROPERTIES, TEXT, Path, Problem, Shape, did_you_mean
from exporter.settings.removed import removed_setting

_WORDS = {
    "missing": "is required",
    "model_type": "must be a section: a mapping of keys",
    "tuple_type": "must be a list",
    "string_type": "must be a text",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "path_type": "must be a path",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be a section: a mapping of keys",
}


def problem_of(details: Any, model: type[BaseModel], origins: Mapping[Path, str]) -> Problem:  # noqa: ANN401 -- pydantic's ErrorDetails
    """One error of ``model``'s validation, with the origin of the nearest setting that has one."""
    path: Path = tuple(details["loc"])
    kind, context = details["type"], details.get("ctx", {})
    if kind == "extra_forbidden":
        text = removed_setting(path) or f"unknown key; {did_you_mean(str(path[-1]), _known(model, path[:-1]))}"
    elif kind == "literal_error":
        text = f"must be one of {context['expected']}"
    elif kind == "greater_than_equal":
        text = f"must be {context['ge']} or more"
    elif kind == "too_short":
        text = "must not be empty"
    else:
        text = _WORDS.get(kind) or str(details["msg"])
    origin = next((origins[path[:end]] for end in range(len(path), -1, -1) if path[:end] in origins), "")
    return Problem(path, text, origin)


def _known(model: type[BaseModel], path: Path) -> tuple[str, ...]:
    shape: Shape = shape_of(model)
    for step in path:
        if isinstance(shape, tuple):
            shape = shape[0]
        elif not isinstance(shape, str):
            shape = shape[str(step)]
    return () if isinstance(shape, str) else tuple(filter(None, map(str, shape)))


def shape_of(model: type[BaseModel]) -> Mapping[str, Shape]:
    """The keys of a section and what each may hold, for the environment and for the hints on unknown keys."""
    keys = {name: _shape_of(info.annotation) for name, info in model.model_fields.items()}
    return {"": TEXT, **keys} if getattr(model, "written_as_text", False) else keys


def _shape_of(annotation: Any) -> Shape:  # noqa: ANN401 -- an annotation is anything
    if annotation is Properties:
        return PROPERTIES
    if get_origin(annotation) is UnionType:
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return shape_of(annotation)
    if get_origin(annotation) is tuple:
        item = get_args(annotation)[0]
        return (shape_of(item),) if isinstance(item, type) and issubclass(item, BaseModel) else LIST
    return TEXT
