"""Health check of a container: whether the agent in it answers on each address that it listens on.

``python -m exporter.standalone.health`` finds the addresses by the listening sockets of process 1, or of its child
where an init is process 1. So it follows the settings, needs neither their file nor a password, and imports the
standard library only. An agent with users answers 401, one with a route prefix 404, and one that wants a client's
certificate ends the handshake: all of them answer. Exit code 0 where each address answers, 1 otherwise.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

SECONDS = 4.0
PATH = "/-/healthy"
ANSWERS = frozenset({200, 401, 404, 429})
_LISTENING = "0A"  # TCP_LISTEN of the kernel's include/net/tcp_states.h


def listening(pid: int, proc: Path = Path("/proc")) -> list[tuple[str, int]]:
    """Return host and port of each TCP socket on which a process listens; none where it may not be looked at."""
    sockets = set(_links(proc / str(pid) / "fd"))
    found: list[tuple[str, int]] = []
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        try:
            rows = (proc / str(pid) / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        found += (
            _address(fields[1], family)
            for fields in (row.split() for row in rows)
            if fields[3] == _LISTENING and f"socket:[{fields[9]}]" in sockets
        )
    return sorted(set(found))


def _links(folder: Path) -> Iterator[str]:
    """Yield what the links of a folder lead to; files are closed meanwhile."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                yield str(path.readlink())


def _address(written: str, family: socket.AddressFamily) -> tuple[str, int]:
    """An address of the kernel's table: words of four bytes in the order of the machine; any address is loopback."""
    host, port = written.split(":")
    words = [int(host[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(host), 8)]
    name = socket.inet_ntop(family, b"".join(words))
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name), int(port, 16)


def answers(host: str, port: int, seconds: float = SECONDS) -> bool:
    """Return whether HTTP is answered there, in plain text or in TLS. The certificate is our own and not checked."""
    try:
        return _status(http.client.HTTPConnection(host, port, timeout=seconds)) in ANSWERS or _answers_tls(
            host, port, seconds
        )
    except http.client.HTTPException:
        return _answers_tls(host, port, seconds)
    except OSError as error:
        return isinstance(error, ConnectionResetError) and _answers_tls(host, port, seconds)


def _answers_tls(host: str, port: int, seconds: float) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = http.client.HTTPSConnection(host, port, timeout=seconds, context=context)
    try:
        connection.connect()
    except ssl.SSLError as error:
        connection.close()
        return "ALERT" in (error.reason or "")  # it refuses this client (TLS 1.2)
    except (OSError, http.client.HTTPException):
        connection.close()
        return False
    try:
        return _status(connection) in ANSWERS
    except (ConnectionError, ssl.SSLError):  # after its handshake, as it had no certificate of this client (TLS 1.3)
        return True
    except (OSError, http.client.HTTPException):
        return False


def _status(connection: http.client.HTTPConnection) -> int:
    try:
        connection.request("GET", PATH, headers={"Host": "localhost"})
        return connection.getresponse().status
    finally:
        connection.close()


def _agents(proc: Path) -> Iterator[int]:
    """Process 1 and its children."""
    yield 1
    for path in proc.iterdir():
        if path.name.isdecimal():
            try:
                parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if parent == "1":
                yield int(path.name)


def main(arguments: list[str]) -> int:
    """Check the process of the first argument, otherwise the one that listens in this container."""
    proc = Path("/proc")
    pids = [int(arguments[0])] if arguments else _agents(proc)
    addresses = next((found for pid in pids if (found := listening(pid, proc))), [])
    if not addresses:
        sys.stderr.write("nothing listens\n")
        return 1
    silent = [f"{host}:{port}" for host, port in addresses if not answers(host, port, SECONDS / len(addresses))]
    if silent:
        sys.stderr.write(f"no answer: {', '.join(silent)}\n")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
