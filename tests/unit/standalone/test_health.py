"""The health check of a container: it finds where the agent listens, and follows port, TLS, users and prefix."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.exposition.render import Exposition
from exporter.standalone.health import answers, listening
from exporter.status.app import App
from exporter.web_server.authentication import Guard
from exporter.web_server.config_file import WebFile
from exporter.web_server.server import Server
from testkit.certificates import Authority

TLS = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
VERIFY = "  client_ca_file: ca.pem\n  client_auth_type: RequireAndVerifyClientCert\n"
USERS = "basic_auth_users:\n  prometheus: $2b$04$13w8ewU9piEb/VKqigTmzOXI1haPqhY0CBtrDouCKR9j2tDDhfIL6\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    authority.issue("server")
    return authority


@contextmanager
def serving(folder: Path, text: str, prefix: str = "", host: str = "127.0.0.1") -> Iterator[int]:
    path = folder / "web.yml"
    path.write_text(text)
    file = WebFile(path)
    app = App(Exposition(), dict, lambda: True, list, prefix, guard=Guard(lambda: file.config))
    server = Server([(host, 0)], app, lambda: file.config.tls)
    server.open()
    try:
        yield server.ports[0]
    finally:
        server.close()


@pytest.mark.parametrize(
    ("text", "prefix"),
    [("", ""), (USERS, ""), ("", "/eos"), (TLS, ""), (TLS + USERS, "/eos"), (TLS + VERIFY, "")],
    ids=["plain", "users", "prefix", "tls", "tls, users and prefix", "client certificates"],
)
def test_an_agent_that_serves_is_healthy_whatever_its_settings_are(
    authority: Authority, text: str, prefix: str
) -> None:
    with serving(authority.folder, text, prefix) as port:
        assert ("127.0.0.1", port) in listening(os.getpid())
        assert answers("127.0.0.1", port)
    assert ("127.0.0.1", port) not in listening(os.getpid())
    assert not answers("127.0.0.1", port)


def test_an_address_of_ipv6_and_one_of_all_are_found(authority: Authority) -> None:
    with serving(authority.folder, "", host="::1") as port:
        assert ("::1", port) in listening(os.getpid())
        assert answers("::1", port)
    with serving(authority.folder, "", host="0.0.0.0") as port:
        assert ("127.0.0.1", port) in listening(os.getpid())


@pytest.mark.parametrize("reply", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"])
def test_a_process_that_listens_and_does_not_serve_is_not_healthy(reply: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not answers("127.0.0.1", port, 0.2)  # connected by the kernel, and nothing answers

        def reply_to_all() -> None:
            try:
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.sendall(reply)
            except OSError:
                return

        thread = threading.Thread(target=reply_to_all, daemon=True)
        thread.start()
        assert not answers("127.0.0.1", port)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def test_the_command_needs_the_standard_library_only_and_tells_by_its_exit_code(authority: Authority) -> None:
    command = [sys.executable, "-m", "exporter.standalone.health"]
    with serving(authority.folder, USERS):
        done = subprocess.run([*command, str(os.getpid())], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    none = subprocess.run([*command, "2147483647"], capture_output=True, text=True, timeout=60, check=False)
    assert (none.returncode, none.stderr) == (1, "nothing listens\n")
    code = (
        "import sys, exporter.standalone.health;"
        "print({each.split('.')[0] for each in sys.modules} - sys.stdlib_module_names - {'__main__'})"
    )
    loaded = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert loaded.stdout.strip() == "{'exporter'}"
