"""The advice of each check of the posture, for the tables of dashboards; a test holds it to the checks themselves."""

from __future__ import annotations

WHAT_TO_SET = {
    "internal_topic_creation": (
        "transaction.state.log.replication.factor and offsets.topic.replication.factor no higher than the number of"
        " brokers, on every broker, which takes a restart; or start the missing brokers"
    ),
    "internal_topic_replication": (
        "transaction.state.log.replication.factor=3, offsets.topic.replication.factor=3; reassign existing partitions"
    ),
    "internal_topic_size": (
        "the cleaner of the brokers that hold it: look for `uncleanable` and the topic in log-cleaner.log, then"
        " restart that broker"
    ),
    "transaction_log_topic": (
        "nothing: these brokers keep their transactions outside of __transaction_state (Redpanda, WarpStream;"
        " docs/managed.md)"
    ),
    "transaction_log_partitions": (
        "transaction.state.log.num.partitions=50 (the default) before the first transaction of a cluster"
    ),
    "transaction_log_min_isr": (
        "transaction.state.log.min.isr=2, and min.insync.replicas=2 on __transaction_state, with three replicas"
    ),
    "transaction_log_isr": ("restore the missing replicas: check for brokers that are down or lag behind"),
    "transaction_max_timeout": ("transaction.max.timeout.ms=900000 or less, as far as the applications allow"),
    "transaction_timeout": (
        "a transaction.timeout.ms of the application below the brokers' transaction.max.timeout.ms"
    ),
    "unclean_leader_election": "unclean.leader.election.enable=false on the brokers and on the topic",
    "topic_min_isr": ("replication factor 3 and min.insync.replicas=2 on topics that transactions write to"),
    "transaction_version": ("Kafka 4.0 or later, and kafka-features.sh upgrade --feature transaction.version=2"),
    "transaction_clients": (
        "Java clients 4.0 or later; librdkafka has no Transactions V2 yet, and the log does not tell "
        "which of them it is"
    ),
    "partition_verification": "transaction.partition.verification.enable=true",
    "transactional_id_expiration": ("transactional.id.expiration.ms=604800000 (the default), and no less than a day"),
    "group_isolation": "isolation.level=read_committed in the consumers of this group",
    "connect_worker_exactly_once": (
        "exactly.once.source.support=preparing on every worker in a rolling restart, then "
        "exactly.once.source.support=enabled in a second one (KIP-618); posture.ignore silences this "
        "check for a connector that may write duplicates"
    ),
    "connect_worker_version": "Kafka 3.3 or later on every worker, in a rolling restart",
    "connect_boundary_interval": (
        "a transaction.boundary.interval.ms well below producer.override.transaction.timeout.ms"
    ),
    "connect_sink_isolation": (
        "consumer.override.isolation.level=read_committed on the connector, or consumer.isolation.level on the workers"
    ),
    "connect_transactional_ids": ("another name for one of the two connectors: ids are <group.id>-<connector>-<task>"),
    "connect_offsets_topic": ("offsets.storage.topic of its own in the connector's configuration"),
    "sink_duplicates": "writes by primary key (upsert), or a deduplication behind the sink",
    "plain_writers": (
        "a transactional producer for every writer of the topic, or a topic of its own for the other ones"
        " (`kafka-eos-exporter transactions inventory`)"
    ),
    "suggested_timeout": (
        "the transaction.timeout.ms that its own transactions suggest, if a restart of the application is not longer"
    ),
    "two_phase_commit": (
        "transaction.two.phase.commit.enable=false on the brokers, unless an application needs it; then"
        " TWO_PHASE_COMMIT on its TransactionalIds only"
    ),
    "flink_transaction_timeout": (
        "transaction.timeout.ms of the KafkaSink above the longest restart and two checkpoint intervals,"
        " and transaction.max.timeout.ms of the brokers no lower"
    ),
    "offsets_in_transaction": (
        "producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata()) before commitTransaction, "
        "and enable.auto.commit=false without commitSync (docs/exactly-once.md)"
    ),
    "stable_transactional_ids": (
        "a transactional.id that an instance keeps over its restarts: a fixed name with the number of "
        "the instance or the name of its StatefulSet pod, without UUID, start time, or pod name of a "
        "Deployment; one producer for many transactions, not one for each"
    ),
}
