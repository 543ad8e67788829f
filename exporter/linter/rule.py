"""The form of a rule, and the facts about a client that several rules use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from exporter.linter.views import Client, File, Library, View


class Goal(StrEnum):
    """The guarantee that the settings are meant for."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class Level(StrEnum):
    """``error``: the guarantee is lost or the client refuses to start; ``warning``: it is lost in some situations;
    ``info``: not a failure.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Scope(StrEnum):
    """Which clients of a file a rule checks."""

    MAIN = "main"
    PRODUCER = "producer"
    CONSUMER = "consumer"


class Context(NamedTuple):
    """Further input of a rule, beside the client."""

    file: File
    max_timeout_ms: int
    max_timeout_known: bool


class Mistake(NamedTuple):
    """What a row finds: the setting's name (set or missing), the fault, and another severity than the row's."""

    name: str
    text: str
    severity: Level | None = None


Look = Callable[[View, Context], Iterator[Mistake]]


class ClientRule(NamedTuple):
    """One rule of rules.toml. ``why`` and ``fix`` are sentences; ``goals`` are those for which it is judged."""

    name: str
    scope: Scope
    severity: Level
    look: Look
    why: str
    fix: str
    sources: str
    goals: tuple[Goal, ...]
    kinds: tuple[Client, ...]


OFF = frozenset({"false", "0", "no"})
PLACEHOLDER = re.compile(r"\$\{|\$\(|\$[A-Za-z_]|%\(|\{\{|#\{|<[A-Za-z]|@[\w.]{1,100}@")
"""What another program replaces: Spring, Connect, Kubernetes, Helm, Maven."""
UNSET, ANY = "unset", "any"
"""In ``values``: the value of a setting that is missing, and any that has no text of its own."""


def values(texts: Mapping[str, Mapping[str, str]]) -> Look:
    """Find settings by their values in lower case: ``texts`` has the fault of each value by the setting's name."""

    def look(view: View, _: Context) -> Iterator[Mistake]:
        for name, by_value in texts.items():
            value = view.lower(name)
            text = by_value.get(UNSET) if value is None else by_value.get(value, by_value.get(ANY))
            if text is not None:
                yield Mistake(name, text)

    return look


def is_transactional(view: View, context: Context) -> bool:
    """Return whether this client writes in transactions, by its own id or by its engine's guarantee."""
    kind = context.file.kind
    if kind is Client.STREAMS or kind is Client.KSQLDB:
        return (context.file.main.lower("processing.guarantee") or "").startswith("exactly_once")
    if kind is Client.FLINK:
        return sink_guarantee(context.file.main)[1] == "exactly-once"
    return bool(view.text("transactional.id"))


class Idempotence(StrEnum):
    """Whether a producer is idempotent, but for the settings that contradict it."""

    REQUIRED = "required"
    DEFAULT = "default"
    NONE = "none"


def idempotence(view: View, context: Context) -> Idempotence:
    """By default it is, in Java since 3.0 (KIP-679); never in librdkafka, unless a transactional.id is set."""
    if is_transactional(view, context) or view.lower("enable.idempotence") == "true":
        return Idempotence.REQUIRED
    by_default = view.library is Library.JAVA and view.version >= (3, 0)
    return Idempotence.DEFAULT if by_default else Idempotence.NONE


def sink_guarantee(view: View) -> tuple[str, str | None]:
    """The setting of the guarantee of Flink's Kafka sink, and its value with hyphens; None where it is not set."""
    for name in ("sink.delivery-guarantee", "delivery-guarantee", "sink.semantic"):
        value = view.lower(name)
        if value is not None:
            return name, value.replace("_", "-")
    return "sink.delivery-guarantee", None
