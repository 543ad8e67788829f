"""Failures of engines and clients: a ticket when one is over, a page when it lasts for five minutes or recurs.

Connect's tasks, Kafka Streams' clients, librdkafka's clients and Spark's queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from exporter import catalogue
from exporter.alerts.evidence import per_row
from exporter.alerts.rule import BRIDGE, EVENT_WINDOW, Alert, Board, by_severity


class FailureTicket(NamedTuple):
    """A kind of subject that fails. ``state`` are the series that exist while it has failed, ``by`` their labels.

    ``event`` is one more condition of a ticket; ``stays`` is what keeps a page that already fires.
    """

    name: str
    board: Board
    by: str
    state: tuple[str, ...]
    summary: str
    description: str
    when: str
    event: str = ""
    stays: str = ""
    reason: str = ""

    def alert(self) -> Alert:
        """The alert: its tickets last for a while after the end, its pages as long as the failure."""
        return Alert(
            self.name,
            None,
            self.board,
            by_severity(self._within(EVENT_WINDOW, self.event), self._within(BRIDGE, self.stays)),
            self.summary,
            self.description,
            hold="5m",
            steady=True,
            reason=self.reason,
            when=f"a ticket: {self.when}; until {EVENT_WINDOW} after it was last seen; a page: it stays so for 5m, or"
            " does so repeatedly",
        )

    def _within(self, window: str, more: str) -> str:
        conditions = [f"present_over_time({state}[{window}])" for state in self.state]
        return f"group by ({self.by}) (\n  " + "\n  or\n  ".join((*conditions, *filter(None, [more]))) + "\n)"


_TASK = "kafka_cluster, connect, connector, task"
_CLIENT = "kafka_cluster, target, client_id"
_QUERY = "kafka_cluster, spark_application, query"


def _answers(up: int) -> str:
    """Whether a Connect cluster answers an agent completely. The source's target is its name."""
    return f'label_replace({catalogue.SOURCE_UP}{{source="connect"}} == {up}, "connect", "$1", "target", "(.*)")'


def _paged(alert: str) -> str:
    return f'ALERTS{{alertname="{alert}", alertstate="firing", severity="critical"}}'


FAILURES = (
    FailureTicket(
        "KafkaEosConnectTaskFailed",
        Board.CLIENTS,
        _TASK,
        (f'{catalogue.CONNECT_TASK_STATE}{{state="failed"}}',),
        "{{ $labels.kafka_cluster }}: task {{ $labels.task }} of connector {{ $labels.connector }} (Connect"
        " {{ $labels.connect }}) failed. Nothing restarts it by itself, and its data waits.",
        "First: read why, on the agent's status page (page_url) or by GET /connectors/{{ $labels.connector }}/status of"
        " any worker. Mend that, and restart it: POST"
        " /connectors/{{ $labels.connector }}/tasks/{{ $labels.task }}/restart"
        + per_row(
            f"round(max by (cause) (increase({catalogue.CONNECT_TASK_FAILURES_TOTAL}"
            "{kafka_cluster=%q, connect=%q, connector=%q, task=%q}[1h]))) > 0",
            "\n- in the last hour by cause {{ .Labels.cause }}: {{ .Value }}",
            *("kafka_cluster", "connect", "connector", "task"),
        )
        + "\nA transaction.boundary.interval.ms at or above the transaction timeout makes it fail again (check"
        " connect_boundary_interval). Caused by a fence (fenced, invalid_epoch), look for"
        " a second worker or Connect cluster with the same"
        " group.id; a zombie is fenced on purpose after a rebalance.",
        "a task of Connect failed",
        # It is not known that the task runs again while Connect does not answer.
        stays=f"""\
{_paged("KafkaEosConnectTaskFailed")}
  and on (kafka_cluster, connect) {_answers(0)}
  unless on (kafka_cluster, connect) {_answers(1)}
  unless on ({_TASK}) present_over_time({catalogue.CONNECT_TASK_STATE}{{state!="failed"}}[10m])""",
    ),
    FailureTicket(
        "KafkaEosStreamsFailed",
        Board.CLIENTS,
        _CLIENT,
        (f'{catalogue.STREAMS_CLIENT_STATE}{{state=~"error|pending_error"}}',),
        "{{ $labels.kafka_cluster }}: Streams client {{ $labels.client_id }} ({{ $labels.target }}) is in state"
        " ERROR. It processes nothing, and does not start again by itself.",
        "First: mend what the exception in the application's log names (uncaught exception handler), then start the"
        " instance again. Its tasks go to other instances if there are any; otherwise their input waits.",
        "a Streams client failed",
        reason="client",
    ),
    FailureTicket(
        "KafkaEosProducerFatalError",
        Board.CLIENTS,
        _CLIENT,
        (
            f'{catalogue.PRODUCER_TXN_STATE}{{state="fatal_error"}}',
            f'{catalogue.PRODUCER_IDEMPOTENCE_STATE}{{state="fatal_error"}}',
        ),
        "{{ $labels.kafka_cluster }}: client {{ $labels.client_id }} of {{ $labels.target }} had a fatal error. It"
        " sends nothing any more until its application makes a new one.",
        "First: read the error in the application's log (rd_kafka_fatal_error, KafkaException with fatal())."
        " Fenced: stop the second instance with its transactional.id before you start this one again. Let the"
        " application close the client and make a new one; if it goes on with the old one, start it again.",
        "a librdkafka client had a fatal error",
    ),
    FailureTicket(
        "KafkaEosSparkQueryTerminated",
        Board.JOBS,
        _QUERY,
        (f'{catalogue.SPARK_QUERY_STATE}{{state="failed"}}',),
        "{{ $labels.kafka_cluster }}: query {{ $labels.query }} of Spark application {{ $labels.spark_application }}"
        " was ended by an error. It reads nothing until it is started again.",
        "First: read the exception, on the agent's status page (page_url) or in the driver's log, mend what it names,"
        " and start the query again with the same checkpoint."
        + per_row(
            f"max by (reason) (increase({catalogue.SPARK_QUERY_TERMINATIONS_TOTAL}"
            '{kafka_cluster=%q, spark_application=%q, query=%q, reason!="stopped"}[1h])) > 0',
            "\n- in the last hour by {{ .Labels.reason }}: {{ .Value | humanize }}",
            *("kafka_cluster", "spark_application", "query"),
        )
        + "\ndata_loss: offsets that it needed are deleted: do not set failOnDataLoss=false before you know which."
        " concurrent_run: a second driver uses the same checkpoint: stop one. fenced: so does a producer of its with"
        " the same transactional.id.",
        "an error ended a query of Spark",
        # A query may restart between two reads: then only the count shows the failure.
        event=f'increase({catalogue.SPARK_QUERY_TERMINATIONS_TOTAL}{{reason!="stopped"}}[{EVENT_WINDOW}]) > 0',
        # A state is exposed for an hour after a driver's last report. A firing page stays until another state comes.
        stays=f"""\
{_paged("KafkaEosSparkQueryTerminated")}
  and on ({_QUERY})
  present_over_time({catalogue.SPARK_QUERY_STATE}{{state="failed"}}[1d])
  unless on ({_QUERY})
  present_over_time({catalogue.SPARK_QUERY_STATE}{{state!="failed"}}[10m])""",
    ),
)


def alerts() -> Iterator[Alert]:
    """One alert for each kind."""
    return (failure.alert() for failure in FAILURES)
