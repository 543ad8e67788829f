"""The form of a rule, and the facts about a client that several rules use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from exporter.linter.files import Setting
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
    goal: Goal
    max_timeout_ms: int
    max_timeout_known: bool


class Found(NamedTuple):
    """The finding of a row: the setting (None where it is missing), the fault, and another severity than the row's."""

    setting: Setting | None
    text: str
    severity: Level | None = None


Look = Callable[[View, Context], Iterator[Found]]


class ClientRule(NamedTuple):
    """One row. ``why`` and ``fix`` are sentences; ``goals`` are those for which it is judged."""

    name: str
    scope: Scope
    severity: Level
    look: Look
    why: str
    fix: str
    sources: str
    goals: tuple[Goal, ...] = (Goal.EXACTLY_ONCE, Goal.AT_LEAST_ONCE)
    kinds: tuple[Client, ...] = tuple(Client)


BOTH = (Goal.EXACTLY_ONCE, Goal.AT_LEAST_ONCE)
EXACTLY = (Goal.EXACTLY_ONCE,)
OFF = frozenset({"false", "0", "no"})
PLACEHOLDER = re.compile(r"\$\{|\$\(|\$[A-Za-z_]|%\(|\{\{|#\{|<[A-Za-z]|@[\w.]{1,100}@")
"""What another program replaces: Spring, Connect, Kubernetes, Helm, Maven."""


def is_transactional(view: View, context: Context) -> bool:
    """Return whether this client writes in transactions, by its own id or by its engine's guarantee."""
    kind = context.file.kind
    if kind is Client.STREAMS or kind is Client.KSQLDB:
        return (context.file.main.lower("processing.guarantee") or "").startswith("exactly_once")
    if kind is Client.FLINK:
        return flink_guarantee(context.file.main) == "exactly-once"
    return bool(view.text("transactional.id"))


def idempotent_by_default(view: View) -> bool:
    """KIP-679 in Java since 3.0; never in librdkafka, unless a transactional.id is set."""
    if view.library is Library.LIBRDKAFKA:
        return bool(view.text("transactional.id"))
    return view.version >= (3, 0)


def chosen(view: View, name: str) -> Setting:
    """The setting of this name, which must have been set."""
    return view.settings[name]


def flink_guarantee(view: View) -> str | None:
    """The delivery guarantee of Flink's Kafka sink, with hyphens; None where it is not set."""
    for name in ("sink.delivery-guarantee", "delivery-guarantee", "sink.semantic"):
        value = view.lower(name)
        if value is not None:
            return value.replace("_", "-")
    return None
