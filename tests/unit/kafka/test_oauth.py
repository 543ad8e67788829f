from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from base64 import b64encode
from email.message import Message
from io import BytesIO
from pathlib import Path

import pytest

from demo.certificates import Authority
from demo.oidc import IdentityProvider
from exporter.kafka.auth.oauth import TokenError, client_credentials
from exporter.model import Deadline, Reason

SETTINGS = {
    "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "s3cret",
    "sasl.oauthbearer.scope": "kafka",
}


class Endpoint:
    def __init__(self, *answers: bytes | Exception) -> None:
        self.requests: list[urllib.request.Request] = []
        self.seconds: list[float] = []
        self._answers = list(answers)

    def __call__(self, request: urllib.request.Request, trust: ssl.SSLContext | None, seconds: float) -> bytes:
        self.requests.append(request)
        self.seconds.append(seconds)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def token(text: str, life: int = 100) -> bytes:
    return json.dumps({"access_token": text, "expires_in": life}).encode()


def status(code: int, body: bytes = b"") -> urllib.error.HTTPError:
    return urllib.error.HTTPError("u", code, "no", Message(), BytesIO(body))


def test_a_token_is_asked_for_once_and_again_before_it_expires() -> None:
    now = [0.0]
    endpoint = Endpoint(token("one"), token("two"))
    provider = client_credentials(lambda: SETTINGS, endpoint, lambda: now[0])
    assert [provider.token(), provider.token()] == ["one", "one"]
    now[0] = 81.0
    assert provider.token() == "two"
    request = endpoint.requests[0]
    assert request.data == b"grant_type=client_credentials&scope=kafka"
    assert request.get_header("Authorization") == "Basic bWU6czNjcmV0"


def test_a_secret_is_sent_as_it_is_like_by_librdkafka() -> None:
    endpoint = Endpoint(token("one"))
    client_credentials(lambda: SETTINGS | {"sasl.oauthbearer.client.secret": "a+b/c=%"}, endpoint).token()
    assert endpoint.requests[0].get_header("Authorization") == f"Basic {b64encode(b'me:a+b/c=%').decode()}"


def test_a_refused_token_is_forgotten() -> None:
    provider = client_credentials(lambda: SETTINGS, Endpoint(token("one"), token("two")))
    provider.token()
    provider.forget()
    assert provider.token() == "two"


def test_the_endpoint_gets_no_more_time_than_is_left() -> None:
    endpoint = Endpoint(token("one"))
    client_credentials(lambda: SETTINGS, endpoint).refresh(Deadline(0.5, lambda: 0.0))
    assert endpoint.seconds == [0.5]


@pytest.mark.parametrize(
    ("answer", "reason", "text"),
    [
        (
            status(401, b'{"error": "invalid_client"}'),
            Reason.AUTHENTICATION,
            "answered 401 invalid_client: check",
        ),
        (
            status(400, b'{"error": "echo s3cret"}'),
            Reason.AUTHENTICATION,
            "answered 400: check sasl.",
        ),
        (status(404), Reason.AUTHENTICATION, "answered 404: check sasl.oauthbearer.token.endpoint.url"),
        (status(503), Reason.UNREACHABLE, "answered 503: it is in trouble itself"),
        (urllib.error.URLError("no route"), Reason.UNREACHABLE, "cannot be reached: no route"),
        (
            ConnectionRefusedError(111, "Connection refused"),
            Reason.UNREACHABLE,
            "cannot be reached: connection refused",
        ),
        (TimeoutError("timed out"), Reason.TIMEOUT, "did not answer in time"),
        (b"<html>", Reason.MALFORMED, "gave no access_token"),
        (b"{}", Reason.MALFORMED, "gave no access_token"),
        (b"[]", Reason.MALFORMED, "gave no access_token"),
    ],
)
def test_no_token_is_told_with_its_cause_and_without_the_secret(
    answer: bytes | Exception, reason: Reason, text: str
) -> None:
    provider = client_credentials(lambda: SETTINGS, Endpoint(answer))
    with pytest.raises(TokenError) as raised:
        provider.token()
    assert text in str(raised.value)
    assert raised.value.reason is reason
    assert "idp.example" in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_an_endpoint_in_trouble_is_not_asked_by_every_connection() -> None:
    now = [0.0]
    endpoint = Endpoint(status(503), token("one"))
    provider = client_credentials(lambda: SETTINGS, endpoint, lambda: now[0])
    for _ in range(3):
        with pytest.raises(TokenError, match="answered 503"):
            provider.token()
    assert len(endpoint.requests) == 1
    now[0] = 2.0
    assert provider.token() == "one"


def test_extensions_go_with_the_token() -> None:
    settings = SETTINGS | {"sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-2"}
    provider = client_credentials(lambda: settings, Endpoint())
    assert provider.extensions() == {"logicalCluster": "lkc-1", "identityPoolId": "pool-2"}
    assert client_credentials(lambda: SETTINGS, Endpoint()).extensions() == {}


def test_an_endpoint_is_trusted_when_the_authority_of_its_certificate_is_named(
    authority: Authority,
) -> None:
    with IdentityProvider({"me": "s3cret"}, authority.server("idp")) as idp:
        settings = SETTINGS | {"sasl.oauthbearer.token.endpoint.url": idp.token_url}
        with pytest.raises(TokenError, match=r"is not trusted .*: set https\.ca\.location"):
            client_credentials(lambda: settings).token()
        for name, value in (
            ("https.ca.location", authority.certificate),
            ("https.ca.pem", Path(authority.certificate).read_text()),
        ):
            trusting = settings | {name: value}
            assert client_credentials(lambda trusting=trusting: trusting).token().count(".") == 2  # type: ignore[misc]
