"""The rules of ``check client``: for each a file in which it is found, and one in which it is not."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import confluent_kafka
import pytest

from exporter.linter import all_rules
from exporter.linter.all_rules import RULES, ClientFinding, findings, misspelt
from exporter.linter.files import parse
from exporter.linter.rule import Goal, Level
from exporter.linter.sarif import sarif
from exporter.linter.views import Client, file_of, kind_of

PRODUCER = "key.serializer=a\nvalue.serializer=a\n"
CONSUMER = "group.id=g\nvalue.deserializer=a\n"
STREAMS = "application.id=a\n"
WORKER = "offset.storage.topic=o\n"
SOURCE = "connector.class=io.example.StepSource\n"
SINK = "connector.class=io.example.FileSink\ntopics=a\n"
FLINK = "sink.delivery-guarantee=exactly-once\nsink.transactional-id-prefix=p\nexecution.checkpointing.interval=60s\n"
MIRROR = "connector.class=org.apache.kafka.connect.mirror.MirrorSourceConnector\nexactly.once.support=required\n"
MM2 = "clusters=a,b\na->b.enabled=true\n"
LIBRDKAFKA = "statistics.interval.ms=0\n"

CASES = {  # rule: a file in which it is found, and one that differs by the mend alone
    "idempotence-off": (PRODUCER + "enable.idempotence=false", PRODUCER + "enable.idempotence=true"),
    "acks-not-all": (PRODUCER + "acks=1", PRODUCER + "acks=all"),
    "retries-zero": (PRODUCER + "retries=0", PRODUCER + "retries=1"),
    "in-flight-above-5": (
        PRODUCER + "max.in.flight.requests.per.connection=6",
        PRODUCER + "max.in.flight.requests.per.connection=5",
    ),
    "no-transactional-id": (PRODUCER, PRODUCER + "transactional.id=pay-1"),
    "unstable-transactional-id": (
        PRODUCER + "transactional.id=pay-${random.uuid}",
        PRODUCER + "transactional.id=pay-${PARTITION}",
    ),
    "fixed-transactional-id": (
        PRODUCER + "transactional.id=pay",
        PRODUCER + "transactional.id=pay-${HOSTNAME}",
    ),
    "spring-ignores": (
        "spring.kafka.consumer.isolation.level=read_committed",
        "spring.kafka.consumer.isolation-level=read_committed",
    ),
    "transaction-timeout": (PRODUCER + "transaction.timeout.ms=900001", PRODUCER + "transaction.timeout.ms=300000"),
    "delivery-timeout": (PRODUCER + "delivery.timeout.ms=29999", PRODUCER + "delivery.timeout.ms=30000"),
    "isolation-read-uncommitted": (CONSUMER, CONSUMER + "isolation.level=read_committed"),
    "offsets-outside-transaction": (CONSUMER, CONSUMER + "enable.auto.commit=false"),
    "offset-reset-latest": (CONSUMER + "auto.offset.reset=latest", CONSUMER + "auto.offset.reset=earliest"),
    "streams-at-least-once": (STREAMS, STREAMS + "processing.guarantee=exactly_once_v2"),
    "streams-guarantee-removed": (
        STREAMS + "processing.guarantee=exactly_once_beta",
        STREAMS + "processing.guarantee=exactly_once_v2",
    ),
    "streams-commit-interval": (
        STREAMS + "processing.guarantee=exactly_once_v2\ncommit.interval.ms=10001",
        STREAMS + "processing.guarantee=exactly_once_v2\ncommit.interval.ms=10000",
    ),
    "handler-continues": (
        STREAMS + "default.deserialization.exception.handler=org.x.LogAndContinueExceptionHandler",
        STREAMS + "default.deserialization.exception.handler=org.x.LogAndFailExceptionHandler",
    ),
    "replication-factor": (STREAMS + "replication.factor=1", STREAMS + "replication.factor=-1"),
    "worker-exactly-once": (WORKER, WORKER + "exactly.once.source.support=enabled"),
    "worker-standalone": ("offset.storage.file.filename=/tmp/offsets", WORKER),
    "worker-ignores": (WORKER + "transaction.boundary=poll", WORKER),
    "connector-ignores": (SOURCE + "exactly.once.source.support=enabled", SOURCE),
    "mirror-source-reads-uncommitted": (MIRROR, MIRROR + "source.consumer.isolation.level=read_committed"),
    "mirror-exactly-once": (MM2, MM2 + "b.exactly.once.source.support=enabled"),
    "mirror-reads-uncommitted": (MM2, MM2 + "a.consumer.isolation.level=read_committed"),
    "mirror-internal-rest": (MM2, MM2 + "dedicated.mode.enable.internal.rest=true"),
    "worker-transactional-id": (WORKER + "producer.transactional.id=mine", WORKER),
    "override-policy": (
        WORKER + "connector.client.config.override.policy=None",
        WORKER + "connector.client.config.override.policy=All",
    ),
    "worker-sinks-read-uncommitted": (WORKER, WORKER + "consumer.isolation.level=read_committed"),
    "source-not-required": (SOURCE, SOURCE + "exactly.once.support=required"),
    "boundary-interval": (
        SOURCE + "transaction.boundary=interval\ntransaction.boundary.interval.ms=40000\n"
        "producer.override.transaction.timeout.ms=15000",
        SOURCE + "transaction.boundary=interval\ntransaction.boundary.interval.ms=10000\n"
        "producer.override.transaction.timeout.ms=15000",
    ),
    "override-transactional-id": (SOURCE + "producer.override.transactional.id=mine", SOURCE),
    "sink-read-uncommitted": (SINK, SINK + "consumer.override.isolation.level=read_committed"),
    "errors-dropped": (
        SINK + "errors.tolerance=all",
        SINK + "errors.tolerance=all\nerrors.deadletterqueue.topic.name=dead",
    ),
    "sink-inserts": (
        "connector.class=io.debezium.connector.jdbc.JdbcSinkConnector\ninsert.mode=insert",
        "connector.class=io.debezium.connector.jdbc.JdbcSinkConnector\ninsert.mode=upsert",
    ),
    "flink-guarantee": ("sink.delivery-guarantee=at-least-once", FLINK),
    "flink-prefix": (
        "sink.delivery-guarantee=exactly-once",
        "sink.delivery-guarantee=exactly-once\nsink.transactional-id-prefix=p",
    ),
    "flink-timeout": (FLINK, FLINK + "properties.transaction.timeout.ms=900000"),
    "flink-checkpoints": (FLINK + "execution.checkpointing.mode=AT_LEAST_ONCE", FLINK),
}


def look(
    text: str, goal: Goal = Goal.EXACTLY_ONCE, version: tuple[int, int] = (4, 0), limit: int | None = None
) -> dict[str, ClientFinding]:
    settings = parse(text)
    kind = kind_of(settings)
    assert kind is not None
    return {finding.rule.name: finding for finding in findings(file_of(settings, kind, version), goal, limit)}


def test_every_rule_has_its_case() -> None:
    assert list(CASES) == [rule.name for rule in RULES]


@pytest.mark.parametrize("name", CASES)
def test_a_rule_finds_its_case_and_is_silent_when_it_is_mended(name: str) -> None:
    wrong, right = CASES[name]
    assert name in look(wrong)
    assert name not in look(right)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (PRODUCER, Client.PRODUCER),
        (CONSUMER, Client.CONSUMER),
        (STREAMS, Client.STREAMS),
        (WORKER, Client.CONNECT_WORKER),
        (SOURCE, Client.CONNECTOR),
        (FLINK, Client.FLINK),
        (LIBRDKAFKA, Client.LIBRDKAFKA),
        (MM2, Client.MIRRORMAKER),
        ("ksql.service.id=k", Client.KSQLDB),
        ("spring.kafka.producer.acks=1", Client.SPRING),
        ("process.roles=broker", Client.BROKER),
        ("some=thing", None),
    ],
)
def test_the_kind_is_reported_by_the_names(text: str, kind: Client | None) -> None:
    assert kind_of(parse(text)) is kind


def test_defaults_follow_the_version() -> None:
    plain = PRODUCER + "transactional.id=a-${HOSTNAME}"
    assert "idempotence-off" in look(PRODUCER, version=(2, 8))
    assert "acks-not-all" in look(PRODUCER, version=(2, 8))
    assert not look(plain, version=(2, 8))  # a transactional.id turns idempotence on, since 0.11
    assert not look(plain)
    old = look(STREAMS + "processing.guarantee=exactly_once", version=(3, 9))["streams-guarantee-removed"]
    new = look(STREAMS + "processing.guarantee=exactly_once")["streams-guarantee-removed"]
    assert (old.severity, new.severity) == (Level.WARNING, Level.ERROR)
    assert "second rolling bounce" in new.text


def test_a_connector_of_mirrormaker_is_a_source_though_it_has_topics() -> None:
    mirror = "connector.class=org.apache.kafka.connect.mirror.Mirror%sConnector\ntopics=.*\n"
    assert look(mirror % "Source").keys() == {"source-not-required", "mirror-source-reads-uncommitted"}
    assert not look(mirror % "Checkpoint")  # it has no exactly-once: Connect would refuse to require it


def test_a_limit_that_is_not_known_is_said_to_be_the_default() -> None:
    assert "900000 ms (its default), and" in look(FLINK)["flink-timeout"].text
    assert "900000 ms, and" in look(FLINK, limit=900_000)["flink-timeout"].text


def test_a_job_of_flink_that_only_writes_is_no_reader() -> None:
    assert "isolation-read-uncommitted" not in look(FLINK + "properties.bootstrap.servers=a:1")
    for line in ("scan.startup.mode=earliest-offset", "properties.group.id=g"):
        assert "isolation-read-uncommitted" in look(f"{FLINK}{line}\n")


def test_idempotence_that_is_off_already_is_not_said_to_be_turned_off() -> None:
    settings = "acks=1\nretries=0\n"
    assert all("idempotence" in look(PRODUCER + settings)[name].text for name in ("acks-not-all", "retries-zero"))
    plain = look(LIBRDKAFKA + settings)
    assert not any("idempotence" in plain[name].text for name in ("acks-not-all", "retries-zero"))


def test_at_least_once_asks_for_less() -> None:
    assert look(CONSUMER, Goal.AT_LEAST_ONCE) == {}
    assert set(look(PRODUCER + "acks=1", Goal.AT_LEAST_ONCE)) == {"acks-not-all"}


def test_the_brokers_limit_makes_a_timeout_an_error() -> None:
    text = PRODUCER + "transactional.id=a-${HOSTNAME}\ntransaction.timeout.ms=70000"
    assert look(text) == {}
    found = look(text, limit=60_000)["transaction-timeout"]
    assert found.severity is Level.ERROR
    assert "60000 of this cluster" in found.text


@pytest.mark.parametrize(
    ("lines", "producer", "consumer"),
    [
        ("producer.acks=all", True, False),
        ("consumer.group-id=billing", False, True),
        ("listener.ack-mode=batch", False, True),
        ("bootstrap-servers=k:9092", True, True),
    ],
)
def test_a_spring_file_is_checked_for_the_clients_that_it_configures(
    lines: str, producer: bool, consumer: bool
) -> None:
    settings = parse(f"spring.kafka.{lines}\n")
    found = {finding.rule.name for finding in findings(file_of(settings, Client.SPRING, (3, 9)), Goal.EXACTLY_ONCE)}
    assert ("no-transactional-id" in found, "isolation-read-uncommitted" in found) == (producer, consumer)


def test_spring_names_are_understood() -> None:
    text = "spring:\n  kafka:\n    producer:\n      transaction-id-prefix: pay-${random.value}-\n      acks: '1'\n"
    settings = parse(text, ".yml")
    found = {
        finding.rule.name: finding for finding in findings(file_of(settings, Client.SPRING, (3, 9)), Goal.EXACTLY_ONCE)
    }
    assert found["acks-not-all"].line == 5
    assert "refuses to start" in found["acks-not-all"].text
    assert "unstable-transactional-id" in found
    assert "no-transactional-id" not in found


@pytest.mark.parametrize(
    "wrong",
    [
        {"transactional.id": "a", "enable.idempotence": False},
        {"transactional.id": "a", "acks": 1},
        {"transactional.id": "a", "retries": 0},
        {"transactional.id": "a", "max.in.flight": 6},
        {"transactional.id": "a", "message.timeout.ms": 60001},
    ],
)
def test_what_librdkafka_refuses_is_found(wrong: dict[str, object]) -> None:
    # The real library refuses each of these when the client is made, and takes the first setting alone.
    with pytest.raises(confluent_kafka.KafkaException):
        confluent_kafka.Producer({"bootstrap.servers": "127.0.0.1:1", **wrong})
    text = LIBRDKAFKA + "".join(f"{name}={str(value).lower()}\n" for name, value in wrong.items())
    assert any(finding.severity is Level.ERROR for finding in look(text).values())
    assert look(LIBRDKAFKA + "transactional.id=a").keys() == {"fixed-transactional-id"}


@pytest.mark.parametrize(
    ("text", "rule", "found"),
    [
        (CONSUMER + "isolation.level=READ_COMMITTED", "isolation-read-uncommitted", "no value"),
        (CONSUMER + "isolation.level=read_committed", "isolation-read-uncommitted", ""),
        (SINK + "consumer.override.isolation.level=Read_Committed", "sink-read-uncommitted", "no value"),
        (PRODUCER + "acks=ALL", "acks-not-all", "no value"),
        (PRODUCER + "acks=2", "acks-not-all", "no value"),
        (PRODUCER + "acks=-1", "acks-not-all", ""),
        (STREAMS + "processing.guarantee=exactly-once-v2", "streams-guarantee-removed", "no value"),
        (STREAMS + "processing.guarantee=EXACTLY_ONCE_V2", "streams-guarantee-removed", "no value"),
        (STREAMS + "processing.guarantee=exactly_once_v2", "streams-guarantee-removed", ""),
        (MM2 + "a.consumer.isolation.level=READ_COMMITTED", "mirror-reads-uncommitted", "no value"),
        (LIBRDKAFKA + "group.id=g\nisolation.level=READ_COMMITTED", "isolation-read-uncommitted", ""),
        (LIBRDKAFKA + "acks=ALL", "acks-not-all", ""),
        (LIBRDKAFKA + "acks=2", "acks-not-all", "loses records"),
    ],
)
def test_a_value_that_javas_clients_do_not_take_is_said(text: str, rule: str, found: str) -> None:
    finding = look(text).get(rule)
    assert (finding is not None) is bool(found)
    assert finding is None or found in finding.text


@pytest.mark.parametrize("setting", ["consumer.isolation.level=read_uncommitted", "producer.enable.idempotence=false"])
def test_what_streams_overrides_under_exactly_once_is_no_fault(setting: str) -> None:
    found = look(STREAMS + "processing.guarantee=exactly_once_v2\n" + setting)
    assert not found
    assert look(STREAMS + setting)


def test_librdkafka_takes_the_spelling_that_java_refuses() -> None:
    for taken in ({"isolation.level": "READ_COMMITTED"}, {"acks": "ALL"}, {"acks": "2"}):
        confluent_kafka.Consumer({"group.id": "g", **taken})


def test_a_standalone_worker_is_not_asked_for_a_setting_that_it_does_not_have() -> None:
    found = look("offset.storage.file.filename=/tmp/offsets\nbootstrap.servers=k:9092")
    assert "worker-standalone" in found
    assert "worker-exactly-once" not in found


def test_a_workers_own_transactional_id_and_that_of_its_tasks_are_found_apart() -> None:
    text = WORKER + "transactional.id=a\nproducer.transactional.id=b"
    settings = parse(text)
    found = findings(file_of(settings, Client.CONNECT_WORKER, (4, 0)), Goal.AT_LEAST_ONCE)
    named = [(finding.setting, finding.line) for finding in found if finding.rule.name == "worker-transactional-id"]
    assert named == [("transactional.id", 2), ("producer.transactional.id", 3)]


@pytest.mark.parametrize(("timeout", "found"), [("", True), ("60000", True), ("60001", False)])
def test_a_boundary_interval_that_is_not_set_is_the_workers_flush_interval(timeout: str, found: bool) -> None:
    override = f"\nproducer.override.transaction.timeout.ms={timeout}" if timeout else ""
    finding = look(SOURCE + "transaction.boundary=interval" + override).get("boundary-interval")
    assert (finding is not None) is found
    assert finding is None or finding.severity is Level.WARNING


def test_a_misspelt_name_is_found_and_unknown_ones_are_not() -> None:
    settings = parse("enable.idempotance=true\nenable.idempotence=true\nmy.own.setting=1\nproducer.isolation.levels=a")
    assert [(finding.setting.name, finding.meant) for finding in misspelt(settings)] == [
        ("enable.idempotance", "enable.idempotence"),
        ("producer.isolation.levels", "isolation.level"),
    ]


def test_a_name_of_many_words_is_compared_a_few_times_and_a_long_known_one_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = []

    def counted(tail: str, *rest: Any, **options: Any) -> list[str]:
        compared.append(tail)
        return get_close_matches(tail, *rest, **options)

    monkeypatch.setattr(all_rules, "get_close_matches", counted)
    meant = "max.in.flight.requests.per.connection"
    long = parse("a." * 200 + "x=1\n" + "a." * 200 + f"{meant}s=1")
    assert [found.meant for found in misspelt(long)] == [meant]
    assert len(compared) < 25


def test_sarif_has_a_rule_and_a_place_for_each_finding() -> None:
    found = tuple(look(CONSUMER + "isolation.level=read_uncommitted").values())
    [run] = sarif("1.0", [("my app/consumer.properties", found)])["runs"]
    places = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]]
    assert set(places) == {"my%20app/consumer.properties"}
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} <= rules
    lines = [result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in run["results"]]
    assert lines == [3, 1]


@pytest.mark.parametrize(
    ("text", "file", "kind"),
    [
        ("bootstrap.servers=k:9092\ncompression.type=none", "producer.properties", Client.PRODUCER),
        ("bootstrap.servers=k:9092\ngroup.instance.id=laptop", "streams-app.properties", Client.STREAMS),
        ("bootstrap.servers=k:9092", "app.properties", None),
        ("driver=x", "producer.properties", None),
        ("zookeeper.connect=z:2181\ngroup.id=mirror\nauto.offset.reset=earliest", "any", Client.CONSUMER),
        ("zookeeper.connect=z:2181\nbroker.id=1\nlog.dirs=/d", "any", Client.BROKER),
    ],
)
def test_where_the_settings_are_those_of_any_client_the_name_of_the_file_decides(
    text: str, file: str, kind: Client | None
) -> None:
    assert kind_of(parse(text), file) is kind
