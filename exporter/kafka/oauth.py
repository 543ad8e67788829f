"""OAuth tokens by the client-credentials grant (RFC 6749, 4.4): what librdkafka calls ``method=oidc``."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

TIMEOUT = 5.0
EARLY = 0.8
"""A token is replaced after this part of its life, so that none expires on its way to a broker."""


class TokenError(Exception):
    """No token. The text names the endpoint and the answer's status, never a secret."""


class TokenProvider(AbstractTokenProvider):
    """One token for all connections of a cluster, asked for again when it grows old. Thread-safe."""

    def __init__(
        self,
        properties: Callable[[], Mapping[str, str]],
        fetch: Callable[[urllib.request.Request], bytes] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._properties = properties
        self._fetch = fetch or _fetch
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._token = ""
        self._until = 0.0

    def token(self) -> str:
        """A token that is still good. Blocks for up to 5 s. Raises TokenError."""
        with self._lock:
            if not self._token or self._monotonic() >= self._until:
                self._token, life = self._ask()
                self._until = self._monotonic() + EARLY * life
            return self._token

    def forget(self) -> None:
        """A broker refused the token: ask for a new one next time."""
        with self._lock:
            self._token = ""

    def _ask(self) -> tuple[str, float]:
        properties = self._properties()
        url = properties["sasl.oauthbearer.token.endpoint.url"]
        client = properties["sasl.oauthbearer.client.id"], properties["sasl.oauthbearer.client.secret"]
        form = {"grant_type": "client_credentials"}
        if scope := properties.get("sasl.oauthbearer.scope"):
            form["scope"] = scope
        basic = b64encode(":".join(map(urllib.parse.quote_plus, client)).encode()).decode()
        request = urllib.request.Request(  # noqa: S310  # the address is the operator's own setting
            url,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {basic}", "Accept": "application/json"},
        )
        where = f"the token endpoint {urllib.parse.urlsplit(url).hostname}"
        try:
            answer: Any = json.loads(self._fetch(request))
            return str(answer["access_token"]), float(answer.get("expires_in", 60))
        except urllib.error.HTTPError as error:
            error.close()
            raise TokenError(
                f"{where} answered {error.code}: check sasl.oauthbearer.client.id and client.secret"
            ) from None
        except OSError as error:
            raise TokenError(f"{where} cannot be reached: {getattr(error, 'reason', error)}") from None
        except (ValueError, KeyError, TypeError):
            raise TokenError(f"{where} gave no access_token") from None


def _fetch(request: urllib.request.Request) -> bytes:
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310  # the operator's own setting
        return bytes(answer.read(1_000_000))
