"""An identity provider on loopback: tokens by client credentials, RS256, and the key set that brokers check them with.

As little of OpenID Connect as Kafka needs: ``POST /token`` with basic authentication, ``GET /jwks``.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from testkit.settings import AUDIENCE

KEY_ID = "demo"
TOKEN_SECONDS = 60


class IdentityProvider:
    """An identity provider with clients by id and secret; ``clients`` may be changed while it runs. A context manager.

    The key set is on plain HTTP, where a broker's JVM needs no trust store; tokens are too, or on HTTPS with ``tls``.
    """

    def __init__(self, clients: Mapping[str, str], tls: ssl.SSLContext | None = None) -> None:
        self.clients = dict(clients)
        self.issued: list[str] = []
        self._key = rsa.generate_private_key(65537, 2048)
        self._keys = self._serve(None)
        self._tokens = self._serve(tls) if tls is not None else self._keys
        self.jwks_url = f"http://127.0.0.1:{self._keys.server_port}/jwks"
        scheme = "https" if tls is not None else "http"
        self.token_url = f"{scheme}://127.0.0.1:{self._tokens.server_port}/token"

    def key_set(self) -> dict[str, Any]:
        """The public key as a JSON Web Key Set (RFC 7517)."""
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": KEY_ID}
        return {"keys": [key | {"n": _number(numbers.n), "e": _number(numbers.e)}]}

    def token(self, subject: str) -> str:
        """A signed token (RFC 7519) of this subject."""
        now = int(time.time())
        claims = {"sub": subject, "aud": AUDIENCE, "iss": "demo", "iat": now, "exp": now + TOKEN_SECONDS}
        signed = ".".join(_coded(json.dumps(part)) for part in ({"alg": "RS256", "typ": "JWT", "kid": KEY_ID}, claims))
        return f"{signed}.{_coded(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def close(self) -> None:
        for server in {self._keys, self._tokens}:
            server.shutdown()
            server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self, tls: ssl.SSLContext | None) -> ThreadingHTTPServer:
        provider = self

        class OidcHandler(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                self.answer(200, provider.key_set()) if self.path == "/jwks" else self.answer(404, {})

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
                client, secret = _basic(self.headers.get("Authorization", ""))
                if self.path != "/token":
                    self.answer(404, {})
                elif form.get("grant_type") != ["client_credentials"]:
                    self.answer(400, {"error": "unsupported_grant_type"})
                elif not secret or provider.clients.get(client) != secret:
                    self.answer(401, {"error": "invalid_client", "error_description": "the client or its secret"})
                else:
                    token = provider.token(client)
                    provider.issued.append(token)
                    self.answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": TOKEN_SECONDS})

            def answer(self, status: int, document: Mapping[str, Any]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- http.server's name
                """Nothing: standard error belongs to the test."""

        server = _Server(("127.0.0.1", 0), OidcHandler)
        if tls is not None:
            # The handshake happens in the thread of the request, not in the one that accepts.
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, args=(0.05,), name="identity provider", daemon=True).start()
        return server


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: a client that does not trust us and hangs up is on purpose here."""


def _basic(header: str) -> tuple[str, str]:
    """Client id and secret of ``Basic ...``; empty when there are none."""
    try:
        client, _, secret = b64decode(header.removeprefix("Basic ")).decode().partition(":")
    except ValueError:
        return "", ""
    return client, secret


def _coded(part: str | bytes) -> str:
    data = part.encode() if isinstance(part, str) else part
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _coded(value.to_bytes((value.bit_length() + 7) // 8, "big"))
