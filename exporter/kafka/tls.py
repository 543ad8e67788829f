"""One TLS context from the properties, and which property is at fault when there can be none.

A context is built for every connection, so that certificate files that were replaced are used from then on.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path


class TlsError(ValueError):
    """A property makes a TLS context impossible. The text holds no key material and no password."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """A client's context from librdkafka's property names. Raises TlsError."""
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


def tls_advice(error: ssl.SSLError) -> str:
    """A TLS failure as one sentence: what to look at."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = error.verify_message.rstrip(".")
        if error.verify_code == 10:  # X509_V_ERR_CERT_HAS_EXPIRED
            return f"its certificate has expired ({text})"
        if error.verify_code in {62, 64}:  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
            return f"its certificate is for another host ({text})"
        return f"its certificate is not signed by an authority in ssl.ca.location ({text})"
    reason = error.reason or str(error)
    if "ALERT" in reason:
        return f"it refuses our certificate, or wants one and got none ({reason}): check ssl.certificate.location"
    if reason in {"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"}:
        return f"it does not speak TLS ({reason}): check security.protocol and the port"
    return f"TLS failed ({reason})"


def _load_authorities(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    path, pem = properties.get("ssl.ca.location"), properties.get("ssl.ca.pem")
    if pem:
        try:
            context.load_verify_locations(cadata=pem)
        except (ssl.SSLError, ValueError):
            raise TlsError("ssl.ca.pem", "holds no certificate in PEM") from None
    elif path:
        try:
            directory = Path(path).is_dir()
            context.load_verify_locations(**{"capath" if directory else "cafile": path})
        except OSError as error:
            raise TlsError("ssl.ca.location", _why(error, path, "certificate")) from None
    else:
        context.load_default_certs()
    if crl := properties.get("ssl.crl.location"):
        try:
            context.load_verify_locations(cafile=crl)
        except OSError as error:
            raise TlsError("ssl.crl.location", _why(error, crl, "revocation list")) from None
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _load_own_certificate(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    certificate, key = properties.get("ssl.certificate.location"), properties.get("ssl.key.location")
    certificate_pem, key_pem = properties.get("ssl.certificate.pem"), properties.get("ssl.key.pem")
    password = properties.get("ssl.key.password")
    if certificate:
        for name, path in (("ssl.certificate.location", certificate), ("ssl.key.location", key)):
            if path:
                try:
                    with Path(path).open("rb"):
                        pass
                except OSError as error:
                    raise TlsError(name, _why(error, path, "file")) from None
        name = "ssl.key.location" if key else "ssl.certificate.location"
        _load_chain(context, certificate, key, password, name)
    elif certificate_pem and key_pem:
        # OpenSSL's Python binding reads a chain from files only: the two are on disk for as long as that takes.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(f"{certificate_pem}\n{key_pem}\n")
            file.flush()
            _load_chain(context, file.name, None, password, "ssl.key.pem")
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
