"""The web-config file while the agent runs: renewed, broken for a moment, emptied."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest

from exporter.settings.layers import ConfigError
from exporter.web_server.config_file import WebFile
from testkit.certificates import Authority

ANN = bcrypt.hashpw(b"right", b"$2b$04$......................").decode()
TLS = "tls_server_config: {cert_file: server.pem, key_file: server.key}\n"
USERS = f"basic_auth_users: {{ann: {ANN}}}\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Authority(tmp_path).issue("server")
    path = tmp_path / "web.yml"
    path.write_text(TLS + USERS)
    return path


@pytest.fixture
def file(path: Path) -> Iterator[WebFile]:
    file = WebFile(path)
    yield file
    file.close()


def test_without_a_file_everybody_is_served_and_nothing_is_looked_after() -> None:
    file = WebFile(None)
    before = threading.active_count()
    file.start()
    assert (file.config.tls, dict(file.config.users), file.reread()) == (None, {}, [])
    assert threading.active_count() == before


def test_a_bad_file_at_the_start_is_an_error_with_every_problem(tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text("basic_auth_users: {ann: x, bob: y}")
    with pytest.raises(ConfigError) as caught:
        WebFile(tmp_path / "web.yml")
    assert len(caught.value.problems) == 2


def test_new_users_are_in_force_after_rereading(file: WebFile, path: Path) -> None:
    assert not file.changed()
    path.write_text(TLS + USERS.replace("ann", "carol"))
    assert file.changed()
    assert file.reread() == []
    assert list(file.config.users) == ["carol"]
    assert not file.changed()


def test_a_renewed_certificate_is_a_change_of_the_file(file: WebFile, path: Path) -> None:
    before = file.config.tls
    Authority(path.parent).issue("server")
    assert file.changed()
    assert file.reread() == []
    assert file.config.tls is not before


def test_a_secret_that_kubernetes_replaces_behind_a_link_is_a_change(tmp_path: Path) -> None:
    for version in ("one", "two"):
        Authority(tmp_path / version).issue("server")
        (tmp_path / version / "web.yml").write_text(TLS)
    (tmp_path / "data").symlink_to("one")
    file = WebFile(tmp_path / "data" / "web.yml")
    (tmp_path / "new").symlink_to("two")
    (tmp_path / "new").replace(tmp_path / "data")
    assert file.changed()
    assert file.reread() == []


@pytest.mark.parametrize("half", ["certificate", "key"])
def test_half_a_renewal_changes_nothing_until_the_other_half_comes(file: WebFile, path: Path, half: str) -> None:
    before = file.config
    Authority(path.parent / "new").issue("server")
    names = ("server.pem", "server.key") if half == "certificate" else ("server.key", "server.pem")
    shutil.copy(path.parent / "new" / names[0], path.parent / names[0])
    assert file.changed()
    assert "key_file holds the key of another certificate" in "".join(file.reread())
    assert file.config is before
    assert not file.changed()
    shutil.copy(path.parent / "new" / names[1], path.parent / names[1])
    assert file.changed()
    assert file.reread() == []
    assert file.config is not before


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "TLS is switched off by a restart only"),
        (TLS, "users are switched off by a restart only"),
        (USERS, "TLS is switched off by a restart only"),
        (TLS + "basic_auth_users: {ann: secret-word}", "is no bcrypt hash"),
        (TLS + USERS[:-3], "expected"),
        ("\x00", "characters that YAML does not allow"),
    ],
)
def test_a_file_that_would_open_the_door_or_is_bad_leaves_the_old_in_force(
    file: WebFile, path: Path, caplog: pytest.LogCaptureFixture, text: str, told: str
) -> None:
    before = file.config
    path.write_text(text)
    assert told in "".join(file.reread())
    assert file.config is before
    [record] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert told in record.getMessage()
    assert "secret-word" not in record.getMessage()
    assert ANN not in record.getMessage()


def test_a_file_that_goes_away_and_comes_back_is_reread(file: WebFile, path: Path) -> None:
    path.rename(path.with_suffix(".away"))
    assert file.changed()
    assert "cannot be read" in "".join(file.reread())
    assert file.config.users
    assert not file.changed()
    path.with_suffix(".away").rename(path)
    assert file.changed()


def test_a_change_is_found_by_itself(file: WebFile, path: Path) -> None:
    file.start()
    fresh = path.with_suffix(".new")
    fresh.write_text(TLS + USERS.replace("ann", "carol"))
    fresh.replace(path)
    while "carol" not in file.config.users:  # the test's own time limit ends this
        threading.Event().wait(0.02)
