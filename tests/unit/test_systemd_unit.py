"""The systemd unit of the docs: secrets are its own, and the settings in it are settings of the agent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.config import ConfigSource
from testkit.certificates import Authority

UNIT = Path(__file__).parents[2] / "docs" / "examples" / "kafka-eos-exporter.service"
CREDENTIALS = "/run/credentials/kafka-eos-exporter.service"


def test_the_settings_that_it_shows_are_accepted_with_the_secrets_that_systemd_hands_over(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("secrets_server")
    (tmp_path / "secrets_ca.pem").write_bytes(Path(authority.certificate).read_bytes())
    (tmp_path / "secrets_sasl-password").write_text("made-up")
    web = "tls_server_config:\n  cert_file: secrets_server.pem\n  key_file: secrets_server.key\n"
    (tmp_path / "secrets_web.yml").write_text(web)
    lines = re.findall(r"^#   (clusters:|web:|  .*)$", UNIT.read_text(), re.MULTILINE)
    path = tmp_path / "config.yml"
    path.write_text("\n".join(lines).replace(CREDENTIALS, str(tmp_path)))
    config = ConfigSource(path, {}, serving=True).load()
    assert dict(config.clusters[0].kafka.items())["security.protocol"] == "SASL_SSL"
    assert config.web.config_file == tmp_path / "secrets_web.yml"


@pytest.mark.parametrize("line", ["LoadCredential=secrets:/etc/kafka-eos-exporter/secrets", "UMask=0077"])
def test_secrets_and_state_are_readable_by_the_service_alone(line: str) -> None:
    assert line in UNIT.read_text().splitlines()
