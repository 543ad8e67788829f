"""The fleet's endpoint: routes, users and TLS as the agent's."""

from __future__ import annotations

import base64
import ssl
import urllib.error
from pathlib import Path

import bcrypt
import pytest

from demo.certificates import Authority
from tests.helpers.fleet_agents import StandInAgents, body, cluster, status
from tests.helpers.fleet_process import fleet_process, within

WEB = """\
tls_server_config: {{cert_file: server.pem, key_file: server.key}}
basic_auth_users: {{me: {hash}}}
"""


def test_users_and_tls_protect_all_but_health_and_agents_are_asked_with_a_password(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("server")
    (tmp_path / "web.yml").write_text(WEB.format(hash=bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()))
    (tmp_path / "password").write_text("of agents\n")
    context = ssl.create_default_context(cafile=authority.certificate)
    mine = f"Basic {base64.b64encode(b'me:right').decode()}"
    with StandInAgents([body(status(cluster()))]) as server:
        (tmp_path / "agents").write_text(server.urls[0])
        flags = ("--agents", str(tmp_path / "agents"), "--web.config.file", str(tmp_path / "web.yml"))
        asking = ("--username", "fleet", "--password-file", str(tmp_path / "password"), "--web.route-prefix", "/eos")
        with fleet_process(*flags, *asking) as fleet:

            def get(path: str, authorization: str = mine) -> bytes:
                return fleet.get(path, scheme="https", context=context, authorization=authorization)

            within(30, lambda: b"All fine" in get("/eos/"))
            assert b'"name": "prod"' in get("/eos/api/v1/fleet")
            assert b'kafka_eos_fleet_cluster_state{kafka_cluster="prod",state="good"} 1' in get("/eos/metrics")
            assert get("/eos/-/ready") == b"Ready.\n"
            for path in ("/eos/", "/eos/api/v1/fleet", "/eos/metrics"):
                for wrong in ("", "Basic bWU6d3Jvbmc="):
                    with pytest.raises(urllib.error.HTTPError, match="401"):
                        get(path, wrong)
            for path in ("/eos/api/v1/status", "/eos/runbooks", "/eos/-/reload"):
                with pytest.raises(urllib.error.HTTPError, match="404"):
                    get(path)
        sent = base64.b64encode(b"fleet:of agents").decode()
        assert all(f"Authorization: Basic {sent}" in request for request in server.requests)
