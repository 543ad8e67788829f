"""Settings of the local brokers, as the text of a properties file, and free ports for them."""

from __future__ import annotations

import random
import secrets
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

PLAINTEXT = "PLAINTEXT"
SASL = "SASL"
MTLS = "MTLS"
EXPIRED = "EXPIRED"
CONTROLLER = "CONTROLLER"

AUDIENCE = "kafka"
"""Whom an OAuth token must be for."""

_KRAFT = frozenset({"process.roles", "node.id", "controller.quorum.voters", "controller.listener.names"})
"""Settings that a broker with ZooKeeper must not have."""
_HANDLERS = "org.apache.kafka.common.security.oauthbearer"


class BrokerTls(NamedTuple):
    """PEM files of the brokers: whom they trust, and their stores, which are a key and its certificate in one file."""

    authority: str
    server: str
    expired: str


@dataclass(frozen=True)
class Security:
    """A listener with SASL, and StandardAuthorizer on the cluster.

    The PLAINTEXT listener stays for the brokers and for the setup of a test: its principal, User:ANONYMOUS, is the
    super user. ``users`` are the names on the SASL listener, with made-up passwords; they may do nothing until allowed.

    With ``tls`` the listener is SASL_SSL, and there are two more with SSL: MTLS requires a client certificate with
    the user's name, and EXPIRED shows a certificate of the day before yesterday. OAUTHBEARER takes the tokens that the
    key set at ``jwks_url`` has signed; their subject is the user's name.
    """

    users: Mapping[str, str]
    mechanisms: tuple[str, ...] = ("SCRAM-SHA-512",)
    tls: BrokerTls | None = None
    jwks_url: str = ""

    @classmethod
    def of(cls, *names: str, mechanism: str = "SCRAM-SHA-512") -> Security:
        """Security without TLS for these users, each with a random password."""
        return cls(passwords(*names), (mechanism,))

    def __repr__(self) -> str:
        return f"Security(users={sorted(self.users)}, mechanisms={self.mechanisms!r}, tls={self.tls!r})"

    @property
    def protocols(self) -> dict[str, str]:
        """The security protocol of each listener."""
        if self.tls is None:
            return {SASL: "SASL_PLAINTEXT"}
        return {SASL: "SASL_SSL", MTLS: "SSL", EXPIRED: "SSL"}

    def scram_arguments(self) -> list[str]:
        """Arguments of ``kafka-storage format`` that create the SCRAM users (KIP-900)."""
        scram = [mechanism for mechanism in self.mechanisms if mechanism.startswith("SCRAM-")]
        credentials = [
            f"{mechanism}=[name={user},password={word}]" for mechanism in scram for user, word in self.users.items()
        ]
        return [part for credential in credentials for part in ("-S", credential)]

    def jvm_options(self) -> list[str]:
        """JVM options of a broker: the URLs from which it may fetch key sets (Kafka 4.0 and later)."""
        return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.jwks_url}"] if self.jwks_url else []

    def broker_properties(self) -> dict[str, str]:
        prefix = f"listener.name.{SASL.lower()}"
        properties = {f"{prefix}.sasl.enabled.mechanisms": ",".join(self.mechanisms)}
        for mechanism in self.mechanisms:
            own = f"{prefix}.{mechanism.lower()}"
            properties[f"{own}.sasl.jaas.config"] = self._jaas(mechanism)
            if mechanism == "OAUTHBEARER":
                properties |= {
                    f"{own}.sasl.server.callback.handler.class": f"{_HANDLERS}.OAuthBearerValidatorCallbackHandler",
                    "sasl.oauthbearer.jwks.endpoint.url": self.jwks_url,
                    "sasl.oauthbearer.expected.audience": AUDIENCE,
                }
        return properties | (self._tls_properties(self.tls) if self.tls is not None else {})

    def _jaas(self, mechanism: str) -> str:
        if mechanism == "PLAIN":
            users = " ".join(f'user_{user}="{word}"' for user, word in self.users.items())
            return f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        if mechanism == "OAUTHBEARER":
            return f"{_HANDLERS}.OAuthBearerLoginModule required;"
        return "org.apache.kafka.common.security.scram.ScramLoginModule required;"

    def _tls_properties(self, tls: BrokerTls) -> dict[str, str]:
        properties = {
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": tls.authority,
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/,DEFAULT",
            f"listener.name.{MTLS.lower()}.ssl.client.auth": "required",
        }
        stores = {SASL: tls.server, MTLS: tls.server, EXPIRED: tls.expired}
        return properties | {f"listener.name.{name.lower()}.ssl.keystore.location": at for name, at in stores.items()}


def passwords(*names: str) -> dict[str, str]:
    """A random password for each."""
    return {name: secrets.token_urlsafe(12) for name in names}


class Node(NamedTuple):
    """One process of the cluster and the ports it listens on, secured ones by the listener's name."""

    id: int
    is_broker: bool
    is_controller: bool
    port: int | None = None
    secured: Mapping[str, int] = MappingProxyType({})
    controller_port: int | None = None


@dataclass(frozen=True)
class ClusterShape:
    """The make-up of a cluster, the same for all its nodes. With ``zookeeper_port`` it has ZooKeeper, and no KRaft."""

    nodes: tuple[Node, ...]
    transaction_partitions: int = 50
    security: Security | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    zookeeper_port: int | None = None

    @property
    def brokers(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.is_broker)


def nodes_of(brokers: int, secured: Collection[str] = (), *, own_controller: bool = False) -> tuple[Node, ...]:
    """One or three combined nodes; two brokers get a controller of their own, so that the quorum outlives either.

    With ``own_controller`` three brokers get one as well: any of them may stop.
    """
    if not 1 <= brokers <= 3:
        raise ValueError("one to three brokers")
    combined = brokers != 2 and not own_controller
    ports = iter(free_ports((2 + len(secured)) * brokers + 1))
    nodes = [
        Node(
            id=number,
            is_broker=True,
            is_controller=combined,
            port=next(ports),
            secured={name: next(ports) for name in secured},
            controller_port=next(ports) if combined else None,
        )
        for number in range(1, brokers + 1)
    ]
    if not combined:
        nodes.insert(0, Node(id=100, is_broker=False, is_controller=True, controller_port=next(ports)))
    return tuple(nodes)


def server_properties(shape: ClusterShape, node: Node, data: str) -> str:
    """The properties file of one node; ``shape.extra`` wins over everything here."""
    copies = min(3, len(shape.brokers))
    roles = [role for role, has in (("broker", node.is_broker), ("controller", node.is_controller)) if has]
    listeners = {PLAINTEXT: node.port, **node.secured, CONTROLLER: node.controller_port}
    protocols = {PLAINTEXT: "PLAINTEXT", CONTROLLER: "PLAINTEXT"} | (shape.security.protocols if shape.security else {})
    voters = ",".join(f"{n.id}@127.0.0.1:{n.controller_port}" for n in shape.nodes if n.is_controller)
    properties = {
        "process.roles": ",".join(roles),
        "node.id": str(node.id),
        "controller.quorum.voters": voters,
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items() if port is not None),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "inter.broker.listener.name": PLAINTEXT,
        "controller.listener.names": CONTROLLER,
        "log.dirs": data,
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        "default.replication.factor": str(copies),
        "offsets.topic.replication.factor": str(copies),
        "offsets.topic.num.partitions": "10",
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(min(2, copies)),
        "transaction.state.log.num.partitions": str(shape.transaction_partitions),
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        # A killed broker is given up after this; the default of 9 s only makes tests wait.
        "broker.session.timeout.ms": "5000",
        "broker.heartbeat.interval.ms": "1000",
        # A timed-out transaction is ended by this scan: 10 s by default, and again only a wait.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
        # 128 MB of heap by default, for a cleaner that has next to nothing to clean here.
        "log.cleaner.dedupe.buffer.size": "8388608",
        "num.network.threads": "2",
        "num.io.threads": "4",
    }
    if shape.security is not None:
        properties["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        properties["super.users"] = "User:ANONYMOUS"
        if node.is_broker:
            properties |= shape.security.broker_properties()
    if not node.is_broker:
        del properties["inter.broker.listener.name"]
    if shape.zookeeper_port is not None:
        properties = _without_kraft(properties, node, shape.zookeeper_port)
    properties |= shape.extra
    return _lines(properties)


def _without_kraft(properties: Mapping[str, str], node: Node, port: int) -> dict[str, str]:
    kept = {key: value for key, value in properties.items() if key not in _KRAFT}
    return kept | {
        "broker.id": str(node.id),
        "listeners": f"{PLAINTEXT}://127.0.0.1:{node.port}",
        "zookeeper.connect": f"127.0.0.1:{port}",
    }


def zookeeper_properties(port: int, data: str) -> str:
    """The properties file of a ZooKeeper of one server."""
    return _lines(
        {
            "clientPort": str(port),
            "clientPortAddress": "127.0.0.1",
            "dataDir": data,
            "admin.enableServer": "false",
            "maxClientCnxns": "0",
        }
    )


def _lines(properties: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def free_ports(count: int) -> list[int]:
    """Free ports of 127.0.0.1, which no other process of the tests or the demo is given while this one runs.

    Below the range from which systems take the local end of outgoing connections: a port from that range could be taken
    while a stopped broker is away. Raises OSError when there are none.
    """
    candidates = random.sample(range(15000, 32000), 2000)
    found = list(islice(filter(_claimed, candidates), count))
    if len(found) < count:
        raise OSError("no free ports between 15000 and 32000")
    return found


def _claimed(port: int) -> bool:
    """Claim a port. Returns False for one that another process claimed or listens on.

    The claim is an abstract socket and not the port, which has to stay free for the process that is to listen there: a
    JVM binds its port seconds after it was chosen, and another test could choose the same one meanwhile.
    """
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0kafka-eos-port-{port}")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        claim.close()
        return False
    claim.detach()  # bound until the process ends
    return True
