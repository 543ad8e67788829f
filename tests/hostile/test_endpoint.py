"""The endpoint with TLS and users within 256 MB, while all attacks of ``tests.bench.hostile`` go on at once."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.request
from base64 import b64encode
from pathlib import Path

import bcrypt

from demo.certificates import Authority
from tests.bench.hostile import ATTACKS, PASSWORD
from tests.hostile.process import MEMORY_MB, ConfinedAgent

ROOT = Path(__file__).parents[2]
ATTACK_SECONDS = 8


def settings(root: Path) -> Path:
    authority = Authority(root / "tls")
    authority.issue("server")
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (root / "tls" / "web.yml").write_text(
        "tls_server_config: {cert_file: server.pem, key_file: server.key}\n"
        f"basic_auth_users:\n  user0: {hashed}\n  user1: {hashed}\n"
    )
    path = root / "settings.json"
    document = {
        "web": {"listen_address": "127.0.0.1:0", "config_file": str(root / "tls" / "web.yml")},
        "state": {"dir": str(root / "state")},
        "clusters": [{"name": "prod", "kafka": {"bootstrap.servers": "127.0.0.1:1"}}],
    }
    path.write_text(json.dumps(document))
    return path


def page(agent: ConfinedAgent, context: ssl.SSLContext, path: str) -> str:
    credentials = b64encode(f"user0:{PASSWORD}".encode()).decode()
    request = urllib.request.Request(
        f"https://127.0.0.1:{agent.port}{path}", headers={"Authorization": f"Basic {credentials}"}
    )
    with urllib.request.urlopen(request, timeout=60, context=context) as answer:  # noqa: S310 -- our own
        return str(answer.read().decode())


def test_all_attacks_on_the_endpoint_at_once_do_not_end_the_agent_in_256_mb(tmp_path: Path) -> None:
    agent = ConfinedAgent(settings(tmp_path))
    try:
        context = ssl.create_default_context(cafile=tmp_path / "tls" / "ca.pem")
        assert "kafka_eos_exporter_build_info" in page(agent, context, "/metrics")
        words = [sys.executable, "-m", "tests.bench.hostile", "--port", str(agent.port), "--seconds"]
        attacks = [
            subprocess.Popen([*words, str(ATTACK_SECONDS), "--attack", name], cwd=ROOT, stdout=subprocess.PIPE)
            for name in ATTACKS
            if name != "calm"
        ]
        struck = {name: int(process.communicate()[0]) for name, process in zip(list(ATTACKS)[1:], attacks, strict=True)}
        assert all(struck.values()), struck
        assert "kafka_eos_exporter_build_info" in page(agent, context, "/metrics")
        page(agent, context, "/")
        json.loads(page(agent, context, "/api/v1/status"))
        peak = agent.peak_mb
        print(f"{peak:.0f} MB, {struck}")
        assert peak < MEMORY_MB
    finally:
        code = agent.stop()
    assert code == 0, agent.log[-3000:]
    assert "Traceback" not in agent.log
