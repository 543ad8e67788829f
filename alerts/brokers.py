"""Rows about errors that only the brokers see: fenced producers without an open transaction, and broken sequences.

The transaction log shows a fence only where a transaction was open. A producer that was idle when another one took over
its id is refused at its next write, and only the brokers' counters show that refusal.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from exporter.alerts.evidence import per_row
from exporter.alerts.rule import Alert, Record, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    BROKER_REQUEST_ERRORS_TOTAL,
    BROKER_REQUESTS_TOTAL,
    BROKER_TXN_VERIFICATION_FAILURES_TOTAL,
    CANARY_TRANSACTIONS_TOTAL,
    EXPIRED_TRANSACTIONAL_IDS,
    PRODUCER_INITS_TOTAL,
)

DASHBOARD = "kafka-eos-brokers"
_FENCING = 'error=~"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH|FENCED_INSTANCE_ID"'
_SEQUENCE = 'request="Produce", error=~"OUT_OF_ORDER_SEQUENCE_NUMBER|UNKNOWN_PRODUCER_ID"'
_GENERATION = 'request="TxnOffsetCommit", error=~"ILLEGAL_GENERATION|STALE_MEMBER_EPOCH|UNKNOWN_MEMBER_ID"'
_ERROR = "kafka_cluster, broker, request, error"
_REFUSED = {window: f"kafka_cluster:kafka_eos_broker_zombie_requests:increase{window}" for window in ("10m", "1h")}
_CONCURRENT = "kafka_cluster:kafka_eos_broker_concurrent_transactions:increase10m"
_ENDED = "kafka_cluster:kafka_eos_broker_end_requests:increase10m"


_of_broker = partial(Alert, dashboard=DASHBOARD, variables=("kafka_cluster", "broker"))


def alerts(_: Settings) -> Iterator[Alert]:
    """Refused zombie producers, broken sequences, and writes that verification refused."""
    yield _zombies()
    yield _of_broker(
        "KafkaEosSequenceErrors",
        Severity.WARNING,
        f"max by (kafka_cluster, broker, error) (increase({BROKER_REQUEST_ERRORS_TOTAL}{{{_SEQUENCE}}}[15m])) > 10",
        "{{ $labels.kafka_cluster }}: broker {{ $labels.broker }} refused {{ $value | humanize }} batches in 15"
        " minutes with {{ $labels.error }}. Records before them may be lost.",
        "First: see whether a leader moved then: a few refusals follow, and the client sends the batches again."
        " Otherwise look for an unclean leader election, a leader that lost its log, a deleted segment, or a client"
        " that gave up a batch and went on. The client's log has the partition.",
        when="a broker refused more than 10 batches in 15m for their sequence",
    )
    yield _generations()
    yield _concurrent()
    yield _of_broker(
        "KafkaEosVerificationFailures",
        Severity.WARNING,
        f"max by (kafka_cluster, broker) (increase({BROKER_TXN_VERIFICATION_FAILURES_TOTAL}[15m])) > 10",
        "{{ $labels.kafka_cluster }}: broker {{ $labels.broker }} refused writes to {{ $value | humanize }}"
        " partitions in"
        " 15 minutes, of transactions that are not open. Nothing is broken yet: the refusals prevented that.",
        "First: look which application aborts, times out or is fenced at the same time: its producers go on writing"
        " after the end of their transaction, or its client has a bug. Without the refusal (KIP-890) such a write"
        " leaves a hanging transaction.",
        when="a broker refused writes to more than 10 partitions in 15m",
    )
    yield _timeout_refused()
    yield _expired()


def _expired() -> Alert:
    refused = 'error="INVALID_PRODUCER_ID_MAPPING"'
    return Alert(
        "KafkaEosTransactionalIdExpired",
        Severity.WARNING,
        f"max by (kafka_cluster) (increase({BROKER_REQUEST_ERRORS_TOTAL}{{{refused}}}[10m])) > 0",
        "{{ $labels.kafka_cluster }}: brokers refused {{ $value | humanize }} request(s) in 10 minutes with"
        " INVALID_PRODUCER_ID_MAPPING: a producer goes on with a transactional.id that expired. Each of its"
        " transactions fails until it is restarted.",
        "First: restart the producer whose log has InvalidPidMappingException or INVALID_PRODUCER_ID_MAPPING: a client"
        " that does not initialise anew never recovers. `kafka-eos-exporter transactions recent` names the ids that"
        " expired in the last hour, of"
        + per_row(
            f"topk(5, max by (application) ({EXPIRED_TRANSACTIONAL_IDS}{{kafka_cluster=%q}}) > 0)",
            "\n- application {{ .Labels.application }}: {{ .Value }} transactional id(s)",
            "kafka_cluster",
            otherwise=" none that is known.",
        ),
        DASHBOARD,
        ("kafka_cluster",),
        when="a broker refused a request with INVALID_PRODUCER_ID_MAPPING in the last 10m",
    )


def _timeout_refused() -> Alert:
    refused = 'request="InitProducerId", error="INVALID_TRANSACTION_TIMEOUT"'
    return _of_broker(
        "KafkaEosTransactionTimeoutRefused",
        Severity.WARNING,
        f"max by (kafka_cluster, broker) (increase({BROKER_REQUEST_ERRORS_TOTAL}{{{refused}}}[10m])) > 0",
        "{{ $labels.kafka_cluster }}: broker {{ $labels.broker }} refused {{ $value | humanize }} producer(s) in 10"
        " minutes for their transaction timeout. They cannot start, and write nothing.",
        "First: set a transaction.timeout.ms in the application that is not above the brokers'"
        " transaction.max.timeout.ms (15m by default). Flink's KafkaSink asks for 1h unless its job sets another one.",
        when="a broker refused a producer for its transaction timeout in the last 10m",
    )


def _generations() -> Alert:
    return _of_broker(
        "KafkaEosConsumerGenerationFenced",
        Severity.WARNING,
        f"max by (kafka_cluster, broker, error) (increase({BROKER_REQUEST_ERRORS_TOTAL}{{{_GENERATION}}}[15m])) > 10",
        "{{ $labels.kafka_cluster }}: broker {{ $labels.broker }} refused {{ $value | humanize }} offset commits of"
        " transactions in 15 minutes with {{ $labels.error }}: their consumers had lost the partitions to others. These"
        " transactions are aborted and their records are processed again.",
        "First: see whether an application is being deployed, or rebalances: a few refusals are the fence that"
        " exactly-once needs. If they go on, an instance works longer than max.poll.interval.ms, or keeps the group"
        " metadata of an earlier generation: its log has CommitFailedException or IllegalGenerationException.",
        when="a broker refused more than 10 transactional offset commits in 15m for their generation",
    )


def _concurrent() -> Alert:
    refused, ended = _CONCURRENT, _ENDED
    return Alert(
        "KafkaEosConcurrentTransactions",
        Severity.WARNING,
        f"{refused} > 100 and {refused} > 10 * {ended}",
        "{{ $labels.kafka_cluster }}: brokers answered {{ $value | humanize }} requests in 10 minutes with"
        " CONCURRENT_TRANSACTIONS, more than ten for each transaction that ended. A transactional.id waits for the end"
        " of its own transaction, and writes nothing.",
        "First: look for a transaction that completes and does not end, on the page or with `transactions stalled`: the"
        " broker of its partition does not take its marker. On Kafka before its fix, a transaction at the last producer"
        " epoch does the same; `check posture` names such faults.",
        DASHBOARD,
        ("kafka_cluster",),
        hold="10m",
        when="brokers answer more than 10 CONCURRENT_TRANSACTIONS for each transaction that ends, for 10m",
    )


def records() -> Iterator[Record]:
    """By cluster: CONCURRENT_TRANSACTIONS, EndTxn requests, and refused requests of fenced clients, with and without
    those of the canary.

    The canary is fenced on purpose, and counts by itself how often. A tenth more is taken off, as the two counters are
    scraped at different instants.
    """
    errors = f'increase({BROKER_REQUEST_ERRORS_TOTAL}{{error="CONCURRENT_TRANSACTIONS"}}[10m])'
    yield Record(_CONCURRENT, f"sum by (kafka_cluster) (max by (kafka_cluster, broker, request) ({errors}))")
    requests = f'increase({BROKER_REQUESTS_TOTAL}{{request="EndTxn"}}[10m])'
    yield Record(_ENDED, f"sum by (kafka_cluster) (max by (kafka_cluster, broker, version) ({requests}))")
    for window in ("10m", "1h"):
        increase = f"increase({BROKER_REQUEST_ERRORS_TOTAL}{{{_FENCING}}}[{window}])"
        every = Record(
            f"kafka_cluster:kafka_eos_broker_fenced_requests:increase{window}",
            f"sum by (kafka_cluster) (max by ({_ERROR}) ({increase}))",
        )
        yield every
        own = f'sum by (kafka_cluster) (increase({CANARY_TRANSACTIONS_TOTAL}{{outcome="fenced"}}[{window}]))'
        yield Record(_REFUSED[window], f"{every} - on (kafka_cluster) 1.1 * {own} or {every}")


def _zombies() -> Alert:
    where = per_row(
        f"topk(5, max by (broker, request, error) (increase({BROKER_REQUEST_ERRORS_TOTAL}"
        f"{{kafka_cluster=%q, {_FENCING}}}[1h])) >= 1)",
        "\n- broker {{ .Labels.broker }}, {{ .Labels.request }}, {{ .Labels.error }}: {{ .Value | humanize }} in 1h",
        "kafka_cluster",
    )
    who = per_row(
        f"topk(5, max by (application) (increase({PRODUCER_INITS_TOTAL}{{kafka_cluster=%q}}[1h])) >= 1)",
        "\n- producers of {{ .Labels.application }} were initialised {{ .Value | humanize }} times in 1h",
        "kafka_cluster",
    )
    hours = "\nand ".join(f"{_REFUSED['1h']}{back} > 0" for back in ("", " offset 1h", " offset 2h"))
    return Alert(
        "KafkaEosZombieProducers",
        Severity.WARNING,
        f"{_REFUSED['10m']} >= 3\nor\n{hours}",
        "{{ $labels.kafka_cluster }}: brokers refused"
        + per_row(f"{_REFUSED['1h']}{{kafka_cluster=%q}}", " {{ .Value | humanize }}", "kafka_cluster")
        + " requests of fenced clients in an hour. They write nothing twice, and throw each other out for as long as"
        " two share a transactional.id.",
        "First: find two live instances with one transactional.id, and stop one. Their logs have"
        " ProducerFencedException or InvalidProducerEpochException; the broker's request log has their addresses."
        + where
        + who
        + "\nA client whose transaction had timed out is refused as well, and one that asks again after its coordinator"
        " moved (KAFKA-20310): then there is no second instance. Where no transaction was open, the transaction log"
        " shows no fence.",
        DASHBOARD,
        when="brokers refused 3 requests or more of fenced clients in 10m, or some in each of the last 3 hours",
    )
