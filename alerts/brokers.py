"""Rows about brokers: errors that only they see, slow commits, and the disks and the cleaner of the internal topics.

The transaction log shows a fence only where a transaction was open. A producer that was idle when another one took over
its id is refused at its next write, and only the brokers' counters show that refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from exporter import catalogue
from exporter.alerts.rule import BRIDGE, Alert, Board, Record, Severity

LEAST_DAYS = 7
MOST_PRODUCER_IDS = 1_000_000
SLOW_SECONDS = 1
_BROKER = "kafka_cluster, broker"
_AT = "{{ $labels.kafka_cluster }}: broker {{ $labels.broker }}"
_FENCING = 'error=~"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH|FENCED_INSTANCE_ID"'
_ERROR = "kafka_cluster, broker, request, error"
_REFUSED = {window: f"kafka_cluster:kafka_eos_broker_zombie_requests:increase{window}" for window in ("10m", "1h")}
_CONCURRENT = "kafka_cluster:kafka_eos_broker_concurrent_transactions:increase10m"
_ENDED = "kafka_cluster:kafka_eos_broker_end_requests:increase10m"


def records() -> Iterator[Record]:
    """By cluster: CONCURRENT_TRANSACTIONS, EndTxn requests, and refused requests of fenced clients, with and without
    those of the canary.

    The canary is fenced on purpose, and counts by itself how often. A tenth more is taken off, as the two counters are
    scraped at different instants.
    """
    errors = f'increase({catalogue.BROKER_REQUEST_ERRORS_TOTAL}{{error="CONCURRENT_TRANSACTIONS"}}[10m])'
    yield Record(_CONCURRENT, f"sum by (kafka_cluster) (max by (kafka_cluster, broker, request) ({errors}))")
    requests = f'increase({catalogue.BROKER_REQUESTS_TOTAL}{{request="EndTxn"}}[10m])'
    yield Record(_ENDED, f"sum by (kafka_cluster) (max by (kafka_cluster, broker, version) ({requests}))")
    for window in ("10m", "1h"):
        increase = f"increase({catalogue.BROKER_REQUEST_ERRORS_TOTAL}{{{_FENCING}}}[{window}])"
        every = Record(
            f"kafka_cluster:kafka_eos_broker_fenced_requests:increase{window}",
            f"sum by (kafka_cluster) (max by ({_ERROR}) ({increase}))",
        )
        yield every
        own = f'sum by (kafka_cluster) (increase({catalogue.CANARY_TRANSACTIONS_TOTAL}{{outcome="fenced"}}[{window}]))'
        yield Record(_REFUSED[window], f"{every} - on (kafka_cluster) 1.1 * {own} or {every}")


def alerts() -> Iterator[Alert]:
    """Refused requests of transactional clients."""
    hours = "\nand ".join(f"{_REFUSED['1h']}{back} > 0" for back in ("", " offset 1h", " offset 2h"))
    yield _of_broker(
        "KafkaEosZombieProducers",
        f"{_REFUSED['10m']} >= 3\nor\n{hours}",
        "{{ $labels.kafka_cluster }}: brokers refuse requests of fenced clients. They write nothing twice, and throw"
        " each other out for as long as two share a transactional.id.",
        "First: find two live instances with one transactional.id, and stop one. Their logs have"
        " ProducerFencedException or InvalidProducerEpochException; the broker's request log has their addresses."
        "\nA client whose transaction had timed out is refused as well, and one that asks again after its coordinator"
        " moved (KAFKA-20310): then there is no second instance.",
        "brokers refused 3 requests or more of fenced clients in 10m, or some in each of the last 3 hours",
    )
    yield _refusals()
    yield _of_broker(
        "KafkaEosConcurrentTransactions",
        f"{_CONCURRENT} > 100 and {_CONCURRENT} > 10 * {_ENDED}",
        "{{ $labels.kafka_cluster }}: brokers answered {{ $value | humanize }} requests in 10 minutes with"
        " CONCURRENT_TRANSACTIONS, more than ten for each transaction that ended. A transactional.id waits for the end"
        " of its own transaction, and writes nothing.",
        "First: look for a transaction that completes and does not end, on the page or with `transactions stalled`: the"
        " broker of its partition does not take its marker. On Kafka before its fix, a transaction at the last producer"
        " epoch does the same.",
        "brokers answer more than 10 CONCURRENT_TRANSACTIONS for each transaction that ends, for 10m",
        hold="10m",
    )
    yield _of_broker(
        "KafkaEosVerificationFailures",
        f"max by ({_BROKER}) (increase({catalogue.BROKER_TXN_VERIFICATION_FAILURES_TOTAL}[15m])) > 10",
        _AT + " refused writes to {{ $value | humanize }} partitions in 15 minutes, of transactions that are not open."
        " Nothing is broken yet: the refusals prevented that.",
        "First: look which application aborts, times out or is fenced at the same time: its producers go on writing"
        " after the end of their transaction, or its client has a bug. Without the refusal (KIP-890) such a write"
        " leaves a hanging transaction.",
        "a broker refused writes to more than 10 partitions in 15m",
    )


class RefusedRequests(NamedTuple):
    """Errors of one meaning that brokers answer to a kind of request, and how many of them in 15 minutes are usual.

    ``meaning`` is a sentence, ``step`` the first action.
    """

    errors: str
    request: str
    usual: int
    meaning: str
    step: str


REFUSALS = (
    RefusedRequests(
        "OUT_OF_ORDER_SEQUENCE_NUMBER|UNKNOWN_PRODUCER_ID",
        "Produce",
        10,
        "Records before these batches may be lost.",
        "see whether a leader moved then: a few refusals follow, and the client sends the batches again. Otherwise look"
        " for an unclean leader election, a leader that lost its log, a deleted segment, or a client that gave up a"
        " batch and went on. The client's log has the partition.",
    ),
    RefusedRequests(
        "ILLEGAL_GENERATION|STALE_MEMBER_EPOCH|UNKNOWN_MEMBER_ID",
        "TxnOffsetCommit",
        10,
        "The consumers of these transactions had lost the partitions: the transactions are aborted and their records"
        " are processed again.",
        "see whether an application is being deployed, or rebalances: a few refusals are the fence that exactly-once"
        " needs. If they go on, an instance works longer than max.poll.interval.ms, or keeps the group metadata of an"
        " earlier generation: its log has CommitFailedException or IllegalGenerationException.",
    ),
    RefusedRequests(
        "INVALID_TRANSACTION_TIMEOUT",
        "InitProducerId",
        0,
        "These producers cannot start, and write nothing.",
        "set a transaction.timeout.ms in the application that is not above the brokers' transaction.max.timeout.ms (15m"
        " by default). Flink's KafkaSink asks for 1h unless its job sets another one.",
    ),
    RefusedRequests(
        "INVALID_PRODUCER_ID_MAPPING",
        "",
        0,
        "A producer goes on with a transactional.id that expired: until it is restarted, its transactions fail.",
        "restart the producer whose log has InvalidPidMappingException or INVALID_PRODUCER_ID_MAPPING: a client that"
        " does not initialise anew never recovers. `kafka-eos-exporter transactions recent` names the ids that expired"
        " in the last hour.",
    ),
)


def _refusals() -> Alert:
    """One alert for each broker and error; its text is of the error."""

    def above(refusal: RefusedRequests) -> str:
        request = f'request="{refusal.request}", ' if refusal.request else ""
        errors = f'error{"=~" if "|" in refusal.errors else "="}"{refusal.errors}"'
        which = f"{catalogue.BROKER_REQUEST_ERRORS_TOTAL}{{{request}{errors}}}"
        return f"max by ({_BROKER}, error) (increase({which}[15m])) > {refusal.usual}"

    def of_error(texts: Iterable[str]) -> str:
        cases = [f'if match "{row.errors}" $labels.error }}}}{text}' for row, text in zip(REFUSALS, texts, strict=True)]
        return "{{ " + "{{ else ".join(cases) + "{{ end }}"

    return _of_broker(
        "KafkaEosRequestsRefused",
        "\nor\n".join(above(row) for row in REFUSALS),
        _AT
        + " refused {{ $value | humanize }} request(s) in 15 minutes with {{ $labels.error }}. "
        + of_error(row.meaning for row in REFUSALS),
        "First: " + of_error(row.step for row in REFUSALS),
        "in 15m a broker answered "
        + "; or ".join(
            f"{row.errors.replace('|', ', ')}{row.request and f' to {row.request}'}"
            f" {f'more than {row.usual} times' if row.usual else 'once or more'}"
            for row in REFUSALS
        ),
    )


def storage_alerts() -> Iterator[Alert]:
    """Commits that are slow, producer ids without number, and internal topics that fill a disk."""
    yield _of_broker(
        "KafkaEosCommitsSlow",
        f"max by ({_BROKER}) (max_over_time({catalogue.BROKER_REQUEST_DURATION_SECONDS}"
        f'{{request="EndTxn", quantile="0.99"}}[{BRIDGE}])) > {SLOW_SECONDS}',
        _AT + " takes {{ $value | humanizeDuration }} or longer for one in a hundred commits and aborts. Producers wait"
        " as long before their next transaction.",
        "First: look at the in-sync replicas of __transaction_state and the disk of that broker: EndTxn is answered"
        " once the decision is replicated. Its request queue and the load of its partitions are on the dashboard.",
        f"the 99th percentile of EndTxn at a broker is above {SLOW_SECONDS} s for 15m",
        hold="15m",
    )
    yield _of_broker(
        "KafkaEosProducerIdsMany",
        f"max by ({_BROKER}) (max_over_time({catalogue.BROKER_PRODUCER_IDS}[{BRIDGE}])) > {MOST_PRODUCER_IDS}",
        _AT + " keeps the state of {{ $value | humanize }} producers in memory. Each takes some hundred bytes of its"
        " heap until it expires.",
        "First: find clients that make a new producer for each record or request: each gets a producer id of its own,"
        " for every partition that it writes to. They are forgotten after producer.id.expiration.ms (a day).",
        f"a broker keeps the state of more than {MOST_PRODUCER_IDS:,} producers for 15m",
        hold="15m",
    )
    growth = f"sum by ({_BROKER}) (max by ({_BROKER}, topic) (deriv({catalogue.INTERNAL_TOPIC_SIZE_BYTES}[6h])))"
    usable = f"min by ({_BROKER}) (max_over_time({catalogue.BROKER_LOG_DIR_USABLE_BYTES}[15m]))"
    yield _of_broker(
        "KafkaEosInternalTopicGrows",
        f"""\
group by ({_BROKER}) (
  max_over_time({catalogue.BROKER_UNCLEANABLE_PARTITIONS}[{BRIDGE}]) > 0
  or
  max_over_time({catalogue.BROKER_DEAD_CLEANER_THREADS}[{BRIDGE}]) > 0
  or
  {usable} / ({growth} > 0) / 86400 < {LEAST_DAYS}
)""",
        _AT + f" may run out of disk: its log cleaner gave up, or the internal topics fill it in less than {LEAST_DAYS}"
        " days at the growth of the last 6 hours.",
        "First: look in log-cleaner.log of that broker for partitions that it gave up (`uncleanable`), and the error"
        " beside them. A restart of the broker makes the cleaner try again; if it gives up again, the log is damaged or"
        " the version has a bug. Otherwise see which of the two topics grows: an application that makes a new"
        " transactional.id at every start fills __transaction_state, and one that commits offsets far too often"
        " __consumer_offsets.",
        "a broker's cleaner has given up partitions, or lost a thread; or at the growth of 6h the internal topics fill"
        f" its disk in less than {LEAST_DAYS} days, for 1h",
        hold="1h",
    )


def _of_broker(name: str, expr: str, summary: str, description: str, when: str, hold: str = "") -> Alert:
    return Alert(name, Severity.WARNING, Board.BROKERS, expr, summary, description, hold=hold, when=when)
