"""View a settings file as its kind, and each producer and consumer in it by Kafka's canonical names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from exporter.linter import spring
from exporter.linter.files import Setting


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

_ALIASES = {  # librdkafka's CONFIGURATION.md
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "auto.commit.enable": "enable.auto.commit",
}


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
_BY_FILE = (("stream", Client.STREAMS), ("producer", Client.PRODUCER), ("consumer", Client.CONSUMER))
"""Words in the name of a file whose settings are those of any client."""


def kind_of(settings: Sequence[Setting], file: str = "") -> Client | None:
    """Whose settings these are, by the names in them, else by the name of the file; None where neither shows it."""
    names = {setting.name for setting in settings}

    def begins(*prefixes: str) -> bool:
        return any(name.startswith(prefixes) for name in names)

    if begins("spring.kafka.", "spring.cloud.stream.kafka."):
        return Client.SPRING
    if "clusters" in names and any("->" in name for name in names):
        return Client.MIRRORMAKER
    if begins("ksql."):
        return Client.KSQLDB
    if begins("execution.checkpointing.", "sink.delivery-guarantee", "sink.transactional-id-prefix", "state.backend"):
        return Client.FLINK
    if "connector.class" in names:
        return Client.CONNECTOR
    if names & {"offset.storage.topic", "config.storage.topic", "exactly.once.source.support",
                "offset.storage.file.filename"} or begins(
                "offset.storage.", "config.storage.", "status.storage."):  # fmt: skip
        return Client.CONNECT_WORKER
    # Consumers before Kafka 0.9 had zookeeper.connect as well, with their group.
    broker = begins("controller.quorum.", "log.dirs", "process.roles", "zookeeper.connect", "advertised.listeners")
    if broker and "group.id" not in names:
        return Client.BROKER
    if names & {"application.id", "processing.guarantee", "num.stream.threads"}:
        return Client.STREAMS
    if names & {"message.timeout.ms", "request.required.acks", "queue.buffering.max.ms", "ssl.ca.location",
                "message.send.max.retries", "max.in.flight", "statistics.interval.ms", "sasl.mechanisms"}:  # fmt: skip
        return Client.LIBRDKAFKA
    if names & {"group.id", "isolation.level", "auto.offset.reset", "value.deserializer", "enable.auto.commit"}:
        return Client.CONSUMER
    if names & {"acks", "enable.idempotence", "transactional.id", "value.serializer", "retries", "linger.ms"}:
        return Client.PRODUCER
    if "bootstrap.servers" in names:
        return next((kind for word, kind in _BY_FILE if word in file.lower()), None)
    return None


_OF_ANY_CLIENT = frozenset({
    "bootstrap.servers", "metadata.broker.list", "client.id", "security.protocol", "sasl.mechanism", "acks", "retries",
    "enable.idempotence", "transactional.id", "transaction.timeout.ms", "linger.ms", "compression.type", "group.id",
    "isolation.level", "enable.auto.commit", "auto.offset.reset", "max.poll.records", "delivery.timeout.ms",
    "key.serializer", "value.serializer", "key.deserializer", "value.deserializer", "batch.size",
})  # fmt: skip
_OF_KIND: Mapping[Client, tuple[str, ...]] = {
    Client.SPRING: ("spring.kafka.", "spring.cloud.stream.kafka."),
    Client.FLINK: ("properties.", "scan.", "execution.", "sink.", "pipeline.", "state."),
    Client.CONNECTOR: ("connector.class", "tasks.max", "transforms", "errors.", "consumer.override.",
                       "producer.override.", "exactly.once.support"),
    Client.CONNECT_WORKER: ("key.converter", "value.converter", "offset.", "config.storage", "status.storage",
                            "exactly.once", "plugin.path", "group.id", "bootstrap.servers"),
    Client.KSQLDB: ("ksql.", "bootstrap.servers"),
    Client.STREAMS: ("application.id", "num.stream.threads", "commit.interval.ms", "state.dir"),
}  # fmt: skip


def may_be(settings: Sequence[Setting], kind: Client) -> bool:
    """Return whether any name is one of this kind of client."""
    if kind_of(settings) is kind or any(setting.name.startswith(_OF_KIND.get(kind, ("\0",))) for setting in settings):
        return True
    of_client = {Client.PRODUCER, Client.CONSUMER, Client.STREAMS, Client.LIBRDKAFKA}
    return kind in of_client and any(setting.name in _OF_ANY_CLIENT for setting in settings)


def file_of(settings: Sequence[Setting], kind: Client, version: Version) -> File:
    """The clients of a file of this kind."""
    library = Library.LIBRDKAFKA if kind is Client.LIBRDKAFKA else Library.JAVA

    def view(found: Iterable[Setting]) -> View:
        return View(kind, library, version, {_canonical(setting.name): setting for setting in found})

    def below(*prefixes: str) -> list[Setting]:
        cut = []
        for prefix in prefixes:
            cut += [(setting, setting.name[len(prefix) :]) for setting in settings if setting.name.startswith(prefix)]
        return [Setting(name, setting.value, setting.line) for setting, name in cut]

    def begins(names: Iterable[str], prefix: str) -> bool:
        return any(name.startswith(prefix) for name in names)

    main = view(settings)
    match kind:
        case Client.PRODUCER:
            return File(kind, main, producers=(main,))
        case Client.CONSUMER:
            return File(kind, main, consumers=(main,))
        case Client.LIBRDKAFKA:
            consumer = "group.id" in main.settings
            producer = not consumer or bool(main.settings.keys() & {"transactional.id", "enable.idempotence", "acks"})
            return File(kind, main, (main,) if producer else (), (main,) if consumer else ())
        case Client.SPRING:
            senders, readers = spring.clients(settings)
            return File(kind, main, tuple(map(view, senders)), tuple(map(view, readers)))
        case Client.KSQLDB:
            main = view([*settings, *below("ksql.streams.")])
            return File(kind, main, (view(below("ksql.streams.producer.")),), (view(below("ksql.streams.consumer.")),))
        case Client.STREAMS:
            return File(kind, main, (view(below("producer.")),), (view(below("consumer.", "main.consumer.")),))
        case Client.CONNECT_WORKER:
            return File(kind, main, (view(below("producer.")),), (view(below("consumer.")),))
        case Client.CONNECTOR:
            return File(kind, main, (view(below("producer.override.")),), (view(below("consumer.override.")),))
        case Client.FLINK:
            reader = view(below("properties."))
            names = {*main.settings, *reader.settings}
            reads = names & {"group.id", "isolation.level", "auto.offset.reset", "scan"} or begins(names, "scan.")
            writes = names & {"sink", "delivery-guarantee"} or begins(names, "sink.")
            sender = view(below("properties.", "sink.properties."))
            return File(kind, main, (sender,) if writes else (), (reader,) if reads else ())
        case Client.BROKER | Client.MIRRORMAKER:
            return File(kind, main)


def _canonical(name: str) -> str:
    return _ALIASES.get(name, name)
