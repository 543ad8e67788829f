"""Types of settings: durations, patterns, addresses, paths, Kafka's properties.

Each type has a sentence for a wrong text, with what to write instead. A value is repeated only where it cannot be a
secret.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from exporter.bounds.patterns import BoundedPattern, PatternError
from exporter.core.durations import LONGEST_DURATION, format_duration, parse_duration
from exporter.kafka.properties.client import Properties, PropertiesError
from exporter.settings.addresses import split_address


class Section(BaseModel):
    """A part of the settings: frozen, and without unknown keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        validate_default=False,
        arbitrary_types_allowed=True,
        defer_build=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _empty_is_default(cls, value: object) -> object:
        """A known key without a value (``exclude:``) means its default, as operators who comment out a line expect."""
        if not isinstance(value, dict):
            return value
        return {key: child for key, child in value.items() if child is not None or key not in cls.model_fields}


def wrong(text: str) -> PydanticCustomError:
    """A problem with a setting, in a sentence that holds no secret; to be raised in a validator."""
    return PydanticCustomError("setting", "{text}", {"text": text})


def _seconds(value: object) -> float:
    if not isinstance(value, str):
        raise wrong("must be a duration such as 30s")
    try:
        seconds = parse_duration(value)
    except ValueError as error:
        raise wrong(f"{value!r:.40} {error}") from None
    if seconds <= 0:
        raise wrong("must be longer than nothing, such as 30s")
    if seconds > LONGEST_DURATION:
        raise wrong("must be 100y or less")
    return seconds


_SIZE = re.compile("([0-9]{1,9}) ?(kB|MB|GB|KiB|MiB|GiB|Ki|Mi|Gi)")
_SIZES = {"kB": 1000, "MB": 1000**2, "GB": 1000**3, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


def bytes_of(value: object) -> int:
    """Return a size such as ``64MiB`` in bytes. Raises ValueError."""
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise wrong("must be a size such as 64MiB")
    size = int(match[1]) * (_SIZES.get(match[2]) or _SIZES[f"{match[2]}B"])
    if size < _SIZES["MiB"]:
        raise wrong("must be 1MiB or more")
    return size


def _size_text(size: int) -> str:
    """A form that is read back, of the largest unit of which there is a whole number, 1024s first."""
    unit = next((unit for unit in ("GiB", "MiB", "KiB", "MB") if size % _SIZES[unit] == 0), "kB")
    return f"{size // _SIZES[unit]}{unit}"


def _pattern(value: str) -> str:
    try:
        BoundedPattern(value, "")
    except PatternError as error:
        raise wrong(str(error)) from None
    return value


def _application_pattern(value: str) -> str:
    if "application" not in BoundedPattern(_pattern(value), "").groups:
        raise wrong("needs a group of this name: (?P<application>...), as in ^(?P<application>billing)-.*")
    return value


def one_or_more(value: object) -> object:
    """A single text where a list is meant."""
    return [value] if isinstance(value, str) else value


def local_path(value: object) -> object:
    """A path on this machine; one of an object store or of HDFS is refused."""
    if isinstance(value, str) and (match := re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/", value)):
        if match[1].lower() != "file":
            raise wrong(f"is on {match[1]}, and only local and mounted paths are read: mount it, or use the listener")
        return "/" + value[match.end() :].lstrip("/")
    return value


def _address(value: str) -> str:
    try:
        split_address(value)
    except ValueError as error:
        raise wrong(f"{value!r:.60} {error}") from None
    return value.strip()


def _host(value: str) -> str:
    host = value.strip().lower().rstrip(".")
    if host != "*" and not re.fullmatch(r"\[[0-9a-f:.]+\]|[0-9a-f]*:[0-9a-f:.]+|[a-z0-9._-]{1,255}", host):
        raise wrong(f"{value!r:.60} is no host name or address; leave out scheme, port and path, as in eos.example.com")
    return host.strip("[]")


def _prefix(value: str) -> str:
    stripped = "/" + value.strip("/")
    if not re.fullmatch(r"/[A-Za-z0-9._~/-]*", stripped) or "//" in stripped:
        raise wrong("must be a path such as /eos")
    return "" if stripped == "/" else stripped


def _properties(value: object) -> Properties:
    if isinstance(value, Properties):
        return value
    if not isinstance(value, dict):
        raise wrong("must be a mapping of Kafka properties, such as bootstrap.servers: kafka-1:9092")
    try:
        return Properties.parse(value)
    except PropertiesError as error:
        raise ValidationError.from_exception_data(
            "kafka",
            [InitErrorDetails(type=wrong(text), loc=(name,), input=None) for name, text in error.problems],
            hide_input=True,
        ) from None


def _readable(properties: Properties) -> dict[str, str]:
    """Values that can be read back: a secret from a file as its path, other secrets redacted."""
    shown = dict(properties.items())
    for name, file in properties.secret_files.items():
        for made in ("sasl.username", "sasl.password") if name == "sasl.jaas.config" else (name,):
            shown.pop(made, None)
        shown[f"{name}.file"] = file
    return shown


Duration = Annotated[float, BeforeValidator(_seconds), PlainSerializer(format_duration)]
Size = Annotated[int, BeforeValidator(bytes_of), PlainSerializer(_size_text)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Patterns = Annotated[tuple[Pattern, ...], BeforeValidator(one_or_more)]
Address = Annotated[str, AfterValidator(_address)]
Count = Annotated[int, Field(ge=0)]
Lower = BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value)


Prefix = Annotated[str, AfterValidator(_prefix)]
ApplicationRegex = Annotated[str, AfterValidator(_application_pattern)]
Hosts = Annotated[tuple[Annotated[str, AfterValidator(_host)], ...], BeforeValidator(one_or_more)]
Addresses = Annotated[tuple[Address, ...], BeforeValidator(one_or_more), Field(min_length=1)]
KafkaProperties = Annotated[Properties, BeforeValidator(_properties), PlainSerializer(_readable)]
