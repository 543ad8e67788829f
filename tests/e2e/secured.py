"""A broker with every way in, and settings of clients that come in, or do not, by each of them."""

from __future__ import annotations

import json
import os
import secrets
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testkit.certificates import LIFE, Authority, Issued
from testkit.cluster import KafkaCluster
from testkit.oidc import IdentityProvider
from testkit.settings import EXPIRED, MTLS, BrokerTls, Security, passwords

USER = "eos"
ROTATED = "rotated"
POOR = "poor"
SESSION_MS = 6000
"""Seconds after which a broker requires authentication again (KIP-368)."""

Settings = dict[str, str]

_SIGNER = """
import json, ssl, time, urllib.request

def generate_auth_token(region):
    request = urllib.request.Request("{url}", b"grant_type=client_credentials", {{"Authorization": "Basic {basic}"}})
    with urllib.request.urlopen(request, timeout=5, context=ssl.create_default_context(cafile="{authority}")) as answer:
        token = json.load(answer)
    return token["access_token"], round((time.time() + token["expires_in"]) * 1000)
"""


@dataclass(frozen=True)
class SecuredBroker:
    """The broker, who signed its certificates, and whose tokens it takes."""

    kafka: KafkaCluster
    authority: Authority
    provider: IdentityProvider
    stranger: IdentityProvider
    folder: Path

    def sasl(self, mechanism: str, user: str = USER) -> Settings:
        return self.kafka.client_properties(user, mechanism)

    def oauth(self) -> Settings:
        settings = self.sasl("OAUTHBEARER")
        del settings["sasl.username"], settings["sasl.password"]
        return settings | {
            "sasl.oauthbearer.client.id": USER,
            "sasl.oauthbearer.client.secret": self.provider.clients[USER],
            "sasl.oauthbearer.token.endpoint.url": self.provider.token_url,
            "https.ca.location": self.authority.certificate,
        }

    def iam(self) -> tuple[Settings, dict[str, str]]:
        """As on Amazon MSK, and the environment for it: a signer that gets its tokens from our provider instead."""
        basic = b64encode(f"{USER}:{self.provider.clients[USER]}".encode()).decode()
        package = self.folder / "signer"
        for name, text in {
            "aws_msk_iam_sasl_signer/__init__.py": "",
            "aws_msk_iam_sasl_signer/MSKAuthTokenProvider.py": _SIGNER.format(
                url=self.provider.token_url, basic=basic, authority=self.authority.certificate
            ),
            "botocore/__init__.py": "",
            "botocore/exceptions.py": "class BotoCoreError(Exception): ...\nclass ClientError(Exception): ...\n",
        }.items():
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            (package / name).write_text(text)
        settings = self.sasl("AWS_MSK_IAM")
        del settings["sasl.username"], settings["sasl.password"]
        path = ":".join(filter(None, (str(package), os.environ.get("PYTHONPATH"))))
        return settings, {"PYTHONPATH": path, "AWS_REGION": "eu-central-1"}

    def tls(self, listener: str = MTLS) -> Settings:
        return {
            "bootstrap.servers": self.kafka.secured_bootstrap(listener),
            "security.protocol": "SSL",
            "ssl.ca.location": self.authority.certificate,
        }

    def mtls(self, shown: Issued) -> Settings:
        return self.tls() | {"ssl.certificate.location": shown.certificate, "ssl.key.location": shown.key}

    def write(self, name: str, clusters: Mapping[str, Settings], **rest: object) -> Path:
        """A settings file; YAML takes JSON as it is."""
        often = {"lso": {"sweep_interval": "5s"}, "groups": {"interval": "5s"}, "posture": {"interval": "5s"}}
        listed = [{"name": text, "kafka": kafka, **often} for text, kafka in clusters.items()]
        path = self.folder / name
        path.write_text(json.dumps({"clusters": listed, **rest}))
        return path


@contextmanager
def secured_house(folder: Path) -> Iterator[SecuredBroker]:
    """Kafka 4.3.1 with ACLs; SASL_SSL with SCRAM, PLAIN and OAUTHBEARER; SSL with client certificates."""
    authority = Authority(folder / "authority")
    tls = BrokerTls(
        authority.certificate, authority.issue("server").store, authority.issue("past", life=-LIFE / 2).store
    )
    clients = {USER: secrets.token_urlsafe(12)}
    with (
        IdentityProvider(clients, authority.server("provider")) as provider,
        IdentityProvider(clients) as stranger,
    ):
        security = Security(passwords(USER, ROTATED), ("SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"), tls, provider.jwks_url)
        sessions = {"listener.name.sasl.connections.max.reauth.ms": str(SESSION_MS)}
        with KafkaCluster("4.3.1", security=security, properties=sessions) as kafka:
            for user in (USER, ROTATED):
                kafka.access.allow_all_reads(user)
            yield SecuredBroker(kafka, authority, provider, stranger, folder)


@dataclass(frozen=True)
class Refusal:
    """Settings that do not get in: the reason that the agent counts, and words that say what to do."""

    settings: Settings
    reason: str
    says: str


def refusals(house: SecuredBroker) -> dict[str, Refusal]:
    """Every way not to get in that we tell apart."""
    stranger = Authority(house.folder / "stranger", "another authority")
    foreign, past = stranger.issue(USER), house.authority.issue("worn", life=-LIFE / 2)
    scram, plain, oauth, server = house.sasl("SCRAM-SHA-512"), house.sasl("PLAIN"), house.oauth(), house.kafka.bootstrap
    bare = {name: text for name, text in scram.items() if not name.startswith("ssl.")}
    trusting = {"security.protocol": "SSL", "ssl.ca.location": house.authority.certificate}
    untrusting = {name: text for name, text in oauth.items() if name != "https.ca.location"}
    refused, unreachable, unknown = "authentication", "unreachable", "check sasl.username and sasl.password"
    return {
        "scram-password": Refusal(scram | {"sasl.password": "PLANTED-scram"}, refused, unknown),
        "scram-user": Refusal(scram | {"sasl.username": "nobody"}, refused, unknown),
        "plain-password": Refusal(plain | {"sasl.password": "PLANTED-plain"}, refused, unknown),
        "plain-user": Refusal(plain | {"sasl.username": "nobody"}, refused, unknown),
        "mechanism": Refusal(scram | {"sasl.mechanism": "SCRAM-SHA-256"}, refused, "but SCRAM-SHA-512, PLAIN"),
        "authority": Refusal(
            scram | {"ssl.ca.location": stranger.certificate}, refused, f"ssl.ca.location {stranger.certificate}"
        ),
        "host": Refusal(
            scram | {"bootstrap.servers": scram["bootstrap.servers"].replace("127.0.0.1", "localhost")},
            refused,
            "its certificate is for another host",
        ),
        "server-expired": Refusal(house.tls(EXPIRED), refused, "its certificate has expired"),
        "no-certificate": Refusal(house.tls(), refused, "it wants a client certificate: set ssl.certificate.location"),
        "foreign-certificate": Refusal(house.mtls(foreign), refused, "signed by an authority that the broker trusts"),
        "certificate-expired": Refusal(house.mtls(past), refused, f"renew ssl.certificate.location {past.certificate}"),
        "plain-to-tls": Refusal(
            {"bootstrap.servers": scram["bootstrap.servers"]}, refused, "set security.protocol to SSL or SASL_SSL"
        ),
        "sasl-to-tls": Refusal(
            bare | {"security.protocol": "SASL_PLAINTEXT"}, refused, "set security.protocol to SSL or SASL_SSL"
        ),
        "tls-to-plain": Refusal(trusting | {"bootstrap.servers": server}, refused, "it does not speak TLS"),
        "tls-to-sasl": Refusal(
            trusting | {"bootstrap.servers": scram["bootstrap.servers"]}, refused, "as SASL listeners do: set sasl."
        ),
        "sasl-to-mtls": Refusal(
            scram | house.mtls(house.authority.issue("somebody")) | {"security.protocol": "SASL_SSL"},
            refused,
            "the listener does not expect SASL: check security.protocol",
        ),
        "client-secret": Refusal(
            oauth | {"sasl.oauthbearer.client.secret": "PLANTED-client"}, refused, "answered 401 invalid_client: check"
        ),
        "endpoint-down": Refusal(
            oauth | {"sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token"},
            unreachable,
            "the token endpoint 127.0.0.1 cannot be reached: connection refused",
        ),
        "endpoint-authority": Refusal(untrusting, refused, "set https.ca.location"),
        "foreign-token": Refusal(
            oauth | {"sasl.oauthbearer.token.endpoint.url": house.stranger.token_url},
            refused,
            "does it expect the audience, issuer and scope of the tokens of the token endpoint 127.0.0.1?",
        ),
        "nobody-home": Refusal({"bootstrap.servers": "127.0.0.1:1"}, unreachable, "connection refused"),
    }
