"""The session of a Spark job, and the message when it cannot start."""

from __future__ import annotations

import argparse
import re
from importlib.metadata import version
from io import StringIO
from pathlib import Path

import pytest

from exporter.cli import main
from exporter.commands.spark import add_spark_flags, spark_conf
from exporter.jobs import session
from exporter.jobs.session import (
    REDACTED,
    SessionError,
    check_java,
    java_major,
    kafka_connector,
    settings,
)
from exporter.kafka.properties.client import Properties, PropertiesError
from exporter.kafka.properties.java import for_java

PLAIN = {"bootstrap.servers": "k1:9092"}
SCRAM = {
    **PLAIN,
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "eos",
    "sasl.password": 'pass"word\\',
}


def java(dotted: dict[str, str]) -> dict[str, str]:
    return for_java(Properties.parse(dotted))


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_391"', 8),
        ('openjdk version "24-ea"', 24),
        ("no such thing", None),
    ],
)
def test_javas_version_is_read_from_what_it_says(text: str, major: int | None) -> None:
    assert java_major(text) == major


def test_a_missing_java_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SessionError, match="needs Java 17 or later: install it, or set JAVA_HOME"):
        check_java()


def test_an_old_java_is_said_with_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SessionError, match="is version 11"):
        check_java()


def test_a_jvm_that_is_told_two_collectors_is_started_again_without_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def start(name: str, master: str, chosen: dict[str, str], log: object) -> None:
        told.append(chosen["spark.driver.extraJavaOptions"])
        if len(told) == 1:
            raise SessionError("Spark did not start on master local[1]:\nMultiple garbage collectors selected")

    monkeypatch.setattr(session, "_start", start)
    session._started(
        "audit", "local[1]", {"spark.driver.extraJavaOptions": "-Xss1m -XX:+UseParallelGC -Dx=y"}, StringIO()
    )
    assert [text.split() for text in told] == [["-Xss1m", "-XX:+UseParallelGC", "-Dx=y"], ["-Xss1m", "-Dx=y"]]


def test_any_other_failure_of_the_start_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        raise SessionError("no such master")

    monkeypatch.setattr(session, "_start", start)
    with pytest.raises(SessionError, match="no such master"):
        session._started("audit", "x", {"spark.driver.extraJavaOptions": "-XX:+UseParallelGC"}, StringIO())


def test_the_connector_is_of_pysparks_own_version_and_packages_bring_their_excludes() -> None:
    chosen = settings([kafka_connector()])
    assert chosen["spark.jars.packages"] == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}"
    assert "jsr305" in chosen["spark.jars.excludes"]
    assert "spark.jars.packages" not in settings()


def test_the_connector_is_of_the_scala_that_spark_was_built_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "scala-library-2.12.18.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert kafka_connector().startswith("org.apache.spark:spark-sql-kafka-0-10_2.12:")


def test_a_spark_home_without_jars_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(SessionError, match="SPARK_HOME"):
        kafka_connector()


def test_a_connector_that_cannot_be_resolved_names_the_pyspark_to_install(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+") as log:
        log.write("unresolved dependency: org.apache.spark#spark-sql-kafka-0-10_2.13;4.3.0: not found\n")
        text = session._why_not("local[*]", {}, log, OSError("x"))
    assert "pip install 'pyspark==4.2.0'" in text
    assert "\n" not in text


def test_a_start_that_says_nothing_fails_with_the_kind_of_its_error(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+") as log:
        assert (
            session._why_not("local[*]", {}, log, TypeError()) == "Spark did not start on master local[*]:\nTypeError"
        )


def test_a_jar_that_is_missing_where_its_pom_is_there_is_named_in_one_line(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+") as log:
        log.write(
            "Exception in thread main java.lang.RuntimeException: [download failed:"
            " org.wildfly.openssl#wildfly-openssl;1.1.3.Final!wildfly-openssl.jar]\n\tat org.apache.spark\n"
        )
        text = session._why_not("local[*]", {}, log, OSError("x"))
    assert "could not download the jar of org.wildfly.openssl:wildfly-openssl:1.1.3.Final" in text
    assert "\n" not in text


def test_spark_redacts_every_secret_of_a_java_client() -> None:
    names = (
        "kafka.sasl.jaas.config",
        "kafka.ssl.keystore.key",
        "kafka.ssl.key.password",
        "kafka.ssl.truststore.password",
    )
    assert all(re.search(REDACTED, name) for name in names)
    assert not re.search(REDACTED, "kafka.bootstrap.servers")


def test_a_java_client_gets_its_login_as_jaas_with_quotes_escaped() -> None:
    found = java(SCRAM)
    assert found["sasl.jaas.config"] == (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="eos" password="pass\\"word\\\\";'
    )
    assert "sasl.password" not in found
    assert "sasl.username" not in found


def test_a_java_client_gets_oauth_with_its_handler() -> None:
    oauth = {
        **SCRAM,
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "hush",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
    }
    found = java({name: text for name, text in oauth.items() if name not in {"sasl.username", "sasl.password"}})
    assert 'clientId="me" clientSecret="hush" scope="kafka"' in found["sasl.jaas.config"]
    assert found["sasl.login.callback.handler.class"].endswith("OAuthBearerLoginCallbackHandler")
    assert found["sasl.oauthbearer.token.endpoint.url"] == "https://idp/token"
    extended = Properties({**oauth, "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-2"})
    assert (
        'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-2"' in for_java(extended)["sasl.jaas.config"]
    )


def test_a_mechanism_that_spark_does_not_have_is_refused_by_name() -> None:
    iam = Properties({**PLAIN, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "AWS_MSK_IAM"})
    with pytest.raises(PropertiesError, match=r"sasl\.mechanism: AWS_MSK_IAM needs a class"):
        for_java(iam)


def test_what_only_librdkafka_knows_is_left_out_for_java() -> None:
    found = java({**PLAIN, "socket.timeout.ms": "1000", "request.timeout.ms": "2000"})
    assert "socket.timeout.ms" not in found
    assert found["request.timeout.ms"] == "2000"


def test_a_java_client_cannot_go_without_checking_certificates() -> None:
    unchecked = Properties({**PLAIN, "security.protocol": "SSL", "enable.ssl.certificate.verification": "false"})
    with pytest.raises(PropertiesError, match="cannot be switched off"):
        for_java(unchecked)


def test_a_java_client_gets_certificates_as_texts(tmp_path: Path) -> None:
    for name in ("ca", "chain", "key"):
        (tmp_path / name).write_text(f"PEM of {name}")
    checked = {
        **PLAIN,
        "security.protocol": "SSL",
        "ssl.ca.location": str(tmp_path / "ca"),
        "ssl.certificate.location": str(tmp_path / "chain"),
        "ssl.key.location": str(tmp_path / "key"),
        "ssl.endpoint.identification.algorithm": "none",
    }
    found = for_java(Properties(checked))
    assert (found["ssl.truststore.type"], found["ssl.truststore.certificates"]) == ("PEM", "PEM of ca")
    assert (found["ssl.keystore.certificate.chain"], found["ssl.keystore.key"]) == ("PEM of chain", "PEM of key")
    assert found["ssl.endpoint.identification.algorithm"] == ""
    (tmp_path / "ca").unlink()
    with pytest.raises(PropertiesError, match=r"ssl\.ca\.location"):
        for_java(Properties(checked))


def test_spark_settings_are_given_as_for_spark_submit(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_spark_flags(parser)
    options = parser.parse_args(["--conf", "spark.a=1", "--conf", "spark.b=x=y", "--conf", "spark.a=2"])
    assert spark_conf(options) == {"spark.a": "2", "spark.b": "x=y"}
    with pytest.raises(SystemExit):
        parser.parse_args(["--conf", "secret"])
    assert "is no KEY=VALUE of Spark" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--output", "catalog.db.eos", "--format", "delta"], "needs --checkpoint URL"),
        (["--output", "o", "--max-records-per-batch", "5"], "was removed"),
        (["run", "--output", "o"], "history run was removed"),
        ([], "history needs --output"),
    ],
)
def test_flags_that_cannot_be_meant_are_refused(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", *flags, "--bootstrap-server", "127.0.0.1:1"]) == 2
    assert said in capsys.readouterr().err
