"""IAM of Amazon MSK as far as it can be seen without AWS: settings, regions, whose tokens, and what failure says."""

from __future__ import annotations

import base64
import os
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

from exporter.kafka.auth.msk import iam_tokens, region_of
from exporter.kafka.auth.oauth import TokenError
from exporter.kafka.properties.client import Properties, PropertiesError
from exporter.model import Reason

SERVERS = "b-1.main.ab12cd.c2.kafka.eu-central-1.amazonaws.com:9098"
AS_JAVA_HAS_IT = {
    "bootstrap.servers": SERVERS,
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}


@pytest.mark.parametrize(
    ("servers", "region"),
    [
        (SERVERS, "eu-central-1"),
        ("boot-x1.c1.kafka-serverless.us-east-1.amazonaws.com:9098", "us-east-1"),
        ("b-1.main.ab12cd.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("kafka.example:9098", None),
    ],
)
def test_the_region_is_in_the_brokers_names(servers: str, region: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    assert region_of(servers) == region
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert region_of(servers) == (region or "eu-west-1")


def test_javas_settings_need_the_signer_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.kafka.auth.msk.find_spec", lambda name: None)
    with pytest.raises(PropertiesError) as raised:
        Properties.parse(AS_JAVA_HAS_IT)
    ((name, text),) = raised.value.problems
    assert name == "sasl.mechanism"
    assert "pip install 'kafka-eos-exporter[msk]'" in text


def test_brokers_are_reported_oauthbearer_by_both_clients() -> None:
    properties = Properties({"client.id": "x", **AS_JAVA_HAS_IT})
    assert properties.mechanism == "OAUTHBEARER"
    confluent = properties.for_confluent()
    assert confluent["sasl.mechanism"] == "OAUTHBEARER"
    assert callable(confluent["oauth_cb"])
    assert properties.sasl(properties.token_provider())["sasl_mechanism"] == "OAUTHBEARER"


def test_a_token_is_signed_once_for_its_life_and_librdkafka_is_reported_when_it_ends() -> None:
    asked: list[str] = []
    expires = round((time.time() + 900) * 1000)

    def sign(region: str) -> tuple[str, int]:
        asked.append(region)
        return f"token-{len(asked)}", expires

    tokens = iam_tokens(SERVERS, sign)
    assert tokens.token() == "token-1"
    token, until = tokens.for_confluent("")
    assert token == "token-1"
    assert until == pytest.approx(expires / 1000, abs=30)
    assert asked == ["eu-central-1"]


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this machine's own, and no question to a cloud's metadata service."""
    for name in [variable for variable in os.environ if variable.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.mark.usefixtures("no_credentials")
def test_javas_settings_are_enough_for_awss_own_signer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "PLANTED")
    provider = Properties.parse(AS_JAVA_HAS_IT).token_provider()
    assert provider is not None
    token, until = provider.for_confluent("")
    url = urlsplit(base64.urlsafe_b64decode(token + "==").decode())
    asked = parse_qs(url.query)
    assert url.hostname == "kafka.eu-central-1.amazonaws.com"
    assert asked["Action"] == ["kafka-cluster:Connect"]
    assert asked["X-Amz-Credential"][0].startswith("AKIDEXAMPLE/")
    assert "PLANTED" not in url.query
    assert until == pytest.approx(time.time() + int(asked["X-Amz-Expires"][0]), abs=60)


@pytest.mark.usefixtures("no_credentials")
def test_missing_credentials_are_reported() -> None:
    with pytest.raises(TokenError) as raised:
        iam_tokens(SERVERS).token()
    assert raised.value.reason is Reason.AUTHENTICATION
    assert "no AWS credentials" in str(raised.value)


def test_what_the_signer_says_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(region: str) -> tuple[str, int]:
        raise ValueError("PLANTED")

    monkeypatch.setattr(MSKAuthTokenProvider, "generate_auth_token", fails)
    with pytest.raises(TokenError) as raised:
        iam_tokens(SERVERS).token()
    assert "no AWS credentials (ValueError)" in str(raised.value)
    assert "PLANTED" not in str(raised.value)
