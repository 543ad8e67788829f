"""OAuth tokens, kept while they are good; got by client credentials (RFC 6749, 4.4), librdkafka's ``method=oidc``."""

from __future__ import annotations

import json
import re
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from exporter.model import Deadline, Reason

TIMEOUT = 5.0
EARLY = 0.8
"""A token is replaced after this part of its life, so that none expires on its way to a broker."""
PAUSE = 2.0
"""Seconds for which a failure stands: the connections to a hundred brokers must not all ask in vain."""

_REFUSED = frozenset({400, 401, 403})  # RFC 6749, 5.2; 403 is what gateways say
_ERROR_CODE = re.compile(r"[a-z_]{1,40}")

Fetch = Callable[[urllib.request.Request, ssl.SSLContext | None, float], bytes]
"""Sends a request within so many seconds and gives the body of a good answer. Raises as urlopen does."""


class TokenError(Exception):
    """No token. The text names the endpoint, the answer's status and what to do, never a secret."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


Ask = Callable[[float], tuple[str, float]]
"""Gets a token within so many seconds: the token, and for how many seconds it is good. Raises TokenError."""


class TokenProvider(AbstractTokenProvider):
    """One token for all connections of a cluster, asked for again when it grows old. Thread-safe.

    ``remedy`` says what to look at when a broker does not take a token; ``extensions`` go with it (KIP-342).
    """

    def __init__(
        self,
        ask: Ask,
        remedy: str,
        extensions: Mapping[str, str] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.remedy = remedy
        self._ask = ask
        self._extensions = dict(extensions or {})
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._token = ""
        self._life = 0.0
        self._asked = 0.0
        self._failed: tuple[TokenError, float] | None = None

    def refresh(self, deadline: Deadline) -> None:
        """Make sure that the token is still good. Raises TokenError, by the deadline or after 5 s."""
        until = deadline.within(TIMEOUT)
        if not self._lock.acquire(timeout=until.remaining()):
            raise TokenError(Reason.TIMEOUT, "no token in time: another connection waits for one too")
        try:
            now = self._monotonic()
            if self._token and now < self._asked + EARLY * self._life:
                return
            if self._failed is not None and now < self._failed[1]:
                raise TokenError(self._failed[0].reason, str(self._failed[0]))
            try:
                self._token, self._life = self._ask(max(0.1, until.remaining()))
            except TokenError as error:
                self._failed = error, self._monotonic() + PAUSE
                raise
            self._failed, self._asked = None, now
        finally:
            self._lock.release()

    def token(self) -> str:
        """A token that is still good. Blocks for up to 5 s. Raises TokenError."""
        self.refresh(Deadline.after(TIMEOUT))
        return self._token

    def for_confluent(self, _: str) -> tuple[str, float]:
        """As librdkafka's ``oauth_cb``: a token and the Unix time at which it expires. Raises TokenError."""
        return self.token(), time.time() + self._asked + self._life - self._monotonic()

    def extensions(self) -> dict[str, str]:
        """What kafka-python sends with the token."""
        return self._extensions

    def forget(self) -> None:
        """A broker refused the token: ask for a new one next time."""
        with self._lock:
            self._token = ""


def client_credentials(
    properties: Callable[[], Mapping[str, str]],
    fetch: Fetch | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> TokenProvider:
    """Tokens of the endpoint in the properties, which are looked up each time: a secret may change in its file."""
    first = properties()
    where = f"the token endpoint {urllib.parse.urlsplit(first['sasl.oauthbearer.token.endpoint.url']).hostname}"
    pairs = (pair.partition("=") for pair in first.get("sasl.oauthbearer.extensions", "").split(","))
    return TokenProvider(
        lambda seconds: _ask(where, properties(), fetch or _fetch, seconds),
        f"does it expect the audience, issuer and scope of the tokens of {where}?",
        {key.strip(): value.strip() for key, found, value in pairs if found},
        monotonic,
    )


def _ask(where: str, properties: Mapping[str, str], fetch: Fetch, seconds: float) -> tuple[str, float]:
    try:
        answer: Any = json.loads(fetch(_request(properties), _trust(properties), seconds))
        return str(answer["access_token"]), float(answer.get("expires_in", 60))
    except urllib.error.HTTPError as error:
        raise _refusal(where, error) from None
    except OSError as error:
        raise _silence(where, error) from None
    except (ValueError, KeyError, TypeError):
        text = f"{where} gave no access_token: check sasl.oauthbearer.token.endpoint.url"
        raise TokenError(Reason.MALFORMED, text) from None


def _request(properties: Mapping[str, str]) -> urllib.request.Request:
    client = properties["sasl.oauthbearer.client.id"], properties["sasl.oauthbearer.client.secret"]
    form = {"grant_type": "client_credentials"}
    if scope := properties.get("sasl.oauthbearer.scope"):
        form["scope"] = scope
    # Not URL-encoded, though RFC 6749 (2.3.1) says so: neither librdkafka nor Java's clients do unless told to, and the
    # tail of the log is librdkafka's.
    basic = b64encode(":".join(client).encode()).decode()
    return urllib.request.Request(  # noqa: S310  # the address is the operator's own setting
        properties["sasl.oauthbearer.token.endpoint.url"],
        urllib.parse.urlencode(form).encode(),
        {"Authorization": f"Basic {basic}", "Accept": "application/json"},
    )


def _trust(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    """The endpoint's authorities where they are not the system's. Raises OSError."""
    location, pem = properties.get("https.ca.location"), properties.get("https.ca.pem")
    return ssl.create_default_context(cafile=location, cadata=pem) if location or pem else None


def _refusal(where: str, error: urllib.error.HTTPError) -> TokenError:
    with error:
        try:
            code = str(json.loads(error.read(100_000))["error"])
        except (OSError, ValueError, KeyError, TypeError):
            code = ""
    # Only what looks like a code of the RFC's is repeated: the rest of an answer may hold anything.
    said = f"{where} answered {error.code}" + (f" {code}" if _ERROR_CODE.fullmatch(code) else "")
    if error.code in _REFUSED:
        names = "sasl.oauthbearer.client.id, client.secret and scope"
        return TokenError(Reason.AUTHENTICATION, f"{said}: check {names}")
    if error.code < 500:
        return TokenError(Reason.AUTHENTICATION, f"{said}: check sasl.oauthbearer.token.endpoint.url")
    return TokenError(Reason.UNREACHABLE, f"{said}: it is in trouble itself")


def _silence(where: str, error: OSError) -> TokenError:
    cause = getattr(error, "reason", error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        text = f"{where} has a certificate that is not trusted ({cause.verify_message}): set https.ca.location"
        return TokenError(Reason.AUTHENTICATION, text)
    if isinstance(cause, TimeoutError):
        return TokenError(Reason.TIMEOUT, f"{where} did not answer in time")
    why = (getattr(cause, "strerror", None) or str(cause)).lower()
    return TokenError(Reason.UNREACHABLE, f"{where} cannot be reached: {why}")


def _fetch(request: urllib.request.Request, trust: ssl.SSLContext | None, seconds: float) -> bytes:
    with urllib.request.urlopen(request, timeout=seconds, context=trust) as answer:  # noqa: S310  # the operator's own setting
        return bytes(answer.read(1_000_000))
