"""Kafka's client properties in their usual dotted names, checked once and translated for both clients.

librdkafka's names are canonical; Java's are accepted where they mean the same. A property without a counterpart is
refused by name, with what to do instead, before any client is made.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from exporter.bounds.text import without_credentials
from exporter.core.files import FileStamp
from exporter.kafka.auth import msk
from exporter.kafka.auth.jaas import parse_jaas
from exporter.kafka.auth.oauth import TokenProvider, client_credentials
from exporter.kafka.auth.stores import TlsError, open_stores
from exporter.kafka.auth.tls import tls_context
from exporter.kafka.properties.accepted import ADDRESSES, SECRETS, check, read_secret

HIDDEN = "[hidden]"

# librdkafka waits up to 10 s between connection attempts; this finds a broker that is back sooner.
_CONFLUENT_DEFAULTS = {"reconnect.backoff.max.ms": "3000", "socket.keepalive.enable": "true"}
_FROM_JAAS = ("sasl.username", "sasl.password", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret",
              "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions")  # fmt: skip
_FILES = (
    "ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.crl.location", "ssl.keystore.location",
    "ssl.truststore.location", "https.ca.location",
)  # fmt: skip
# Their meaning in librdkafka is another one (the producer's acknowledgement), or they have none there.
_NOT_FOR_CONFLUENT = frozenset({"request.timeout.ms", "connections.max.idle.ms", "retry.backoff.ms"})


class PropertiesError(ValueError):
    """The properties cannot be used. ``problems`` has each property, what is wrong with it and what to do."""

    def __init__(self, problems: tuple[tuple[str, str], ...]) -> None:
        super().__init__("; ".join(f"{name}: {text}" for name, text in problems))
        self.problems = problems


@dataclass(frozen=True, repr=False, eq=False)
class Properties:
    """Checked properties. ``repr``, ``str`` and ``items`` hide the secrets; ``raw`` is for what connects only.

    ``raw`` is canonical: librdkafka's names, texts only. Secrets that came from a file are read again by ``current``,
    so that a password that was changed there is used by the next connection. Two are equal when they name the same
    files, whatever is in those by now.
    """

    raw: Mapping[str, str]
    secret_files: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, dotted: Mapping[str, object]) -> Properties:
        """Checks everything that can be checked without a network. Raises PropertiesError with all problems."""
        values, files, problems = check(dotted)
        if not problems and "SSL" in values["security.protocol"]:
            try:
                tls_context(values)
            except TlsError as error:
                problems = ((error.name, error.text),)
        if problems:
            raise PropertiesError(problems)
        return cls(values, files)

    @property
    def bootstrap_servers(self) -> str:
        return self.raw["bootstrap.servers"]

    @property
    def security_protocol(self) -> str:
        return self.raw["security.protocol"]

    def items(self) -> Iterator[tuple[str, str]]:
        """Name and value, secrets hidden."""
        for name, value in sorted(self.raw.items()):
            yield name, HIDDEN if name in SECRETS else without_credentials(value) if name in ADDRESSES else value

    def __repr__(self) -> str:
        return f"Properties({', '.join(f'{name}={value}' for name, value in self.items())})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Properties) and self.settings() == other.settings()

    def __hash__(self) -> int:
        return hash(frozenset(self.settings().items()))

    def settings(self) -> dict[str, str]:
        """The properties for ``parse``, with the paths of files in place of what was read from them. Holds secrets that
        were not in a file: never log it.
        """
        settings = dict(self.raw)
        for name, path in self.secret_files.items():
            settings[f"{name}.file"] = path
            for read in (name, *(_FROM_JAAS if name == "sasl.jaas.config" else ())):
                settings.pop(read, None)
        return settings

    def stamp(self) -> tuple[FileStamp | None, ...]:
        """Changes when a secret, a certificate or a store is replaced; None is a missing file."""
        paths = (*self.secret_files.values(), *(self.raw[name] for name in _FILES if name in self.raw))
        return tuple(FileStamp.at(Path(path)) for path in paths)

    def current(self) -> Mapping[str, str]:
        """``raw`` with the secret files as they are now; one that cannot be read keeps its last value."""
        values = dict(self.raw)
        for name, path in self.secret_files.items():
            try:
                text = read_secret(path)
                values |= parse_jaas(text) if name == "sasl.jaas.config" else {name: text}
            except (OSError, ValueError):
                continue
        return values

    def where(self, name: str) -> str:
        """A setting by its name, or by the name of its file form: the place to look at when it is wrong."""
        path = self.secret_files.get(name)
        if path is None and name in _FROM_JAAS:
            path = self.secret_files.get("sasl.jaas.config")
        return f"{name}.file {path}" if path is not None else name

    def tls_context(self) -> ssl.SSLContext | None:
        """A new context with the files as they are now; None without TLS. Raises TlsError."""
        return tls_context(self.current()) if "SSL" in self.security_protocol else None

    @property
    def mechanism(self) -> str:
        """The SASL mechanism as it is called on the wire."""
        mechanism = self.raw["sasl.mechanism"]
        return "OAUTHBEARER" if mechanism == msk.MECHANISM else mechanism

    def token_provider(self) -> TokenProvider | None:
        """A source of OAuth tokens, to be kept and shared by connections; None for other mechanisms."""
        match self.raw.get("sasl.mechanism"):
            case "OAUTHBEARER":
                return client_credentials(self.current)
            case msk.MECHANISM:
                return msk.iam_tokens(self.bootstrap_servers)
        return None

    def for_confluent(self, **extra: object) -> dict[str, object]:
        """The configuration of a confluent-kafka client; ``extra`` wins. Holds secrets: never log it.

        Raises TlsError.
        """
        values: dict[str, object] = dict(_CONFLUENT_DEFAULTS)
        current = open_stores(self.current())
        values |= {name: value for name, value in current.items() if name not in _NOT_FOR_CONFLUENT}
        if "request.timeout.ms" in current:
            values.setdefault("socket.timeout.ms", current["request.timeout.ms"])
        match current.get("sasl.mechanism"):
            case "OAUTHBEARER":
                values["sasl.oauthbearer.method"] = "oidc"
            case msk.MECHANISM:
                values |= {
                    "sasl.mechanism": self.mechanism,
                    "oauth_cb": msk.iam_tokens(self.bootstrap_servers).for_confluent,
                }
        return values | extra

    def sasl(self, tokens: TokenProvider | None) -> dict[str, object]:
        """The part of kafka-python's keywords that its SASL mechanisms read. Holds secrets: never log it."""
        current = self.current()
        values: dict[str, object] = {"sasl_mechanism": self.mechanism}
        if tokens is not None:
            return values | {"sasl_oauth_token_provider": tokens}
        return values | {
            "sasl_plain_username": current["sasl.username"],
            "sasl_plain_password": current["sasl.password"],
        }
