"""Java's key and trust stores: PKCS#12 as PEM texts for both clients; the old JKS is refused with the command that
converts it.

The only module that imports ``cryptography``, which is loaded only when needed: it takes more memory than the rest of
this package.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.bounds.files import open_regular, read_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

KEY_STORE = "ssl.keystore.location"
TRUST_STORE = "ssl.truststore.location"
MOST_BYTES = 4 * 1024 * 1024
"""Of a store or a PEM file: that of all public authorities together has 250 kB."""
_JKS = b"\xfe\xed\xfe\xed"
_SEQUENCE = b"\x30"
"""The first byte of DER, and so of PKCS#12 (RFC 7292)."""


class TlsError(ValueError):
    """A property makes TLS impossible. The text holds no key material and no password."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text


def is_binary(path: str) -> bool:
    """Return whether a file is a Java store, by its content: keytool has written PKCS#12 to ``.jks`` files since Java
    9.
    """
    try:
        with open_regular(Path(path)) as file:
            return file.read(4).startswith((_JKS, _SEQUENCE))
    except OSError:
        return False


def open_stores(properties: Mapping[str, str]) -> Mapping[str, str]:
    """The properties with PEM texts in place of stores, which are read again. Raises TlsError."""
    if KEY_STORE not in properties and TRUST_STORE not in properties:
        return properties
    values = {name: text for name, text in properties.items() if not name.startswith(("ssl.keystore.", "ssl.trust"))}
    if path := properties.get(KEY_STORE):
        values["ssl.certificate.pem"], values["ssl.key.pem"] = _key_and_chain(
            path, properties.get("ssl.keystore.password", "")
        )
        values.pop("ssl.key.password", None)  # a PKCS#12 store has one password for all
    if path := properties.get(TRUST_STORE):
        values["ssl.ca.pem"] = _authorities(path, properties.get("ssl.truststore.password", ""))
    return values


def own_certificate_end(properties: Mapping[str, str]) -> datetime | None:
    """When the certificate that we show to brokers expires; None without one, or when it cannot be read."""
    from cryptography import x509  # noqa: PLC0415

    try:
        opened = open_stores(properties)
        pem = opened.get("ssl.certificate.pem", "").encode()
        data = pem or read_regular(Path(opened["ssl.certificate.location"]), MOST_BYTES)
        return x509.load_pem_x509_certificate(data).not_valid_after_utc
    except (OSError, ValueError, KeyError):
        return None


def _key_and_chain(path: str, password: str) -> tuple[str, str]:
    """The certificate with its chain, and the key, which is not encrypted any more: for memory only."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat  # noqa: PLC0415

    store = _load(KEY_STORE, path, password)
    if store.key is None or store.cert is None:
        raise TlsError(KEY_STORE, f"{path} holds no private key with its certificate")
    chain = (store.cert, *store.additional_certs)
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return "".join(link.certificate.public_bytes(Encoding.PEM).decode() for link in chain), key.decode()


def _authorities(path: str, password: str) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    store = _load(TRUST_STORE, path, password)
    if not store.additional_certs:
        raise TlsError(TRUST_STORE, f"{path} holds no certificate of an authority")
    return "".join(cert.certificate.public_bytes(Encoding.PEM).decode() for cert in store.additional_certs)


def _load(name: str, path: str, password: str) -> PKCS12KeyAndCertificates:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415

    try:
        data = read_regular(Path(path), MOST_BYTES)
    except OSError as error:
        raise TlsError(name, f"{path}: {error.strerror}") from None
    if data.startswith(_JKS):
        stores = "-srckeystore", path, "-destkeystore", str(Path(path).with_suffix(".p12"))
        command = shlex.join(("keytool", "-importkeystore", *stores, "-deststoretype", "PKCS12"))
        raise TlsError(name, f"{path} is in the old JKS format; make PKCS12 of it: {command}")
    try:
        return pkcs12.load_pkcs12(data, password.encode())
    except ValueError:
        key = name.replace("location", "password")
        raise TlsError(key, f"does not open {path}, or it is no PKCS12 store") from None
    except UnsupportedAlgorithm:
        raise TlsError(name, f"{path} has a key or a cipher that is not supported, such as an old curve") from None
