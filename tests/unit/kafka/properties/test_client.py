from __future__ import annotations

import logging
import os
import ssl
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import pytest
from confluent_kafka import Consumer
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import pkcs12

from exporter.kafka.auth.stores import TlsError, own_certificate_end
from exporter.kafka.properties.accepted import broker_address
from exporter.kafka.properties.client import HIDDEN, Properties, PropertiesError
from exporter.kafka.properties.java import for_java
from testkit.certificates import Authority

SERVERS = {"bootstrap.servers": "k1:9092"}
SCRAM = SERVERS | {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "eos",
    "sasl.password": "hunter2",
}


def problems(dotted: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(PropertiesError) as raised:
        Properties.parse(dotted)
    return dict(raised.value.problems)


# --- What is understood ---


def test_bootstrap_servers_are_enough() -> None:
    properties = Properties.parse(SERVERS)
    assert properties.bootstrap_servers == "k1:9092"
    assert properties.security_protocol == "PLAINTEXT"
    assert properties.for_confluent()["client.id"] == "kafka-eos-exporter"
    assert properties.tls_context() is None


def test_a_list_of_bootstrap_servers_is_joined() -> None:
    assert Properties.parse({"bootstrap.servers": ["a:1", "b:2"]}).bootstrap_servers == "a:1,b:2"


def test_scram_is_translated_for_both_clients() -> None:
    properties = Properties.parse(SCRAM)
    python = properties.sasl(properties.token_provider())
    assert python["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (python["sasl_plain_username"], python["sasl_plain_password"]) == ("eos", "hunter2")
    confluent = properties.for_confluent()
    assert (confluent["sasl.username"], confluent["sasl.password"]) == ("eos", "hunter2")
    assert confluent["sasl.mechanism"] == "SCRAM-SHA-512"


def test_javas_jaas_entry_becomes_user_and_password() -> None:
    properties = Properties.parse(
        SERVERS
        | {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "scram-sha-256",
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="eos" \\n password="a \\"quoted\\" one;";'.replace("\\n", "\n"),
        }
    )
    confluent = properties.for_confluent()
    assert (confluent["sasl.username"], confluent["sasl.password"]) == ("eos", 'a "quoted" one;')
    assert "sasl.jaas.config" not in confluent
    assert confluent["security.protocol"] == "SASL_PLAINTEXT"


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("sesame", "is not of the form"),
        ('x.PlainLoginModule required username="u";', "lacks username or password"),
        ('com.sun.security.auth.module.Krb5LoginModule required useKeyTab="true";', "Krb5LoginModule is not supported"),
        ("x.PlainLoginModule required username=u open sesame;", "not key=value"),
        ('x.IAMLoginModule required awsProfileName="sesame";', "set AWS_PROFILE"),
    ],
)
def test_a_jaas_entry_that_cannot_be_used_is_reported_without_its_values(entry: str, text: str) -> None:
    found = problems(SCRAM | {"sasl.jaas.config": entry})
    assert text in found["sasl.jaas.config"]
    assert "sesame" not in found["sasl.jaas.config"]


def test_the_mechanism_has_two_names() -> None:
    renamed = {("sasl.mechanisms" if name == "sasl.mechanism" else name): text for name, text in SCRAM.items()}
    assert Properties.parse(renamed).for_confluent()["sasl.mechanism"] == "SCRAM-SHA-512"


def test_javas_pem_stores_become_certificate_files(authority: Authority) -> None:
    certificate, key, _ = authority.issue("java-client")
    both = authority.folder / "java-both.pem"
    both.write_text(Path(key).read_text() + Path(certificate).read_text())
    properties = Properties.parse(
        SERVERS
        | {
            "security.protocol": "SSL",
            "ssl.truststore.location": authority.certificate,
            "ssl.truststore.type": "PEM",
            "ssl.keystore.location": str(both),
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    confluent = properties.for_confluent()
    assert confluent["ssl.ca.location"] == authority.certificate
    assert confluent["ssl.certificate.location"] == confluent["ssl.key.location"] == str(both)
    assert confluent["ssl.endpoint.identification.algorithm"] == "none"
    context = properties.tls_context()
    assert isinstance(context, ssl.SSLContext)
    assert context.check_hostname is False
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_javas_inline_pem_becomes_librdkafkas(authority: Authority) -> None:
    certificate, key, _ = authority.issue("inline")
    properties = Properties.parse(
        SERVERS
        | {
            "security.protocol": "SSL",
            "ssl.truststore.certificates": Path(authority.certificate).read_text(),
            "ssl.keystore.certificate.chain": Path(certificate).read_text(),
            "ssl.keystore.key": Path(key).read_text(),
        }
    )
    assert {"ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"} <= properties.for_confluent().keys()
    assert "PRIVATE KEY" not in repr(properties)


def test_verification_can_be_switched_off() -> None:
    properties = Properties.parse(SERVERS | {"security.protocol": "SSL", "enable.ssl.certificate.verification": False})
    context = properties.tls_context()
    assert context is not None
    assert context.verify_mode is ssl.CERT_NONE
    assert properties.for_confluent()["enable.ssl.certificate.verification"] == "false"


def test_the_request_timeout_is_librdkafkas_socket_timeout() -> None:
    # librdkafka's own request.timeout.ms is how long the producer waits for acknowledgements.
    confluent = Properties.parse(SERVERS | {"request.timeout.ms": 7000}).for_confluent()
    assert confluent["socket.timeout.ms"] == "7000"
    assert "request.timeout.ms" not in confluent


def test_extra_settings_win() -> None:
    confluent = Properties.parse(SERVERS).for_confluent(**{"group.id": "g", "client.id": "tail"})
    assert (confluent["group.id"], confluent["client.id"]) == ("g", "tail")


def test_oauth_is_client_credentials() -> None:
    properties = Properties.parse(
        SERVERS
        | {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
            "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
            "OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'clientId="me" clientSecret="s3" scope="kafka" extension_logicalCluster="lkc-1";',
        }
    )
    confluent = properties.for_confluent()
    assert confluent["sasl.oauthbearer.method"] == "oidc"
    assert confluent["sasl.oauthbearer.client.id"] == "me"
    assert confluent["sasl.oauthbearer.extensions"] == "logicalCluster=lkc-1"
    assert properties.token_provider() is not None
    assert "s3" not in repr(properties)


def test_the_names_of_kafka_4_mean_the_same() -> None:
    names = "sasl.oauthbearer.client.credentials"
    properties = Properties.parse(
        SERVERS
        | {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
            "sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.common.security.oauthbearer."
            "ClientCredentialsJwtRetriever",
            f"{names}.client.id": "me",
            f"{names}.client.secret": "s3",
        }
    )
    confluent = properties.for_confluent()
    assert (confluent["sasl.oauthbearer.client.id"], confluent["sasl.oauthbearer.client.secret"]) == ("me", "s3")
    assert not any(name.startswith(names) or "class" in name for name in confluent)
    assert "s3" not in repr(properties)


def test_librdkafka_accepts_the_translation(authority: Authority) -> None:
    properties = Properties.parse(
        SCRAM
        | {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": authority.certificate,
            "ssl.endpoint.identification.algorithm": "none",
            "socket.connection.setup.timeout.ms": 5000,
            "socket.timeout.ms": 5000,
            "request.timeout.ms": 5000,
            "connections.max.idle.ms": 60000,
            "reconnect.backoff.ms": 100,
            "reconnect.backoff.max.ms": 1000,
            "retry.backoff.ms": 100,
            "metadata.max.age.ms": 60000,
            "receive.message.max.bytes": 200_000_000,
            "client.dns.lookup": "use_all_dns_ips",
            "broker.address.family": "v4",
        }
    )
    Consumer(properties.for_confluent(**{"group.id": "g"})).close()


# --- Secrets ---


def test_secrets_never_show(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    properties = Properties.parse(SCRAM)
    logging.getLogger("test").info("%s %r %s", properties, properties, dict(properties.items()))
    assert "hunter2" not in caplog.text
    assert dict(properties.items())["sasl.password"] == HIDDEN
    assert dict(properties.items())["sasl.username"] == "eos"


def test_problems_never_show_secrets() -> None:
    found = problems(SCRAM | {"sasl.mechanism": "GSSAPI", "nope": "hunter2", "ssl.key.password": "hunter2"})
    assert "hunter2" not in str(found)


def test_a_password_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("from file\n")
    dotted = {name: text for name, text in SCRAM.items() if name != "sasl.password"}
    properties = Properties.parse(dotted | {"sasl.password.file": str(file)})
    assert properties.for_confluent()["sasl.password"] == "from file"
    assert dict(properties.items())["sasl.password"] == HIDDEN


def test_a_secret_file_that_became_a_pipe_keeps_its_last_value(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first")
    dotted = {"bootstrap.servers": "k:9092", "sasl.mechanism": "PLAIN", "sasl.username": "u"}
    dotted |= {"security.protocol": "SASL_PLAINTEXT", "sasl.password.file": str(file)}
    properties = Properties.parse(dotted)
    file.unlink()
    os.mkfifo(file)
    assert properties.current()["sasl.password"] == "first"
    with pytest.raises(PropertiesError, match="is no regular file"):
        Properties.parse(dotted)


def test_a_password_that_changes_in_its_file_is_used_from_then_on(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("old")
    dotted = {name: text for name, text in SCRAM.items() if name != "sasl.password"}
    properties = Properties.parse(dotted | {"sasl.password.file": str(file)})
    file.write_text("new")
    assert properties.sasl(None)["sasl_plain_password"] == "new"
    file.unlink()
    assert properties.sasl(None)["sasl_plain_password"] == "old"


def test_a_secret_keeps_its_spaces() -> None:
    assert Properties.parse(SCRAM | {"sasl.password": " p "}).for_confluent()["sasl.password"] == " p "


# --- What is refused ---


def test_all_problems_are_reported_at_once() -> None:
    found = problems({"security.protocol": "TLS", "sasl.mechanism": "SCRAM", "request.timeout.ms": "5s", "acks": "all"})
    assert set(found) == {"bootstrap.servers", "security.protocol", "sasl.mechanism", "request.timeout.ms", "acks"}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("bootstrap.servers", "k1", None),
        ("bootstrap.servers", "k1:port", "k1:port must be host:port"),
        ("bootstrap.servers", "k1:70000", "must be host:port"),
        ("bootstrap.servers", "", "is needed"),
        ("bootstrap.servers", None, "has no value"),
        ("security.protocol", "TLS", "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("sasl.mecanism", "PLAIN", "did you mean sasl.mechanism?"),
        ("acks", "all", "only settings of the connection belong here"),
        ("ssl.enabled.protocols", "TLSv1.3", "remove it"),
        ("security.providers", "x.Y", "remove it"),
        ("sasl.kerberos.service.name", "kafka", "Kerberos is not supported"),
        ("sasl.oauthbearer.assertion.file", "/x", "only client credentials are supported"),
        ("sasl.login.refresh.window.factor", "0.8", "remove it"),
        ("retry.backoff.ms", "-1", "whole number"),
        ("ssl.ca.location", "/nowhere/ca.pem", "has no effect with security.protocol=PLAINTEXT"),
        ("sasl.username", "eos", "has no effect with security.protocol=PLAINTEXT"),
        ("sasl.password.file", "/nowhere/password", "No such file or directory"),
        ("nope.file", "/nowhere", "is not known"),
    ],
)
def test_a_bad_property_is_named_with_what_to_do(name: str, value: object, text: str | None) -> None:
    dotted = SERVERS | {name: value}
    if text is None:
        assert Properties.parse(dotted).bootstrap_servers == value
    else:
        assert text in problems(dotted)[name]


def test_a_protocol_that_is_none_is_not_repeated() -> None:
    found = problems(SERVERS | {"security.protocol": "s3cret", "sasl.username": "u", "ssl.ca.location": "/ca.pem"})
    assert list(found) == ["security.protocol"]
    assert "s3cret" not in str(found).lower()


@pytest.mark.parametrize(
    ("changes", "name", "text"),
    [
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism", "GSSAPI is not supported, since librdkafka"),
        ({"sasl.mechanism": "AWS_MSK_IAM", "security.protocol": "SASL_SSL"}, "sasl.mechanism", "set AWS_REGION"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.client.secret", "is needed"),
        ({"sasl.username": ""}, "sasl.username", "is needed with sasl.mechanism=SCRAM-SHA-512"),
        ({"sasl.password.file": "/x"}, "sasl.password.file", "sasl.password is set as well"),
        ({"sasl.mechanisms": "PLAIN"}, "sasl.mechanisms", "differs from sasl.mechanism"),
        (
            {"sasl.login.callback.handler.class": "com.x.Mine"},
            "sasl.login.callback.handler.class",
            "only OAuthBearerLoginCallbackHandler is known",
        ),
        ({"sasl.client.callback.handler.class": "com.x.Mine"}, "sasl.client.callback.handler.class", "remove it"),
    ],
)
def test_a_bad_sasl_setting_is_named(changes: dict[str, str], name: str, text: str) -> None:
    assert text in problems(SCRAM | changes)[name]


# --- Java's stores ---


def test_pkcs12_stores_serve_every_client_whatever_their_names_end_in(authority: Authority, tmp_path: Path) -> None:
    keys = Path(authority.issue_pkcs12("with-store", "changeit")).rename(tmp_path / "client.keystore.jks")
    trusted = tmp_path / "client.truststore.jks"
    trusted.write_bytes(authority.trust_store("changeit"))
    properties = Properties.parse(
        SERVERS
        | {
            "security.protocol": "SSL",
            "ssl.keystore.location": str(keys),
            "ssl.keystore.password": "changeit",
            "ssl.key.password": "changeit",
            "ssl.truststore.location": str(trusted),
            "ssl.truststore.password": "changeit",
        }
    )
    context = properties.tls_context()
    assert context is not None
    assert "test authority" in str(context.get_ca_certs())
    confluent = properties.for_confluent(**{"group.id": "g"})
    assert {"ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"} <= confluent.keys()
    assert not any(name.startswith(("ssl.keystore", "ssl.truststore")) for name in confluent)
    Consumer(confluent).close()
    java = for_java(properties)
    assert java["ssl.truststore.certificates"] == confluent["ssl.ca.pem"]
    assert java["ssl.keystore.certificate.chain"] == confluent["ssl.certificate.pem"]
    assert "ssl.key.password" not in java
    assert "changeit" not in repr(properties)


def test_a_store_that_is_no_store_or_locked_is_named(authority: Authority, tmp_path: Path) -> None:
    keys = authority.issue_pkcs12("locked-store", "changeit")
    dotted = SERVERS | {"security.protocol": "SSL", "ssl.keystore.location": keys}
    assert keys in problems(dotted | {"ssl.keystore.password": "wrong"})["ssl.keystore.password"]
    trusted = tmp_path / "trust.p12"
    trusted.write_bytes(authority.trust_store("changeit"))
    empty = dotted | {"ssl.keystore.location": str(trusted), "ssl.keystore.password": "changeit"}
    assert "holds no private key" in problems(empty)["ssl.keystore.location"]


def test_a_store_with_a_key_of_an_unsupported_curve_is_named(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object) -> NoReturn:
        raise UnsupportedAlgorithm("Curve 1.2.840.10045.3.1.4 is not supported")  # of prime239v1, as openssl makes one

    monkeypatch.setattr(pkcs12, "load_pkcs12", load)
    keys = authority.issue_pkcs12("curve", "changeit")
    dotted = SERVERS | {"security.protocol": "SSL", "ssl.keystore.location": keys, "ssl.keystore.password": "changeit"}
    assert f"{keys} has a key or a cipher" in problems(dotted)["ssl.keystore.location"]


def test_a_store_in_the_old_format_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    old = tmp_path / "my store.jks"
    old.write_bytes(bytes.fromhex("feedfeed00000002"))
    for name in ("ssl.truststore.location", "ssl.keystore.location"):
        text = problems(SERVERS | {"security.protocol": "SSL", name: str(old)})[name]
        assert f"keytool -importkeystore -srckeystore '{old}' -destkeystore '{tmp_path}/my store.p12'" in text


def test_a_store_beside_the_files_that_it_stands_for_is_one_too_many(authority: Authority) -> None:
    keys = authority.issue_pkcs12("twice", "changeit")
    certificate, key, _ = authority.issue("twice")
    dotted = SERVERS | {"security.protocol": "SSL", "ssl.keystore.location": keys, "ssl.key.location": key}
    found = problems(dotted | {"ssl.certificate.location": certificate})
    assert "ssl.certificate.location is set as well" in found["ssl.keystore.location"]


def test_keys_in_memory_need_no_folder_to_write_to(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    keys = authority.issue_pkcs12("read-only", "changeit")
    dotted = {"security.protocol": "SSL", "ssl.keystore.location": keys, "ssl.keystore.password": "changeit"}
    assert Properties.parse(SERVERS | dotted).tls_context() is not None


@pytest.mark.parametrize(
    "name", ["ssl.ca.location", "ssl.crl.location", "ssl.keystore.location", "ssl.truststore.location"]
)
def test_a_pipe_in_place_of_a_store_or_certificates_is_refused_at_once(name: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    dotted = SERVERS | {"security.protocol": "SSL", name: str(pipe)}
    assert "is no regular file" in "".join(problems(dotted).values())


@pytest.mark.parametrize("name", ["ssl.certificate.location", "ssl.key.location"])
def test_a_certificate_or_key_that_became_a_pipe_is_refused_by_the_next_connection(
    name: str, authority: Authority, tmp_path: Path
) -> None:
    certificate, key, _ = authority.issue("piped")
    dotted = {"security.protocol": "SSL", "ssl.certificate.location": certificate, "ssl.key.location": key}
    properties = Properties.parse(SERVERS | dotted)
    Path(dotted[name]).unlink()
    os.mkfifo(dotted[name])
    with pytest.raises(TlsError, match="is no regular file"):
        properties.tls_context()
    with pytest.raises(PropertiesError, match="is no regular file"):
        for_java(properties)


def test_a_store_that_became_a_pipe_is_refused_by_the_next_connection(authority: Authority) -> None:
    keys = authority.issue_pkcs12("piped-store", "changeit")
    dotted = {"security.protocol": "SSL", "ssl.keystore.location": keys, "ssl.keystore.password": "changeit"}
    properties = Properties.parse(SERVERS | dotted)
    Path(keys).unlink()
    os.mkfifo(keys)
    with pytest.raises(TlsError, match="is no regular file"):
        properties.for_confluent()
    with pytest.raises(PropertiesError, match=r"ssl\.keystore\.location: .* is no regular file"):
        for_java(properties)
    assert own_certificate_end(properties.current()) is None


# --- What is replaced while we run ---


def test_the_stamp_changes_with_the_files_and_not_without(authority: Authority, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("old")
    dotted = {name: text for name, text in SCRAM.items() if name != "sasl.password"} | {
        "security.protocol": "SASL_SSL",
        "sasl.password.file": str(password),
        "ssl.ca.location": authority.certificate,
        "ssl.certificate.location": authority.issue("stamped").certificate,
        "ssl.key.location": authority.issue("stamped").key,
    }
    properties = Properties.parse(dotted)
    first = properties.stamp()
    assert properties.stamp() == first
    authority.issue("stamped")
    second = properties.stamp()
    assert second != first
    password.unlink()
    assert properties.stamp() not in (first, second)


def test_a_mounted_secret_of_kubernetes_changes_its_stamp(tmp_path: Path) -> None:
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "password").write_text("same length")
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "password").symlink_to("..data/password")
    dotted = {name: text for name, text in SCRAM.items() if name != "sasl.password"}
    properties = Properties.parse(dotted | {"sasl.password.file": str(tmp_path / "password")})
    before = properties.stamp()
    (tmp_path / "..new").symlink_to("two")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert properties.stamp() != before


def test_settings_are_the_same_whatever_their_files_hold_by_now(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("old")
    dotted = {name: text for name, text in SCRAM.items() if name != "sasl.password"}
    before = Properties.parse(dotted | {"sasl.password.file": str(file)})
    file.write_text("new")
    after = Properties.parse(dotted | {"sasl.password.file": str(file)})
    assert before == after
    assert hash(before) == hash(after)
    assert before != Properties.parse(dotted | {"sasl.password": "old"})
    assert before != Properties.parse(dotted | {"sasl.password.file": str(file), "client.id": "other"})


def test_a_secret_is_looked_for_where_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("old")
    dotted = {name: text for name, text in SCRAM.items() if name != "sasl.password"}
    assert Properties.parse(SCRAM).where("sasl.password") == "sasl.password"
    from_file = Properties.parse(dotted | {"sasl.password.file": str(file)})
    assert from_file.where("sasl.password") == f"sasl.password.file {file}"
    jaas = tmp_path / "jaas"
    jaas.write_text('org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="b";')
    both = Properties.parse(
        {"sasl.jaas.config.file": str(jaas), **{k: v for k, v in SCRAM.items() if "sasl.p" not in k}}
    )
    assert both.where("sasl.password") == f"sasl.password.file {jaas}"
    assert both.where("ssl.key.password") == "ssl.key.password"


# --- TLS ---


def test_a_missing_certificate_file_is_named() -> None:
    for name in ("ssl.ca.location", "ssl.certificate.location"):
        assert "No such file" in problems(SERVERS | {"security.protocol": "SSL", name: "/nowhere/x.pem"})[name]


def test_a_file_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("not a certificate")
    found = problems(SERVERS | {"security.protocol": "SSL", "ssl.ca.location": str(file)})
    assert "holds no certificate in PEM" in found["ssl.ca.location"]


def test_authorities_that_are_not_ascii_are_named() -> None:
    pem = "-----BEGIN CERTIFICATE-----\nM\u00fcller\n-----END CERTIFICATE-----"
    found = problems(SERVERS | {"security.protocol": "SSL", "ssl.ca.pem": pem})
    assert "not ASCII" in found["ssl.ca.pem"]


def test_a_key_of_another_certificate_is_refused(authority: Authority) -> None:
    certificate, _, _ = authority.issue("one")
    _, key, _ = authority.issue("other")
    found = problems(
        SERVERS | {"security.protocol": "SSL", "ssl.certificate.location": certificate, "ssl.key.location": key}
    )
    assert found == {"ssl.key.location": "the key does not belong to the certificate"}


def test_an_encrypted_key_asks_for_its_password_here_and_not_on_a_terminal(authority: Authority) -> None:
    certificate, key, _ = authority.issue("locked", password="open sesame")
    dotted = SERVERS | {"security.protocol": "SSL", "ssl.certificate.location": certificate, "ssl.key.location": key}
    assert "set ssl.key.password" in problems(dotted)["ssl.key.location"]
    assert "does not open the key" in problems(dotted | {"ssl.key.password": "wrong"})["ssl.key.password"]
    assert Properties.parse(dotted | {"ssl.key.password": "open sesame"}).tls_context() is not None


def test_javas_cipher_names_are_refused() -> None:
    found = problems(SERVERS | {"security.protocol": "SSL", "ssl.cipher.suites": "TLS_MADE_UP"})
    assert "not Java's" in found["ssl.cipher.suites"]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("k1:9093", ("k1", 9093)),
        ("k1", ("k1", 9092)),
        ("[::1]:9093", ("::1", 9093)),
        ("[::1]", ("::1", 9092)),
        ("SASL_SSL://k1:9094", ("k1", 9094)),
    ],
)
def test_addresses_are_split(text: str, address: tuple[str, int]) -> None:
    assert broker_address(text) == address


def test_credentials_in_addresses_are_neither_shown_nor_repeated() -> None:
    with pytest.raises(PropertiesError) as raised:
        Properties.parse({"bootstrap.servers": "user:s3cret@kafka:none"})
    assert "s3cret" not in str(raised.value)
    for servers in (
        "a:1,u:s3cret,x@kafka:1",
        "u:s3c,ret@k:9092",
        "u:s3cret@h:1,PLAINTEXT://u:x@h:1",
        "u:s3cret://@h:1",
    ):
        with pytest.raises(PropertiesError) as raised:
            Properties.parse({"bootstrap.servers": servers})
        assert "s3c" not in str(raised.value)
    url = "https://user:s3c,ret@idp/token?client_secret=s3cret"
    assert dict(Properties({"sasl.oauthbearer.token.endpoint.url": url}).items()) == {
        "sasl.oauthbearer.token.endpoint.url": "https://[hidden]@idp/token?[hidden]"
    }
    Properties.parse({"bootstrap.servers": "kafka:9092", "sasl.oauthbearer.token.endpoint.url": "https://idp/a@b"})
    for endpoint in ("https://[x", "u:s3cret@idp/token", "https:/u:s3cret@idp", "s3cret"):
        with pytest.raises(PropertiesError, match="must be an address") as raised:
            Properties.parse({"bootstrap.servers": "kafka:9092", "sasl.oauthbearer.token.endpoint.url": endpoint})
        assert "s3c" not in str(raised.value)
    with pytest.raises(PropertiesError, match="must not hold credentials"):
        Properties.parse(
            {
                "bootstrap.servers": "kafka:9092",
                "sasl.oauthbearer.token.endpoint.url": "https://idp/token?client_secret=s3cret",
            }
        )
    with pytest.raises(PropertiesError, match="must not hold credentials") as raised:
        Properties.parse({"bootstrap.servers": "kafka:9092", "sasl.oauthbearer.token.endpoint.url": url})
    assert "s3c" not in str(raised.value)
    shown = dict(Properties({"sasl.oauthbearer.token.endpoint.url": "https://user:s3cret@idp/token"}).items())
    assert shown == {"sasl.oauthbearer.token.endpoint.url": "https://[hidden]@idp/token"}
