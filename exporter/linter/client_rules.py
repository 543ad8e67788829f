"""The functions of rules for producers and consumers: each has the name of its rule in rules.toml."""

from __future__ import annotations

import re
from collections.abc import Iterator

from exporter.linter import spring
from exporter.linter.rule import (
    OFF,
    PLACEHOLDER,
    Context,
    Idempotence,
    Level,
    Mistake,
    idempotence,
    is_transactional,
)
from exporter.linter.views import Client, Library, View

DEFAULT_TRANSACTION_TIMEOUT_MS = 60_000
"""ProducerConfig.TRANSACTION_TIMEOUT_CONFIG; librdkafka has the same."""
_LONG_TIMEOUT_MS = 300_000
_MOST_IN_FLIGHT = 5
_JAVA_ACKS = {"all", "-1", "0", "1"}
_RANDOM = re.compile(r"random|uuid|(?:\b|_)[pu]id\b|timestamp|\bnow\b|current_?time|epoch", re.IGNORECASE)
_APPLICATION_NAME = re.compile(r"\$\{(?:spring|quarkus)\.application\.name(?::[^{}]{0,200})?\}")
_REFUSED = "contradicts idempotence: the client refuses to start"
_ACKS = {
    Idempotence.REQUIRED: _REFUSED,
    Idempotence.DEFAULT: "turns idempotence off without an error and loses records at a leader's crash",
    Idempotence.NONE: "loses records at a leader's crash",
}
_RETRIES = {
    Idempotence.REQUIRED: _REFUSED,
    Idempotence.DEFAULT: "turns idempotence off",
    Idempotence.NONE: "a record is lost at its first error",
}

# --- Producers --------------------------------------------------------------------------------------------------------


def _overridden(view: View, context: Context) -> bool:
    """Return whether Streams sets idempotence and isolation, whatever is set (StreamsConfig.NON_CONFIGURABLE_*)."""
    return context.file.kind in {Client.STREAMS, Client.KSQLDB} and is_transactional(view, context)


def idempotence_off(view: View, context: Context) -> Iterator[Mistake]:
    name = "enable.idempotence"
    if view.lower(name) in OFF and not _overridden(view, context):
        contradiction = is_transactional(view, context)
        text = "contradicts the transactions of this client: it refuses to start" if contradiction else "is off"
        yield Mistake(name, text)
    elif name not in view.settings and idempotence(view, context) is Idempotence.NONE:
        others = "librdkafka leaves" if view.library is Library.LIBRDKAFKA else "clients before 3.0 leave"
        yield Mistake(name, f"enable.idempotence is not set, and {others} it off")


def acks_not_all(view: View, context: Context) -> Iterator[Mistake]:
    java, state = view.library is Library.JAVA, idempotence(view, context)
    acks = (view.text("acks") or "").partition(" ")[0]  # a framework's default has words after it
    if acks and java and acks not in _JAVA_ACKS:
        yield Mistake("acks", "is no value of acks (all, -1, 0, 1, in lower case): the client refuses to start")
    elif acks and acks.lower() not in {"all", "-1"}:
        yield Mistake("acks", _ACKS[state])
    elif not acks and state is Idempotence.NONE and java:
        yield Mistake("acks", "acks is not set, and clients before 3.0 take 1")


def retries_zero(view: View, context: Context) -> Iterator[Mistake]:
    if view.milliseconds("retries") == 0:
        yield Mistake("retries", _RETRIES[idempotence(view, context)])


def in_flight_above_5(view: View, _: Context) -> Iterator[Mistake]:
    name = "max.in.flight.requests.per.connection"
    if (view.milliseconds(name) or 0) > _MOST_IN_FLIGHT:
        yield Mistake(name, "is above 5: idempotence is turned off (Java before 4.0) or the client refuses to start")


def unstable_transactional_id(view: View, _: Context) -> Iterator[Mistake]:
    identifier = view.text("transactional.id") or ""
    if PLACEHOLDER.search(identifier) and _RANDOM.search(identifier):
        yield Mistake("transactional.id", "is new at each start")


def fixed_transactional_id(view: View, _: Context) -> Iterator[Mistake]:
    identifier = view.text("transactional.id")
    if identifier and not PLACEHOLDER.search(_APPLICATION_NAME.sub("", identifier)):
        yield Mistake("transactional.id", "is the same for all instances: two that run at once fence each other")


def spring_ignores(view: View, _: Context) -> Iterator[Mistake]:
    for name in view.settings:
        place = spring.place(name)
        if place.instead:
            text = f"is no property of Spring Boot and is ignored: write {place.instead}"
            yield Mistake(name, text, Level.ERROR if place.needed else Level.WARNING)


def transaction_timeout(view: View, context: Context) -> Iterator[Mistake]:
    name, most, known = "transaction.timeout.ms", context.max_timeout_ms, context.max_timeout_known
    timeout = view.milliseconds(name) or 0
    if timeout > most:
        text = f"is above the brokers' transaction.max.timeout.ms of {most} "
        text += "of this cluster" if known else "(its default)"
        text += ": the first InitProducerId fails with INVALID_TRANSACTION_TIMEOUT"
        yield Mistake(name, text, Level.ERROR if known else Level.WARNING)
    elif timeout > _LONG_TIMEOUT_MS and context.file.kind is not Client.FLINK:
        yield Mistake(name, "a client that dies holds back read_committed readers for this long", Level.INFO)


def delivery_timeout(view: View, context: Context) -> Iterator[Mistake]:
    name = "delivery.timeout.ms"
    delivery = view.milliseconds(name)
    if view.library is Library.LIBRDKAFKA:
        timeout = view.milliseconds_or("transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS)
        if delivery and timeout is not None and delivery > timeout and is_transactional(view, context):
            yield Mistake(name, "message.timeout.ms above transaction.timeout.ms: the client refuses to start")
        return
    linger, request = view.milliseconds_or("linger.ms", 0), view.milliseconds_or("request.timeout.ms", 30_000)
    if delivery is not None and linger is not None and request is not None and delivery < linger + request:
        least = linger + request
        yield Mistake(name, f"is below linger.ms + request.timeout.ms ({least}): the client refuses to start")


# --- Consumers --------------------------------------------------------------------------------------------------------


def isolation_fault(level: str) -> str:
    """What is wrong with an isolation level of a Java client; "" where nothing is."""
    if level == "read_committed":
        return ""
    if level == "read_uncommitted":
        return "delivers records of aborted and of open transactions"
    return "is no value of isolation.level (read_committed, in lower case): the client refuses to start"


def isolation_read_uncommitted(view: View, context: Context) -> Iterator[Mistake]:
    name, java = "isolation.level", view.library is Library.JAVA
    level = view.text(name) if java else view.lower(name)
    # librdkafka's default is read_committed; Streams sets it under exactly-once.
    if level is None and java and context.file.kind not in {Client.STREAMS, Client.KSQLDB}:
        yield Mistake(name, "isolation.level is not set, and Java's default is read_uncommitted")
    elif level and isolation_fault(level) and not _overridden(view, context):
        yield Mistake(name, isolation_fault(level))


def offsets_outside_transaction(view: View, context: Context) -> Iterator[Mistake]:
    value = view.lower("enable.auto.commit")
    if value is None and context.file.kind is not Client.SPRING:  # Spring's container turns it off unless it is set
        yield Mistake("enable.auto.commit", "enable.auto.commit is not set, and its default is true")
    elif value is not None and value not in OFF:
        yield Mistake("enable.auto.commit", "commits offsets on a timer, outside any transaction")
