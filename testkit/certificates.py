"""Throw-away certificates in PEM: an authority in a folder, and what it signs, expired ones and PKCS#12 included."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

LIFE = dt.timedelta(days=2)
LOOPBACK = ("127.0.0.1",)


_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Issued(NamedTuple):
    """The files of a certificate: itself, its key, and both in one, which is what Kafka's PEM key stores are."""

    certificate: str
    key: str
    store: str


class Authority:
    """Signs certificates in a folder of its own: ``ca.pem``, and ``NAME.pem`` with ``NAME.key`` and ``NAME.store``.

    Issuing a name again replaces its files one by one, each by a rename, as a renewal does.
    """

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        built = _builder(self._name, self._name, self._key, LIFE).add_extension(x509.BasicConstraints(True, 0), True)
        self._own = built.add_extension(_SIGNS, True).sign(self._key, hashes.SHA256())
        self.certificate = str(folder / "ca.pem")
        _put(folder / "ca.pem", self._own.public_bytes(Encoding.PEM))

    def issue(
        self, name: str, names: tuple[str, ...] = LOOPBACK, *, password: str = "", life: dt.timedelta = LIFE
    ) -> Issued:
        """A certificate with CN=``name`` for these hosts and addresses; ``password`` encrypts its key.

        ``life`` is how long it is valid from now on: a negative one has expired.
        """
        key, certificate = self._sign(name, names, life)
        how: KeySerializationEncryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        chain = certificate.public_bytes(Encoding.PEM)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)
        issued = Issued(*(str(self.folder / f"{name}{ending}") for ending in (".pem", ".key", ".store")))
        for path, content in zip(issued, (chain, private, private + chain), strict=True):
            _put(Path(path), content)
        return issued

    def issue_pkcs12(self, name: str, password: str, life: dt.timedelta = LIFE) -> str:
        """The path of ``NAME.p12``: a new certificate with its key and this authority."""
        key, certificate = self._sign(name, LOOPBACK, life)
        how: KeySerializationEncryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        content = pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, [self._own], how)
        _put(self.folder / f"{name}.p12", content)
        return str(self.folder / f"{name}.p12")

    def trust_store(self, password: str) -> bytes:
        """A PKCS#12 store with this authority alone, as keytool makes it."""
        return pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(self._own, b"authority")], BestAvailableEncryption(password.encode())
        )

    def server(
        self,
        name: str = "server",
        names: tuple[str, ...] = LOOPBACK,
        *,
        demand: bool = False,
        life: dt.timedelta = LIFE,
    ) -> ssl.SSLContext:
        """A listener's context; ``demand`` asks clients for a certificate of this authority."""
        issued = self.issue(name, names, life=life)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(issued.certificate, issued.key)
        if demand:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.certificate)
        return context

    def _sign(
        self, name: str, names: tuple[str, ...], life: dt.timedelta
    ) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        alternatives = x509.SubjectAlternativeName([_host(host) for host in names])
        built = _builder(subject, self._name, key, life).add_extension(alternatives, critical=False)
        # RFC 5280 wants it, and since Python 3.13 a default context does.
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return key, built.add_extension(issuer, critical=False).sign(self._key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, life: dt.timedelta
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * LIFE)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _put(path: Path, content: bytes) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.touch(mode=0o600)
    fresh.write_bytes(content)
    fresh.replace(path)
