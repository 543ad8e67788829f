"""A TLS context from the properties, or the property that prevents one.

A context is built for every connection, so that replaced certificate files are used by the next connection.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from exporter.bounds.files import file_of, open_regular
from exporter.kafka.auth.stores import TlsError, open_stores, own_certificate_end

_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"})
_NO_COMMON_GROUND = frozenset({
    "TLSV1_ALERT_PROTOCOL_VERSION", "SSLV3_ALERT_HANDSHAKE_FAILURE", "TLSV1_ALERT_INSUFFICIENT_SECURITY",
})  # fmt: skip
_AUTHORITIES = ("ssl.truststore.location", "ssl.ca.pem", "ssl.ca.location")
_OWN = ("ssl.keystore.location", "ssl.certificate.location", "ssl.certificate.pem")


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """A client's context from librdkafka's property names. Raises TlsError."""
    properties = open_stores(properties)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if properties.get("enable.ssl.certificate.verification") == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif properties.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    _load_authorities(context, properties)
    _load_own_certificate(context, properties)
    if ciphers := properties.get("ssl.cipher.suites"):
        try:
            context.set_ciphers(ciphers)
        except ssl.SSLError:
            raise TlsError("ssl.cipher.suites", "no cipher of OpenSSL has these names, which are not Java's") from None
    return context


def tls_advice(error: ssl.SSLError, properties: Mapping[str, str]) -> str:
    """A failed TLS handshake as one sentence: what is wrong, and what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _untrusted(error, properties)
    reason = error.reason or str(error)
    if reason in _NOT_TLS:
        return f"it does not speak TLS ({reason}): check security.protocol and the port"
    if "ALERT" not in reason:
        return f"TLS failed ({reason})"
    if reason in _NO_COMMON_GROUND:
        return f"it offers no TLS version or cipher of ours ({reason}): TLS 1.2 is the least; check ssl.cipher.suites"
    return f"{client_certificate_advice(properties)} ({reason})"


def client_certificate_advice(properties: Mapping[str, str]) -> str:
    """Why a broker may refuse our certificate."""
    name = next((key for key in _OWN if properties.get(key)), None)
    if name is None:
        return "it wants a client certificate: set ssl.certificate.location and ssl.key.location"
    where = name if name.endswith(".pem") else f"{name} {properties[name]}"
    end = own_certificate_end(properties)
    if end is not None and end < datetime.now(UTC):
        return f"it refuses our certificate, which expired at {end:%Y-%m-%d %H:%M} UTC: renew {where}"
    return f"it refuses our certificate: {where} must be signed by an authority that the broker trusts"


def _untrusted(error: ssl.SSLCertVerificationError, properties: Mapping[str, str]) -> str:
    text = error.verify_message.rstrip(".")
    match error.verify_code:
        case 9:  # X509_V_ERR_CERT_NOT_YET_VALID
            return f"its certificate is not valid yet ({text}): compare the clocks of the broker and of this host"
        case 10:  # X509_V_ERR_CERT_HAS_EXPIRED
            return f"its certificate has expired ({text}): renew it on the broker"
        case 23:  # X509_V_ERR_CERT_REVOKED
            return f"its certificate was revoked ({text}): renew it on the broker"
        case 3:  # X509_V_ERR_UNABLE_TO_GET_CRL
            return f"ssl.crl.location has no list of the authority that signed its certificate ({text})"
        case 62 | 64:  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
            return (
                f"its certificate is for another host ({text}): use a name that the certificate has, in "
                "bootstrap.servers and in the broker's advertised.listeners"
            )
    name = next((key for key in _AUTHORITIES if properties.get(key)), None)
    if name is None:
        return f"no authority that this host trusts has signed its certificate ({text}): set ssl.ca.location"
    where = name if name.endswith(".pem") else f"{name} {properties[name]}"
    return f"its certificate is not signed by an authority in {where} ({text}): put the one that signed it there"


def _load_authorities(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    path, pem = properties.get("ssl.ca.location"), properties.get("ssl.ca.pem")
    if pem:
        if not pem.isascii():
            raise TlsError("ssl.ca.pem", "has characters that are not ASCII: leave out comments")
        try:
            context.load_verify_locations(cadata=pem)
        except (ssl.SSLError, ValueError):
            raise TlsError("ssl.ca.pem", "holds no certificate in PEM") from None
    elif path:
        try:
            directory = Path(path).is_dir()
            if not directory:
                _check_regular(path)
            context.load_verify_locations(**{"capath" if directory else "cafile": path})
        except OSError as error:
            raise TlsError("ssl.ca.location", _why(error, path, "certificate")) from None
    else:
        context.load_default_certs()
    if crl := properties.get("ssl.crl.location"):
        try:
            _check_regular(crl)
            context.load_verify_locations(cafile=crl)
        except OSError as error:
            raise TlsError("ssl.crl.location", _why(error, crl, "revocation list")) from None
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _check_regular(path: str) -> None:
    """Raise OSError for what OpenSSL cannot open, and for a pipe, which it would wait for."""
    open_regular(Path(path)).close()


def _load_own_certificate(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    certificate, key = properties.get("ssl.certificate.location"), properties.get("ssl.key.location")
    certificate_pem, key_pem = properties.get("ssl.certificate.pem"), properties.get("ssl.key.pem")
    password = properties.get("ssl.key.password")
    if certificate:
        for name, path in (("ssl.certificate.location", certificate), ("ssl.key.location", key)):
            if path:
                try:
                    _check_regular(path)
                except OSError as error:
                    raise TlsError(name, _why(error, path, "file")) from None
        name = "ssl.key.location" if key else "ssl.certificate.location"
        _load_chain(context, certificate, key, password, name)
    elif certificate_pem and key_pem:
        with file_of(f"{certificate_pem}\n{key_pem}\n") as path:
            _load_chain(context, path, None, password, "ssl.key.pem")
    elif certificate_pem or key_pem:
        raise TlsError("ssl.key.pem", "ssl.certificate.pem and ssl.key.pem are needed together")


def _load_chain(context: ssl.SSLContext, certificate: str, key: str | None, password: str | None, name: str) -> None:
    asked: list[bool] = []
    try:
        context.load_cert_chain(certificate, key, _password(password, asked))
    except ssl.SSLError as error:
        if asked and password is None:
            raise TlsError(name, "the key is encrypted: set ssl.key.password or ssl.key.password.file") from None
        if asked:
            raise TlsError("ssl.key.password", "does not open the key") from None
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsError(name, "the key does not belong to the certificate") from None
        raise TlsError(name, "the certificate or the key is not PEM") from None


def _password(password: str | None, asked: list[bool]) -> Callable[[], str]:
    """Without a callable OpenSSL would ask on the terminal."""

    def tell() -> str:
        asked.append(True)
        return password or ""

    return tell


def _why(error: OSError, path: str, noun: str) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{path} holds no {noun} in PEM"
    return f"{path}: {error.strerror or error}"
