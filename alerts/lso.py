"""Stalled and hanging: rows about the last stable offset, an alert for each transaction that holds partitions.

The agent exposes the instants at which a holder's stalls become a ticket and a page: by the thresholds of their topics,
by the holder's own timeout, and at once when it never ends by itself. So there is no ``for`` that a failed scrape or a
restart of Prometheus resets, and one producer that holds 5,000 partitions is one alert.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from exporter import catalogue
from exporter.alerts.evidence import ENDS, HELD, READERS, STEP, WAITING, WAITING_GROUPS, WHO, WORST
from exporter.alerts.jobs import NEWEST_AUDIT
from exporter.alerts.rule import Alert, Board, Record, Severity

_HOLDER = "kafka_cluster, producer_id"
_KNOWN = 'kind=~"open|completing"'
_NOT_HANGING = 'kind=~"open|completing|unmarked"'
"""Kinds that exclude that a transaction hangs, also where only one replica reports them."""
_DAY = 86400


_OPEN = f'{catalogue.TRANSACTION_OPEN_SECONDS}_bucket{{outcome="committed"}}'
_COUNT = f'{catalogue.TRANSACTION_OPEN_SECONDS}_count{{outcome="committed"}}'
_BY = "kafka_cluster, application"
HABIT = Record(
    "kafka_cluster_application:kafka_eos_transaction_open_seconds:habit",
    f"""\
clamp(max by ({_BY}) (histogram_quantile(0.9, increase({_OPEN}[1d]))) - 300, 0, 590)
and max by ({_BY}) (increase({_COUNT}[1d])) >= 5""",
)
"""By how many seconds the committed transactions of an application are usually open for longer than five minutes, up to
just below the quarter of an hour after which a stall is a page."""


_of_holder = partial(Alert, dashboard=Board.STALLS, of_holder=True, steady=True)


def records() -> Iterator[Record]:
    """Recording rules that the evidence reads, so that its cost does not grow with the replicas."""
    yield WORST
    yield WAITING_GROUPS


def alerts() -> Iterator[Alert]:
    """A holder of stalled partitions, as a ticket and as a page; a hanging one, and a committed one without marker.

    Those that are due longest come first: a holder leaves the list only when it is over.
    """
    summary_of = "{{ $labels.kafka_cluster }}: " + READERS + WHO
    yield _of_holder(
        "KafkaEosLsoStalled",
        None,
        # Not a page as one that never ends while another replica reports that a coordinator has it.
        expr=f"""\
time() - min by ({_HOLDER}, severity) (
  {catalogue.LSO_HOLDER_DUE_TIMESTAMP_SECONDS}{{severity="warning"}} + on ({_BY}) group_left () {HABIT}
  or
  {catalogue.LSO_HOLDER_DUE_TIMESTAMP_SECONDS}{{severity="warning"}}
  or
  {catalogue.LSO_HOLDER_DUE_TIMESTAMP_SECONDS}{{severity="critical", kind!~"hanging|unmarked"}}
  or
  {catalogue.LSO_HOLDER_DUE_TIMESTAMP_SECONDS}{{severity="critical"}}
  unless on ({_HOLDER})
  {catalogue.LSO_HOLDER_PARTITIONS}{{{_KNOWN}}}
) > 0""",
        summary=summary_of + ENDS + ".",
        description=STEP + HELD + WAITING,
        when="a ticket: a transaction holds the last stable offset of a partition for more than 5m (topic:"
        " stall_warning), and for longer than is usual for its application; a page: for more than 15m (topic:"
        " stall_critical), or for a minute longer than its own timeout; at once when it hangs, or was committed and"
        " lacks its marker",
    )
    yield _of_holder(
        "KafkaEosHangingTransaction",
        Severity.CRITICAL,
        expr=_endless("hanging", _NOT_HANGING),
        summary=summary_of
        + ", which never ends by itself: no coordinator has it, and nobody was promised its records.",
        description=STEP + HELD + WAITING,
        when="no coordinator has the transaction that holds stalled partitions; fires at once",
    )
    yield _of_holder(
        "KafkaEosUnmarkedTransaction",
        Severity.CRITICAL,
        expr=_endless("unmarked", _KNOWN),
        summary=summary_of + ", which was committed and lost its marker: do not end it by hand.",
        description=STEP
        + " An abort would destroy its committed records; the next commit of the same producer on these partitions"
        " releases them." + HELD + WAITING,
        when="the transaction that holds stalled partitions was committed, and they lack its marker; fires at once",
    )
    yield Alert(
        "KafkaEosTornTransaction",
        Severity.CRITICAL,
        Board.STALLS,
        f"""\
max by (kafka_cluster, topic) (
  {catalogue.AUDIT_FINDINGS}{{kind="torn_commit"}} and ignoring (kind) {NEWEST_AUDIT}
) > 0""",
        "{{ $labels.kafka_cluster }}: readers of {{ $labels.topic }} are not given records of {{ $value }} committed"
        " transaction(s). A partition lacks the commit marker, or has an abort marker.",
        "First: open the agent's status page (page_url), which names transactions and partitions. With an abort marker"
        " the records are lost to read_committed readers: write them again from their source. Without a marker, the"
        " next commit of the same producer on the partition releases them.",
        when="the last `audit markers` found a committed transaction that lacks its marker in a partition, or has an"
        " abort in its place; fires at once",
    )


def _endless(kind: str, known: str) -> str:
    """Holders of a kind that never ends by itself, unless another replica says that it is of a known kind.

    A holder is due, unless the thresholds ignore all its topics.
    """
    return f"""\
time() - min by ({_HOLDER}) (
  {catalogue.LSO_HOLDER_DUE_TIMESTAMP_SECONDS}{{severity="critical", kind="{kind}"}} < time() + {_DAY}
  unless on ({_HOLDER})
  {catalogue.LSO_HOLDER_PARTITIONS}{{{known}}}
)"""
