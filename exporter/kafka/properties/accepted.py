"""The Kafka properties that are accepted, their values, and what to do about the others.

Tables first: librdkafka's names are canonical, Java's are accepted where they mean the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import urlsplit

from exporter.bounds.files import read_regular, warn_of_writers
from exporter.bounds.text import without_credentials
from exporter.kafka.auth import msk
from exporter.kafka.auth.jaas import parse_jaas
from exporter.kafka.auth.stores import is_binary

DEFAULT_CLIENT_ID = "kafka-eos-exporter"
DEFAULT_PORT = 9092
MOST_SECRET_BYTES = 64 * 1024

Problem = tuple[str, str]
"""A property, and what is wrong with it and what to do."""

SECRETS = frozenset({
    "sasl.password", "sasl.jaas.config", "sasl.oauthbearer.client.secret",
    "ssl.key.password", "ssl.key.pem", "ssl.keystore.password", "ssl.truststore.password",
})  # fmt: skip
_OIDC_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
ADDRESSES = frozenset({"bootstrap.servers", _OIDC_ENDPOINT})
"""May hold credentials before an @, which are hidden."""

_ALIASES = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "sasl.oauthbearer.token.endpoint.uri": "sasl.oauthbearer.token.endpoint.url",
    # Kafka 4.1 and later (SaslConfigs.java)
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
NUMBERS = frozenset({
    "request.timeout.ms", "socket.timeout.ms", "socket.connection.setup.timeout.ms", "connections.max.idle.ms",
    "reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.ms", "metadata.max.age.ms",
    "receive.message.max.bytes",
})  # fmt: skip
_CHOICES = {
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "sasl.mechanism": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", msk.MECHANISM),
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
    "sasl.oauthbearer.scope", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.extensions",
    "https.ca.location", "https.ca.pem",
})  # fmt: skip
_JAVA_ONLY = frozenset({
    "sasl.jaas.config", "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password",
    "ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password", "sasl.login.callback.handler.class",
    "sasl.client.callback.handler.class", "sasl.oauthbearer.jwt.retriever.class",
})  # fmt: skip
_KNOWN = NUMBERS | _TEXTS | _JAVA_ONLY | frozenset(_CHOICES) | frozenset(_ALIASES)

_USELESS = {
    "ssl.protocol": "remove it: TLS 1.2 and later are always used",
    "ssl.enabled.protocols": "remove it: TLS 1.2 and later are always used",
    "ssl.provider": "remove it: it names a Java class",
    "security.providers": "remove it: it names a Java class",
    "sasl.oauthbearer.header.urlencode": "remove it: client id and secret are sent as they are",
}
_USELESS_FAMILIES = {
    "sasl.kerberos.": "Kerberos is not supported; use SCRAM, PLAIN, OAUTHBEARER or TLS client certificates",
    "sasl.login.": "remove it: the time of a login is fixed here",
    "sasl.oauthbearer.assertion.": "only client credentials are supported: set sasl.oauthbearer.client.id and "
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.jwks.": "remove it: it is for brokers",
}
_NO_MECHANISM = {
    "GSSAPI": "is not supported, since librdkafka's Python package is built without it; "
    "use a listener with SCRAM, PLAIN, OAUTHBEARER or TLS client certificates",
}
_OIDC_NEEDS = (
    _OIDC_ENDPOINT,
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
)
_STORES = {
    "ssl.truststore": ("ssl.ca.location",),
    "ssl.keystore": ("ssl.certificate.location", "ssl.key.location"),
}
# Java's classes that do what we do too: settings that have them can be pasted.
_HANDLERS = {
    "sasl.login.callback.handler.class": "OAuthBearerLoginCallbackHandler",
    "sasl.client.callback.handler.class": "IAMClientCallbackHandler",
    "sasl.oauthbearer.jwt.retriever.class": "ClientCredentialsJwtRetriever",
}


def check(dotted: Mapping[str, object]) -> tuple[dict[str, str], dict[str, str], tuple[Problem, ...]]:
    """Canonical names and texts, the file that each secret came from, and every problem. Reads those files only."""
    problems: list[Problem] = []
    texts, files = _texts(dotted, problems)
    values = _canonical(texts, problems)
    _check_values(values, problems)
    if values["security.protocol"] in _CHOICES["security.protocol"]:
        _check_security(values, problems)
    _check_pairs(values, problems)
    kept = {name: path for name, path in files.items() if name in values or name == "sasl.jaas.config"}
    return values, kept, tuple(dict.fromkeys(problems))


def read_secret(path: str) -> str:
    """The text of a file, without the line end that editors add. Raises OSError or UnicodeDecodeError."""
    return read_regular(Path(path), MOST_SECRET_BYTES).decode().rstrip("\r\n")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value).strip()


def _texts(dotted: Mapping[str, object], problems: list[Problem]) -> tuple[dict[str, str], dict[str, str]]:
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
                texts[target] = read_secret(str(value))
                warn_of_writers(Path(str(value)))
                files[_ALIASES.get(target, target)] = str(value)
            except (OSError, UnicodeDecodeError) as error:
                problems.append((name, f"{value}: {getattr(error, 'strerror', None) or 'not a text in UTF-8'}"))
    return texts, files


def _canonical(texts: Mapping[str, str], problems: list[Problem]) -> dict[str, str]:
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
    _stores(texts, values)
    if jaas := texts.get("sasl.jaas.config"):
        try:
            for name, text in parse_jaas(jaas).items():
                values.setdefault(name, text)
        except ValueError as error:
            problems.append(("sasl.jaas.config", str(error)))
    for name, known in _HANDLERS.items():
        if (handler := texts.get(name)) and not handler.endswith(known):
            problems.append((name, f"only {known} is known here, of all Java classes: remove it"))
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


def _stores(texts: Mapping[str, str], values: dict[str, str]) -> None:
    """Java's stores in PEM become librdkafka's files; PKCS#12 stays as it is, and is opened whenever it is used."""
    for store, names in _STORES.items():
        path = texts.get(f"{store}.location")
        if path is None:
            continue
        if is_binary(path):
            values |= {f"{store}.location": path, f"{store}.password": texts.get(f"{store}.password", "")}
        else:
            for name in names:
                values.setdefault(name, path)


def _unknown(name: str) -> str:
    for family, text in _USELESS_FAMILIES.items():
        if name.startswith(family):
            return text
    near = get_close_matches(name, _KNOWN, 1, 0.8)
    hint = f"did you mean {near[0]}?" if near else "remove it: only settings of the connection belong here"
    return f"is not known; {hint}"


def _check_values(values: Mapping[str, str], problems: list[Problem]) -> None:
    servers = values.get("bootstrap.servers", "")
    if not servers and not any(name == "bootstrap.servers" for name, _ in problems):
        problems.append(("bootstrap.servers", "is needed: one or more host:port, separated by commas"))
    # A password may have a comma: addresses with one are one.
    for server in [servers] if "@" in servers else filter(None, map(str.strip, servers.split(","))):
        try:
            broker_address(server)
        except ValueError as error:
            problems.append(("bootstrap.servers", f"{without_credentials(server)} {error}"))
    if endpoint := values.get(_OIDC_ENDPOINT):
        problems.extend((_OIDC_ENDPOINT, text) for text in _endpoint_problems(endpoint))
    problems.extend(
        (name, "must be a whole number, 0 or more")
        for name in sorted(NUMBERS & values.keys())
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


def _endpoint_problems(endpoint: str) -> Iterator[str]:
    """What is wrong with the token endpoint, which librdkafka logs whole with a refused token."""
    try:
        parts = urlsplit(endpoint)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        yield "must be an address such as https://idp.example.com/token"
    elif "@" in parts.netloc or "client_secret" in parts.query:
        yield f"must not hold credentials: set {' and '.join(_OIDC_NEEDS[1:])}"


def _check_security(values: Mapping[str, str], problems: list[Problem]) -> None:
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
    elif mechanism == msk.MECHANISM:
        problems.extend(("sasl.mechanism", text) for text in _iam_needs(values, protocol))
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


def _check_pairs(values: Mapping[str, str], problems: list[Problem]) -> None:
    """Names that exclude or need each other."""
    for store, pem in (("ssl.keystore.location", "ssl.certificate"), ("ssl.truststore.location", "ssl.ca")):
        other = next((name for name in (f"{pem}.location", f"{pem}.pem") if name in values), None)
        if store in values and other is not None:
            problems.append((store, f"{other} is set as well: keep one of the two"))
    for one, other in (("ssl.key.location", "ssl.certificate.location"), ("ssl.certificate.pem", "ssl.key.pem")):
        if one in values and other not in values:
            problems.append((one, f"needs {other} too"))


def _iam_needs(values: Mapping[str, str], protocol: str) -> Iterator[str]:
    if protocol != "SASL_SSL":
        yield f"{msk.MECHANISM} needs security.protocol=SASL_SSL"
    if not msk.installed():
        yield f"{msk.MECHANISM} needs AWS's signer: pip install 'kafka-eos-exporter[msk]'"
    if msk.region_of(values.get("bootstrap.servers", "")) is None:
        yield f"{msk.MECHANISM} needs a region, which bootstrap.servers do not name: set AWS_REGION"


def broker_address(text: str) -> tuple[str, int]:
    """``host:port``, ``[v6]:port`` or ``host`` as host and port. Raises ValueError with the expected form."""
    text = text.strip().rpartition("://")[2]
    if "@" in text:
        raise ValueError("must be host:port")
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        port = rest.removeprefix(":") if closed else "?"
    else:
        host, _, port = text.partition(":")
    if not host or (port and not port.isdigit()) or not 0 < int(port or DEFAULT_PORT) < 65536:
        raise ValueError("must be host:port")
    return host, int(port or DEFAULT_PORT)
