"""TLS of the agent's own endpoint, from exporter-toolkit's ``tls_server_config`` to an ``ssl.SSLContext``.

exporter-toolkit is written in Go: its names of versions, cipher suites and curves are Go's, and so is what it can do.
What Python's ssl cannot do is refused by name, and so is what would let in more clients than the file seems to say.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from exporter.bounds.files import file_of, read_regular
from exporter.settings.layers import Path as SettingPath
from exporter.settings.layers import did_you_mean
from exporter.settings.values import ONE_OR_MORE, Secret

MOST_PEM_BYTES = 4 * 1024 * 1024
"""Of a file with certificates: those of all public authorities together have 250 kB."""
VERIFY: Final = "RequireAndVerifyClientCert"
_CLIENT_AUTH = {
    "": ssl.CERT_NONE,
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    VERIFY: ssl.CERT_REQUIRED,
}
_UNCHECKED = frozenset({"RequestClientCert", "RequireAnyClientCert", "RequireClientCert"})
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_OLD_VERSIONS = frozenset({"TLS10", "TLS11"})
_CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}

# crypto/tls.CipherSuites() of Go, by OpenSSL's names; TLS 1.3's are always on, in Go as in Python.
_TLS13_SUITES = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
_SUITES = {
    f"TLS_ECDHE_{key}_WITH_{suite}": f"ECDHE-{key}-{name}"
    for key in ("ECDSA", "RSA")
    for suite, name in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
    )
}


Texts = Annotated[tuple[str, ...], ONE_OR_MORE]


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsServer:
    """``tls_server_config``. Files are looked for beside the web-config file."""

    cert: str = ""
    key: Secret = field(default="", repr=False)
    client_ca: str = ""
    cert_file: str = ""
    key_file: str = ""
    client_auth_type: str = ""
    client_ca_file: str = ""
    client_allowed_sans: Texts = ()
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    cipher_suites: Texts = ()
    prefer_server_cipher_suites: bool = True
    curve_preferences: Texts = ()

    def files(self, folder: Path) -> tuple[Path, ...]:
        """The files that it rests on."""
        return tuple(folder / name for name in (self.cert_file, self.key_file, self.client_ca_file) if name)


class Tls(NamedTuple):
    """How a connection is secured, and whose certificate may come in: any that is verified, or those with a SAN."""

    context: ssl.SSLContext
    allowed_sans: frozenset[str] = frozenset()

    def admits(self, sock: ssl.SSLSocket | ssl.SSLObject) -> bool:
        """Return whether the client of a finished handshake may come in."""
        if not self.allowed_sans:
            return True
        names = (sock.getpeercert() or {}).get("subjectAltName", ())
        return any(_plain(str(name[-1])) in self.allowed_sans for name in names if isinstance(name, tuple))


class Wrong(NamedTuple):
    """One problem, with its place below ``tls_server_config``; never with a secret in it."""

    key: str
    text: str

    @property
    def path(self) -> SettingPath:
        return ("tls_server_config", self.key) if self.key else ("tls_server_config",)


def build(settings: TlsServer, folder: Path) -> tuple[Tls | None, Sequence[Wrong]]:
    """The context that the settings mean, None with everything that is wrong. Reads the files."""
    wrong: list[Wrong] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A client must not make us compute handshakes on one connection over and over.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(["http/1.1"])
    wrong += _set_versions(context, settings)
    wrong += _set_suites(context, settings)
    wrong += _set_curve(context, settings.curve_preferences)
    wrong += _load_certificate(context, settings, folder)
    wrong += _set_clients(context, settings, folder)
    return (None if wrong else Tls(context, frozenset(map(_plain, settings.client_allowed_sans)))), wrong


def _plain(name: str) -> str:
    """A SAN as it is compared: addresses in one spelling, all else exactly."""
    try:
        return str(ipaddress.ip_address(name.strip()))
    except ValueError:
        return name


# --- What may be spoken -----------------------------------------------------------------------------------------------


def _set_versions(context: ssl.SSLContext, settings: TlsServer) -> Iterator[Wrong]:
    for key, value in (("min_version", settings.min_version), ("max_version", settings.max_version)):
        if value in _OLD_VERSIONS:
            yield Wrong(key, f"{value} is broken and not offered here: use TLS12 or TLS13")
        elif value not in _VERSIONS:
            yield Wrong(key, "must be TLS12 or TLS13")
    lowest, highest = _VERSIONS.get(settings.min_version), _VERSIONS.get(settings.max_version)
    if lowest is None or highest is None:
        return
    if lowest > highest:
        yield Wrong("max_version", "is below min_version")
    context.minimum_version, context.maximum_version = lowest, highest


def _set_suites(context: ssl.SSLContext, settings: TlsServer) -> Iterator[Wrong]:
    if settings.prefer_server_cipher_suites:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    names = settings.cipher_suites
    for name in names:
        if name not in _SUITES and name not in _TLS13_SUITES:
            yield Wrong("cipher_suites", f"{name!r:.60} is none of Go's secure ones; {did_you_mean(name, _SUITES)}")
    chosen = [_SUITES[name] for name in names if name in _SUITES]
    if chosen:
        context.set_ciphers(":".join(chosen))
    elif names and settings.max_version == "TLS12":
        yield Wrong("cipher_suites", "names none that TLS 1.2 has, and max_version is TLS12")
    elif names:
        context.minimum_version = ssl.TLSVersion.TLSv1_3


def _set_curve(context: ssl.SSLContext, names: Sequence[str]) -> Iterator[Wrong]:
    for name in names:
        if name not in _CURVES:
            yield Wrong("curve_preferences", f"{name!r:.40} is not known: {', '.join(_CURVES)}")
    if len(names) > 1:
        yield Wrong("curve_preferences", "Python's TLS takes one curve only: name one, or none for OpenSSL's own order")
    elif names and names[0] in _CURVES:
        context.set_ecdh_curve(_CURVES[names[0]])


# --- Who we are -------------------------------------------------------------------------------------------------------


def _load_certificate(context: ssl.SSLContext, settings: TlsServer, folder: Path) -> Iterator[Wrong]:
    secret = settings.key
    cert, cert_wrong = _pem("cert", settings.cert, settings.cert_file, folder, "CERTIFICATE")
    key, key_wrong = _pem("key", secret, settings.key_file, folder, "PRIVATE KEY")
    wrong = [*cert_wrong, *key_wrong]
    yield from wrong
    if wrong:
        return
    try:
        # Together, and from memory: what was read is what is used, though the files may change at any time.
        with file_of(f"{cert}\n{key}") as path:
            context.load_cert_chain(path, password=_no_password)
    except _EncryptedError:
        yield Wrong("key_file" if settings.key_file else "key", "is encrypted: give one without a passphrase")
    except (ssl.SSLError, ValueError) as error:
        yield Wrong("cert_file" if settings.cert_file else "cert", f"cannot be used: {_reason(error)}")


def _reason(error: Exception) -> str:
    """Write what OpenSSL found, in words."""
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return "key_file holds the key of another certificate"
    words = str(reason).replace("_", " ").lower() if reason else "OpenSSL cannot read it"
    return f"certificate or key is damaged or too weak ({words})"


class _EncryptedError(Exception):
    """OpenSSL asked for a passphrase, which it would otherwise do on the terminal."""


def _no_password() -> str:
    raise _EncryptedError


def _pem(key: str, inline: str, file: str, folder: Path, kind: str) -> tuple[str, Sequence[Wrong]]:
    """The text of a certificate or key, given itself or as a file."""
    if inline and file:
        return "", [Wrong(key, f"is set together with {key}_file: keep one")]
    if not inline and not file:
        return "", [Wrong(f"{key}_file", "is required for TLS")]
    where = f"{key}_file" if file else key
    text = inline
    if file:
        try:
            text = read_regular(folder / file, MOST_PEM_BYTES).decode("utf-8-sig")
        except OSError as error:
            return "", [Wrong(where, f"{folder / file}: {(error.strerror or 'cannot be read').lower()}")]
        except UnicodeDecodeError:
            return "", [Wrong(where, f"{folder / file}: is no PEM text")]
    if f"{kind}-----" not in text:
        return "", [Wrong(where, f"holds no {kind.lower()} in PEM")]
    return text, ()


# --- Who may come in --------------------------------------------------------------------------------------------------


def _set_clients(context: ssl.SSLContext, settings: TlsServer, folder: Path) -> Iterable[Wrong]:
    way = settings.client_auth_type
    wrong = []
    if way in _UNCHECKED:
        text = f"{way} takes any certificate unchecked, which Python's TLS does not support: use {VERIFY}"
        wrong.append(Wrong("client_auth_type", text))
    elif way not in _CLIENT_AUTH:
        known = {*_CLIENT_AUTH, *_UNCHECKED} - {""}
        wrong.append(Wrong("client_auth_type", f"is not known; {did_you_mean(way, known)}"))
    if settings.client_allowed_sans and way != VERIFY:
        wrong.append(Wrong("client_allowed_sans", f"would let in clients without a certificate: needs {VERIFY}"))
    verify = _CLIENT_AUTH.get(way, ssl.CERT_NONE)
    if settings.client_ca or settings.client_ca_file:
        authorities, found = _pem("client_ca", settings.client_ca, settings.client_ca_file, folder, "CERTIFICATE")
        wrong += found
        if verify is ssl.CERT_NONE and not wrong:
            wrong.append(Wrong("client_auth_type", f"is required beside client_ca_file: {VERIFY}"))
        if not wrong:
            wrong += _load_authorities(context, authorities, settings)
    elif verify is not ssl.CERT_NONE:
        wrong.append(Wrong("client_ca_file", f"is required by {way}"))
    context.verify_mode = verify
    return wrong


def _load_authorities(context: ssl.SSLContext, authorities: str, settings: TlsServer) -> Iterator[Wrong]:
    try:
        context.load_verify_locations(cadata=authorities)
    except (ssl.SSLError, ValueError, TypeError):  # TypeError: it takes ASCII only
        yield Wrong(
            "client_ca_file" if settings.client_ca_file else "client_ca", "holds no certificate that can be read"
        )
    # As in Go, an authority may be one that another has signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
