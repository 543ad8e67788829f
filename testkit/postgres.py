"""A real PostgreSQL on loopback: what a sink of a topic is, for the audit and its tests.

Debian's server packages, with data, port and socket folder of its own. PostgreSQL refuses to run as root, so root lends
the account ``postgres`` to it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from exporter.model import Deadline
from testkit.processes import Child, ProcessGroup, poll
from testkit.settings import free_ports

START_SECONDS = 60.0
STOP_SECONDS = 10.0
SQL_SECONDS = 60.0
USER = "postgres"
_FOLDERS = Path("/usr/lib/postgresql")
_INSTALL = Path(__file__).parents[1] / "scripts" / "apt-install"


class PostgresError(RuntimeError):
    """PostgreSQL is not there, did not start, or refused a statement; the text says which and why."""


class Postgres:
    """A server in a temporary folder, as a context manager."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """``settings`` are those of postgresql.conf, such as ``wal_level``."""
        self._settings = dict(settings or {})
        self._bin = _programs()
        # A socket's path may not have more than 107 bytes: a folder at the top of the temporary ones.
        self.folder = Path(tempfile.mkdtemp(prefix="kafka-eos-pg-"))
        self._group = ProcessGroup(self.folder)
        (self.port,) = free_ports(1)
        self._child: Child | None = None

    @property
    def jdbc_url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def start(self, deadline: Deadline | None = None) -> Self:
        """Make the data, start the server, wait until it answers. Cleans up after itself when that fails."""
        until = deadline or Deadline.after(START_SECONDS)
        try:
            self._child = self._started(until)
            self._wait_ready(self._child, until)
        except BaseException:
            self.close()
            raise
        return self

    def _started(self, deadline: Deadline) -> Child:
        data = self.folder / "data"
        self.folder.chmod(0o755)
        data.mkdir(mode=0o700)
        if os.getuid() == 0:
            account = pwd.getpwnam(USER)
            os.chown(data, account.pw_uid, account.pw_gid)
        made = self._run(["initdb", "-D", str(data), "-U", USER, "--auth=trust", "--no-sync"], deadline)
        if made.returncode:
            raise PostgresError(f"initdb failed: {made.stderr.strip()}")
        # Nothing here has to survive a power cut.
        given = {"fsync": "off", "full_page_writes": "off", **self._settings}
        quick = [word for name, value in given.items() for word in ("-c", f"{name}={value}")]
        address = ["-p", str(self.port), "-k", str(data), "-c", "listen_addresses=127.0.0.1"]
        return self._group.start("postgres", self._argv(["postgres", "-D", str(data), *address, *quick]))

    def _wait_ready(self, child: Child, deadline: Deadline) -> None:
        while self._run(["pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)], deadline).returncode:
            if not child.running or not poll(deadline, 0.1):
                raise PostgresError(f"PostgreSQL did not start:\n{child.tail()}")

    def execute(self, sql: str) -> str:
        """Run statements with psql; gives what they print, one row a line, columns divided by ``|``."""
        argv = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-AtqX", "-v", "ON_ERROR_STOP=1"]
        done = self._run(argv, Deadline.after(SQL_SECONDS), sql)
        if done.returncode:
            raise PostgresError(done.stderr.strip())
        return done.stdout.strip()

    def debezium(self, prefix: str, table: str) -> dict[str, object]:
        """Return the settings of Debezium's connector for a table; ``prefix`` is that of its topics."""
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": 1,
            "database.hostname": "127.0.0.1",
            "database.port": self.port,
            "database.user": "postgres",
            "database.password": "none",
            "database.dbname": "postgres",
            "plugin.name": "pgoutput",
            "topic.prefix": prefix,
            "table.include.list": f"public.{table}",
        }

    def close(self) -> None:
        self._group.close(Deadline.after(STOP_SECONDS))
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _argv(self, command: Sequence[str]) -> list[str]:
        program = [str(self._bin / command[0]), *command[1:]]
        if os.getuid() != 0:
            return program
        # setpriv becomes the server: its pid is the one that is stopped.
        return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *program]

    def _run(self, command: Sequence[str], deadline: Deadline, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._argv(command),
            input=text,
            capture_output=True,
            text=True,
            timeout=max(1.0, deadline.remaining()),
            check=False,
            cwd=self.folder,
        )


def _programs() -> Path:
    """The folder of the newest server's programs, installed first where there is none."""
    if not list(_FOLDERS.glob("*/bin/initdb")):
        check = f"ls {_FOLDERS}/*/bin/initdb"
        done = subprocess.run(
            [str(_INSTALL), check, "postgresql", "postgresql-client"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise PostgresError(f"PostgreSQL is not installed: {done.stderr.strip()}")
    return max(_FOLDERS.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3])).parent
