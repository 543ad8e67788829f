"""Rows about clients that cannot recover by themselves: Kafka Streams in an error, librdkafka after a fatal one."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import per_row
from exporter.alerts.rule import BRIDGE, EVENT_WINDOW, Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    PRODUCER_IDEMPOTENCE_STATE,
    PRODUCER_TXN_STATE,
    STREAMS_CLIENT_STATE,
    STREAMS_FAILED_THREADS_TOTAL,
    STREAMS_THREAD_STATE,
)

_CLIENT = "kafka_cluster, target, client_id"
_JVM = "kafka_cluster, target"


def alerts(_: Settings) -> Iterator[Alert]:
    """Dead Streams clients and threads, and producers with a fatal error."""
    yield from _streams_clients()
    yield _streams_threads()
    yield from _fatal()


def _streams_clients() -> Iterator[Alert]:
    failed = f'{STREAMS_CLIENT_STATE}{{state=~"error|pending_error"}}'
    what = (
        (
            "{{ $labels.kafka_cluster }}: Streams client {{ $labels.client_id }} ({{ $labels.target }}) is in state"
            " ERROR. It processes nothing, and does not start again by itself."
        ),
        (
            "First: mend what the exception in the application's log names (uncaught exception handler), then start the"
            " instance again. Its tasks go to other instances if there are any; otherwise their input waits. The state"
            " is restored from the changelogs."
        ),
        "kafka-eos-streams",
        ("kafka_cluster", "target"),
    )
    labels = (("reason", "client"),)
    yield Alert(
        "KafkaEosStreamsFailed",
        Severity.WARNING,
        f"group by ({_CLIENT}) (present_over_time({failed}[{EVENT_WINDOW}]))",
        *what,
        keeps=False,
        labels=labels,
        when=f"a Streams client failed; fires until {EVENT_WINDOW} after the failure was last seen",
    )
    yield Alert(
        "KafkaEosStreamsFailed",
        Severity.CRITICAL,
        f"group by ({_CLIENT}) (present_over_time({failed}[{BRIDGE}]))",
        *what,
        hold="5m",
        labels=labels,
        when="a Streams client stays failed for 5m, or fails repeatedly",
    )


def _streams_threads() -> Alert:
    alive = f'count by ({_JVM}) (group by ({_JVM}, thread) ({STREAMS_THREAD_STATE}{{state!="dead"}}))'
    dead = f'count by ({_JVM}) (group by ({_JVM}, thread) ({STREAMS_THREAD_STATE}{{state="dead"}}))'
    return Alert(
        "KafkaEosStreamsFailed",
        Severity.WARNING,
        # The metrics of a dead thread may disappear with it: then there are fewer than before. Without a failed thread
        # the instance was scaled down.
        f"""\
{dead}
or
max_over_time(({alive})[1h:1m]) - {alive} > 0
unless on ({_JVM})
  max by ({_JVM}) (max_over_time({STREAMS_FAILED_THREADS_TOTAL}[1h])) == 0""",
        "{{ $labels.kafka_cluster }}: {{ $value }} stream thread(s) of {{ $labels.target }} are dead or gone. The"
        " others do their work, and it may be too much for them.",
        "First: read the exception in the application's log, mend what it names, and start the instance again."
        + per_row(
            f"topk(5, group by (thread, state) ({STREAMS_THREAD_STATE}{{kafka_cluster=%q, target=%q}}))",
            "\n- {{ .Labels.thread }}: {{ .Labels.state }}",
            "kafka_cluster",
            "target",
        )
        + "\nA thread is replaced only where the uncaught exception handler says so (REPLACE_THREAD).",
        "kafka-eos-streams",
        ("kafka_cluster", "target"),
        hold="10m",
        labels=(("reason", "thread"),),
        when="a stream thread is dead, or an instance has fewer threads than in the last hour and one failed, for 10m",
    )


def _fatal() -> Iterator[Alert]:
    states = (PRODUCER_TXN_STATE, PRODUCER_IDEMPOTENCE_STATE)
    transactional, idempotent = (f'{metric}{{state="fatal_error"}}' for metric in states)

    def over(window: str) -> str:
        return f"""\
group by ({_CLIENT}) (
  present_over_time({transactional}[{window}])
  or
  present_over_time({idempotent}[{window}])
)"""

    what = (
        (
            "{{ $labels.kafka_cluster }}: client {{ $labels.client_id }} of {{ $labels.target }} had a fatal error. It"
            " sends nothing any more until its application makes a new one."
        ),
        (
            "First: read the error in the application's log (rd_kafka_fatal_error, KafkaException with fatal())."
            " Fenced: stop the second instance with its transactional.id before you start this one again. Otherwise it"
            " may lack the right to its transactional.id, or its sequence broke. Let the application close the client"
            " and make a new one; if it goes on with the old one, start the application again."
        ),
        "kafka-eos-producers",
    )
    yield Alert(
        "KafkaEosProducerFatalError",
        Severity.WARNING,
        over(EVENT_WINDOW),
        *what,
        keeps=False,
        when=f"a librdkafka client had a fatal error; fires until {EVENT_WINDOW} after it was last seen",
    )
    yield Alert(
        "KafkaEosProducerFatalError",
        Severity.CRITICAL,
        over(BRIDGE),
        *what,
        hold="5m",
        when="such a client is still in use 5m later, or has fatal errors repeatedly",
    )
