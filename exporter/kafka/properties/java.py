"""The checked properties in the form of Kafka's Java client: for Spark's Kafka source.

Java (3.x clients) reads PEM from texts as well as from files (KIP-651). A certificate and its key in two files become
texts, since Java requires them in one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from exporter.bounds.files import read_regular
from exporter.kafka.auth.jaas import EXTENSION
from exporter.kafka.auth.stores import MOST_BYTES, TlsError, open_stores
from exporter.kafka.properties.accepted import NUMBERS
from exporter.kafka.properties.client import Properties, PropertiesError

_OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_OAUTH_HANDLER = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_SAME = (
    "bootstrap.servers", "client.id", "security.protocol", "sasl.mechanism", "client.dns.lookup",
    "sasl.oauthbearer.token.endpoint.url",
)  # fmt: skip
# Of librdkafka only; Java has no such setting, and needs none.
_NOT_JAVA = frozenset({"socket.timeout.ms", "receive.message.max.bytes"})


def for_java(properties: Properties) -> dict[str, str]:
    """The configuration of a Java client. Holds secrets: never log it.

    Raises PropertiesError for what Java cannot do, and when a file of certificates or keys cannot be read.
    """
    current = properties.current()
    values = {name: current[name] for name in _SAME if name in current}
    values |= {name: current[name] for name in NUMBERS - _NOT_JAVA if name in current}
    if "SSL" in properties.security_protocol:
        try:
            values |= _tls(open_stores(current))
        except TlsError as error:
            raise PropertiesError(((error.name, error.text),)) from None
    if "SASL" in properties.security_protocol:
        values |= _sasl(current)
    return values


def _sasl(current: Mapping[str, str]) -> dict[str, str]:
    mechanism = current["sasl.mechanism"]
    if mechanism == "OAUTHBEARER":
        options = {
            "clientId": current["sasl.oauthbearer.client.id"],
            "clientSecret": current["sasl.oauthbearer.client.secret"],
        }
        if scope := current.get("sasl.oauthbearer.scope"):
            options["scope"] = scope
        pairs = (pair.partition("=") for pair in current.get("sasl.oauthbearer.extensions", "").split(","))
        options |= {f"{EXTENSION}{name.strip()}": text.strip() for name, found, text in pairs if found}
        return {
            "sasl.jaas.config": _jaas(_OAUTH_MODULE, options),
            "sasl.login.callback.handler.class": _OAUTH_HANDLER,
        }
    if mechanism not in _MODULES:
        text = f"{mechanism} needs a class that Spark's Java client does not have: use a listener with SCRAM"
        raise PropertiesError((("sasl.mechanism", text),))
    credentials = {"username": current["sasl.username"], "password": current["sasl.password"]}
    return {"sasl.jaas.config": _jaas(_MODULES[mechanism], credentials)}


def _jaas(module: str, options: Mapping[str, str]) -> str:
    quoted = (f'{name}="{_escaped(text)}"' for name, text in options.items())
    return f"{module} required {' '.join(quoted)};"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _tls(current: Mapping[str, str]) -> dict[str, str]:
    if current.get("enable.ssl.certificate.verification") == "false":
        text = "cannot be switched off for Spark's Java client: give the CA in ssl.ca.location"
        raise PropertiesError((("enable.ssl.certificate.verification", text),))
    values: dict[str, str] = {}
    if authority := _pem(current, "ssl.ca"):
        values |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
    if chain := _pem(current, "ssl.certificate"):
        values |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain}
        values["ssl.keystore.key"] = _pem(current, "ssl.key")
        if password := current.get("ssl.key.password"):
            values["ssl.key.password"] = password
    if current.get("ssl.endpoint.identification.algorithm") == "none":
        values["ssl.endpoint.identification.algorithm"] = ""
    if ciphers := current.get("ssl.cipher.suites"):
        values["ssl.cipher.suites"] = ciphers.replace(":", ",")
    return values


def _pem(current: Mapping[str, str], name: str) -> str:
    if text := current.get(f"{name}.pem"):
        return text
    path = current.get(f"{name}.location")
    if path is None:
        return ""
    try:
        return read_regular(Path(path), MOST_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is no text in UTF-8"
        raise PropertiesError(((f"{name}.location", f"{path}: {reason}"),)) from None
