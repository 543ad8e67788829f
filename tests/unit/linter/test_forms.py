"""The clients in a file: each form that people keep settings in, and the findings that it gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.linter.all_rules import judged
from exporter.linter.forms import ClientPart, of_kind, parts
from exporter.linter.rule import Goal, Level
from exporter.linter.views import Client, file_of

ROOT = Path(__file__).parents[3]
STRIMZI = "apiVersion: kafka.strimzi.io/v1beta2\n"


def failures(text: str, file: str, version: tuple[int, int] = (4, 0)) -> dict[str, set[str]]:
    """The rules with errors or warnings of each part, by its name; ``-`` where it is not judged."""
    return {
        part.name: {
            finding.rule.name
            for finding in judged(part, Goal.EXACTLY_ONCE, version)
            if finding.severity is not Level.INFO
        }
        if part.kind not in {None, Client.BROKER} and not part.reason
        else {"-"}
        for part in parts(text, file)
    }


def notes(text: str, file: str) -> set[str]:
    return {
        finding.rule.name
        for part in parts(text, file)
        for finding in judged(part, Goal.EXACTLY_ONCE, (4, 0))
        if finding.severity is Level.INFO
    }


# --- Connect ----------------------------------------------------------------------------------------------------------


def test_strimzis_worker_and_connector_with_each_others_settings() -> None:
    worker = STRIMZI + "kind: KafkaConnect\nmetadata: {name: lake}\nspec:\n  config:\n    group.id: lake\n"
    worker += "    transaction.boundary: poll\n    consumer.isolation.level: read_committed\n"
    connector = STRIMZI + "kind: KafkaConnector\nmetadata: {name: pg}\nspec:\n  class: io.debezium.PgConnector\n"
    connector += "  config:\n    exactly.once.support: required\n    offset.storage.topic: o\n"
    found = failures(worker + "---\n" + connector, "connect.yaml")
    assert found == {
        "KafkaConnect lake": {"worker-ignores", "worker-exactly-once"},
        "KafkaConnector pg": {"connector-ignores"},
    }


@pytest.mark.parametrize("group", ["kafka.strimzi.io/v1beta2", "kafka.strimzi.io/v1", "eventstreams.ibm.com/v1beta2"])
@pytest.mark.parametrize(
    "of_target", ["clusters:\n  - {alias: t, config: {X}}\n  connectCluster: t", "target: {config: {X}}"]
)
@pytest.mark.parametrize(
    ("setting", "found"), [("exactly.once.source.support: enabled", set()), ("group.id: g", {"worker-exactly-once"})]
)
def test_strimzis_mirrormaker_is_a_worker_without_sinks_and_its_mirrors(
    group: str, of_target: str, setting: str, found: set[str]
) -> None:
    text = f"apiVersion: {group}\nkind: KafkaMirrorMaker2\n" + "metadata: {name: m}\nspec:\n  "
    text += of_target.replace("X", setting)
    text += "\n  mirrors:\n  - sourceCluster: s\n    sourceConnector:\n      config:\n"
    text += "        exactly.once.support: required\n"
    assert failures(text, "m.yaml") == {
        "KafkaMirrorMaker2 m worker": found,
        "KafkaMirrorMaker2 m mirror of s": {"mirror-source-reads-uncommitted"},
    }


def test_the_bridge_of_strimzi_has_clients_without_transactions() -> None:
    text = STRIMZI + "kind: KafkaBridge\nmetadata: {name: b}\nspec:\n  producer: {config: {acks: 1}}\n"
    text += "  consumer: {config: {isolation.level: read_uncommitted, enable.auto.commit: false}}\n"
    assert failures(text, "b.yaml") == {
        "KafkaBridge b producer": {"acks-not-all"},
        "KafkaBridge b consumer": {"isolation-read-uncommitted"},
    }


def test_other_resources_are_read_by_the_names_in_them() -> None:
    text = "apiVersion: platform.confluent.io/v1beta1\nkind: KsqlDB\nmetadata: {name: k}\nspec:\n"
    text += "  configOverrides:\n    server:\n    - ksql.streams.processing.guarantee=at_least_once\n"
    assert failures(text, "k.yaml") == {"KsqlDB k.configOverrides.server": {"streams-at-least-once"}}
    user = STRIMZI + "kind: KafkaUser\nmetadata: {name: u}\nspec: {authentication: {type: tls}}\n"
    assert failures(user, "u.yaml") == {"": {"-"}}


def test_a_broker_beside_other_resources_is_left_out_and_alone_is_said() -> None:
    broker = STRIMZI + "kind: Kafka\nspec:\n  kafka:\n    config: {default.replication.factor: 3}\n"
    assert [part.kind for part in parts(broker, "k.yaml")] == [Client.BROKER]
    connect = STRIMZI + "kind: KafkaConnect\nspec: {config: {group.id: a}}\n"
    assert [part.kind for part in parts(broker + "---\n" + connect, "k.yaml")] == [Client.CONNECT_WORKER]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('[{"name": "pg", "config": {"connector.class": "a.PgConnector"}}]', "pg"),
        ('{"pg": {"info": {"name": "pg", "config": {"connector.class": "a.PgConnector"}}}}', "pg"),
        ('{"connectors": {"pg": {"connector.class": "a.PgConnector"}}}', "connectors.pg"),
        ('{"name": "pg", "config": {"connector.class": "a.PgConnector"}}', "pg"),
        ('{"name": "pg", "connector.class": "a.PgConnector"}', ""),
    ],
)
def test_connectors_of_every_form_are_judged(text: str, name: str) -> None:
    assert failures(text, "x.json") == {name: {"source-not-required"}}


def test_a_status_and_a_managed_connector_are_not_judged() -> None:
    status = '{"pg": {"status": {"name": "pg", "connector": {"state": "RUNNING"}, "tasks": [], "type": "source"}}}'
    managed = '{"name": "x", "connector.class": "MongoSource", "kafka.auth.mode": "SERVICE_ACCOUNT"}'
    assert failures(status, "x.json") == {"pg.status": {"-"}}
    assert failures(managed, "x.json") == {"": {"-"}}


@pytest.mark.parametrize("prefix", ["", "source."])
def test_a_mirror_that_reads_committed_is_fine(prefix: str) -> None:
    text = '{"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",'
    text += f'"exactly.once.support": "required", "{prefix}consumer.isolation.level": "read_committed"}}'
    assert failures(text, "x.json") == {"": set()}


# --- MirrorMaker ------------------------------------------------------------------------------------------------------

MM2 = "clusters = x, y\nx->y.enabled = true\ny->x.enabled = false\ndedicated.mode.enable.internal.rest = true\n"


ON_TARGET = "y.exactly.once.source.support=enabled\n"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (ON_TARGET + "x.consumer.isolation.level=read_committed", set()),
        (ON_TARGET + "x->y.source.consumer.isolation.level=read_committed", set()),
        (ON_TARGET + "x->y.consumer.isolation.level=read_committed", set()),
        (ON_TARGET[2:] + "x.consumer.isolation.level=read_committed", {"mirror-exactly-once"}),
        (ON_TARGET + "consumer.isolation.level=read_committed", {"mirror-reads-uncommitted"}),
        (ON_TARGET + "y.consumer.isolation.level=read_committed", {"mirror-reads-uncommitted"}),
    ],
)
def test_mirrormaker_takes_settings_of_its_target_and_of_its_source(lines: str, found: set[str]) -> None:
    assert failures(MM2 + lines, "mm2.properties") == {"": found}


def test_a_flow_of_mirrormaker_is_a_pair_of_its_clusters() -> None:
    switches = "x->y.emit.heartbeats.enabled=true\nx->y.emit.checkpoints.enabled = true\nx->z.enabled = true\n"
    right = ON_TARGET + "x.consumer.isolation.level=read_committed\n"
    assert failures(MM2 + switches + right, "mm2.properties") == {"": set()}
    assert failures("clusters = x, y\n" + switches, "mm2.properties") == {"": set()}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("replication.factor=1", True),
        ("offset.storage.replication.factor=2", True),
        ("y.config.storage.replication.factor=1", True),
        ("x->y.replication.factor=1", True),
        ("x.status.storage.replication.factor=1", False),  # nothing is replicated to x
        ("checkpoints.topic.replication.factor=1", False),  # exactly-once does not resume from it
        ("y.offset.storage.replication.factor=3", False),
    ],
)
def test_what_mirrormaker_resumes_from_is_replicated(line: str, found: bool) -> None:
    right = ON_TARGET + "x.consumer.isolation.level=read_committed\n"
    assert failures(MM2 + right + line, "mm2.properties") == {"": {"replication-factor"} if found else set()}


def test_a_worker_has_no_replication_factor_of_its_own() -> None:
    worker = "offset.storage.topic=o\nexactly.once.source.support=enabled\nconsumer.isolation.level=read_committed\n"
    assert failures(worker + "replication.factor=1", "worker.properties") == {"": set()}
    assert failures(worker + "offset.storage.replication.factor=1", "w.properties") == {"": {"replication-factor"}}


def test_a_file_of_ksqldb_without_brokers_is_a_part() -> None:
    command_line = "ksql.streams.auto.offset.reset=earliest\n"
    assert failures(command_line, "cli.properties") == {"": set()}
    assert failures(command_line + "bootstrap.servers=k:1", "s.properties") == {"": {"streams-at-least-once"}}


# --- Spring -----------------------------------------------------------------------------------------------------------

READER = "spring.kafka.consumer.group-id=a\n"


@pytest.mark.parametrize(
    "line",
    [
        "spring.kafka.consumer.isolation-level=read_committed",
        "spring.kafka.consumer.isolationLevel=READ_COMMITTED",
        "spring.kafka.consumer.ISOLATION_LEVEL=read-committed",
        "spring.kafka.consumer.isolation-level=READ_COMMITTED",
        "spring.kafka.consumer.properties.isolation.level=read_committed",
        "spring.kafka.consumer.properties[isolation.level]=read_committed",
        "spring.kafka.properties.isolation.level=read_committed",
        "spring.kafka.consumer.isolation-level=${LEVEL:read_committed}",
        "spring.kafka.consumer.isolation-level=${LEVEL}",
    ],
)
def test_spring_binds_these(line: str) -> None:
    assert failures(READER + line, "application.properties") == {"": set()}


@pytest.mark.parametrize(
    ("line", "ignored"),
    [
        ("spring.kafka.consumer.isolation.level=read_committed", True),
        ("spring.kafka.isolation-level=read_committed", True),
        ("spring.kafka.consumer.properties.isolation-level=read_committed", False),
        ("spring.kafka.consumer.properties.isolationLevel=read_committed", False),
        ("spring.kafka.consumer.properties.isolation.level=READ_COMMITTED", False),
        ("spring.kafka.producer.properties.isolation.level=read_committed", False),
    ],
)
def test_spring_does_not_bind_these(line: str, ignored: bool) -> None:
    found = failures(READER + line, "application.properties")[""]
    assert "isolation-read-uncommitted" in found
    assert ("spring-ignores" in found) is ignored


@pytest.mark.parametrize(
    "name",
    ["producer.enable-idempotence", "producer.transaction.timeout.ms", "producer.max-in-flight-requests-per-connection",
     "producer.transactional-id", "consumer.enable.auto.commit", "streams.processing.guarantee"],
)  # fmt: skip
def test_spring_ignores_names_of_kafka_that_it_does_not_bind_and_the_applications_own_are_not_reported(
    name: str,
) -> None:
    assert "spring-ignores" in failures(f"spring.kafka.{name}=1", "application.properties")[""]
    assert "spring-ignores" not in failures("spring.kafka.consumer.topic=a\nspring.kafka.topic=b", "a.properties")[""]


def test_a_spring_application_of_streams_is_judged_as_one() -> None:
    text = "spring:\n  kafka:\n    streams:\n      application-id: a\n      replication-factor: 1\n"
    assert failures(text, "application.yml") == {"": set(), "streams": {"streams-at-least-once", "replication-factor"}}
    text += "      properties: {'[processing.guarantee]': exactly_once_v2}\n"
    assert failures(text, "application.yml")["streams"] == {"replication-factor"}


BINDER = "spring.cloud.stream.kafka.binder."
PREFIX = BINDER + "transaction.transaction-id-prefix=a-\n"
READS = "spring.cloud.stream.bindings.f-in-0.destination=a\n"
WRITES = "spring.cloud.stream.bindings.f-out-0.destination=b\n"
OF_F = "spring.cloud.stream.kafka.bindings.f-in-0.consumer.configuration."


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (READS + BINDER + "configuration.isolation.level=read_committed", set()),
        (READS + BINDER + "brokers=k:1", {"isolation-read-uncommitted"}),
        (BINDER + "brokers=k:1", set()),
        (READS + OF_F + "isolation.level=read_committed", set()),
        (WRITES + PREFIX + BINDER + "requiredAcks=all", set()),
        (WRITES + PREFIX, {"acks-not-all"}),
        (WRITES + BINDER + "producer-properties.acks=all", {"no-transactional-id"}),
    ],
)  # fmt: skip
def test_the_binder_has_the_clients_of_its_bindings_and_their_defaults(lines: str, found: set[str]) -> None:
    assert failures(lines, "application.properties") == {"": found}


STREAM = "spring.cloud.stream."
ENVIRONMENT = f"{STREAM}binders.one.environment."
TWO = f"{STREAM}bindings.f-in-0.binder=one\n{STREAM}bindings.g-out-0.binder=two\n"
TWO += f"{STREAM}binders.one.type=kafka\n{STREAM}binders.two.type=kafka\n"
TWO += f"{STREAM}binders.two.environment.{BINDER}transaction.transaction-id-prefix=b-\n"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (f"{ENVIRONMENT}{BINDER}brokers=k:1", {"one": {"isolation-read-uncommitted"}, "two": {"acks-not-all"}}),
        (f"{ENVIRONMENT}{BINDER}configuration.isolation.level=read_committed", {"one": set(), "two": {"acks-not-all"}}),
        (f"{ENVIRONMENT}spring.kafka.consumer.isolation-level=read_committed", {"one": set(), "two": {"acks-not-all"}}),
        (f"{BINDER}required-acks=all\n{ENVIRONMENT}{BINDER}brokers=k:1",
         {"one": {"isolation-read-uncommitted"}, "two": set()}),
        (f"{STREAM}binders.three.type=rabbit\n{STREAM}binders.three.environment.spring.rabbitmq.host=r\n{ENVIRONMENT}a=b",
         {"one": {"isolation-read-uncommitted"}, "two": {"acks-not-all"}}),
        (f"{ENVIRONMENT}{BINDER}brokers=k:1\n{STREAM}default-binder=two\n{STREAM}bindings.h-in-0.destination=a",
         {"one": {"isolation-read-uncommitted"}, "two": {"acks-not-all", "isolation-read-uncommitted"}}),
    ],
)  # fmt: skip
def test_each_binder_with_an_environment_has_its_bindings(lines: str, found: dict[str, set[str]]) -> None:
    assert failures(TWO + lines, "application.properties") == {f"binder {name}": it for name, it in found.items()}


def test_an_application_with_binders_of_other_brokers_alone_is_not_understood() -> None:
    text = f"{STREAM}binders.r.type=rabbit\n{STREAM}binders.r.environment.spring.rabbitmq.host=h\n"
    assert failures(text, "application.properties") == {"": {"-"}}


def test_names_without_dots_belong_to_the_settings_beside_them() -> None:
    text = "kafka:\n  producers:\n    default:\n      acks: 1\n      transactional.id: x\njob: {retries: 3}\n"
    assert failures(text, "application.yml") == {"kafka.producers.default": {"acks-not-all"}}


def test_a_binder_of_topologies_is_an_application_of_streams() -> None:
    text = f"{BINDER}brokers=k:1\n{STREAM}binders.t.type=kstream\n{READS}{WRITES}"
    text += f"{STREAM}binders.t.environment.{STREAM}kafka.streams.binder.configuration.commit.interval.ms=100\n"
    found = failures(text, "application.properties")
    assert found == {"binder t": set(), "binder t streams": {"streams-at-least-once"}}


def test_each_profile_is_judged_over_what_all_have() -> None:
    base = "spring:\n  kafka:\n    consumer: {group-id: a}\n"
    first = "---\nspring:\n  config.activate.on-profile: one\n  kafka.consumer.isolation-level: read_committed\n"
    second = "---\nspring.profiles: two\nspring.kafka.consumer.isolation-level: read_uncommitted\n"
    assert failures(base, "application.yml") == {"": {"isolation-read-uncommitted"}}
    assert failures(base + first, "application.yml") == {"": set()}
    [part] = parts(base + first + second, "application.yml")
    [finding] = judged(part, Goal.EXACTLY_ONCE, (4, 0))
    assert (finding.setting, finding.line) == ("isolation.level", 10)
    assert failures(base, "application-prod.yml") == {"": set()}
    assert "isolation-read-uncommitted" in notes(base, "application-prod.yml")


def test_channels_of_the_streams_binder_are_its_topologys() -> None:
    text = "spring.cloud.stream.kafka.streams.binder.configuration.commit.interval.ms=100\n"
    text += READS + WRITES
    assert failures(text, "application.properties") == {"": set(), "streams": {"streams-at-least-once"}}


def test_properties_that_all_clients_have_do_not_show_which_there_are() -> None:
    text = "spring.kafka.bootstrap-servers=k:1\nspring.kafka.properties.security.protocol=SSL\n"
    assert failures(text, "application.properties") == {"": set()}
    assert {"no-transactional-id", "isolation-read-uncommitted"} <= notes(text, "application.properties")


# --- Quarkus ----------------------------------------------------------------------------------------------------------

OUT, IN = "mp.messaging.outgoing.", "mp.messaging.incoming."


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (OUT + "a.transactional.id=a-${HOSTNAME}\n" + OUT + "a.acks=all", {"outgoing channel a": set()}),
        (OUT + "a.transactional.id=a-${HOSTNAME}", {"outgoing channel a": {"acks-not-all"}}),
        (IN + "b.isolation.level=read_committed", {"incoming channel b": set()}),
        (IN + "b.group.id=c\nkafka.isolation.level=read_committed", {"incoming channel b": set()}),
        (IN + "b.group.id=c\n%prod.kafka.isolation.level=read_committed", {"incoming channel b": set()}),
        (IN + "b.group.id=c\n%dev.kafka.isolation.level=read_committed",
         {"incoming channel b": {"isolation-read-uncommitted"}}),
        (IN + "b.connector=smallrye-amqp", {"": {"-"}}),
        ("quarkus.kafka-streams.application-id=a\nkafka-streams.processing.guarantee=exactly_once_v2",
         {"kafka-streams": set()}),
    ],
)  # fmt: skip
def test_quarkus_has_a_client_for_each_channel(lines: str, found: dict[str, set[str]]) -> None:
    assert failures(lines, "application.properties") == found


def test_debezium_server_has_a_java_producer_without_transactions() -> None:
    sink = "debezium.sink.kafka.producer."
    name = sink[:-1]
    resource = (
        "apiVersion: debezium.io/v1alpha1\nkind: DebeziumServer\nmetadata: {name: d}\nspec:\n  sink:\n    type: kafka\n"
    )
    resource += "    config: {producer.acks: 1}\n  source:\n    config: {offset.storage.file.filename: /o}\n"
    assert failures(resource, "d.yaml") == {f"DebeziumServer d {name}": {"acks-not-all"}}
    engine = "name=e\nconnector.class=io.debezium.PgConnector\noffset.storage=a.FileOffsetBackingStore\n"
    assert failures(engine, "config.properties") == {"": {"-"}}
    assert failures(sink + "acks=all", "application.properties") == {name: set()}
    assert failures(sink + "acks=0", "application.properties") == {name: {"acks-not-all"}}


# --- Flink ------------------------------------------------------------------------------------------------------------


def table(name: str, options: str) -> str:
    columns = "(id STRING, t TIMESTAMP(3) METADATA FROM 'timestamp') -- it's a comment;"
    return f"CREATE TABLE IF NOT EXISTS `{name}` {columns}\nWITH (\n 'connector' = 'kafka', {options});\n"


def test_flink_sql_has_a_client_for_each_table_that_is_written_or_read() -> None:
    script = "SET 'execution.checkpointing.interval' = '10 min';\n"
    script += table("a", "'properties.isolation.level' = 'read_committed'") + table("b", "'topic' = 'b'")
    script += table("unused", "'topic' = 'u'") + "CREATE TABLE c (x INT) WITH ('connector' = 'print');\n"
    script += "INSERT INTO b SELECT * FROM a;"
    assert failures(script, "job.sql") == {"table a": set(), "table b": {"flink-guarantee"}, "table unused": set()}
    sink = "'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'p',"
    sink += "'properties.transaction.timeout.ms' = '600000'"
    [_, written, _] = parts(script.replace("'topic' = 'b'", sink), "job.sql")
    [finding] = judged(written, Goal.EXACTLY_ONCE, (4, 0))
    assert (finding.rule.name, finding.line) == ("flink-timeout", 7)
    assert "600000 ms" in finding.text


def test_a_job_that_only_sets_checkpoints_is_no_sink() -> None:
    conf = "execution.checkpointing.interval: 60s\nstate.backend: rocksdb\n"
    assert failures(conf, "flink-conf.yaml") == {"": set()}
    nested = "execution:\n  checkpointing:\n    interval: 60s\n"
    assert failures(nested, "config.yaml") == {"": set()}


def test_the_script_of_a_resource_has_the_checkpoints_of_its_configuration() -> None:
    text = "apiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\nmetadata: {name: j}\nspec:\n"
    text += "  flinkConfiguration:\n    execution.checkpointing.interval: 1 h\n  job:\n    args:\n    - |\n"
    sink = "'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'p',"
    sink += " 'properties.transaction.timeout.ms' = '900000'"
    text += "".join(f"      {line}\n" for line in table("b", sink).splitlines())
    found = failures(text, "job.yaml")
    assert list(found.values()) == [set(), {"flink-timeout"}]


# --- Variables, manifests, values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "kind"),
    [
        ({"CONNECT_OFFSET_STORAGE_TOPIC": "o", "CONNECT_TRANSACTION_BOUNDARY": "poll"}, Client.CONNECT_WORKER),
        ({"KSQL_KSQL_STREAMS_PROCESSING_GUARANTEE": "at_least_once"}, Client.KSQLDB),
        ({"SPRING_KAFKA_CONSUMER_ISOLATIONLEVEL": "read_uncommitted"}, Client.SPRING),
        ({"SPRING_KAFKA_CONSUMER_ISOLATION_LEVEL": "read_uncommitted"}, Client.SPRING),
        ({"SPRING_KAFKA_CONSUMER_PROPERTIES_ISOLATION_LEVEL": "${LEVEL:-read_uncommitted}"}, Client.SPRING),
        ({"MP_MESSAGING_INCOMING_MY_WORDS_ISOLATION_LEVEL": "read_uncommitted"}, Client.CONSUMER),
        ({"DEBEZIUM_SINK_KAFKA_PRODUCER_ACKS": "0"}, Client.PRODUCER),
        ({"MP_MESSAGING_OUTGOING_A_TOPIC": "t", "MP_MESSAGING_OUTGOING_A_RETRIES": "0"}, Client.PRODUCER),
    ],
)  # fmt: skip
def test_environment_variables_are_read_in_every_place_and_what_they_do_not_set_is_a_note(
    variables: dict[str, str], kind: Client
) -> None:
    lines = [f"{name}={value}" for name, value in variables.items()]
    mapping = "{" + ", ".join(f'{name}: "{value}"' for name, value in variables.items()) + "}"
    entries = ", ".join(f'{{name: {name}, value: "{value}"}}' for name, value in variables.items())
    forms = {
        ".env": "\n".join(lines),
        "app.env": "".join(f'export {line.replace("=", "=" + chr(34), 1)}"\n' for line in lines),
        "compose.yml": f"services:\n  a:\n    image: x\n    environment: {mapping}\n",
        "compose.yaml": "services:\n  a:\n    environment:\n" + "".join(f'    - "{line}"\n' for line in lines),
        "deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: {spec: "
        f"{{containers: [{{name: c, env: [{{name: X, valueFrom: {{a: b}}}}, {entries}]}}]}}}}}}\n",
        "configmap.yaml": f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: d}}\ndata: {mapping}\n",
        "values.yaml": f"app:\n  env: {mapping}\n",
    }
    for file, text in forms.items():
        [part] = parts(text, file)
        assert part.kind is kind, file
        assert part.partial
        [found] = failures(text, file).values()
        assert len(found) == 1, (file, found)


def test_variables_that_are_no_clients_are_passed_over() -> None:
    text = (
        "SPRING_DATASOURCE_URL=jdbc:x\nSPRING_KAFKA=1\nMP_MESSAGING_X=1\nQUARKUS_HTTP_PORT=1\nKAFKA_STREAMS_X=1\nA=1\n"
    )
    assert not [part for part in parts(text, ".env") if part.kind not in {None, Client.STREAMS}]


def test_brokers_variables_are_those_of_a_broker() -> None:
    text = "services:\n  k:\n    environment:\n      KAFKA_PROCESS_ROLES: broker\n      KAFKA_ACKS: 1\n"
    assert [part.kind for part in parts(text, "compose.yml")] == [Client.BROKER]


def test_names_of_images_have_dashes_and_underscores() -> None:
    [part] = parts("CONNECT_OFFSET_STORAGE_TOPIC=o\nCONNECT_A__B___C_D=1", ".env")
    assert [setting.name for setting in part.settings] == ["offset.storage.topic", "a-b_c.d"]


def test_files_inside_a_config_map_are_read_with_their_lines() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  producer.properties: |\n    linger.ms=5\n"
    text += "    acks=1\n    enable.idempotence=false\n  application.yml: |\n    spring:\n      kafka:\n"
    text += "        consumer:\n          isolation-level: read_uncommitted\n"
    found = {
        part.name: [(f.rule.name, f.line) for f in judged(part, Goal.EXACTLY_ONCE, (4, 0)) if f.severity != "info"]
        for part in parts(text, "c.yaml")
    }
    assert found == {
        "ConfigMap c.data.producer.properties": [("acks-not-all", 7), ("idempotence-off", 8)],
        "ConfigMap c.data.application.yml": [("isolation-read-uncommitted", 13)],
    }


def test_overrides_of_helm_values_are_judged_by_what_they_set() -> None:
    text = "image: x\ncp:\n  configurationOverrides:\n    offset.storage.topic: o\n    transaction.boundary: poll\n"
    assert failures(text, "values.yaml") == {"cp.configurationOverrides": {"worker-ignores"}}
    assert "worker-exactly-once" in notes(text, "values.yaml")


# --- Kinds, ids, durations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("kafkajs.json", '{"clientId": "a", "producer": {"transactionalId": "b", "idempotent": false}}'),
        ("a.yaml", "kafka: {topic: a}\nname: b\n"),
        ("a.properties", "kafka.producer.topic=a\n"),
        ("a.sql", "SELECT 1;"),
    ],
)
def test_what_has_no_name_of_the_kind_is_not_understood_as_it(file: str, text: str) -> None:
    for kind in (None, *Client):
        assert not any(part.kind for part in of_kind(parts(text, file) or [ClientPart("", None, ())], kind))


def test_a_named_kind_selects_its_parts_or_reads_what_has_a_name_of_it() -> None:
    quarkus = parts(OUT + "a.acks=all\n" + IN + "b.group.id=c", "application.properties")
    assert [part.name for part in of_kind(quarkus, Client.CONSUMER)] == ["incoming channel b"]
    [part] = of_kind(parts("bootstrap.servers=k:1\nclient.id=a", "app.properties"), Client.STREAMS)
    assert part.kind is Client.STREAMS


@pytest.mark.parametrize(
    ("identifier", "rule"),
    [
        ("a-${HOSTNAME}-", ""),
        ("a-${POD_NAME}", ""),
        ("${spring.application.name}-${HOSTNAME:local}-", ""),
        ("{{ .Values.id }}", ""),
        ("a-${random.uuid}", "unstable-transactional-id"),
        ("a-${PID}", "unstable-transactional-id"),
        ("a-${POD_UID}", "unstable-transactional-id"),
        ("fluid-${HOSTNAME}", ""),
        ("a-", "fixed-transactional-id"),
        ("${spring.application.name}-", "fixed-transactional-id"),
    ],
)
def test_an_id_is_of_an_instance_and_stays(identifier: str, rule: str) -> None:
    text = f"spring.kafka.producer.transaction-id-prefix={identifier}"
    [part] = parts(text, "application.properties")
    assert {finding.rule.name for finding in judged(part, Goal.EXACTLY_ONCE, (4, 0))} == ({rule} if rule else set())


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [("900001", 900_001), ("900001ms", 900_001), ("15m", 900_000), ("PT15M1S", 901_000), ("15 min", 900_000),
     ("901 s", 901_000), ("1 h", 3_600_000), ("1h", 3_600_000), ("PT0.5H", None), ("P1D", 86_400_000),
     ("${X}", None), ("soon", None)],
)  # fmt: skip
def test_durations_of_springs_and_flinks_spellings(written: str, milliseconds: int | None) -> None:
    [part] = parts(f"sink.x=1\nexecution.checkpointing.interval={written}", "flink.properties")
    view = file_of(part.settings, Client.FLINK, (4, 0)).main
    assert view.milliseconds("execution.checkpointing.interval") == milliseconds


def test_what_another_program_puts_in_is_no_finding() -> None:
    text = "value.serializer=a\nacks=${ACKS}\ntransactional.id=a-${HOSTNAME}\nretries={{ .Values.retries }}\n"
    assert failures(text, "producer.properties") == {"": set()}


# --- Documentation ----------------------------------------------------------------------------------------------------


def test_what_the_documentation_tells_people_to_write_is_fine() -> None:
    judged_blocks = 0
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for suffix, block in re.findall(
            r"^```(ya?ml|properties|json|sql)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL
        ):
            if "{{" in block:
                continue
            found = failures(block, f"block.{suffix}")
            judged_blocks += any(rules != {"-"} for rules in found.values())
            assert not any(rules - {"-"} for rules in found.values()), (page.name, found)
    assert judged_blocks
