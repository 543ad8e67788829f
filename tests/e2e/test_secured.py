"""Every authentication of a secured broker: what is read by each, the reason of each refusal, and rotation."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from exporter import catalogue
from testkit.access import READ_ALL
from testkit.agent import COMMAND, AgentProcess, Metrics
from testkit.certificates import LIFE
from testkit.processes import ProcessGroup
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.conftest import EnterContext, StartAgent
from tests.e2e.secured import POOR, ROTATED, USER, Refusal, SecuredBroker, Settings, refusals, secured_house
from tests.helpers.schemas import conform

SOURCES = {"lso", "transactions", "txnlog", "groups", "posture"}
COMMAND_SECONDS = 240
WAIT_SECONDS = 240
PASSPHRASE = "PLANTED-passphrase"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_house(tmp_path_factory.mktemp("secured")) as found:
        found.kafka.create_topic("orders")
        with RdkafkaProducer(found.kafka, "first-1") as producer:
            producer.init()
            producer.run(1, "orders")
        yield found


@dataclass
class CommandResult:
    """A command that has ended."""

    code: int
    out: str
    err: str


def run(*arguments: str) -> CommandResult:
    done = subprocess.run(
        [str(COMMAND), *arguments],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return CommandResult(done.returncode, done.stdout, done.stderr)


def ups(metrics: Metrics, cluster: str) -> dict[str, float]:
    found = metrics.samples(catalogue.SOURCE_UP, kafka_cluster=cluster) or metrics.samples(
        catalogue.SOURCE_UP, target=cluster
    )
    return {sample.labels["source"]: sample.value for sample in found}


def all_up(metrics: Metrics, cluster: str) -> bool:
    return ups(metrics, cluster) == dict.fromkeys(SOURCES, 1.0)


# --- In ---


def ways_in(house: SecuredBroker) -> dict[str, Settings]:
    """Each mechanism and each form of secrets and certificates once."""
    shown = house.authority.issue(USER, password=PASSPHRASE)
    secret = house.folder / "jaas"
    secret.write_text(
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{USER}" password="{house.sasl("PLAIN")["sasl.password"]}";'
    )
    jaas = house.sasl("SCRAM-SHA-512")
    del jaas["sasl.username"], jaas["sasl.password"]
    trusted = house.folder / "trusted.jks"
    trusted.write_bytes(house.authority.trust_store(PASSPHRASE))
    return {
        "scram": jaas | {"sasl.jaas.config.file": str(secret)},
        "plain": house.sasl("PLAIN"),
        "oauth": house.oauth(),
        "mtls": house.mtls(shown) | {"ssl.key.password": PASSPHRASE},
        "stores": {
            "bootstrap.servers": house.tls()["bootstrap.servers"],
            "security.protocol": "SSL",
            "ssl.keystore.location": house.authority.issue_pkcs12(USER, PASSPHRASE),
            "ssl.keystore.password": PASSPHRASE,
            "ssl.truststore.location": str(trusted),
            "ssl.truststore.password": PASSPHRASE,
        },
    }


def test_the_five_grants_are_enough_by_every_way_in(
    house: SecuredBroker, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    iam, environment = house.iam()
    ways = ways_in(house) | {"iam": iam}
    agent = start_agent("--config", str(house.write("ways.yml", ways)), environment=environment)
    agent.wait_until(lambda seen: all(all_up(seen, way) for way in ways), timeout=WAIT_SECONDS)
    name = fresh("pay")
    zombie = keep(RdkafkaProducer(house.kafka, name))
    zombie.init()
    zombie.run(2, "orders")
    zombie.begin()
    zombie.send("orders")
    zombie.flush()
    keep(RdkafkaProducer(house.kafka, name)).init()

    def counted(seen: Metrics, way: str) -> bool:
        outcomes = {
            outcome: seen.value(catalogue.TRANSACTIONS_TOTAL, kafka_cluster=way, application=name, outcome=outcome)
            for outcome in ("committed", "fenced")
        }
        return outcomes == {"committed": 2, "fenced": 1}

    # Six clusters share one broker: an answer of it may be late on a busy machine.
    agent.wait_until(lambda seen: all(counted(seen, way) and all_up(seen, way) for way in ways), timeout=WAIT_SECONDS)


@pytest.mark.proof
def test_each_missing_grant_of_a_certificates_owner_is_named(house: SecuredBroker) -> None:
    access = house.kafka.access
    access.allow_all_reads(POOR)
    access.allow(POOR, "DESCRIBE", "Topic", "*")  # else a topic without READ would not be seen at all
    config = str(house.write("poor.yml", {POOR: house.mtls(house.authority.issue(POOR))}))
    assert run("check", "connection", "--config", config).code == 0
    for operation, resource, name in READ_ALL:
        access.revoke(POOR, operation, resource, name)
        done = run("check", "connection", "--config", config)
        access.allow(POOR, operation, resource, name)
        assert done.code == 1, done
        assert f"grant {operation} on {resource}" in done.out


# --- Refused ---


@dataclass
class RefusedAgent:
    """An agent with one cluster for each way to be refused, and all that it and the commands ever said."""

    cases: dict[str, Refusal]
    agent: AgentProcess
    config: Path


@pytest.fixture(scope="module")
def troubled(house: SecuredBroker) -> Iterator[RefusedAgent]:
    cases = refusals(house)
    clusters = {name: case.settings for name, case in cases.items()}
    clusters |= {"good": house.sasl("PLAIN"), "token": house.oauth()}
    config = house.write("refused.yml", clusters, log={"level": "debug"})
    with ProcessGroup(house.folder) as processes, AgentProcess(processes, "--config", str(config)) as agent:
        yield RefusedAgent(cases, agent, config)


def test_every_refusal_is_distinguished_by_the_agent_while_the_others_go_on(troubled: RefusedAgent) -> None:
    cases, agent = troubled.cases, troubled.agent

    def told(seen: Metrics) -> bool:
        counted = {
            sample.labels["target"]
            for name, case in cases.items()
            for sample in seen.samples(catalogue.SOURCE_FAULTS_TOTAL, target=name, reason=case.reason)
            if sample.value
        }
        return counted == cases.keys() and all_up(seen, "good")

    metrics = agent.wait_until(told, timeout=WAIT_SECONDS)
    faults = {
        cluster["name"]: [fault["detail"] for one in cluster["sources"] for fault in one["faults"]]
        for cluster in agent.status()["clusters"]
    }
    for name, case in cases.items():
        assert set(ups(metrics, name).values()) == {0.0}, name
        assert any(case.says in detail for detail in faults[name]), (name, faults[name])
        assert case.says in agent.log.replace('\\"', '"'), name


def test_every_refusal_is_distinguished_before_the_agent_is_started(troubled: RefusedAgent) -> None:
    done = run("check", "connection", "--config", str(troubled.config), "--output", "json")
    assert done.code == 2, done
    errors = {
        cluster["kafka_cluster"]: cluster["error"]
        for cluster in conform("check-connection", json.loads(done.out))["clusters"]
    }
    assert (errors.pop("good"), errors.pop("token")) == (None, None)
    for name, case in troubled.cases.items():
        assert case.says in errors[name], name


def test_an_encrypted_key_without_its_password_is_refused_and_nobody_is_asked_for_it(house: SecuredBroker) -> None:
    shown = house.authority.issue("locked", password=PASSPHRASE)
    done = run("check", "connection", "--config", str(house.write("locked.yml", {"locked": house.mtls(shown)})))
    assert done.code == 2
    assert "the key is encrypted: set ssl.key.password or ssl.key.password.file" in done.err


# --- Secrets ---


def test_no_secret_shows_anywhere(house: SecuredBroker, troubled: RefusedAgent) -> None:
    agent, config = troubled.agent, str(troubled.config)
    agent.wait_until(lambda seen: all_up(seen, "good") and all_up(seen, "token"), timeout=WAIT_SECONDS)
    ways = ways_in(house)
    every = str(house.write("every.yml", ways | {name: case.settings for name, case in troubled.cases.items()}))
    typo = str(house.write("typo.yml", {"typo": ways["plain"] | {"sasl.mecanism": "PLAIN"}}))
    said = [
        run("run", "--config", every, "--print-config"),
        run("check", "config", every),
        run("check", "config", typo),
        run("check", "connection", "--config", config, "--cluster.name", "good"),
        run("transactions", "--config", config),
    ]
    assert [done.code for done in said] == [0, 0, 1, 0, 2], said
    pages = [agent.get(path).text for path in ("/", "/metrics", "/api/v1/status")]
    pages.append(agent.get("/-/reload", method="POST").text)
    command_line = Path(f"/proc/{agent.child.pid}/cmdline").read_text()
    texts = [agent.log, *pages, command_line, *(done.out + done.err for done in said)]
    for secret in planted(house):
        for text in texts:
            assert secret not in text


def planted(house: SecuredBroker) -> list[str]:
    """Every password, client secret and token, and the first line of every private key."""
    security = house.kafka.security
    assert security is not None
    assert house.provider.issued
    keys = (path.read_text().splitlines()[1] for path in house.folder.rglob("*.key"))
    clients = (house.provider.clients[USER], "PLANTED-")
    return [*security.users.values(), *clients, *house.provider.issued, *house.stranger.issued, *keys]


# --- Rotated ---


@pytest.mark.proof
def test_a_password_that_was_changed_in_its_file_is_used_from_then_on(
    house: SecuredBroker, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    settings = house.sasl("SCRAM-SHA-512", ROTATED)
    first = settings.pop("sasl.password")
    _change_password(house, first)
    file = house.folder / "password"
    file.write_text(first)
    config = house.write("password.yml", {ROTATED: settings | {"sasl.password.file": str(file)}})
    agent = start_agent("--config", str(config))
    agent.wait_until(lambda seen: all_up(seen, ROTATED), timeout=WAIT_SECONDS)
    _change_password(house, "PLANTED-new")
    agent.wait_until(lambda seen: set(ups(seen, ROTATED).values()) == {0.0}, timeout=WAIT_SECONDS)
    assert f"check sasl.username and sasl.password.file {file}" in agent.log
    file.write_text("PLANTED-new\n")
    _recovers(house, agent, ROTATED, keep, fresh)


def _change_password(house: SecuredBroker, password: str) -> None:
    how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    admin = house.kafka.admin()
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(ROTATED, how, password.encode())])[ROTATED].result(
        30
    )


def test_certificates_that_were_replaced_are_used_from_then_on(
    house: SecuredBroker, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    shown = house.authority.issue(USER)
    agent = start_agent("--config", str(house.write("replaced.yml", {"mtls": house.mtls(shown)})))
    agent.wait_until(lambda seen: all_up(seen, "mtls"), timeout=WAIT_SECONDS)
    house.authority.issue(USER, life=-LIFE / 2)
    agent.wait_until(lambda _: "on with the replaced secrets or certificates" in agent.log, timeout=WAIT_SECONDS)
    for broker in house.kafka.brokers:  # whatever was connected with the old one is not any more
        broker.kill()
        broker.start()
    house.kafka.wait_ready()
    agent.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, source="lso") == 0, timeout=WAIT_SECONDS)
    agent.wait_until(lambda _: f"renew ssl.certificate.location {shown.certificate}" in agent.log, timeout=WAIT_SECONDS)
    house.authority.issue(USER)
    _recovers(house, agent, "mtls", keep, fresh)


@pytest.mark.proof
def test_a_broker_whose_certificate_expired_is_read_again_once_it_reloads_a_new_one(
    house: SecuredBroker, start_agent: StartAgent, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    shown = house.authority.issue(USER)
    agent = start_agent("--config", str(house.write("server.yml", {"mtls": house.mtls(shown)})))
    agent.wait_until(lambda seen: all_up(seen, "mtls"), timeout=WAIT_SECONDS)
    store = house.authority.issue("server", life=-LIFE / 2).store
    for broker in house.kafka.brokers:
        broker.kill()
        broker.start()
    house.kafka.wait_ready()
    agent.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, source="lso") == 0, timeout=WAIT_SECONDS)
    agent.wait_until(lambda _: "its certificate has expired" in agent.log, timeout=WAIT_SECONDS)
    house.authority.issue("server")
    for broker in house.kafka.brokers:
        _reload_store(house, broker.node.id, store)
    _recovers(house, agent, "mtls", keep, fresh)


def _reload_store(house: SecuredBroker, broker: int, store: str) -> None:
    """Let the broker read its key store again (KIP-226)."""
    entry = ConfigEntry(
        "listener.name.mtls.ssl.keystore.location",
        store,
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker), incremental_configs=[entry])
    admin = house.kafka.admin()
    admin.incremental_alter_configs([resource])[resource].result(30)


def _recovers(
    house: SecuredBroker, agent: AgentProcess, cluster: str, keep: EnterContext, fresh: Callable[[str], str]
) -> None:
    """All sources answer again, and the tail reads on: what happens now is counted, and what was before once."""
    agent.wait_until(lambda seen: all_up(seen, cluster), timeout=WAIT_SECONDS)
    name = fresh("after")
    producer = keep(RdkafkaProducer(house.kafka, name))
    producer.init()
    producer.run(2, "orders")
    agent.wait_until(
        lambda seen: seen.value(catalogue.TRANSACTIONS_TOTAL, application=name, outcome="committed") == 2,
        timeout=WAIT_SECONDS,
    )
