"""IAM of Amazon MSK as far as it can be seen without AWS: settings, regions, whose tokens, and what failure says."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.kafka.msk import iam_tokens, region_of
from exporter.kafka.oauth import TokenError
from exporter.kafka.properties import Properties, PropertiesError
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


def test_javas_settings_need_the_signer_and_nothing_else() -> None:
    with pytest.raises(PropertiesError) as raised:
        Properties.parse(AS_JAVA_HAS_IT)
    ((name, text),) = raised.value.problems
    assert name == "sasl.mechanism"
    assert "pip install 'kafka-eos-exporter[msk]'" in text


def test_brokers_are_told_oauthbearer_by_both_clients() -> None:
    properties = Properties({"client.id": "x", **AS_JAVA_HAS_IT})
    assert properties.mechanism == "OAUTHBEARER"
    confluent = properties.for_confluent()
    assert confluent["sasl.mechanism"] == "OAUTHBEARER"
    assert callable(confluent["oauth_cb"])
    assert properties.sasl(properties.token_provider())["sasl_mechanism"] == "OAUTHBEARER"


def test_a_token_is_signed_once_for_its_life_and_librdkafka_is_told_when_it_ends() -> None:
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
def signer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Puts a package in the place of AWS's; the argument is the body of its one function."""

    def install(body: str) -> None:
        for name, text in {
            "aws_msk_iam_sasl_signer/__init__.py": "",
            "aws_msk_iam_sasl_signer/MSKAuthTokenProvider.py": f"def generate_auth_token(region):\n    {body}\n",
            "botocore/__init__.py": "",
            "botocore/exceptions.py": "class BotoCoreError(Exception): ...\nclass ClientError(Exception): ...\n",
        }.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        monkeypatch.syspath_prepend(tmp_path)

    yield install
    for name in [each for each in sys.modules if each.partition(".")[0] in {"aws_msk_iam_sasl_signer", "botocore"}]:
        del sys.modules[name]


def test_with_the_signer_javas_settings_are_enough(signer: Callable[[str], None]) -> None:
    signer("return 'signed for ' + region, 4_000_000_000_000")
    provider = Properties.parse(AS_JAVA_HAS_IT).token_provider()
    assert provider is not None
    assert provider.token() == "signed for eu-central-1"


def test_missing_credentials_are_told_without_what_the_library_says(signer: Callable[[str], None]) -> None:
    signer("raise ValueError('PLANTED')")
    with pytest.raises(TokenError) as raised:
        iam_tokens(SERVERS).token()
    assert raised.value.reason is Reason.AUTHENTICATION
    assert "no AWS credentials (ValueError)" in str(raised.value)
    assert "PLANTED" not in str(raised.value)
