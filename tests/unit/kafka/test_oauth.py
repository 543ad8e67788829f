from __future__ import annotations

import json
import urllib.error
import urllib.request
from email.message import Message
from io import BytesIO

import pytest

from exporter.kafka.oauth import TokenError, TokenProvider

SETTINGS = {
    "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "s3cret",
    "sasl.oauthbearer.scope": "kafka",
}


class Endpoint:
    def __init__(self, *answers: bytes | Exception) -> None:
        self.requests: list[urllib.request.Request] = []
        self._answers = list(answers)

    def __call__(self, request: urllib.request.Request) -> bytes:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def token(text: str, life: int = 100) -> bytes:
    return json.dumps({"access_token": text, "expires_in": life}).encode()


def test_a_token_is_asked_for_once_and_again_before_it_expires() -> None:
    now = [0.0]
    endpoint = Endpoint(token("one"), token("two"))
    provider = TokenProvider(lambda: SETTINGS, endpoint, lambda: now[0])
    assert [provider.token(), provider.token()] == ["one", "one"]
    now[0] = 81.0
    assert provider.token() == "two"
    request = endpoint.requests[0]
    assert request.data == b"grant_type=client_credentials&scope=kafka"
    assert request.get_header("Authorization") == "Basic bWU6czNjcmV0"


def test_a_refused_token_is_forgotten() -> None:
    provider = TokenProvider(lambda: SETTINGS, Endpoint(token("one"), token("two")))
    provider.token()
    provider.forget()
    assert provider.token() == "two"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            urllib.error.HTTPError("u", 401, "no", Message(), BytesIO()),
            "answered 401: check sasl.oauthbearer.client.id",
        ),
        (urllib.error.URLError("no route"), "cannot be reached: no route"),
        (TimeoutError("timed out"), "cannot be reached"),
        (b"<html>", "gave no access_token"),
        (b"{}", "gave no access_token"),
        (b"[]", "gave no access_token"),
    ],
)
def test_no_token_is_told_with_its_cause_and_without_the_secret(answer: bytes | Exception, text: str) -> None:
    provider = TokenProvider(lambda: SETTINGS, Endpoint(answer))
    with pytest.raises(TokenError) as raised:
        provider.token()
    assert text in str(raised.value)
    assert "idp.example" in str(raised.value)
    assert "s3cret" not in str(raised.value)
