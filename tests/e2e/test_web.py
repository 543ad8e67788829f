"""The agent's endpoint as it is deployed: TLS and a user, scraped by a real Prometheus; and nothing secret anywhere."""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.model import Deadline
from testkit.agent import COMMAND, AgentProcess
from testkit.certificates import Authority
from testkit.processes import ProcessGroup, poll
from testkit.settings import free_ports

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "web.yml"
USER, PASSWORD = "prometheus", "change-me"
NOBODY_THERE = "127.0.0.1:1"
WAIT_SECONDS = 180.0
CALL_SECONDS = 30.0


@pytest.fixture
def processes() -> Iterator[ProcessGroup]:
    folder = Path(tempfile.mkdtemp(prefix="kafka-eos-web-"))
    try:
        with ProcessGroup(folder) as processes:
            yield processes
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def authority(processes: ProcessGroup) -> Authority:
    return Authority(processes.logs / "tls")


@pytest.fixture
def web_file(authority: Authority) -> Path:
    """The example of the docs, with the files that it names."""
    renew(authority)
    return Path(shutil.copy(EXAMPLE, authority.folder))


def renew(authority: Authority) -> None:
    issued = authority.issue("server")
    shutil.copy(issued.certificate, authority.folder / "tls.crt")
    shutil.copy(issued.key, authority.folder / "tls.key")


def ask(
    agent: AgentProcess, authority: Authority, path: str, password: str = PASSWORD, method: str = "GET"
) -> tuple[int, bytes]:
    context = ssl.create_default_context(cafile=authority.certificate)
    connection = http.client.HTTPSConnection("127.0.0.1", agent.port, timeout=CALL_SECONDS, context=context)
    credentials = base64.b64encode(f"{USER}:{password}".encode()).decode()
    try:
        connection.request(method, path, headers={"Authorization": f"Basic {credentials}"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def wait_until_ready(agent: AgentProcess, authority: Authority) -> None:
    until = Deadline.after(WAIT_SECONDS)
    while True:
        try:
            if ask(agent, authority, "/-/ready")[0] == 200:
                return
        except ConnectionError:
            pass
        assert agent.child.running, agent.log
        assert poll(until, 0.1), agent.log


def served_certificate(agent: AgentProcess, authority: Authority) -> bytes | None:
    context = ssl.create_default_context(cafile=authority.certificate)
    with (
        socket.create_connection(("127.0.0.1", agent.port), timeout=CALL_SECONDS) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as secure,
    ):
        return secure.getpeercert(binary_form=True)


class PrometheusProcess:
    """A real one, with these jobs."""

    def __init__(self, processes: ProcessGroup, jobs: list[dict[str, Any]]) -> None:
        self._port = free_ports(1)[0]
        folder = processes.logs / "prometheus"
        folder.mkdir()
        settings = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": jobs}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
        processes.start(
            "prometheus",
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
        )

    def query(self, expression: str) -> dict[str, float]:
        """The value by job; nothing while it does not answer."""
        data = self._get("query?" + urllib.parse.urlencode({"query": expression}))
        return {row["metric"].get("job", ""): float(row["value"][1]) for row in data.get("result", ())}

    def wait(self, expression: str, expected: dict[str, float]) -> None:
        until = Deadline.after(WAIT_SECONDS)
        while (found := self.query(expression)) != expected:
            assert poll(until, 0.2), f"{expression} is {found}; {self.errors()}"

    def errors(self) -> dict[str, str]:
        """The last error of each job's scrape."""
        targets = self._get("targets").get("activeTargets", ())
        return {target["labels"]["job"]: target["lastError"] for target in targets}

    def _get(self, path: str) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=CALL_SECONDS)
        try:
            connection.request("GET", f"/api/v1/{path}")
            data: dict[str, Any] = json.loads(connection.getresponse().read()).get("data", {})
            return data
        except (ConnectionError, ValueError):
            return {}
        finally:
            connection.close()


def test_promtool_accepts_the_example_and_a_prometheus_scrapes_by_it_while_it_is_renewed(
    processes: ProcessGroup, authority: Authority, web_file: Path
) -> None:
    checked = subprocess.run(
        ["promtool", "check", "web-config", str(web_file)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    agent = AgentProcess(processes, "--bootstrap-server", NOBODY_THERE, "--web.config.file", str(web_file))
    wait_until_ready(agent, authority)

    def job(name: str, **login: str) -> dict[str, Any]:
        return {
            "job_name": name,
            "scheme": "https",
            "tls_config": {"ca_file": authority.certificate},
            "static_configs": [{"targets": [f"127.0.0.1:{agent.port}"]}],
            **({"basic_auth": {"username": USER, **login}} if login else {}),
        }

    prometheus = PrometheusProcess(
        processes, [job("known", password=PASSWORD), job("wrong", password="guess"), job("nobody")]
    )
    prometheus.wait("up", {"known": 1, "wrong": 0, "nobody": 0})
    prometheus.wait("kafka_eos_exporter_build_info", {"known": 1})
    until = Deadline.after(WAIT_SECONDS)
    while not all("401" in prometheus.errors().get(name, "") for name in ("wrong", "nobody")):
        assert poll(until, 0.2), prometheus.errors()

    before = served_certificate(agent, authority)
    renew(authority)
    until = Deadline.after(WAIT_SECONDS)
    while served_certificate(agent, authority) == before:
        assert poll(until, 0.2), agent.log
    prometheus.wait(f'timestamp(up{{job="known"}} == 1) > bool {time.time()}', {"known": 1})

    web_file.write_text("")
    until = Deadline.after(WAIT_SECONDS)
    while "switched off by a restart only" not in agent.log:
        assert poll(until, 0.2), agent.log
    assert ask(agent, authority, "/metrics", password="guess")[0] == 401
    status, told = ask(agent, authority, "/-/reload", method="POST")
    assert status == 400
    assert b"TLS is switched off by a restart only" in told


SECRETS = {
    "sasl.password": "sekret-sasl",
    "ssl.key.password": "sekret-key",
    "token": "sekret-token",
    "jolokia": "sekret-jolokia",
    "user": PASSWORD,
}


def test_no_secret_is_in_logs_pages_metrics_printed_settings_or_the_process_list(
    processes: ProcessGroup, authority: Authority, web_file: Path
) -> None:
    settings = processes.logs / "agent.yml"
    settings.write_text(
        yaml.safe_dump(
            {
                "log": {"level": "debug", "format": "json"},
                "web": {"config_file": str(web_file)},
                "ingest": {"enabled": "true", "token": SECRETS["token"]},
                "clusters": [
                    {
                        "name": "prod",
                        "kafka": {
                            "bootstrap.servers": NOBODY_THERE,
                            "security.protocol": "SASL_SSL",
                            "sasl.mechanism": "SCRAM-SHA-512",
                            "sasl.username": "eos",
                            "sasl.password": SECRETS["sasl.password"],
                        },
                    }
                ],
                "producers": [
                    {"jolokia": "http://127.0.0.1:1/jolokia", "username": "eos", "password": SECRETS["jolokia"]}
                ],
            }
        )
    )
    agent = AgentProcess(processes, "--config", str(settings))
    wait_until_ready(agent, authority)
    pages = [ask(agent, authority, path)[1] for path in ("/", "/metrics", "/api/v1/status", "/runbooks", "/nothing")]
    assert ask(agent, authority, "/", password="sekret-guess")[0] == 401
    settings.write_text(
        settings.read_text().replace("sekret-sasl", "sekret-renewed").replace("bootstrap", "bootstraps")
    )
    status, refused = ask(agent, authority, "/-/reload", method="POST")
    assert status == 400
    pages.append(refused)
    settings.write_text(settings.read_text().replace("bootstraps", "bootstrap"))
    printed = subprocess.run(
        [str(COMMAND), "run", "--config", str(settings), "--print-config"], capture_output=True, check=True
    )
    process = Path(f"/proc/{agent.child.pid}/cmdline").read_bytes()
    log = agent.log
    told = b"\n".join((*pages, printed.stdout, printed.stderr, process, log.encode())).decode()
    key = (authority.folder / "tls.key").read_text().splitlines()[1]
    hashed = web_file.read_text().partition(f"{USER}: $")[2].split()[0]
    login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    for secret in (*SECRETS.values(), "sekret", key, hashed, login):
        assert secret not in told
    levels = {json.loads(line)["level"] for line in log.splitlines()}
    assert {"debug", "info", "warning"} <= levels
