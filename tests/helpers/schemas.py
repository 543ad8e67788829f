"""Documents held against the published JSON Schemas of docs/schemas."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

FOLDER = Path(__file__).parents[2] / "docs" / "schemas"


def conform(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document as its readers get it. Raises ValidationError where the schema does not have it like this.

    A key that the schema does not name is an error here: readers may ignore it, but it is not documented.
    """
    written: dict[str, Any] = json.loads(json.dumps(document))
    _validator(name).validate(written)
    return written


@functools.cache
def _validator(name: str) -> Draft202012Validator:
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(_closed(schema))


def _closed(schema: Any) -> Any:
    """The schema without room for other keys."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    return {**closed, "additionalProperties": False} if "properties" in schema else closed
