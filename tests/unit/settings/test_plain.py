"""The dataclasses of the settings have the keys and types of the sections that are checked."""

from __future__ import annotations

import types
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel, SecretStr

from exporter.settings.plain import Config
from exporter.settings.root import ConfigSection
from exporter.settings.values import Section
from exporter.settings.web_file import WebFileSection
from exporter.web_server.config import WebSettings


def checked(annotation: Any) -> Any:
    """The form of a checked value: sections as their keys, texts that are secrets as texts."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {name: checked(info.annotation) for name, info in annotation.model_fields.items()}
    return form(annotation, checked)


def plain(annotation: Any) -> Any:
    if is_dataclass(annotation) and annotation.__module__ != "exporter.kafka.properties.client":
        return {name: plain(hint) for name, hint in get_type_hints(annotation).items()}
    return form(annotation, plain)


def form(annotation: Any, inner: Any) -> Any:
    origin = get_origin(annotation)
    if hasattr(annotation, "__metadata__"):
        return inner(annotation.__origin__)
    if origin in {Union, types.UnionType}:
        return "optional", *(inner(argument) for argument in get_args(annotation) if argument is not type(None))
    if origin is tuple:
        return "several", inner(get_args(annotation)[0])
    if origin is not None and isinstance(origin, type) and issubclass(origin, types.MappingProxyType | dict):
        return "mapping", *map(inner, get_args(annotation))
    if str(annotation).startswith("collections.abc.Mapping"):
        return "mapping", *map(inner, get_args(annotation))
    return str if annotation is SecretStr else annotation


def test_the_dataclasses_have_the_keys_and_types_of_the_sections() -> None:
    assert plain(Config) == checked(ConfigSection)


def test_the_dataclasses_of_the_web_config_have_the_keys_and_types_of_its_sections() -> None:
    assert plain(WebSettings) == checked(WebFileSection) | {"with_tls": bool}


def test_a_type_that_differs_is_found() -> None:
    class OtherSection(Section):
        dir: Path = Path()

    assert checked(OtherSection) != plain(get_type_hints(Config)["state"])


@pytest.mark.parametrize("name", ["token", "password"])
def test_a_secret_is_not_in_the_repr(name: str) -> None:
    kind = get_type_hints(Config)["ingest" if name == "token" else "connect"]
    kind = kind if is_dataclass(kind) else get_args(kind)[0]
    assert not kind.__dataclass_fields__[name].repr
