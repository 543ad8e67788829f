"""Kafka's client properties in their usual dotted names, checked once and translated for both clients.

librdkafka's names are canonical; Java's are understood where they mean the same. What has no counterpart is refused by
name, with what to do instead, before any client is made.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from exporter.kafka.jaas import parse_jaas
from exporter.kafka.oauth import TokenProvider
from exporter.kafka.tls import TlsError, tls_context

HIDDEN = "[hidden]"
DEFAULT_CLIENT_ID = "kafka-eos-exporter"
DEFAULT_PORT = 9092

SECRETS = frozenset({
    "sasl.password", "sasl.jaas.config", "sasl.oauthbearer.client.secret",
    "ssl.key.password", "ssl.key.pem", "ssl.keystore.password", "ssl.truststore.password",
})  # fmt: skip

_ALIASES = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "sasl.oauthbearer.token.endpoint.uri": "sasl.oauthbearer.token.endpoint.url",
}
_NUMBERS = frozenset({
    "request.timeout.ms", "socket.timeout.ms", "socket.connection.setup.timeout.ms", "connections.max.idle.ms",
    "reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.ms", "metadata.max.age.ms",
    "receive.message.max.bytes",
})  # fmt: skip
_CHOICES = {
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "sasl.mechanism": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
    "broker.address.family": ("any", "v4", "v6"),
    "client.dns.lookup": ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    "ssl.endpoint.identification.algorithm": ("https", "none"),
    "enable.ssl.certificate.verification": ("true", "false"),
    "sasl.oauthbearer.method": ("oidc",),
    "socket.keepalive.enable": ("true", "false"),
}
_TEXTS = frozenset({
    "bootstrap.servers", "client.id", "sasl.username", "sasl.password", "ssl.ca.location", "ssl.ca.pem",
    "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "ssl.key.password",
    "ssl.crl.location", "ssl.cipher.suites", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope", "sasl.oauthbearer.token.endpoint.url",
})  # fmt: skip
_JAVA_ONLY = frozenset({
    "sasl.jaas.config", "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password",
    "ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password", "sasl.login.callback.handler.class",
})  # fmt: skip
_KNOWN = _NUMBERS | _TEXTS | _JAVA_ONLY | frozenset(_CHOICES) | frozenset(_ALIASES)

_USELESS = {
    "ssl.protocol": "remove it: TLS 1.2 and later are always used",
    "ssl.enabled.protocols": "remove it: TLS 1.2 and later are always used",
    "ssl.provider": "remove it: it names a Java class",
    "security.providers": "remove it: it names a Java class",
    "sasl.client.callback.handler.class": "remove it: it names a Java class; SCRAM, PLAIN and OAUTHBEARER need none",
    "sasl.kerberos.service.name": "Kerberos is not supported; use SCRAM, PLAIN, OAUTHBEARER or TLS client certificates",
}
_NO_MECHANISM = {
    "GSSAPI": "is not supported, since librdkafka's Python package is built without it; "
    "use a listener with SCRAM, PLAIN, OAUTHBEARER or TLS client certificates",
    "AWS_MSK_IAM": "is not supported; use the cluster's SCRAM or TLS listener",
}
_OIDC_NEEDS = (
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
)
_OIDC_HANDLERS = ("OAuthBearerLoginCallbackHandler",)
_TO_PEM = "keytool -list -rfc -keystore {path} > {stem}.pem"
_KEY_TO_PEM = "openssl pkcs12 -in {path} -out {stem}.pem"

# librdkafka waits up to 10 s between connection attempts; a broker that is back should be seen sooner.
_CONFLUENT_DEFAULTS = {"reconnect.backoff.max.ms": "3000", "socket.keepalive.enable": "true"}
# Their meaning in librdkafka is another one (the producer's acknowledgement), or they have none there.
_NOT_FOR_CONFLUENT = frozenset({"request.timeout.ms", "connections.max.idle.ms", "retry.backoff.ms"})


class PropertiesError(ValueError):
    """The properties cannot be used. ``problems`` has every one: the property, and what is wrong and what to do."""

    def __init__(self, problems: tuple[tuple[str, str], ...]) -> None:
        super().__init__("; ".join(f"{name}: {text}" for name, text in problems))
        self.problems = problems


@dataclass(frozen=True, repr=False)
class Properties:
    """Checked properties. ``repr``, ``str`` and ``items`` hide the secrets; ``raw`` is for the two translators only.

    ``raw`` is canonical: librdkafka's names, texts only. Secrets that came from a file are read again by ``current``,
    so that a password that was changed there is used by the next connection.
    """

    raw: Mapping[str, str]
    secret_files: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, dotted: Mapping[str, object]) -> Properties:
        """Checks everything that can be checked without a network. Raises PropertiesError with all problems."""
        problems: list[tuple[str, str]] = []
        texts, files = _texts(dotted, problems)
        values = _canonical(texts, problems)
        _check_values(values, problems)
        _check_security(values, problems)
        if not problems and "SSL" in values["security.protocol"]:
            try:
                tls_context(values)
            except TlsError as error:
                problems.append((error.name, error.text))
        if problems:
            raise PropertiesError(tuple(dict.fromkeys(problems)))
        return cls(values, {name: path for name, path in files.items() if name in values or name == "sasl.jaas.config"})

    @property
    def bootstrap_servers(self) -> str:
        return self.raw["bootstrap.servers"]

    @property
    def security_protocol(self) -> str:
        return self.raw["security.protocol"]

    def items(self) -> Iterator[tuple[str, str]]:
        """Name and value, secrets hidden."""
        for name, value in sorted(self.raw.items()):
            yield name, HIDDEN if name in SECRETS else value

    def __repr__(self) -> str:
        return f"Properties({', '.join(f'{name}={value}' for name, value in self.items())})"

    __str__ = __repr__

    def current(self) -> Mapping[str, str]:
        """``raw`` with the secret files as they are now; one that cannot be read keeps its last value."""
        values = dict(self.raw)
        for name, path in self.secret_files.items():
            try:
                text = _read_secret(path)
                values |= parse_jaas(text) if name == "sasl.jaas.config" else {name: text}
            except (OSError, ValueError):
                continue
        return values

    def tls_context(self) -> ssl.SSLContext | None:
        """A new context with the files as they are now; None without TLS. Raises TlsError."""
        return tls_context(self.current()) if "SSL" in self.security_protocol else None

    def token_provider(self) -> TokenProvider | None:
        """A source of OAuth tokens, to be kept and shared by connections; None for other mechanisms."""
        if self.raw.get("sasl.mechanism") != "OAUTHBEARER":
            return None
        return TokenProvider(self.current)

    def for_confluent(self, **extra: object) -> dict[str, object]:
        """The configuration of a confluent-kafka client; ``extra`` wins. Holds secrets: never log it."""
        values: dict[str, object] = dict(_CONFLUENT_DEFAULTS)
        current = self.current()
        values |= {name: value for name, value in current.items() if name not in _NOT_FOR_CONFLUENT}
        if "request.timeout.ms" in current:
            values.setdefault("socket.timeout.ms", current["request.timeout.ms"])
        if current.get("sasl.mechanism") == "OAUTHBEARER":
            values["sasl.oauthbearer.method"] = "oidc"
        return values | extra

    def for_kafka_python(self) -> dict[str, object]:
        """The keyword arguments of a kafka-python client. Holds secrets: never log it. Raises TlsError."""
        current = self.current()
        values: dict[str, object] = {
            "bootstrap_servers": current["bootstrap.servers"].split(","),
            "client_id": current["client.id"],
            "security_protocol": current["security.protocol"],
        }
        for name in _NUMBERS - {"socket.timeout.ms", "socket.connection.setup.timeout.ms"}:
            if name in current:
                values[name.replace(".", "_")] = int(current[name])
        if "client.dns.lookup" in current:
            values["client_dns_lookup"] = current["client.dns.lookup"]
        context = self.tls_context()
        if context is not None:
            values["ssl_context"] = context
        if "SASL" in self.security_protocol:
            values |= self.sasl(self.token_provider())
        return values

    def sasl(self, tokens: TokenProvider | None) -> dict[str, object]:
        """The part of kafka-python's keywords that its SASL mechanisms read. Holds secrets: never log it."""
        current = self.current()
        values: dict[str, object] = {"sasl_mechanism": current["sasl.mechanism"]}
        if tokens is not None:
            return values | {"sasl_oauth_token_provider": tokens}
        return values | {
            "sasl_plain_username": current["sasl.username"],
            "sasl_plain_password": current["sasl.password"],
        }


def _read_secret(path: str) -> str:
    return Path(path).read_text(encoding="utf-8").rstrip("\r\n")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value).strip()


def _texts(dotted: Mapping[str, object], problems: list[tuple[str, str]]) -> tuple[dict[str, str], dict[str, str]]:
    """Values as text, secrets from their files, and which file each came from."""
    texts: dict[str, str] = {}
    files: dict[str, str] = {}
    for name, value in dotted.items():
        if value is None:
            problems.append((name, "has no value: set one or remove it"))
            continue
        if not name.endswith(".file"):
            texts[name] = str(value) if name in SECRETS else _text(value)
            continue
        target = name.removesuffix(".file")
        if target not in _KNOWN:
            problems.append((name, _unknown(name)))
        elif target in dotted:
            problems.append((name, f"{target} is set as well: keep one of the two"))
        else:
            try:
                texts[target] = _read_secret(str(value))
                files[_ALIASES.get(target, target)] = str(value)
            except (OSError, UnicodeDecodeError) as error:
                problems.append((name, f"{value}: {getattr(error, 'strerror', None) or 'not a text in UTF-8'}"))
    return texts, files


def _canonical(texts: Mapping[str, str], problems: list[tuple[str, str]]) -> dict[str, str]:
    """Java's names as librdkafka's; unknown names are problems."""
    values: dict[str, str] = {}
    for name, text in texts.items():
        if name in _USELESS:
            problems.append((name, _USELESS[name]))
        elif name not in _KNOWN:
            problems.append((name, _unknown(name)))
        elif name not in _JAVA_ONLY:
            canonical = _ALIASES.get(name, name)
            if values.setdefault(canonical, text) != text:
                problems.append((name, f"differs from {canonical}: keep one of the two"))
    _truststore(texts, values, problems)
    _keystore(texts, values, problems)
    if jaas := texts.get("sasl.jaas.config"):
        try:
            for name, text in parse_jaas(jaas).items():
                values.setdefault(name, text)
        except ValueError as error:
            problems.append(("sasl.jaas.config", str(error)))
    handler = texts.get("sasl.login.callback.handler.class")
    if handler and not handler.endswith(_OIDC_HANDLERS):
        problems.append(
            ("sasl.login.callback.handler.class", "only Kafka's own OAuth client-credentials handler is known")
        )
    values.setdefault("client.id", DEFAULT_CLIENT_ID)
    values.setdefault("security.protocol", "PLAINTEXT")
    for name in ("security.protocol", "sasl.mechanism"):
        if name in values:
            values[name] = values[name].upper()
    for name in ("enable.ssl.certificate.verification", "socket.keepalive.enable"):
        if name in values:
            values[name] = values[name].lower()
    # Java and kafka-python spell "do not check the host name" as an empty text, librdkafka as none.
    if "ssl.endpoint.identification.algorithm" in values:
        values["ssl.endpoint.identification.algorithm"] = (
            values["ssl.endpoint.identification.algorithm"].lower() or "none"
        )
    return values


def _truststore(texts: Mapping[str, str], values: dict[str, str], problems: list[tuple[str, str]]) -> None:
    path = texts.get("ssl.truststore.location")
    if path is None:
        return
    if _is_pem(path, texts.get("ssl.truststore.type")):
        values.setdefault("ssl.ca.location", path)
    else:
        command = _TO_PEM.format(path=path, stem=Path(path).with_suffix(""))
        problems.append(("ssl.truststore.location", f"must be PEM, not JKS or PKCS12; convert it: {command}"))


def _keystore(texts: Mapping[str, str], values: dict[str, str], problems: list[tuple[str, str]]) -> None:
    path = texts.get("ssl.keystore.location")
    if path is None:
        return
    if _is_pem(path, texts.get("ssl.keystore.type")):
        values.setdefault("ssl.certificate.location", path)
        values.setdefault("ssl.key.location", path)
    else:
        command = _KEY_TO_PEM.format(path=path, stem=Path(path).with_suffix(""))
        problems.append(("ssl.keystore.location", f"must be PEM, not JKS or PKCS12; convert it: {command}"))


def _is_pem(path: str, kind: str | None) -> bool:
    if kind is not None:
        return kind.upper() == "PEM"
    return not path.lower().endswith((".jks", ".p12", ".pfx", ".pkcs12", ".keystore", ".truststore"))


def _unknown(name: str) -> str:
    near = get_close_matches(name, _KNOWN, 1, 0.8)
    hint = f"did you mean {near[0]}?" if near else "remove it: only settings of the connection belong here"
    return f"is not known; {hint}"


def _check_values(values: Mapping[str, str], problems: list[tuple[str, str]]) -> None:
    servers = values.get("bootstrap.servers", "")
    if not servers and not any(name == "bootstrap.servers" for name, _ in problems):
        problems.append(("bootstrap.servers", "is needed: one or more host:port, separated by commas"))
    for server in filter(None, map(str.strip, servers.split(","))):
        try:
            split_address(server)
        except ValueError as error:
            problems.append(("bootstrap.servers", f"{server} {error}"))
    problems.extend(
        (name, "must be a whole number, 0 or more")
        for name in sorted(_NUMBERS & values.keys())
        if not (values[name].isascii() and values[name].isdigit())
    )
    for name, allowed in _CHOICES.items():
        text = values.get(name)
        if text is None or text in allowed:
            continue
        if name == "sasl.mechanism" and text in _NO_MECHANISM:
            problems.append((name, f"{text} {_NO_MECHANISM[text]}"))
        else:
            problems.append((name, f"must be one of {', '.join(allowed)}"))


def _check_security(values: Mapping[str, str], problems: list[tuple[str, str]]) -> None:
    protocol, mechanism = values["security.protocol"], values.get("sasl.mechanism")
    if "SASL" not in protocol:
        for name in ("sasl.mechanism", "sasl.username", "sasl.password"):
            if name in values:
                problems.append(
                    (name, f"has no effect with security.protocol={protocol}: set SASL_SSL or SASL_PLAINTEXT")
                )
                break
    elif mechanism is None:
        problems.append(("sasl.mechanism", f"is needed with security.protocol={protocol}"))
    elif mechanism == "OAUTHBEARER":
        problems.extend(
            (name, "is needed with sasl.mechanism=OAUTHBEARER") for name in _OIDC_NEEDS if not values.get(name)
        )
    elif mechanism in _CHOICES["sasl.mechanism"]:
        problems.extend(
            (name, f"is needed with sasl.mechanism={mechanism}")
            for name in ("sasl.username", "sasl.password")
            if not values.get(name)
        )
    if "SSL" not in protocol.removeprefix("SASL_"):
        used = next((name for name in values if name.startswith("ssl.")), None)
        if used is not None:
            problems.append((used, f"has no effect with security.protocol={protocol}: set SSL or SASL_SSL"))
    for one, other in (("ssl.key.location", "ssl.certificate.location"), ("ssl.certificate.pem", "ssl.key.pem")):
        if one in values and other not in values:
            problems.append((one, f"needs {other} too"))


def split_address(text: str) -> tuple[str, int]:
    """``host:port``, ``[v6]:port`` or ``host`` as host and port. Raises ValueError saying what it must be."""
    text = text.strip().rpartition("://")[2]
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        port = rest.removeprefix(":") if closed else "?"
    else:
        host, _, port = text.partition(":")
    if not host or (port and not port.isdigit()) or not 0 < int(port or DEFAULT_PORT) < 65536:
        raise ValueError("must be host:port")
    return host, int(port or DEFAULT_PORT)
