"""Rules for producers and consumers, on their own or inside a Streams application, a worker or a job."""

from __future__ import annotations

import re
from collections.abc import Iterator

from exporter.linter import spring
from exporter.linter.rule import (
    BOTH,
    EXACTLY,
    OFF,
    PLACEHOLDER,
    ClientRule,
    Context,
    Found,
    Level,
    Scope,
    chosen,
    idempotent_by_default,
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

# --- Producers --------------------------------------------------------------------------------------------------------


def _idempotence_off(view: View, context: Context) -> Iterator[Found]:
    if view.lower("enable.idempotence") in OFF:
        contradiction = is_transactional(view, context)
        text = "contradicts the transactions of this client: it refuses to start" if contradiction else "is off"
        yield Found(chosen(view, "enable.idempotence"), text)
    elif "enable.idempotence" not in view.settings and not idempotent_by_default(view):
        others = "librdkafka leaves" if view.library is Library.LIBRDKAFKA else "clients before 3.0 leave"
        yield Found(None, f"enable.idempotence is not set, and {others} it off")


def _acks(view: View, context: Context) -> Iterator[Found]:
    acks = view.lower("acks")
    if acks is None and view.library is Library.JAVA and view.version < (3, 0):
        if not is_transactional(view, context) and view.lower("enable.idempotence") != "true":
            yield Found(None, "acks is not set, and clients before 3.0 take 1")
        return
    if acks is None or acks in _ALL:
        return
    if is_transactional(view, context) or view.lower("enable.idempotence") == "true":
        yield Found(chosen(view, "acks"), "contradicts idempotence: the client refuses to start")
    else:
        turns = "turns idempotence off without an error and " if idempotent_by_default(view) else ""
        yield Found(chosen(view, "acks"), f"{turns}loses records at a leader's crash")


def _retries(view: View, context: Context) -> Iterator[Found]:
    if view.milliseconds("retries") == 0:
        refused = is_transactional(view, context) or view.lower("enable.idempotence") == "true"
        off = "turns idempotence off" if idempotent_by_default(view) else "a record is lost at its first error"
        yield Found(chosen(view, "retries"), "contradicts idempotence: the client refuses to start" if refused else off)


def _in_flight(view: View, _: Context) -> Iterator[Found]:
    most = view.milliseconds("max.in.flight.requests.per.connection")
    if most is not None and most > _MOST_IN_FLIGHT:
        yield Found(
            chosen(view, "max.in.flight.requests.per.connection"),
            "is above 5: idempotence is turned off (Java before 4.0) or the client refuses to start",
        )


def _no_transactional_id(view: View, _: Context) -> Iterator[Found]:
    if not view.text("transactional.id"):
        yield Found(view.settings.get("transactional.id"), "no transactional.id is set")


def _unstable_transactional_id(view: View, _: Context) -> Iterator[Found]:
    setting = view.settings.get("transactional.id")
    if setting is not None and PLACEHOLDER.search(setting.value) and _RANDOM.search(setting.value):
        yield Found(setting, "is new at each start")


def _fixed_transactional_id(view: View, _: Context) -> Iterator[Found]:
    setting = view.settings.get("transactional.id")
    if setting and setting.value and not PLACEHOLDER.search(_APPLICATION_NAME.sub("", setting.value)):
        yield Found(setting, "is the same for all instances: two that run at once fence each other")


def _spring_ignores(view: View, _: Context) -> Iterator[Found]:
    for setting in view.settings.values():
        place = spring.place(setting.name)
        if place.instead:
            text = f"is no property of Spring Boot and is ignored: write {place.instead}"
            yield Found(setting, text, Level.ERROR if place.needed else Level.WARNING)


def _transaction_timeout(view: View, context: Context) -> Iterator[Found]:
    timeout = view.milliseconds("transaction.timeout.ms")
    if timeout is None:
        return
    setting = chosen(view, "transaction.timeout.ms")
    if timeout > context.max_timeout_ms:
        whose = "of this cluster" if context.max_timeout_known else "(its default)"
        yield Found(
            setting,
            f"is above the brokers' transaction.max.timeout.ms of {context.max_timeout_ms} {whose}: the first "
            "InitProducerId fails with INVALID_TRANSACTION_TIMEOUT",
            Level.ERROR if context.max_timeout_known else Level.WARNING,
        )
    elif timeout > _LONG_TIMEOUT_MS and context.file.kind is not Client.FLINK:
        yield Found(setting, "a client that dies holds back read_committed readers for this long", Level.INFO)


def _delivery_timeout(view: View, context: Context) -> Iterator[Found]:
    delivery = view.milliseconds("delivery.timeout.ms")
    if delivery is None:
        return
    if view.library is Library.LIBRDKAFKA:
        timeout = view.milliseconds_or("transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS)
        if is_transactional(view, context) and timeout is not None and delivery > timeout:
            name = "message.timeout.ms"
            yield Found(
                chosen(view, "delivery.timeout.ms"), f"{name} above transaction.timeout.ms: the client refuses to start"
            )
        return
    linger = view.milliseconds_or("linger.ms", 0)
    request = view.milliseconds_or("request.timeout.ms", 30_000)
    if linger is None or request is None:
        return
    least = linger + request
    if delivery < least:
        yield Found(
            chosen(view, "delivery.timeout.ms"),
            f"is below linger.ms + request.timeout.ms ({least}): the client refuses to start",
        )


# --- Consumers --------------------------------------------------------------------------------------------------------


def isolation(view: View, context: Context) -> Iterator[Found]:
    """A consumer that delivers records of transactions that are open or were aborted."""
    level = view.lower("isolation.level")
    if level is not None and level.replace("-", "_") == "read_committed":
        return
    if level is None:
        if view.library is Library.LIBRDKAFKA or context.file.kind in {Client.STREAMS, Client.KSQLDB}:
            return  # librdkafka's default is read_committed; Streams sets it under exactly-once
        yield Found(None, "isolation.level is not set, and Java's default is read_uncommitted")
    else:
        yield Found(chosen(view, "isolation.level"), "delivers records of aborted and of open transactions")


def _auto_commit(view: View, context: Context) -> Iterator[Found]:
    if context.file.kind in {
        Client.STREAMS,
        Client.KSQLDB,
        Client.CONNECTOR,
        Client.CONNECT_WORKER,
        Client.FLINK,
    }:
        return  # these set it themselves
    value = view.lower("enable.auto.commit")
    if value is None and context.file.kind is Client.SPRING:
        return  # Spring's container turns it off unless it is set
    if value is None:
        yield Found(None, "enable.auto.commit is not set, and its default is true")
    elif value not in OFF:
        yield Found(chosen(view, "enable.auto.commit"), "commits offsets on a timer, outside any transaction")


def _offset_reset(view: View, _: Context) -> Iterator[Found]:
    if view.lower("auto.offset.reset") in {"latest", "largest", "end"}:
        yield Found(
            chosen(view, "auto.offset.reset"), "a group without a committed offset skips what was written before"
        )


CLIENT_RULES: tuple[ClientRule, ...] = (
    ClientRule("idempotence-off", Scope.PRODUCER, Level.ERROR, _idempotence_off,
         "Without idempotence a retry after a lost answer writes the record twice or out of order.",
         "enable.idempotence=true", "KIP-98, KIP-679; ProducerConfig, librdkafka CONFIGURATION.md", EXACTLY),
    ClientRule("acks-not-all", Scope.PRODUCER, Level.ERROR, _acks,
         "A record that only the leader has is lost with it.",
         "acks=all", "KIP-679; ProducerConfig.postProcessAndValidateIdempotenceConfigs", BOTH),
    ClientRule("retries-zero", Scope.PRODUCER, Level.ERROR, _retries,
         "The first error of a broker that changes leaders loses the record.",
         "remove retries, and bound the time by delivery.timeout.ms", "KIP-91; ProducerConfig", BOTH),
    ClientRule("in-flight-above-5", Scope.PRODUCER, Level.ERROR, _in_flight,
         "A broker remembers the last five batches of a producer: beyond that it cannot recognise a duplicate.",
         "max.in.flight.requests.per.connection=5", "KIP-679; ProducerStateEntry.NUM_BATCHES_TO_RETAIN", EXACTLY),
    ClientRule("no-transactional-id", Scope.PRODUCER, Level.ERROR, _no_transactional_id,
         "Idempotence covers one session of one producer: after a restart, and across partitions, only a transaction "
         "is exactly-once.",
         "set transactional.id, stable over restarts and one for each instance", "KIP-98", EXACTLY,
         (Client.PRODUCER, Client.LIBRDKAFKA, Client.SPRING)),
    ClientRule("unstable-transactional-id", Scope.PRODUCER, Level.WARNING, _unstable_transactional_id,
         "A new id at each start fences no zombie, leaves open transactions to their timeout, and fills the "
         "coordinator with ids for seven days.",
         "derive it from what is stable: the partition, the name of a StatefulSet's pod", "KIP-98, KIP-447", EXACTLY,
         (Client.PRODUCER, Client.LIBRDKAFKA, Client.SPRING)),
    ClientRule("fixed-transactional-id", Scope.PRODUCER, Level.INFO, _fixed_transactional_id,
         "Each instance needs ids of its own, the same after its restart: with one instance a fixed id is right.",
         "add what tells instances apart and stays, such as the name of a StatefulSet's pod: ${HOSTNAME}",
         "KIP-98; spring-kafka, EOSMode.V2", EXACTLY, (Client.PRODUCER, Client.LIBRDKAFKA, Client.SPRING)),
    ClientRule("spring-ignores", Scope.MAIN, Level.WARNING, _spring_ignores,
         "Spring Boot binds its own names; a dot separates its elements, and Kafka's names belong below properties.",
         "the name that Spring Boot binds", 'Spring Boot, KafkaProperties and "Relaxed Binding"', BOTH,
         (Client.SPRING,)),
    ClientRule("transaction-timeout", Scope.PRODUCER, Level.ERROR, _transaction_timeout,
         "The coordinator refuses a timeout above its own limit, and aborts late for a dead client below it.",
         "lower transaction.timeout.ms, or raise the brokers' transaction.max.timeout.ms",
         "TransactionCoordinator.handleInitProducerId", BOTH),
    ClientRule("delivery-timeout", Scope.PRODUCER, Level.ERROR, _delivery_timeout,
         "The client checks that its timeouts fit into each other when it is made.",
         "raise delivery.timeout.ms (Java), or lower message.timeout.ms to at most transaction.timeout.ms (librdkafka)",
         "KIP-91; KafkaProducer.configureDeliveryTimeout; rdkafka_conf.c rd_kafka_topic_conf_finalize", BOTH),
    ClientRule("isolation-read-uncommitted", Scope.CONSUMER, Level.ERROR, isolation,
         "A read_uncommitted reader processes records of transactions that are aborted later.",
         "isolation.level=read_committed (consumer.override.isolation.level for one connector)",
         "KIP-98; ConsumerConfig", EXACTLY,
         (Client.CONSUMER, Client.LIBRDKAFKA, Client.SPRING, Client.STREAMS, Client.KSQLDB, Client.FLINK)),
    ClientRule("offsets-outside-transaction", Scope.CONSUMER, Level.WARNING, _auto_commit,
         "Offsets that are committed outside the transaction can be ahead of or behind its results: records are lost "
         "or processed twice after a crash.",
         "enable.auto.commit=false, and sendOffsetsToTransaction before the commit", "KIP-98, KIP-447", EXACTLY,
         (Client.CONSUMER, Client.LIBRDKAFKA, Client.SPRING)),
    ClientRule("offset-reset-latest", Scope.CONSUMER, Level.INFO, _offset_reset,
         "Offsets expire after offsets.retention.minutes of an empty group; a reset to the end then skips records.",
         "auto.offset.reset=earliest, or none to be stopped", "ConsumerConfig", BOTH),
)  # fmt: skip
"""The rows of producers and consumers."""
