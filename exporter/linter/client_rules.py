"""Rules for producers and consumers, on their own or inside a Streams application, a worker or a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from exporter.linter import spring
from exporter.linter.rule import (
    OFF,
    PLACEHOLDER,
    Context,
    Fault,
    Idempotence,
    Level,
    Look,
    idempotence,
    is_transactional,
)
from exporter.linter.views import Client, Library, View

DEFAULT_TRANSACTION_TIMEOUT_MS = 60_000
"""ProducerConfig.TRANSACTION_TIMEOUT_CONFIG; librdkafka has the same."""
_LONG_TIMEOUT_MS = 300_000
_MOST_IN_FLIGHT = 5
_ALL = {"all", "-1"}
_RANDOM = re.compile(r"random|uuid|\bpid\b|timestamp|\bnow\b|current_?time|epoch", re.IGNORECASE)
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


def _idempotence_off(view: View, context: Context) -> Iterator[Fault]:
    name = "enable.idempotence"
    if view.lower(name) in OFF:
        contradiction = is_transactional(view, context)
        text = "contradicts the transactions of this client: it refuses to start" if contradiction else "is off"
        yield Fault(name, text)
    elif name not in view.settings and idempotence(view, context) is Idempotence.NONE:
        others = "librdkafka leaves" if view.library is Library.LIBRDKAFKA else "clients before 3.0 leave"
        yield Fault(name, f"enable.idempotence is not set, and {others} it off")


def _acks(view: View, context: Context) -> Iterator[Fault]:
    acks, state = view.lower("acks"), idempotence(view, context)
    if acks is not None and acks not in _ALL:
        yield Fault("acks", _ACKS[state])
    elif acks is None and state is Idempotence.NONE and view.library is Library.JAVA:
        yield Fault("acks", "acks is not set, and clients before 3.0 take 1")


def _retries(view: View, context: Context) -> Iterator[Fault]:
    if view.milliseconds("retries") == 0:
        yield Fault("retries", _RETRIES[idempotence(view, context)])


def _in_flight(view: View, _: Context) -> Iterator[Fault]:
    name = "max.in.flight.requests.per.connection"
    if (view.milliseconds(name) or 0) > _MOST_IN_FLIGHT:
        yield Fault(name, "is above 5: idempotence is turned off (Java before 4.0) or the client refuses to start")


def _unstable_transactional_id(view: View, _: Context) -> Iterator[Fault]:
    identifier = view.text("transactional.id") or ""
    if PLACEHOLDER.search(identifier) and _RANDOM.search(identifier):
        yield Fault("transactional.id", "is new at each start")


def _fixed_transactional_id(view: View, _: Context) -> Iterator[Fault]:
    identifier = view.text("transactional.id")
    if identifier and not PLACEHOLDER.search(_APPLICATION_NAME.sub("", identifier)):
        yield Fault("transactional.id", "is the same for all instances: two that run at once fence each other")


def _spring_ignores(view: View, _: Context) -> Iterator[Fault]:
    for name in view.settings:
        place = spring.place(name)
        if place.instead:
            text = f"is no property of Spring Boot and is ignored: write {place.instead}"
            yield Fault(name, text, Level.ERROR if place.needed else Level.WARNING)


def _transaction_timeout(view: View, context: Context) -> Iterator[Fault]:
    name, most, known = "transaction.timeout.ms", context.max_timeout_ms, context.max_timeout_known
    timeout = view.milliseconds(name) or 0
    if timeout > most:
        text = f"is above the brokers' transaction.max.timeout.ms of {most} "
        text += "of this cluster" if known else "(its default)"
        text += ": the first InitProducerId fails with INVALID_TRANSACTION_TIMEOUT"
        yield Fault(name, text, Level.ERROR if known else Level.WARNING)
    elif timeout > _LONG_TIMEOUT_MS and context.file.kind is not Client.FLINK:
        yield Fault(name, "a client that dies holds back read_committed readers for this long", Level.INFO)


def _delivery_timeout(view: View, context: Context) -> Iterator[Fault]:
    name = "delivery.timeout.ms"
    delivery = view.milliseconds(name)
    if view.library is Library.LIBRDKAFKA:
        timeout = view.milliseconds_or("transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS)
        if delivery and timeout is not None and delivery > timeout and is_transactional(view, context):
            yield Fault(name, "message.timeout.ms above transaction.timeout.ms: the client refuses to start")
        return
    linger, request = view.milliseconds_or("linger.ms", 0), view.milliseconds_or("request.timeout.ms", 30_000)
    if delivery is not None and linger is not None and request is not None and delivery < linger + request:
        least = linger + request
        yield Fault(name, f"is below linger.ms + request.timeout.ms ({least}): the client refuses to start")


# --- Consumers --------------------------------------------------------------------------------------------------------


def isolation(view: View, context: Context) -> Iterator[Fault]:
    """A consumer that delivers records of transactions that are open or were aborted."""
    level = view.lower("isolation.level")
    # librdkafka's default is read_committed; Streams sets it under exactly-once.
    safe = view.library is Library.LIBRDKAFKA or context.file.kind in {Client.STREAMS, Client.KSQLDB}
    if level is None and not safe:
        yield Fault("isolation.level", "isolation.level is not set, and Java's default is read_uncommitted")
    elif level is not None and level.replace("-", "_") != "read_committed":
        yield Fault("isolation.level", "delivers records of aborted and of open transactions")


def _auto_commit(view: View, context: Context) -> Iterator[Fault]:
    value = view.lower("enable.auto.commit")
    if value is None and context.file.kind is not Client.SPRING:  # Spring's container turns it off unless it is set
        yield Fault("enable.auto.commit", "enable.auto.commit is not set, and its default is true")
    elif value is not None and value not in OFF:
        yield Fault("enable.auto.commit", "commits offsets on a timer, outside any transaction")


CLIENT_LOOKS: Mapping[str, Look] = {
    "idempotence-off": _idempotence_off,
    "acks-not-all": _acks,
    "retries-zero": _retries,
    "in-flight-above-5": _in_flight,
    "unstable-transactional-id": _unstable_transactional_id,
    "fixed-transactional-id": _fixed_transactional_id,
    "spring-ignores": _spring_ignores,
    "transaction-timeout": _transaction_timeout,
    "delivery-timeout": _delivery_timeout,
    "isolation-read-uncommitted": isolation,
    "offsets-outside-transaction": _auto_commit,
}
"""The functions of rules.toml's rules for producers and consumers."""
