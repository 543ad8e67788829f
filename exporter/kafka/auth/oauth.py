"""OAuth tokens, cached while they are valid; obtained by client credentials (RFC 6749, 4.4), librdkafka's
``method=oidc``.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from exporter.bounds.files import file_of
from exporter.http_client import Endpoint, HttpError, Reply, ask, causes
from exporter.model import Deadline, Reason

TIMEOUT = 5.0
EARLY = 0.8
"""Share of its lifetime after which a token is replaced, so that none expires on its way to a broker."""
PAUSE = 2.0
"""Seconds for which a failure is cached, so that connections to a hundred brokers do not all repeat the request."""

MAX_ANSWER_BYTES = 1_000_000

_REFUSED = frozenset({400, 401, 403})  # RFC 6749, 5.2; 403 is what gateways say
_ERROR_CODE = re.compile(r"[a-z_]{1,40}")

Fetch = Callable[[Endpoint, bytes, Deadline], Reply]
"""Posts a form to the endpoint by the deadline, and returns a successful answer. Raises HttpError."""


class TokenError(Exception):
    """No token. The text names the endpoint, the answer's status and what to do, never a secret."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


Ask = Callable[[float], tuple[str, float]]
"""Gets a token within so many seconds. Returns the token, and its lifetime in seconds. Raises TokenError."""


class TokenProvider:
    """One token for all connections of a cluster, renewed before it expires. Thread-safe.

    ``remedy`` is what to check when a broker refuses a token; ``extensions`` go with it (KIP-342).
    """

    def __init__(
        self,
        ask: Ask,
        remedy: str,
        extensions: Mapping[str, str] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
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
        """Renew the token if it is about to expire. Raises TokenError, by the deadline or after 5 s."""
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
        """A valid token. Blocks for up to 5 s. Raises TokenError."""
        self.refresh(Deadline.after(TIMEOUT))
        return self._token

    def for_confluent(self, _: str) -> tuple[str, float]:
        """As librdkafka's ``oauth_cb``: a token and the Unix time at which it expires. Raises TokenError."""
        return self.token(), time.time() + self._asked + self._life - self._monotonic()

    def extensions(self) -> dict[str, str]:
        """The SASL extensions that kafka-python sends with the token."""
        return self._extensions

    def forget(self) -> None:
        """Drop the token, which a broker refused. The next call requests a new one."""
        with self._lock:
            self._token = ""


def client_credentials(
    properties: Callable[[], Mapping[str, str]],
    fetch: Fetch | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> TokenProvider:
    """Tokens of the endpoint in the properties, which are read each time: a secret may change in its file."""
    first = properties()
    where = f"the token endpoint {urllib.parse.urlsplit(first['sasl.oauthbearer.token.endpoint.url']).hostname}"
    pairs = (pair.partition("=") for pair in first.get("sasl.oauthbearer.extensions", "").split(","))
    return TokenProvider(
        lambda seconds: _ask(where, properties(), fetch or _post, seconds),
        f"does it expect the audience, issuer and scope of the tokens of {where}?",
        {key.strip(): value.strip() for key, found, value in pairs if found},
        monotonic,
    )


def _ask(where: str, properties: Mapping[str, str], fetch: Fetch, seconds: float) -> tuple[str, float]:
    form = {"grant_type": "client_credentials"}
    if scope := properties.get("sasl.oauthbearer.scope"):
        form["scope"] = scope
    try:
        with _endpoint(properties) as endpoint:
            reply = fetch(endpoint, urllib.parse.urlencode(form).encode(), Deadline.after(seconds))
        return _token_in(reply.body)
    except HttpError as error:
        raise (_refusal if error.status else _silence)(where, error) from None
    except OSError as error:
        text = f"https.ca.pem cannot be written to a file for {where}: {error.strerror}"
        raise TokenError(Reason.INTERNAL, text) from None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        text = f"{where} gave no access_token, or no expires_in above 0: check sasl.oauthbearer.token.endpoint.url"
        raise TokenError(Reason.MALFORMED, text) from None


def _token_in(body: bytes) -> tuple[str, float]:
    """The token of an answer and its lifetime in seconds. Raises the errors of an answer of another form."""
    answer: Any = json.loads(body)
    token, life = answer["access_token"], float(answer.get("expires_in", 60))
    good = isinstance(token, str) and token and token.isascii() and token.isprintable()  # RFC 6749, A.12
    if not good or not 0 < life < math.inf:  # one without end would never be renewed
        raise ValueError
    return token, life


@contextlib.contextmanager
def _endpoint(properties: Mapping[str, str]) -> Iterator[Endpoint]:
    """The token endpoint, with the client's credentials as basic authentication.

    They are not URL-encoded, though RFC 6749 (2.3.1) requires it: neither librdkafka nor Java's clients do so by
    default, and the tail of the log is librdkafka's.
    """
    with contextlib.ExitStack() as files:
        authorities = properties.get("https.ca.location")
        if pem := properties.get("https.ca.pem"):
            authorities = files.enter_context(file_of(pem))
        yield Endpoint(
            properties["sasl.oauthbearer.token.endpoint.url"],
            properties["sasl.oauthbearer.client.id"],
            properties["sasl.oauthbearer.client.secret"],
            ca_file=Path(authorities) if authorities else None,
        )


def _refusal(where: str, error: HttpError) -> TokenError:
    try:
        code = str(json.loads(error.body)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        code = ""
    # Only a code in the RFC's form is repeated: the rest of an answer may hold anything.
    said = f"{where} answered {error.status}" + (f" {code}" if _ERROR_CODE.fullmatch(code) else "")
    if error.status in _REFUSED:
        names = "sasl.oauthbearer.client.id, client.secret and scope"
        return TokenError(Reason.AUTHENTICATION, f"{said}: check {names}")
    if error.status < 500:
        return TokenError(Reason.AUTHENTICATION, f"{said}: check sasl.oauthbearer.token.endpoint.url")
    return TokenError(Reason.UNREACHABLE, f"{said}: it is in trouble itself")


def _silence(where: str, error: HttpError) -> TokenError:
    untrusted = next((cause for cause in causes(error) if isinstance(cause, ssl.SSLCertVerificationError)), None)
    if untrusted is not None:
        text = f"{where} has a certificate that is not trusted ({untrusted.verify_message}): set https.ca.location"
        return TokenError(Reason.AUTHENTICATION, text)
    if error.fault.reason is Reason.TIMEOUT:
        return TokenError(Reason.TIMEOUT, f"{where} did not answer in time")
    why = str(error.fault.detail).rpartition(": ")[2].lower()
    return TokenError(error.fault.reason, f"{where} cannot be reached: {why}")


def _post(endpoint: Endpoint, form: bytes, deadline: Deadline) -> Reply:
    return ask(
        endpoint, deadline, body=form, content_type="application/x-www-form-urlencoded", max_bytes=MAX_ANSWER_BYTES
    )
