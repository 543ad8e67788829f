from __future__ import annotations

import json
from pathlib import Path

import pytest

from exporter.http_client import Endpoint, HttpError, Reply
from exporter.kafka.auth.oauth import TokenError, client_credentials
from exporter.model import Deadline, Fault, Reason
from testkit.certificates import Authority
from testkit.oidc import IdentityProvider

SETTINGS = {
    "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "s3cret",
    "sasl.oauthbearer.scope": "kafka",
}


class TokenEndpoint:
    """Answers in this order; ``requests`` are the endpoints and forms that were posted."""

    def __init__(self, *answers: bytes | HttpError) -> None:
        self.requests: list[tuple[Endpoint, bytes]] = []
        self.seconds: list[float] = []
        self._answers = list(answers)

    def __call__(self, endpoint: Endpoint, form: bytes, deadline: Deadline) -> Reply:
        self.requests.append((endpoint, form))
        self.seconds.append(deadline.remaining())
        answer = self._answers.pop(0)
        if isinstance(answer, HttpError):
            raise answer
        return Reply(answer, "application/json")


def token(text: str, life: int = 100) -> bytes:
    return json.dumps({"access_token": text, "expires_in": life}).encode()


def status(code: int, body: bytes = b"") -> HttpError:
    return HttpError(Fault(Reason.MALFORMED, "refused"), code, body)


def silence(reason: Reason, detail: str) -> HttpError:
    return HttpError(Fault(reason, detail))


def test_a_token_is_asked_for_once_and_again_before_it_expires() -> None:
    now = [0.0]
    endpoint = TokenEndpoint(token("one"), token("two"))
    provider = client_credentials(lambda: SETTINGS, endpoint, lambda: now[0])
    assert [provider.token(), provider.token()] == ["one", "one"]
    now[0] = 81.0
    assert provider.token() == "two"
    address, form = endpoint.requests[0]
    assert form == b"grant_type=client_credentials&scope=kafka"
    assert (address.url, address.username, address.password) == ("https://idp.example/token", "me", "s3cret")


def test_a_secret_is_sent_as_it_is_like_by_librdkafka() -> None:
    endpoint = TokenEndpoint(token("one"))
    client_credentials(lambda: SETTINGS | {"sasl.oauthbearer.client.secret": "a+b/c=%"}, endpoint).token()
    assert endpoint.requests[0][0].password == "a+b/c=%"


def test_a_refused_token_is_forgotten() -> None:
    provider = client_credentials(lambda: SETTINGS, TokenEndpoint(token("one"), token("two")))
    provider.token()
    provider.forget()
    assert provider.token() == "two"


def test_the_endpoint_gets_no_more_time_than_is_left() -> None:
    endpoint = TokenEndpoint(token("one"))
    client_credentials(lambda: SETTINGS, endpoint).refresh(Deadline(0.5, lambda: 0.0))
    assert endpoint.seconds == [pytest.approx(0.5, abs=0.2)]


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
        (status(302), Reason.AUTHENTICATION, "answered 302: check sasl.oauthbearer.token.endpoint.url"),
        (status(404), Reason.AUTHENTICATION, "answered 404: check sasl.oauthbearer.token.endpoint.url"),
        (status(503), Reason.UNREACHABLE, "answered 503: it is in trouble itself"),
        (
            silence(Reason.UNREACHABLE, "https://idp.example/token: No route to host"),
            Reason.UNREACHABLE,
            "cannot be reached: no route to host",
        ),
        (
            silence(Reason.UNREACHABLE, "https://idp.example/token: Connection refused"),
            Reason.UNREACHABLE,
            "cannot be reached: connection refused",
        ),
        (silence(Reason.TIMEOUT, "https://idp.example/token did not answer"), Reason.TIMEOUT, "did not answer in time"),
        (b"<html>", Reason.MALFORMED, "gave no access_token"),
        (b"{}", Reason.MALFORMED, "gave no access_token"),
        (b"[]", Reason.MALFORMED, "gave no access_token"),
        (b'{"access_token": null}', Reason.MALFORMED, "gave no access_token"),
        (b'{"access_token": ""}', Reason.MALFORMED, "gave no access_token"),
        (b'{"access_token": "\\ud800"}', Reason.MALFORMED, "gave no access_token"),
        *(
            (f'{{"access_token": "a", "expires_in": {life}}}'.encode(), Reason.MALFORMED, "no expires_in above 0")
            for life in ("9" * 400, "Infinity", "NaN", "0", "-1")
        ),
    ],
)
def test_no_token_is_reported_with_its_cause_and_without_the_secret(
    answer: bytes | HttpError, reason: Reason, text: str
) -> None:
    provider = client_credentials(lambda: SETTINGS, TokenEndpoint(answer))
    with pytest.raises(TokenError) as raised:
        provider.token()
    assert text in str(raised.value)
    assert raised.value.reason is reason
    assert "idp.example" in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_an_endpoint_in_trouble_is_not_asked_by_every_connection() -> None:
    now = [0.0]
    endpoint = TokenEndpoint(status(503), token("one"))
    provider = client_credentials(lambda: SETTINGS, endpoint, lambda: now[0])
    for _ in range(3):
        with pytest.raises(TokenError, match="answered 503"):
            provider.token()
    assert len(endpoint.requests) == 1
    now[0] = 2.0
    assert provider.token() == "one"


def test_extensions_go_with_the_token() -> None:
    settings = SETTINGS | {"sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-2"}
    provider = client_credentials(lambda: settings, TokenEndpoint())
    assert provider.extensions() == {"logicalCluster": "lkc-1", "identityPoolId": "pool-2"}
    assert client_credentials(lambda: SETTINGS, TokenEndpoint()).extensions() == {}


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
