"""View a settings file as its kind, and each producer and consumer in it by Kafka's canonical names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from exporter.linter import spring
from exporter.linter.files import Setting, table


class Client(StrEnum):
    """Whose settings a file holds."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    STREAMS = "streams"
    CONNECT_WORKER = "connect-worker"
    CONNECTOR = "connector"
    LIBRDKAFKA = "librdkafka"
    SPRING = "spring"
    FLINK = "flink"
    KSQLDB = "ksqldb"
    MIRRORMAKER = "mirrormaker"
    BROKER = "broker"


class Library(StrEnum):
    """Which client library reads a setting: defaults differ."""

    JAVA = "java"
    LIBRDKAFKA = "librdkafka"


Version = tuple[int, int]

_NAMES = table("names.toml")
_ALIASES: dict[str, str] = _NAMES["aliases"]


@dataclass(frozen=True, slots=True)
class View:
    """One client of a file. ``settings`` are those that were set, by canonical name, with the file's own line."""

    kind: Client
    library: Library
    version: Version
    settings: Mapping[str, Setting] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """The value that was set, stripped; None where it was not set."""
        setting = self.settings.get(name)
        return None if setting is None else setting.value.strip()

    def lower(self, name: str) -> str | None:
        """As ``text``, in lower case."""
        text = self.text(name)
        return None if text is None else text.lower()

    def milliseconds(self, name: str) -> int | None:
        """A duration or count that was set; None where it was not set or is no number (placeholders are not)."""
        text = self.text(name)
        if text is None:
            return None
        if re.fullmatch(r"-?\d{1,18}", text):
            return int(text)
        if match := _ISO.fullmatch(text.upper()):
            return sum(
                int(1000 * unit * float(number or 0)) for unit, number in zip(_ISO_UNITS, match.groups(), strict=True)
            )
        match = _DURATION.fullmatch(text.lower())
        return int(match[1]) * _UNITS[match[2]] if match and match[2] in _UNITS else None

    def milliseconds_or(self, name: str, default: int) -> int | None:
        """As ``milliseconds``, and the default where it was not set; None where what was set is not known."""
        return self.milliseconds(name) if self.settings.get(name) else default


@dataclass(frozen=True, slots=True)
class File:
    """A file as its clients. ``producers`` and ``consumers`` are those inside a Streams application, worker or job."""

    kind: Client
    main: View
    producers: tuple[View, ...] = ()
    consumers: tuple[View, ...] = ()


_DURATION = re.compile(r"(\d{1,12})\s{0,3}([a-zµ]{1,12})")
_UNITS = {  # Spring's DurationStyle.SIMPLE, and the labels of Flink's TimeUtils
    label: milliseconds
    for milliseconds, labels in {
        1: "ms milli millis millisecond milliseconds",
        1000: "s sec secs second seconds",
        60_000: "m min mins minute minutes",
        3_600_000: "h hour hours",
        86_400_000: "d day days",
    }.items()
    for label in labels.split()
}
_ISO = re.compile(r"P(?:(\d{1,5})D)?(?:T(?=\d)(?:(\d{1,6})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?")
_ISO_UNITS = (86_400, 3600, 60, 1)


_KINDS: dict[str, dict[str, list[str]]] = _NAMES["kinds"]
_BY_FILE = (("stream", Client.STREAMS), ("producer", Client.PRODUCER), ("consumer", Client.CONSUMER))
"""Words in the name of a file whose settings are those of any client."""


def _any(names: Iterable[str], known: Iterable[str]) -> bool:
    """Return whether any of the names is known; a known one that ends in ``*`` is a beginning."""
    known = set(known)
    begins = tuple(name[:-1] for name in known if name[-1] == "*")
    return any(name in known or name.startswith(begins) for name in names)


def kind_of(settings: Sequence[Setting], file: str = "") -> Client | None:
    """Whose settings these are, by the names in them, else by the name of the file; None where neither shows it."""
    names = {setting.name for setting in settings}
    for kind, own in _KINDS.items():
        mirrors = kind == Client.MIRRORMAKER and "clusters" in names and any("->" in name for name in names)
        # Consumers before Kafka 0.9 had zookeeper.connect as well, with their group.
        if mirrors or (_any(names, own.get("showing", ())) and not (kind == Client.BROKER and "group.id" in names)):
            return Client(kind)
    if "bootstrap.servers" in names:
        return next((kind for word, kind in _BY_FILE if word in file.lower()), None)
    return None


def may_be(settings: Sequence[Setting], kind: Client) -> bool:
    """Return whether any name is one of this kind of client."""
    of_client = kind in {Client.PRODUCER, Client.CONSUMER, Client.STREAMS, Client.LIBRDKAFKA}
    known = [*_KINDS[kind].get("others", ()), *(_NAMES["clients"] if of_client else ())]
    return kind_of(settings) is kind or _any((setting.name for setting in settings), known)


def file_of(settings: Sequence[Setting], kind: Client, version: Version) -> File:
    """The clients of a file of this kind."""
    library = Library.LIBRDKAFKA if kind is Client.LIBRDKAFKA else Library.JAVA

    def view(found: Iterable[Setting]) -> View:
        return View(kind, library, version, {_ALIASES.get(setting.name, setting.name): setting for setting in found})

    def below(prefixes: Sequence[str]) -> list[Sequence[Setting]]:
        cut = [(setting, prefix) for prefix in prefixes for setting in settings]
        found = [one._replace(name=one.name.removeprefix(prefix)) for one, prefix in cut if one.name.startswith(prefix)]
        return [found] if prefixes else []

    own, main = _KINDS[kind], view(settings)
    senders, readers = below(own.get("producers", ())), below(own.get("consumers", ()))
    match kind:
        case Client.PRODUCER:
            senders = [settings]
        case Client.CONSUMER:
            readers = [settings]
        case Client.LIBRDKAFKA:
            reads = "group.id" in main.settings
            writes = not reads or bool(main.settings.keys() & {"transactional.id", "enable.idempotence", "acks"})
            senders, readers = [settings] * writes, [settings] * reads
        case Client.SPRING:
            return File(kind, main, *(tuple(map(view, found)) for found in spring.clients(settings)))
        case Client.KSQLDB:
            main = view([*settings, *below(["ksql.streams."])[0]])
        case Client.FLINK:
            names = {*main.settings, *(setting.name for setting in readers[0])}
            senders = senders * _any(names, ("sink", "delivery-guarantee", "sink.*"))
            readers = readers * _any(names, ("group.id", "isolation.level", "auto.offset.reset", "scan", "scan.*"))
    return File(kind, main, tuple(map(view, senders)), tuple(map(view, readers)))
