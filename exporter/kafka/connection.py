"""One connection to one broker: TCP, TLS, SASL (KIP-152), and one request at a time, each within its deadline.

Requests, responses and SASL mechanisms are kafka-python's; the socket is our own. kafka-python's connections have no
timeout for the TLS handshake, lose the reason of a failed bootstrap, keep a refused password for ever, and write
passwords to debug logs.
"""

from __future__ import annotations

import contextlib
import io
import socket
import ssl
import struct
import sys
import threading
from typing import Any, Protocol, runtime_checkable

from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from exporter.kafka.auth.oauth import TokenError, TokenProvider
from exporter.kafka.auth.stores import TlsError
from exporter.kafka.auth.tls import client_certificate_advice, tls_advice
from exporter.kafka.faults import UNSUPPORTED_SASL_MECHANISM, UNSUPPORTED_VERSION, AskError, error_code
from exporter.kafka.properties.client import Properties
from exporter.model import Deadline, Fault, Reason

Request = ApiMessage
Response = Any
"""A decoded response of kafka-python: an ``ApiMessage`` whose fields depend on its kind."""

CHUNK = 262_144
MAX_FRAME = 100_000_000
"""As librdkafka's receive.message.max.bytes; a longer response is not from a Kafka broker."""

REAUTHENTICATE = 0.85
"""Share of its lifetime after which a SASL session (KIP-368) is replaced by a new connection."""

_COMPILING = threading.Lock()
"""Held while an answer of a form is decoded first: kafka-python compiles its decoder then, and keeps a wrong one where
two threads do so (``StructField.compiled_decode_from`` sets the class of the struct meanwhile).
"""
_COMPILED: set[tuple[type[Request], int]] = set()


FAMILIES = {"any": socket.AF_UNSPEC, "v4": socket.AF_INET, "v6": socket.AF_INET6}
TLS_ALERT = b"\x15\x03"


@runtime_checkable
class ReadsAnswer(Protocol):
    """A request that reads the body of its answer itself; ``kind`` is kafka-python's class of the response."""

    def read_answer(self, body: bytes, kind: Any) -> Response: ...  # noqa: ANN401 -- kafka-python's


class _SaslRefusedError(Exception):
    """The broker refused authentication. The text has the broker's message and no secret."""


class ConnectionBrokenError(AskError):
    """The peer closed the connection, perhaps long ago: a request on an idle connection is tried once more."""


class BrokerConnection:
    """To ``host:port``. Used by one thread at a time; ``abort`` may come from any.

    All methods raise AskError with a fault that names ``label``. After any error but UNSUPPORTED of ``call`` the
    connection is unusable.
    """

    def __init__(
        self, label: str, address: tuple[str, int], properties: Properties, tokens: TokenProvider | None
    ) -> None:
        self._label = label
        self._address = address
        self._properties = properties
        self._tokens = tokens
        self._max_frame = int(properties.raw.get("receive.message.max.bytes", MAX_FRAME))
        self._socket: socket.socket | None = None
        self._aborted = False
        self._buffer = bytearray()
        self._correlation = 0
        self._answers = 0
        self._versions: BrokerVersionData | None = None
        self.session_seconds: float | None = None

    @property
    def label(self) -> str:
        """The broker, for messages."""
        return self._label

    # --- Connecting ---

    def open(self, deadline: Deadline) -> None:
        """Connects, authenticates and agrees on versions."""
        self._socket = self._connect(deadline)
        try:
            self._handshake(deadline)
            self._agree_on_versions(deadline)
            if "SASL" in self._properties.security_protocol:
                self._authenticate(deadline)
        except AskError:
            self.close()
            raise

    def _connect(self, deadline: Deadline) -> socket.socket:
        family = FAMILIES[self._properties.raw.get("broker.address.family", "any")]
        try:
            addresses = socket.getaddrinfo(*self._address, family, socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # the latter for "a..b"
            why = getattr(error, "strerror", None) or error
            raise AskError(self._unreachable(f"its name does not resolve: {why}")) from None
        why = "its name has no address"
        for number, (kind, stream, protocol, _, address) in enumerate(addresses):
            connection = socket.socket(kind, stream, protocol)
            try:
                # Each address gets a share of the remaining time: an unreachable one must leave time for the next.
                connection.settimeout(max(0.001, deadline.remaining() / (len(addresses) - number)))
                connection.connect(address)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            except TimeoutError:
                why = "connecting timed out; a firewall, or a host that is gone"
            except OSError as error:
                why = (error.strerror or str(error)).lower()
            else:
                return connection
            connection.close()
        raise AskError(self._unreachable(why))

    def _handshake(self, deadline: Deadline) -> None:
        try:
            context = self._properties.tls_context()
        except TlsError as error:
            raise AskError(self._refused(str(error))) from None
        if context is None or self._socket is None:
            return
        try:
            self._socket.settimeout(max(0.001, deadline.remaining()))
            self._socket = context.wrap_socket(self._socket, server_hostname=self._address[0].rstrip("."))
        except TimeoutError:
            raise AskError(self._timeout("the TLS handshake")) from None
        except ssl.SSLError as error:
            raise AskError(self._refused(tls_advice(error, self._properties.raw))) from None
        except OSError as error:
            raise AskError(
                self._refused(f"the TLS handshake was cut off ({_reason(error)}): is it a TLS listener?")
            ) from None

    def _agree_on_versions(self, deadline: Deadline) -> None:
        """Send ApiVersions. A broker too old for our version answers UNSUPPORTED_VERSION in the oldest layout."""
        version = int(ApiVersionsRequest.max_version)
        while True:
            request = ApiVersionsRequest(client_software_name="kafka-eos-exporter", client_software_version="1")
            try:
                response = self._exchange(request, version, deadline)
            except ConnectionBrokenError:
                raise AskError(self._closed_at_once()) from None
            if response.error_code != UNSUPPORTED_VERSION or version == 0:
                break
            mine = ApiVersionsRequest.API_KEY
            version = min(next((key.max_version for key in response.api_keys if key.api_key == mine), 0), version - 1)
        if response.error_code:
            raise AskError(Fault(Reason.UNSUPPORTED, f"{self._label} refuses ApiVersions: {response.error_code}"))
        ranges = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
        self._versions = BrokerVersionData(api_versions=ranges)

    def _authenticate(self, deadline: Deadline) -> None:
        """Authenticate, and note when the broker ends the session (KIP-368)."""
        remedy = f"check sasl.username and {self._properties.where('sasl.password')}"
        name = self._properties.mechanism
        try:
            if self._tokens is not None:
                remedy = self._tokens.remedy
                self._tokens.refresh(deadline)
            lifetime = self._log_in(name, remedy, deadline)
        except TokenError as error:
            raise AskError(Fault(error.reason, f"{self._label}: {name}: {error}")) from None
        except _SaslRefusedError as error:
            if self._tokens is not None:
                self._tokens.forget()
            raise AskError(self._refused(str(error))) from None
        except ConnectionBrokenError:
            text = f"the connection was closed during {name}: {remedy}; is security.protocol right?"
            raise AskError(self._refused(text)) from None
        if lifetime:
            self.session_seconds = REAUTHENTICATE * lifetime

    def _log_in(self, name: str, remedy: str, deadline: Deadline) -> float:
        """The steps of a mechanism. Returns the seconds until the broker ends the session, 0 for never.

        ``remedy`` is what to check after a refusal. Raises _SaslRefusedError, TokenError and AskError.
        """
        # Only a listener with SASL needs them, and their package imports kafka-python's client.
        from kafka.net.sasl import get_sasl_mechanism  # noqa: PLC0415
        from kafka.net.sasl.oauth import AbstractTokenProvider  # noqa: PLC0415

        AbstractTokenProvider.register(TokenProvider)  # not its base class: settings are read without kafka-python

        def exchange(request: Request) -> Response:
            return self._exchange(request, self._version(request), deadline)

        handshake = exchange(SaslHandshakeRequest(mechanism=name))
        if handshake.error_code == UNSUPPORTED_SASL_MECHANISM:
            offers = ", ".join(handshake.mechanisms) or "none"
            raise _SaslRefusedError(f"the listener does not offer {name} but {offers}: check sasl.mechanism")
        if handshake.error_code:
            error = error_code(handshake.error_code)
            raise _SaslRefusedError(f"{name}: {error.name}: {error.advice}")
        settings = self._properties.sasl(self._tokens)
        user = settings.get("sasl_plain_username")
        who = f"{name} as {user}" if user else name
        lifetime = 0
        try:
            mechanism = get_sasl_mechanism(name)(**settings)
            while not mechanism.is_done():
                answer = exchange(SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes()))
                if answer.error_code:
                    raise _SaslRefusedError(f"{who}: {answer.error_message or 'refused'}: {remedy}")
                mechanism.receive(answer.auth_bytes)
                lifetime = answer.session_lifetime_ms or 0
        except (ValueError, KeyError, TypeError):
            # SCRAM: the broker could not prove that it has the password.
            raise _SaslRefusedError(f"{who}: the broker's answer does not fit: is it the right cluster?") from None
        if not mechanism.is_authenticated():
            raise _SaslRefusedError(f"{who} did not succeed")
        return lifetime / 1000

    # --- Requests ---

    def call(self, request: Request, deadline: Deadline) -> Response:
        """Sends a request and gives its decoded response."""
        return self._exchange(request, self._version(request), deadline)

    def _version(self, request: Request) -> int:
        if self._versions is None:
            raise AskError(self._unreachable("not connected"))
        try:
            return int(self._versions.api_version(request))
        except IncompatibleBrokerVersion:
            if isinstance(request, MetadataRequest):
                text = f"{self._label} does not serve clients: is it the listener of a controller?"
            else:
                text = f"{self._label} has no version of {_name(request)} that we know: Kafka 3.0 or later is needed"
            raise AskError(Fault(Reason.UNSUPPORTED, text)) from None

    def _exchange(self, request: Request, version: int, deadline: Deadline) -> Response:
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        request.API_VERSION = version
        request.with_header(correlation_id=self._correlation, client_id=self._properties.raw["client.id"])
        self._send(request.encode(framed=True, header=True), deadline, _name(request))
        frame = self._frame(deadline, _name(request))
        form = type(request), version
        try:
            with contextlib.nullcontext() if form in _COMPILED else _COMPILING:
                answer = _decoded(request, frame)
                _COMPILED.add(form)
                return answer
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, struct.error):
            # the errors of kafka-python's decoder on a corrupt or unknown layout
            text = f"{self._label}: the answer to {_name(request)} v{version} cannot be decoded"
            raise AskError(Fault(Reason.MALFORMED, text)) from None

    def _send(self, data: bytes, deadline: Deadline, name: str) -> None:
        try:
            self._ready(deadline).sendall(data)
        except TimeoutError:
            raise AskError(self._timeout(name)) from None
        except OSError as error:
            raise ConnectionBrokenError(self._unreachable(f"the connection broke: {_reason(error)}")) from None

    def _frame(self, deadline: Deadline, name: str) -> bytes:
        """The answer to the request."""
        while len(self._buffer) < 4:
            self._receive(deadline, name)
        size = int.from_bytes(self._buffer[:4], "big")
        if not 4 <= size <= self._max_frame:
            raise AskError(self._not_kafka())
        while len(self._buffer) < 4 + size:
            self._receive(deadline, name)
        frame = bytes(memoryview(self._buffer)[4 : 4 + size])
        del self._buffer[: 4 + size]
        if int.from_bytes(frame[:4], "big") != self._correlation:
            raise AskError(Fault(Reason.MALFORMED, f"{self._label} answers out of turn"))
        self._answers += 1
        return frame

    def _receive(self, deadline: Deadline, name: str) -> None:
        try:
            data = self._ready(deadline).recv(CHUNK)
        except TimeoutError:
            raise AskError(self._timeout(name)) from None
        except ssl.SSLError as error:
            # In TLS 1.3 the refusal of a client certificate arrives after the handshake.
            if self._versions is None:
                raise AskError(self._refused(tls_advice(error, self._properties.raw))) from None
            raise ConnectionBrokenError(self._unreachable(f"the connection broke: {_reason(error)}")) from None
        except OSError as error:
            raise ConnectionBrokenError(self._unreachable(f"the connection broke: {_reason(error)}")) from None
        if not data:
            raise ConnectionBrokenError(self._hung_up())
        self._buffer += data

    def _ready(self, deadline: Deadline) -> socket.socket:
        if self._socket is None or self._aborted:
            raise ConnectionBrokenError(self._unreachable("the connection is closed"))
        if deadline.over:
            raise TimeoutError
        self._socket.settimeout(max(0.001, deadline.remaining()))
        return self._socket

    # --- Closing ---

    def abort(self) -> None:
        """End a blocking call on the socket; from any thread."""
        self._aborted = True
        with contextlib.suppress(OSError, AttributeError):
            self._socket.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]

    def close(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    # --- Faults ---

    def _unreachable(self, why: str) -> Fault:
        return Fault(Reason.UNREACHABLE, f"{self._label} cannot be reached: {why}")

    def _refused(self, why: str) -> Fault:
        return Fault(Reason.AUTHENTICATION, f"{self._label}: {why}")

    def _hung_up(self) -> Fault:
        """A SASL listener answers ApiVersions without authentication, and closes the connection at the first other
        request.
        """
        if self._aborted:
            return self._unreachable("the connection was closed on our side")
        if self._answers == 1 and "SASL" not in self._properties.security_protocol:
            return self._refused(
                "it closed the connection at our first request, as SASL listeners do: set sasl.mechanism"
            )
        return self._unreachable("the broker closed the connection")

    def _closed_at_once(self) -> Fault:
        """TLS 1.3 refuses a client certificate after the handshake, and the alert that says so is easily lost."""
        if "SSL" in self._properties.security_protocol.removeprefix("SASL_"):
            return self._refused(
                "the connection was closed right after the TLS handshake; perhaps "
                + client_certificate_advice(self._properties.raw)
            )
        return self._unreachable("the connection was closed at once: check security.protocol; is it a TLS listener?")

    def _timeout(self, name: str) -> Fault:
        return Fault(Reason.TIMEOUT, f"{self._label} did not answer {name} in time")

    def _not_kafka(self) -> Fault:
        if self._buffer.startswith(TLS_ALERT):
            return self._refused("it is a TLS listener: set security.protocol to SSL or SASL_SSL")
        if self._buffer.startswith(b"HTTP"):
            return Fault(Reason.MALFORMED, f"{self._label} speaks HTTP, not Kafka: check the port")
        size = int.from_bytes(self._buffer[:4], "big")
        return Fault(Reason.MALFORMED, f"{self._label} sent {size} bytes at once: no Kafka broker, or too much for us")


def _decoded(request: Request, frame: bytes) -> Response:
    kind = request.header.get_response_class()
    body = io.BytesIO(frame)
    kind.parse_header(body)
    if isinstance(request, ReadsAnswer):
        return request.read_answer(frame[body.tell() :], kind)
    return kind.decode(body)


def _name(request: Request) -> str:
    return sys.intern(str(request.name).removesuffix("Request"))


def _reason(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()
