"""Ids as products make them, by their documentation or source: who makes them, by which rule, of which service.

The names of services are of this project; a row has the ids of one service.
"""

from __future__ import annotations

from typing import NamedTuple


class Service(NamedTuple):
    """The ids of one service. ``rule`` is how the product makes them."""

    product: str
    rule: str
    ids: tuple[str, ...]


def _rows(product: str, rule: str, *services: str) -> list[Service]:
    return [Service(product, rule, tuple(ids.split("|"))) for ids in services]


_ONE, _TWO, _THREE = (
    "0a1f3b6c-77de-4c1a-9b02-5d6e7f801122",
    "c47ac10b-58cc-4372-a567-0e02b2c3d479",
    "f81d4fae-7dec-41d0-a765-00a0c91e6bf6",
)

SERVICES = [
    *_rows(
        "Spring Kafka, EOSMode.V2",
        "<transactionIdPrefix><n>",
        "checkout-tx-0|checkout-tx-1|checkout-tx-14",
        "refunds-tx-0|refunds-tx-1|refunds-tx-2",
        "invoicing0|invoicing1|invoicing12",
        "tx0|tx1|tx11",
    ),
    *_rows(
        "Spring Kafka on a StatefulSet",
        "<prefix>-<pod>-<ordinal>-<n>",
        "billing-tx-billing-0-0|billing-tx-billing-1-0|billing-tx-billing-2-3",
        "stock-stock-0-0|stock-stock-0-1|stock-stock-11-4",
    ),
    *_rows(
        "Spring Kafka on a Deployment",
        "<prefix>-<deployment>-<hash>-<five>-<n>",
        "parcel-parcel-7f9c6d8b5-x2kqp-0|parcel-parcel-7f9c6d8b5-m4zzp-1|parcel-parcel-6bd4f9c5c7-tn8rl-0",
        "tariff-tariff-58c9f6b7d4-9vbxz-0|tariff-tariff-58c9f6b7d4-w4k7t-0",
    ),
    *_rows(
        "Spring Kafka, EOSMode.V1",
        "<prefix><group>.<topic>.<partition>",
        "tx-risk-group.trades.0|tx-risk-group.trades.1|tx-risk-group.trades.11",
        "tx-audit-group.trades.0|tx-audit-group.trades.3",
    ),
    *_rows(
        "Spring Boot, random.value, random.uuid, local.server.port",
        "<name>-<32 hex>-<n>, <name>-<uuid>-<n>, <name>-<port>-<n>",
        f"pricing-{_ONE.replace('-', '')}-0|pricing-{_TWO.replace('-', '')}-0",
        f"catalog-tx-{_ONE}-0|catalog-tx-{_TWO}-0|catalog-tx-{_THREE}-0",
        "basket-8081-0|basket-8082-0|basket-8083-1",
    ),
    *_rows(
        "Spring Cloud Stream, Kafka binder",
        "<transactionIdPrefix><n>, of the binder",
        "binder-tx-0|binder-tx-1|binder-tx-2",
        "enrich-out-0|enrich-out-1|enrich-out-7",
    ),
    *_rows(
        "Kafka Streams, exactly_once",
        "<application.id>-<task>",
        "balances-0_0|balances-0_1|balances-1_15",
        "fraud-score-0_0|fraud-score-2_3",
    ),
    *_rows(
        "Kafka Streams, exactly_once_v2",
        "<application.id>-<process>-<thread>",
        f"ledger-view-{_ONE}-1|ledger-view-{_ONE}-2|ledger-view-{_TWO}-1",
        f"limits-view-{_ONE}-1|limits-view-{_THREE}-12",
        f"limits-2.4.1-{_ONE}-1|limits-2.4.1-{_TWO}-1",
    ),
    *_rows(
        "Kafka Streams, exactly_once_beta (StreamThread)",
        "<application.id>-<process>-StreamThread-<n>",
        f"positions-{_ONE}-StreamThread-1|positions-{_ONE}-StreamThread-2|positions-{_TWO}-StreamThread-1",
        f"quotes-{_ONE}-StreamThread-1|quotes-{_THREE}-StreamThread-4",
    ),
    *_rows(
        "ksqlDB, persistent query",
        "_confluent-ksql-<service>query_<query>-<process>-<thread>",
        f"_confluent-ksql-shop_query_CTAS_TOTALS_7-{_ONE}-1|_confluent-ksql-shop_query_CTAS_TOTALS_7-{_TWO}-2",
        f"_confluent-ksql-shop_query_CSAS_RAW_9-{_ONE}-1|_confluent-ksql-shop_query_CSAS_RAW_9-{_THREE}-1",
    ),
    *_rows(
        "ksqlDB, transient queries of a service",
        "_confluent-ksql-<service>transient_<query>_<n>_<instant>-<process>-<thread>",
        f"_confluent-ksql-lab_transient_T_11_1764331200123-{_ONE}-1|"
        f"_confluent-ksql-lab_transient_T_29_1764331300456-{_TWO}-1",
    ),
    *_rows(
        "Streamiz",
        "<application.id>-<process>-<thread>",
        f"tolls-{_ONE}-1|tolls-{_ONE}-6|tolls-{_TWO}-1",
    ),
    *_rows("Kafka Connect, leader", "connect-cluster-<group.id>", "connect-cluster-cdc"),
    *_rows(
        "Kafka Connect, source task",
        "<group.id>-<connector>-<task>",
        "cdc-customers-0|cdc-customers-1|cdc-customers-11",
        "cdc-postgres-2-0|cdc-postgres-2-1",
        "cdc-postgres-3-0",
        "cdc-oracle-eu-0|cdc-oracle-eu-3",
    ),
    *_rows(
        "MirrorMaker 2, dedicated",
        "<source>-mm2-<connector>-<task>",
        "east-mm2-MirrorSourceConnector-0|east-mm2-MirrorSourceConnector-7",
        "west-mm2-MirrorSourceConnector-0|west-mm2-MirrorSourceConnector-1",
        "east-mm2-MirrorCheckpointConnector-0",
    ),
    *_rows(
        "MirrorMaker 2 by Strimzi",
        "<group.id>-<source>-><target>.<connector>-<task>",
        "mm2-a->b.MirrorSourceConnector-0|mm2-a->b.MirrorSourceConnector-4",
        "mm2-b->a.MirrorSourceConnector-0|mm2-b->a.MirrorSourceConnector-2",
    ),
    *_rows(
        "Flink KafkaSink, INCREMENTING",
        "<prefix>-<subtask>-<checkpoint>",
        "sessions-0-1|sessions-0-2|sessions-3-90412",
        "features-sql--0-17|features-sql--7-1201",
        "dwd-orders-1764331200123-0-12|dwd-orders-1764331999456-1-3",
    ),
    *_rows(
        "Flink KafkaSink, POOLING",
        "<prefix>-<subtask>-<number>",
        "clicks-pool-0-1|clicks-pool-0-2|clicks-pool-15-1",
    ),
    *_rows(
        "Flink SQL, sink.transactional-id-prefix",
        "<prefix>-<subtask>-<checkpoint>",
        "sql_daily_totals-0-4|sql_daily_totals-1-4|sql_daily_totals-1-5",
    ),
    *_rows(
        "FlinkKafkaProducer",
        "<task>-<operator>-<n>",
        "Sink: alerts-ab2068ebf6ea6694da77a7abef5d7955-0|Sink: alerts-ab2068ebf6ea6694da77a7abef5d7955-41",
        "Source: in -> Map -> Sink: out-0a448493b4782967b150582570326227-5|"
        "Source: in -> Map -> Sink: out-0a448493b4782967b150582570326227-75",
    ),
    *_rows(
        "Flink CDC pipeline",
        "<sink.transactional-id-prefix>-<subtask>-<checkpoint>",
        "cdc-mysql-sink-0-8|cdc-mysql-sink-3-88",
    ),
    *_rows(
        "Debezium Server, Kafka sink",
        "debezium.sink.kafka.producer.transactional.id",
        "dbz-server-customers",
        "dbz-server-accounts",
    ),
    *_rows(
        "Quarkus, SmallRye Reactive Messaging",
        "<application>-<channel>, and a number in a pool",
        "seats-app-seats-out|seats-app-seats-out-1|seats-app-seats-out-12",
        "meals-app-meals-out-meals-7d9c6b7f6d-kx8vz|meals-app-meals-out-meals-7d9c6b7f6d-p4n2w",
    ),
    *_rows(
        "Micronaut Kafka",
        "the given id of @KafkaClient or @KafkaListener, with what its placeholders give",
        f"micronaut-loans-{_ONE}|micronaut-loans-{_TWO}",
        "micronaut-cards",
    ),
    *_rows(
        "Alpakka Kafka",
        "the given id; by partition <id>-<group>-<topic>-<partition>",
        "alpakka-copy",
        "alpakka-split-grp-in-0|alpakka-split-grp-in-1|alpakka-split-grp-in-11",
        f"pekko-flow-{_ONE}|pekko-flow-{_THREE}",
    ),
    *_rows(
        "Spark, foreachBatch with a transactional producer",
        "<query>-<application id>-<partition>",
        "daily-application_1764331200123_0042-0|daily-application_1764331200123_0043-7",
        "hourly-app-20261128101112-0007-0|hourly-app-20261128111112-0008-3",
        "spool-local-1764331200123-0|spool-local-1764331300456-1",
    ),
    *_rows(
        "Beam KafkaIO, exactly-once sink",
        "<sink group>-<shard>",
        "beam_totals_sink-0|beam_totals_sink-4|beam_totals_sink-19",
        "beam_raw_sink-0|beam_raw_sink-2",
    ),
    *_rows(
        "NiFi PublishKafka",
        "<Transactional Id Prefix><uuid>",
        f"nifi-intake-{_ONE}|nifi-intake-{_TWO}",
        f"nifi-outtake.{_ONE}|nifi-outtake.{_THREE}",
    ),
    *_rows(
        "Camel Kafka",
        "<transactional-id>-<endpoint or exchange>",
        "camel-claims-Camel-7f3f4c2e1a2b-0|camel-claims-Camel-09ab8c7d6e5f-1",
        f"camel-quotes-{_ONE}|camel-quotes-{_TWO}",
    ),
    *_rows(
        "Vert.x Kafka client",
        "the given id, here with a verticle's deployment id",
        f"vertx-bids-{_ONE}|vertx-bids-{_THREE}",
    ),
    *_rows(
        "Axon Kafka extension",
        "<transactionIdPrefix><n>",
        "axon-orders-0|axon-orders-1",
        "axon-stock-0|axon-stock-1|axon-stock-5",
    ),
    *_rows(
        "franz-go",
        "the given id, by host or by number",
        "franz-eos-0|franz-eos-1",
        "franz-copy-ip-10-0-12-34|franz-copy-ip-10-0-99-7",
    ),
    *_rows(
        "sarama",
        "an id for each producer of a pool, or for each transaction",
        f"sarama-txn-{_ONE}|sarama-txn-{_TWO}|sarama-txn-{_THREE}",
        "sarama_consumer-0|sarama_consumer-1",
    ),
    *_rows(
        "confluent-kafka-go",
        "<id>-p<partition>",
        "go-eos-p0|go-eos-p1|go-eos-p17",
        "go-soak-48151|go-soak-48152",
    ),
    *_rows(
        "confluent-kafka-python",
        "<id>-<instant>, <id>.<eight hex>, <id>-<twelve hex>",
        "py-replay-1764331200123|py-replay-1764331999456",
        "py-course.3f2a9c1b|py-course.c0ffee42|py-course.9b1deb4d|py-course.77aa01fe",
        "py-txn-9f86d081884c|py-txn-d3b07384d113",
    ),
    *_rows(
        "Confluent.Kafka for .NET",
        "<id>-<host>, <host>\\<id>-<n>",
        "net-words-WIN01|net-words-WIN02",
        "LEDGERSRV01\\Postings-0|LEDGERSRV02\\Postings-0|LEDGERSRV02\\Postings-1",
    ),
    *_rows(
        "aiokafka",
        "the given id, by number or with a token",
        "aio_txn-1|aio_txn-2",
        "aio-mail-4f3c2b1a0d9e8f7a|aio-mail-00ff11ee22dd33cc",
    ),
    *_rows(
        "Faust",
        "<app id>-<topic>-<partition>",
        "faust-visits-visits-0|faust-visits-visits-4",
    ),
    *_rows(
        "kafkajs",
        "the given id, with a pod, a UUID or a nanoid",
        "node-chat-6c9d8f7b54-k2x9p|node-chat-6c9d8f7b54-zz4tw",
        "node-vote-V1StGXR8_Z5jdHi6B-myT|node-vote-oPCvDfWLQ4m9l0i6XuFCr",
        "node-poll-4f90d13a42|node-poll-9c1185a5c5",
        "app-web-1-4711|app-web-2-4712|app-web-1-4899",
    ),
    *_rows(
        "Ruby WaterDrop",
        "<id>-<SecureRandom.hex(6)>",
        "drop-orders-9f86d081884c|drop-orders-2c26b46b68ff",
    ),
    *_rows(
        "Redpanda Connect",
        "transactional_id: a UUID with a prefix",
        f"rpcn-{_ONE}|rpcn-{_TWO}",
    ),
    *_rows(
        "Materialize, Kafka sink",
        "materialize-<environment>-<id>, mz-producer-<sink>-<worker>",
        "mz-producer-u42-0|mz-producer-u42-1",
        "mz-producer-u43-0",
    ),
    *_rows(
        "RisingWave, tests of its Kafka source",
        "<id>-<milliseconds>",
        "rw-copy-1764331200123|rw-copy-1764331201999",
    ),
    *_rows(
        "Hazelcast Jet",
        "jet.job-<job id>.<job>.<vertex>.<processor>-<number>",
        "jet.job-07cf-8e5d-4e40-0001.taxi.sink.0-0|jet.job-07cf-8e5d-4e40-0001.taxi.sink.3-1|"
        "jet.job-07d0-11aa-0c80-0001.taxi.sink.0-0",
        "jet.job-07cf-8e5d-4e40-0002.trams.sink.0-0|jet.job-07d0-11aa-0c80-0002.trams.sink.1-1",
    ),
    *_rows(
        "Arroyo",
        "arroyo-id-<job>-<operator>-<topic>-<subtask>-<transaction>",
        "arroyo-id-job_k4x9w2m7q1-sink_4-rides-0-0|arroyo-id-job_k4x9w2m7q1-sink_4-rides-1-37",
    ),
    *_rows(
        "SeaTunnel",
        "SeaTunnel<random number>-<n>",
        "SeaTunnel5432-9|SeaTunnel5432-10|SeaTunnel8120-1",
    ),
    *_rows(
        "Iceberg sink for Connect",
        "<kind>-txn-<uuid>-<n>",
        f"worker-txn-{_ONE}-0|worker-txn-{_TWO}-0",
        f"coordinator-txn-{_ONE}-0|coordinator-txn-{_TWO}-0",
    ),
    *_rows(
        "kafka-producer-perf-test",
        "performance-producer-<Uuid in base64>",
        "performance-producer-oPCvDfWLQ4m9l0i6XuFCrg|performance-producer-2mFhWz0eRrK3vJmQxk7i1A|"
        "performance-producer-9Qx_T3uVSa-4bYk1Zc8eLw",
    ),
    *_rows(
        "Confluent parallel consumer",
        "<id>-<uuid>",
        f"pc-work-{_ONE}|pc-work-{_THREE}",
    ),
    *_rows("Camunda, Zeebe's exporter", "<id>-<partition>", "zeebe-1|zeebe-2|zeebe-3"),
    *_rows("XTDB", "<id>-leader", "xtdb-staging-leader"),
    *_rows("Surge", "surge-<aggregate>-<partition>", "surge-events-0|surge-events-11"),
    *_rows("kcat, rdkafka_performance", "the given id with a number", "rdkafka_performance-1|rdkafka_performance-2"),
    *_rows(
        "any, with a ULID, KSUID, ObjectId, xid or cuid",
        "<id>-<random>",
        "ulid-pay-01HF8K2Q7Z3V9M5T6R4N8X0BCD|ulid-pay-01JDRS4W6M0X2C8Q1N5V7B3KTE",
        "ulid_low_01hf8k2q7z3v9m5t6r4n8x0bcd|ulid_low_01jdrs4w6m0x2c8q1n5v7b3kte",
        "ksuid-pay-0ujtsYcgvSTl8PAuAdqWYSMnLOv|ksuid-pay-1srOrx2ZWZBpBUvZwXKQmoEYga2",
        "mongo-pay-507f1f77bcf86cd799439011|mongo-pay-65a1c0ffee00112233445566",
        "xid-pay-9m4e2mr0ui3e8a215n4g|xid-pay-b50vl5e54p1000fo3gh0",
        "cuid-pay-cjld2cjxh0000qzrmn831i7rn|cuid-pay-cl9ebqhxk00003b600tymydho",
    ),
    *_rows(
        "any, with an instant or a date",
        "<id>-<instant>",
        "nightly-2026-11-28-0|nightly-2026-11-29-0|nightly-2026-12-01-1",
        "eod-20261128T140000Z|eod-20261129T140512Z",
        "eom-2026-11-30T23:59:00Z-0|eom-2026-12-31T23:59:00Z-0",
        "job-1764331200|job-1764417600",
    ),
    *_rows(
        "any, with a host or an address",
        "<id>-<host>",
        "route-10.42.0.17-0|route-10.42.3.8-1",
        "toll-ec2-52-31-9-4.eu-west-1.compute.amazonaws.com-0|toll-ec2-3-120-7-81.eu-west-1.compute.amazonaws.com-1",
        "gate-ip-10-0-12-34.eu-west-1.compute.internal-0|gate-ip-10-0-9-1.eu-west-1.compute.internal-0",
        "dock-i-0abcd1234ef567890-1|dock-i-0fedc9876ba543210-0",
        "quay-3f2a9c1b7d4e|quay-77aa01fe09cd",
        "crane-gke-prod-pool-1a2b3c4d-x7k2-0|crane-gke-prod-pool-1a2b3c4d-9qzt-0",
        "hoist-host01-tx-0|hoist-host02-tx-0|hoist-host17-tx-3",
        "winch-vmss_0|winch-vmss_12",
        "lift-aks-pool-31415926-vmss000002-0|lift-aks-pool-31415926-vmss00000a-0",
    ),
    *_rows(
        "any, on Windows or Cloud Run",
        "<id>-<computer>-<n>, <service>-<revision>-<three letters>-<n>",
        "till-DESKTOP-4F7G2HK-0|till-LAPTOP-9QWERT1-0|till-WIN-8K2LQ4V9XZ1-1",
        "quoting-00042-vuz-1|quoting-00043-xab-1",
    ),
    *_rows(
        "any, with other separators",
        "<id>~<n>",
        "acct~tx~1|acct~tx~2",
    ),
    *_rows(
        "any, on Kubernetes",
        "<id>-<pod>",
        "settle-29384720-7hq2m|settle-29386160-kx9dz",
        "sweep-x2kqp|sweep-7hq2m|sweep-9vbxz",
        "ferry-0.ferry.prod.svc.cluster.local-2|ferry-1.ferry.prod.svc.cluster.local-0",
    ),
    *_rows(
        "any, with an instance that is not separated",
        "<id><n>",
        "orders1|orders2|orders10",
        "dispatchsvc01|dispatchsvc07|dispatchsvc12",
        "weigh-svc07-tx-0|weigh-svc08-tx-0",
        "gw-tx1|gw-tx2|gw-tx12",
    ),
    *_rows(
        "any, by task or worker of a job",
        "<job>-<task>-<random>, <job>-<instant>-<task>, <flow>-worker-<n>",
        f"geo-job-1-Partition-0-{_ONE}|geo-job-1-Partition-0-{_TWO}",
        "tagging-1764331200-3|tagging-1764331200-4|tagging-1764399999-3",
        "meters-worker-0|meters-worker-3",
        "front-tx-rest-0|front-tx-rest-1",
    ),
    *_rows(
        "any, by shard, partition, tenant or number",
        "<id>-<number> within the id",
        "shard-3-partition-7|shard-4-partition-9|shard-12-partition-0",
        "tenant-10042-notes|tenant-10043-notes",
        "order-worker-3-7|order-worker-4-0",
        "Task-0-|Task-1-|Task-12-",
        "svc@prod/postings/0|svc@prod/postings/1",
    ),
    *_rows(
        "any, with a version",
        "<id>-<version>-<n>",
        "rates-2.3.1-0|rates-2.3.2-0|rates-2.10.0-1",
    ),
    # Names that look like random ones, and are of services of their own.
    *_rows(
        "names",
        "the given id",
        "log4j2kafka",
        "s3-sink",
        "pay-v1",
        "pay-v2",
        "oauth2",
        "InventorySnapshotV2ToS3Sink",
        "H2ToKafka",
        "eu1-orders",
        "us1-orders",
        "face2face",
        "b2b-gateway",
        "cafe2024-menu",
        "mysql2pg",
        "x-sha256-signer",
        "x-base64-signer",
        "ipv6-flows",
        "kafka2snowflake",
        "first-transactional",
        "second-transactional",
    ),
]
