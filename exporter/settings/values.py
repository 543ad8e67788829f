"""Forms of settings: durations, sizes, patterns, addresses, paths, secrets, Kafka's properties.

Each has a sentence for a wrong text, with what to write instead. A value is repeated only where it cannot be a secret.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path as FilePath
from typing import Annotated
from urllib.parse import urlsplit

from exporter.bounds.patterns import BoundedPattern
from exporter.core.durations import LONGEST_DURATION, format_duration, parse_duration
from exporter.kafka.properties.client import Properties, PropertiesError
from exporter.settings.reading import SettingError, ValueForm

DEFAULT_PORT = 10618


def split_address(address: str) -> tuple[str, int]:
    """Host and port of a listen address in Prometheus's form: ``127.0.0.1:9090``, ``[::1]:9090``, ``:9090`` (host "").

    Raises ValueError, whose text is what to write instead.
    """
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\[\]:/\s]*)):([0-9]{1,5})", address.strip())
    if match is None or int(match[3]) > 65535:
        raise ValueError(f"is no address; write HOST:PORT, [IPV6]:PORT or :PORT, such as 127.0.0.1:{DEFAULT_PORT}")
    return match[1] or match[2] or "", int(match[3])


def is_loopback(host: str) -> bool:
    """Return whether the name or address always means this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _seconds(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError("must be a duration such as 30s")  # noqa: TRY004 -- as for every value
    try:
        seconds = parse_duration(value)
    except ValueError as error:
        raise ValueError(f"{value!r:.40} {error}") from None
    if seconds <= 0:
        raise ValueError("must be longer than nothing, such as 30s")
    if seconds > LONGEST_DURATION:
        raise ValueError("must be 100y or less")
    return seconds


_SIZE = re.compile("([0-9]{1,9}) ?(kB|MB|GB|KiB|MiB|GiB|Ki|Mi|Gi)")
_SIZES = {"kB": 1000, "MB": 1000**2, "GB": 1000**3, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


def bytes_of(value: object) -> int:
    """Return a size such as ``64MiB`` in bytes. Raises ValueError."""
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("must be a size such as 64MiB")
    size = int(match[1]) * (_SIZES.get(match[2]) or _SIZES[f"{match[2]}B"])
    if size < _SIZES["MiB"]:
        raise ValueError("must be 1MiB or more")
    return size


def _size_text(size: int) -> str:
    """A form that is read back, of the largest unit of which there is a whole number, 1024s first."""
    unit = next((unit for unit in ("GiB", "MiB", "KiB", "MB") if size % _SIZES[unit] == 0), "kB")
    return f"{size // _SIZES[unit]}{unit}"


def _pattern(value: str) -> str:
    BoundedPattern(value, "")
    return value


def _application_pattern(value: str) -> str:
    if "application" not in BoundedPattern(_pattern(value), "").groups:
        raise ValueError("needs a group of this name: (?P<application>...), as in ^(?P<application>billing)-.*")
    return value


def one_or_more(value: object) -> object:
    """A single text where a list is meant."""
    return [value] if isinstance(value, str) else value


def local_path(value: object) -> object:
    """A path on this machine; one of an object store or of HDFS is refused."""
    if isinstance(value, str) and (match := re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/", value)):
        if match[1].lower() != "file":
            raise ValueError(
                f"is on {match[1]}, and only local and mounted paths are read: mount it, or use the listener"
            )
        return "/" + value[match.end() :].lstrip("/")
    return value


def _address(value: str) -> str:
    try:
        split_address(value)
    except ValueError as error:
        raise ValueError(f"{value!r:.60} {error}") from None
    return value.strip()


def _host(value: str) -> str:
    host = value.strip().lower().rstrip(".")
    if host != "*" and not re.fullmatch(r"\[[0-9a-f:.]+\]|[0-9a-f]*:[0-9a-f:.]+|[a-z0-9._-]{1,255}", host):
        raise ValueError(
            f"{value!r:.60} is no host name or address; leave out scheme, port and path, as in eos.example.com"
        )
    return host.strip("[]")


def _prefix(value: str) -> str:
    stripped = "/" + value.strip("/")
    if not re.fullmatch(r"/[A-Za-z0-9._~/-]*", stripped) or "//" in stripped:
        raise ValueError("must be a path such as /eos")
    return "" if stripped == "/" else stripped


def _url(value: str) -> str:
    """An address without credentials. A message never repeats the value: it may hold a secret."""
    try:
        parts = urlsplit(value.strip())
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_is_fine = urlsplit(""), False
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port_is_fine:
        raise ValueError("must be an address such as http://127.0.0.1:8778/jolokia")
    if "@" in parts.netloc:
        raise ValueError("must not hold credentials: set username and password_file beside it")
    if parts.query or parts.fragment:
        raise ValueError("must be without ? and #")
    return value.strip().rstrip("/")


def _properties(value: object) -> Properties:
    if not isinstance(value, dict):
        text = "must be a mapping of Kafka properties, such as bootstrap.servers: kafka-1:9092"
        raise ValueError(text)  # noqa: TRY004 -- as for every value
    try:
        return Properties.parse(value)
    except PropertiesError as error:
        raise SettingError(*(((name,), text) for name, text in error.problems)) from None


def _readable(properties: Properties) -> dict[str, str]:
    """Values that can be read back: a secret from a file as its path, other secrets redacted."""
    shown = dict(properties.items())
    for name, file in properties.secret_files.items():
        for made in ("sasl.username", "sasl.password") if name == "sasl.jaas.config" else (name,):
            shown.pop(made, None)
        shown[f"{name}.file"] = file
    return shown


def not_empty(value: tuple[object, ...]) -> tuple[object, ...]:
    """A list with something in it. Raises ValueError."""
    if not value:
        raise ValueError("must not be empty")
    return value


def text(shortest: int = 0, longest: int = 200) -> ValueForm:
    """The form of a text of so many characters."""

    def checked(value: str) -> str:
        if len(value) < shortest:
            raise ValueError("must not be empty")
        if len(value) > longest:
            raise ValueError(f"must have at most {longest} characters")
        return value

    return ValueForm(after=checked)


def at_least(least: int) -> ValueForm:
    """The form of a number from ``least`` on."""

    def checked(value: int) -> int:
        if value < least:
            raise ValueError(f"must be {least} or more")
        return value

    return ValueForm(after=checked)


ONE_OR_MORE = ValueForm(before=one_or_more)
LOWER = ValueForm(before=lambda value: value.lower() if isinstance(value, str) else value)
Name = Annotated[str, text()]
NotEmpty = Annotated[str, text(1, 1_000_000)]
Count = Annotated[int, at_least(0)]
Duration = Annotated[float, ValueForm(before=_seconds, write=format_duration)]
"""In seconds."""
Size = Annotated[int, ValueForm(before=bytes_of, write=_size_text)]
"""In bytes."""
Secret = Annotated[str, ValueForm(write=lambda secret: "[hidden]" if secret else "")]
"""Its field has ``repr=False``."""
Pattern = Annotated[str, ValueForm(after=_pattern)]
Patterns = Annotated[tuple[Pattern, ...], ONE_OR_MORE]
ApplicationRegex = Annotated[str, ValueForm(after=_application_pattern)]
Addresses = Annotated[
    tuple[Annotated[str, ValueForm(after=_address)], ...], ValueForm(before=one_or_more, after=not_empty)
]
Hosts = Annotated[tuple[Annotated[str, ValueForm(after=_host)], ...], ONE_OR_MORE]
Prefix = Annotated[str, ValueForm(after=_prefix)]
Url = Annotated[str, ValueForm(after=_url)]
Urls = Annotated[tuple[Url, ...], ONE_OR_MORE]
LocalPath = Annotated[FilePath, ValueForm(before=local_path)]
Paths = Annotated[tuple[FilePath, ...], ONE_OR_MORE]
KafkaProperties = Annotated[
    Properties, ValueForm(before=_properties, write=_readable, missing="is required, with at least bootstrap.servers")
]
