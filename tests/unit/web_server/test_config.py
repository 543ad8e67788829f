"""The web-config file: what it means, and what is refused with which words."""

from __future__ import annotations

import datetime as dt
import os
import ssl
from collections.abc import Callable
from pathlib import Path

import bcrypt
import pytest

from exporter.config import ConfigSource
from exporter.settings.layers import ConfigError
from exporter.web_server.config import RateLimit, WebConfig, WebConfigReading, hash_problem, read_web_config
from testkit.certificates import Authority

HASH = "$2b$04$......................w74bL5gU7LSJClZClCa.Pkz14aTv/XO"
"""Of the empty password: no secret of anybody."""

Read = Callable[[str], WebConfigReading]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    authority.issue("server")
    authority.issue("other")
    authority.issue("locked", password="secret-phrase")
    os.mkfifo(authority.folder / "pipe")
    return authority


@pytest.fixture
def read(authority: Authority) -> Read:
    """Reads a text as if it were in a file beside the certificates."""

    def read(text: str) -> WebConfigReading:
        file = authority.folder / "web.yml"
        file.write_text(text)
        return read_web_config(file)

    return read


def tls(*lines: str, cert: str = "server.pem", key: str = "server.key") -> str:
    body = (f"cert_file: {cert}", f"key_file: {key}", *lines)
    return "tls_server_config:\n" + "".join(f"  {line}\n" for line in body)


def problems(reading: WebConfigReading, folder: Path) -> list[str]:
    assert reading.config is None
    return [str(problem).replace(f" (from {folder / 'web.yml'})", "") for problem in reading.problems]


def context_of(reading: WebConfigReading) -> ssl.SSLContext:
    assert reading.problems == ()
    assert reading.config
    assert reading.config.tls
    return reading.config.tls.context


def test_an_empty_file_is_plain_http_for_everybody_and_says_so(read: Read) -> None:
    reading = read("")
    assert reading.config == WebConfig(notes=reading.config.notes if reading.config else ())
    assert reading.config.notes == (
        "the web-config file sets neither TLS nor users: everybody who reaches the port is served",
    )


def test_each_file_that_everybody_may_write_is_told(
    read: Read, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    key = authority.folder / "server.key"
    mode = key.stat().st_mode
    key.chmod(0o602)
    try:
        read(tls())
    finally:
        key.chmod(mode)
    assert [record.getMessage() for record in caplog.records] == [
        f"{key} is about access, and everybody may write it: chmod o-w"
    ]


def test_tls_offers_1_2_and_1_3_and_no_renegotiation(read: Read) -> None:
    context = context_of(read(tls()))
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.options & ssl.OP_CIPHER_SERVER_PREFERENCE
    assert context.verify_mode is ssl.CERT_NONE


def test_certificate_key_and_authority_may_stand_in_the_file_itself(read: Read, authority: Authority) -> None:
    def inline(name: str) -> str:
        return "|\n    " + (authority.folder / name).read_text().strip().replace("\n", "\n    ")

    text = (
        f"tls_server_config:\n  cert: {inline('server.pem')}\n  key: {inline('server.key')}\n"
        f"  client_ca: {inline('ca.pem')}\n  client_auth_type: RequireAndVerifyClientCert\n"
    )
    assert context_of(read(text)).verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("way", "mode"),
    [
        ("NoClientCert", ssl.CERT_NONE),
        ("VerifyClientCertIfGiven", ssl.CERT_OPTIONAL),
        ("RequireAndVerifyClientCert", ssl.CERT_REQUIRED),
    ],
)
def test_client_certificates_are_asked_for_as_the_file_says(read: Read, way: str, mode: ssl.VerifyMode) -> None:
    lines = [f"client_auth_type: {way}"] + (["client_ca_file: ca.pem"] if mode is not ssl.CERT_NONE else [])
    assert context_of(read(tls(*lines))).verify_mode is mode


def test_suites_are_those_of_the_file_by_gos_names(read: Read) -> None:
    text = tls("cipher_suites: [TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA]")
    offered = [suite["name"] for suite in context_of(read(text)).get_ciphers() if suite["protocol"] != "TLSv1.3"]
    assert offered == ["ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-AES128-SHA"]


def test_suites_of_tls_1_3_alone_mean_tls_1_3_alone(read: Read) -> None:
    context = context_of(read(tls("cipher_suites: [TLS_AES_128_GCM_SHA256]")))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3


def test_the_client_may_be_left_to_choose_the_suite(read: Read) -> None:
    context = context_of(read(tls("prefer_server_cipher_suites: false", "curve_preferences: [CurveP384]")))
    assert not context.options & ssl.OP_CIPHER_SERVER_PREFERENCE


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("cert_file: server.pem\n  key_file: missing.key", "key_file: {folder}/missing.key: no such file or directory"),
        ("cert_file: pipe\n  key_file: server.key", "cert_file: {folder}/pipe: is no regular file"),
        ("key_file: server.key", "cert_file: is required for TLS"),
        ("min_version: TLS12", "cert_file: is required for TLS"),
        ("cert_file: server.key\n  key_file: server.key", "cert_file: holds no certificate in PEM"),
        (
            "cert_file: server.pem\n  key_file: other.key",
            "cert_file: cannot be used: key_file holds the key of another",
        ),
        ("cert_file: locked.pem\n  key_file: locked.key", "key_file: is encrypted: give one without a passphrase"),
        ("{good}\n  cert: abc", "cert: is set together with cert_file: keep one"),
        ("{good}\n  client_auth_type: RequireAnyClientCert", "client_auth_type: RequireAnyClientCert takes any"),
        ("{good}\n  client_auth_type: RequireClientCert", "client_auth_type: RequireClientCert takes any"),
        ("{good}\n  client_auth_type: RequestClientCert", "client_auth_type: RequestClientCert takes any"),
        ("{good}\n  client_auth_type: RequireAndVerify", "did you mean RequireAndVerifyClientCert?"),
        ("{good}\n  client_auth_type: RequireAndVerifyClientCert", "client_ca_file: is required by"),
        ("{good}\n  client_ca_file: ca.pem", "client_auth_type: is required beside client_ca_file"),
        ("{good}\n  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: server.key", "no certificate in PEM"),
        (
            (
                "{good}\n  client_auth_type: RequireAndVerifyClientCert\n"
                '  client_ca: "-----BEGIN CERTIFICATE-----\\nM\u00fcller\\n-----END CERTIFICATE-----"'
            ),
            "client_ca: holds no certificate that can be read",
        ),
        ("{good}\n  client_allowed_sans: [a]", "client_allowed_sans: would let in clients without a certificate"),
        ("{good}\n  min_version: TLS10", "min_version: TLS10 is broken and not offered here"),
        ("{good}\n  max_version: SSL3", "max_version: must be TLS12 or TLS13"),
        ("{good}\n  min_version: TLS13\n  max_version: TLS12", "max_version: is below min_version"),
        ("{good}\n  cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]", "is none of Go's secure ones; known here"),
        ("{good}\n  cipher_suites: [TLS_AES_128_GCM_SHA256]\n  max_version: TLS12", "names none that TLS 1.2 has"),
        ("{good}\n  curve_preferences: [CurveP256, X25519]", "curve_preferences: Python's TLS takes one curve only"),
        ("{good}\n  curve_preferences: [P256]", "curve_preferences: 'P256' is not known: CurveP256"),
        ("{good}\n  certfile: x", "certfile: unknown key; did you mean"),
        ("{good}\n  prefer_server_cipher_suites: perhaps", "must be true or false"),
    ],
)
def test_what_is_wrong_with_tls_is_said_where_it_stands(
    read: Read, authority: Authority, lines: str, told: str
) -> None:
    good = "cert_file: server.pem\n  key_file: server.key"
    found = problems(read("tls_server_config:\n  " + lines.replace("{good}", good)), authority.folder)
    assert any(told.replace("{folder}", str(authority.folder)) in line for line in found), found
    assert all(line.startswith("tls_server_config.") for line in found)


def test_everything_wrong_is_reported_at_once(read: Read, authority: Authority) -> None:
    text = (
        tls("min_version: TLS10", cert="gone.pem")
        + "basic_auth_users:\n  ann: secret-word\nrate_limit: {interval: 1s}\n"
    )
    assert problems(read(text), authority.folder) == [
        "basic_auth_users.ann: is no bcrypt hash: make one with `htpasswd -nBC 10 USER`",
        "rate_limit.burst: must be 1 or more",
        "tls_server_config.min_version: TLS10 is broken and not offered here: use TLS12 or TLS13",
        f"tls_server_config.cert_file: {authority.folder}/gone.pem: no such file or directory",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"basic_auth_users: {{ann: {HASH.replace('$04$', '$15$')}}}", "has a cost of 15, and 4 to 14 are taken"),
        (f"basic_auth_users: {{ann: {HASH}, ann: {HASH}}}", "the key ann is here twice"),
        (f"basic_auth_users: {{'a:b': {HASH}}}", "must not be empty nor have a colon in it"),
        ("basic_auth_users: [ann]", "must be a section: a mapping of keys"),
        ("http_server_config: {headers: {Set-Cookie: a}}", "'Set-Cookie' cannot be set; known here: Content-Sec"),
        ("http_server_config: {headers: {X-Frame-Options: allow}}", "X-Frame-Options must be deny or sameorigin"),
        ('http_server_config: {headers: {X-XSS-Protection: "a\\nb"}}', "must be one line of plain characters"),
        ("rate_limit: {interval: soon, burst: 1}", "rate_limit.interval"),
        ("tls_server_configs: {}", "unknown key; did you mean tls_server_config?"),
        ("- a", "must be a mapping"),
    ],
)
def test_what_is_wrong_elsewhere_is_said_without_secrets(
    read: Read, authority: Authority, text: str, told: str
) -> None:
    found = problems(read(text), authority.folder)
    assert any(told in line for line in found), found
    assert HASH[10:] not in "".join(found)


def test_users_headers_and_limit_are_read(read: Read) -> None:
    reading = read(
        f"basic_auth_users: {{ann: {HASH}}}\nrate_limit: {{interval: 1m250ms, burst: 3}}\n"
        "http_server_config: {http2: true, headers: {X-Frame-Options: sameorigin, X-XSS-Protection: ''}}\n"
    )
    config = reading.config
    assert config
    assert config.users == {"ann": HASH.encode()}
    assert config.rate_limit == RateLimit(60.25, 3)
    assert config.headers == {"X-Frame-Options": "sameorigin"}
    assert [note.partition(":")[0] for note in config.notes] == [
        "http2 is ignored",
        "passwords are sent without TLS",
    ]
    assert HASH not in repr(config)


@pytest.mark.parametrize(("written", "seconds"), [("0", None), ("0s", None), ("1000000", 0.001), ("1.5s", 1.5)])
def test_an_interval_is_written_as_in_go(read: Read, written: str, seconds: float | None) -> None:
    config = read(f"rate_limit: {{interval: {written}, burst: 1}}").config
    assert config
    assert config.rate_limit == (RateLimit(seconds, 1) if seconds else None)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    [problem] = read_web_config(tmp_path / "web.yml").problems
    assert str(problem) == f"{tmp_path}/web.yml: cannot be read: No such file or directory"


def test_an_expired_certificate_is_served_as_others_do(read: Read, authority: Authority) -> None:
    authority.issue("expired", life=-dt.timedelta(hours=1))
    assert context_of(read(tls(cert="expired.pem", key="expired.key")))


def test_the_settings_tell_its_problems_among_their_own_to_who_serves(authority: Authority) -> None:
    file = authority.folder / "bad.yml"
    file.write_text("basic_auth_users: {ann: secret-word}")
    flags: dict[tuple[str | int, ...], tuple[str, object]] = {
        ("clusters", "kafka", "bootstrap.servers"): ("--bootstrap-server", "k:9092"),
        ("web", "config_file"): ("--web.config.file", str(file)),
    }
    with pytest.raises(ConfigError, match=r"basic_auth_users.ann \(from .*bad.yml\): is no bcrypt hash") as caught:
        ConfigSource(None, {}, flags, serving=True).load()
    assert "secret-word" not in str(caught.value)
    assert ConfigSource(None, {}, flags).load().web.config_file == file


def test_the_hash_of_this_test_is_of_the_empty_password() -> None:
    assert bcrypt.checkpw(b"", HASH.encode())


@pytest.mark.parametrize("ident", ["a", "b", "x", "y"])
def test_hashes_of_htpasswd_and_of_others_are_known(ident: str) -> None:
    assert hash_problem(HASH.replace("$2b$", f"$2{ident}$")) == ""


@pytest.mark.parametrize("text", ["", "right", "$2b$", HASH[:-1], HASH + "\n", "$1$x$y", "$2b$03$" + "a" * 53])
def test_what_is_no_usable_hash_is_said(text: str) -> None:
    assert hash_problem(text)
    assert "$" not in hash_problem(text)
