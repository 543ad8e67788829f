"""View a settings file as its kind, and each producer and consumer in it by Kafka's canonical names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

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
    BROKER = "broker"


class Library(StrEnum):
    """Which client library reads a setting: defaults differ."""

    JAVA = "java"
    LIBRDKAFKA = "librdkafka"


Version = tuple[int, int]

_ALIASES = {  # librdkafka's CONFIGURATION.md, and Spring's names
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "auto.commit.enable": "enable.auto.commit",
    "transaction.id.prefix": "transactional.id",
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
        match = re.fullmatch(r"(\d{1,12})\s{0,3}(ms|s|m|min|h|d)", text.lower())
        units = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
        return int(match[1]) * units[match[2]] if match else None


@dataclass(frozen=True, slots=True)
class File:
    """A file as its clients. ``producers`` and ``consumers`` are those inside a Streams application, worker or job."""

    kind: Client
    main: View
    producers: tuple[View, ...] = ()
    consumers: tuple[View, ...] = ()


_BY_FILE = (("stream", Client.STREAMS), ("producer", Client.PRODUCER), ("consumer", Client.CONSUMER))
"""Words in the name of a file whose settings are those of any client."""


def kind_of(settings: Sequence[Setting], file: str = "") -> Client | None:
    """Whose settings these are, by the names in them, else by the name of the file; None where neither shows it."""
    names = {setting.name for setting in settings}

    def begins(*prefixes: str) -> bool:
        return any(name.startswith(prefixes) for name in names)

    if begins("spring.kafka.", "spring.cloud.stream.kafka."):
        return Client.SPRING
    if begins("ksql."):
        return Client.KSQLDB
    if begins("execution.checkpointing.", "sink.delivery-guarantee", "sink.transactional-id-prefix", "state.backend"):
        return Client.FLINK
    if "connector.class" in names or "config.connector.class" in names:
        return Client.CONNECTOR
    if names & {"offset.storage.topic", "config.storage.topic", "exactly.once.source.support",
                "offset.storage.file.filename"}:  # fmt: skip
        return Client.CONNECT_WORKER
    # Consumers before Kafka 0.9 had zookeeper.connect as well, with their group.
    if begins("controller.quorum.", "log.dirs", "process.roles", "zookeeper.connect") and "group.id" not in names:
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

    def renamed(prefix: str) -> View:
        found = below(prefix)
        extra = [Setting(setting.name.removeprefix("properties."), setting.value, setting.line) for setting in found]
        spelled = [Setting(setting.name.replace("-", "."), setting.value, setting.line) for setting in extra]
        return view(spelled)

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
            shared = "spring.kafka."
            sender, reader = renamed(f"{shared}producer."), renamed(f"{shared}consumer.")
            binder = renamed("spring.cloud.stream.kafka.binder.transaction.")
            senders = tuple(side for side in (sender, binder) if side.settings)
            reads = bool(reader.settings or below(f"{shared}listener."))
            if not senders and not reads:  # what both have in common
                return File(kind, main, (sender,), (reader,))
            return File(kind, main, senders, (reader,) if reads else ())
        case Client.KSQLDB:
            main = view([*settings, *below("ksql.streams.")])
            return File(kind, main, (view(below("ksql.streams.producer.")),), (view(below("ksql.streams.consumer.")),))
        case Client.STREAMS:
            return File(kind, main, (view(below("producer.")),), (view(below("consumer.", "main.consumer.")),))
        case Client.CONNECT_WORKER:
            return File(kind, main, (view(below("producer.")),), (view(below("consumer.")),))
        case Client.CONNECTOR:
            main = view([*settings, *below("config.")])
            producers = view(below("producer.override.", "config.producer.override."))
            return File(kind, main, (producers,), (view(below("consumer.override.", "config.consumer.override.")),))
        case Client.FLINK:
            reader = view(below("properties."))
            names = {*main.settings, *reader.settings}
            sink_only = any(name.startswith("sink.") for name in names) and not (
                names & {"group.id", "isolation.level", "auto.offset.reset"}
                or any(name.startswith("scan.") for name in names)
            )
            return File(kind, main, (view(below("properties.", "sink.properties.")),), () if sink_only else (reader,))
        case Client.BROKER:
            return File(kind, main)


def _canonical(name: str) -> str:
    return _ALIASES.get(name, name)
