"""Producers as they see themselves: Java clients by JMX, librdkafka by its statistics."""

from __future__ import annotations

from grafanalib import core

from exporter.catalogue import (
    PRODUCER_IDEMPOTENCE_STATE,
    PRODUCER_IDEMPOTENCE_STATE_SINCE_TIMESTAMP_SECONDS,
    PRODUCER_RECORD_ERRORS_TOTAL,
    PRODUCER_RECORD_RETRIES_TOTAL,
    PRODUCER_RECORDS_SENT_TOTAL,
    PRODUCER_TXN_SECONDS_TOTAL,
    PRODUCER_TXN_STATE,
    PRODUCER_TXN_STATE_SINCE_TIMESTAMP_SECONDS,
)
from exporter.dashboards.board import Board, Line, Needs, PanelRow, Variable
from exporter.dashboards.panels import GREEN, NEUTRAL, ORANGE, RED, YELLOW, Column, Query, lines, stat, table
from exporter.dashboards.queries import age, gained, now, per_second, total
from exporter.dashboards.shared import PRODUCERS, WINDOW
from exporter.model import Metric

_JAVA = Needs("no_java", (PRODUCER_TXN_SECONDS_TOTAL,), "needs JMX of Java producers (producers)")
_LIBRDKAFKA = Needs("no_librdkafka", (PRODUCER_TXN_STATE,), "needs statistics of librdkafka clients (ingest)")
_OF = 'client_id=~"$client_id"'
_FATAL = 'state="fatal_error"'
_BAD = {"abortable_error": ORANGE, "aborting_transaction": ORANGE, "fatal_error": RED, "in_transaction": GREEN}


def board() -> Board:
    """Transactional producers by client.id."""
    return Board(
        uid=PRODUCERS,
        title="Kafka EOS / Producers",
        description="What transactional producers say of themselves: where their time goes, what they could not send.",
        variables=(Variable("client_id", "Client", PRODUCER_RECORDS_SENT_TOTAL),),
        rows=(
            PanelRow("Now", (Line(4, _now()),)),
            PanelRow("Time in the transactional API (Java)", (Line(8, (_share(), _slowest())),), _JAVA),
            PanelRow("Records", (Line(8, (_sent(), _retries(), _errors())),)),
            PanelRow("States (librdkafka)", (Line(8, (_states(), _idempotence())),), _LIBRDKAFKA),
        ),
    )


def _now() -> tuple[core.Panel, ...]:
    return (
        stat(
            f"Records not sent, {WINDOW}",
            "Records that clients gave up on.",
            f"round({total(gained(PRODUCER_RECORD_ERRORS_TOTAL, WINDOW, _OF))})",
            none="no client watched",
        ),
        stat(
            f"Retries, {WINDOW}",
            "Records that clients sent again.",
            f"round({total(gained(PRODUCER_RECORD_RETRIES_TOTAL, WINDOW, _OF))})",
            steps=((None, GREEN), (1, YELLOW)),
            none="no client watched",
        ),
        stat(
            "Records per second",
            "Records that clients sent.",
            total(per_second(PRODUCER_RECORDS_SENT_TOTAL, _OF)),
            "ops",
            NEUTRAL,
            none="no client watched",
        ),
        stat(
            "Fatal librdkafka clients",
            "In state fatal_error: fenced, or broken for good; only a new client helps.",
            # A producer that is idempotent only has no transactional state.
            f"count(max by (kafka_cluster, target, client_id) ({now(PRODUCER_TXN_STATE, _OF, _FATAL)}"
            f" or {now(PRODUCER_IDEMPOTENCE_STATE, _OF, _FATAL)}))"
            f" or {total(now(PRODUCER_IDEMPOTENCE_STATE, _OF))} * 0",
            none="no librdkafka",
        ),
    )


def _share() -> core.Panel:
    return lines(
        "Time in each operation",
        "Seconds per second over all clients: near the number of clients they do nothing but wait.",
        Query(total(per_second(PRODUCER_TXN_SECONDS_TOTAL, _OF), "operation"), "{{operation}}"),
        "percentunit",
        stacked=True,
    )


def _slowest() -> core.Panel:
    commit = total(per_second(PRODUCER_TXN_SECONDS_TOTAL, _OF, 'operation="commit"'), "kafka_cluster, client_id")
    return lines(
        "Time in commit, by client",
        "Seconds per second, the ten with most.",
        Query(f"topk(10, {commit})", "{{kafka_cluster}} {{client_id}}"),
        "percentunit",
    )


def _sent() -> core.Panel:
    return _records("Records sent", PRODUCER_RECORDS_SENT_TOTAL)


def _retries() -> core.Panel:
    return _records("Records sent again", PRODUCER_RECORD_RETRIES_TOTAL)


def _errors() -> core.Panel:
    return _records("Records not sent", PRODUCER_RECORD_ERRORS_TOTAL)


def _records(title: str, metric: Metric) -> core.Panel:
    return lines(
        title,
        "Per second, the ten clients with most.",
        Query(
            f"topk(10, {total(per_second(metric, _OF), 'kafka_cluster, client_id')})",
            "{{kafka_cluster}} {{client_id}}",
        ),
        "ops",
    )


def _states() -> core.Panel:
    return table(
        "Transactional states",
        "The state of each client, and for how long; in_transaction for long is a transaction that does not end.",
        [age(now(PRODUCER_TXN_STATE_SINCE_TIMESTAMP_SECONDS, _OF)), now(PRODUCER_TXN_STATE, _OF)],
        [
            Column("Value #A", "In it for", "s", steps=((None, GREEN), (60, YELLOW), (900, RED)), width=120),
            Column("client_id", "Client"),
            Column("state", "State", colours=_BAD, width=200),
            Column("target", "Target"),
        ],
        sort=["In it for"],
        none="no librdkafka client",
    )


def _idempotence() -> core.Panel:
    return table(
        "Idempotent producers",
        "Assigned is the healthy state: a producer id is there.",
        [age(now(PRODUCER_IDEMPOTENCE_STATE_SINCE_TIMESTAMP_SECONDS, _OF)), now(PRODUCER_IDEMPOTENCE_STATE, _OF)],
        [
            Column("Value #A", "In it for", "s", width=120),
            Column("client_id", "Client"),
            Column("state", "State", width=200),
            Column("target", "Target"),
        ],
        sort=["In it for"],
        none="no librdkafka client",
    )
