"""A server on loopback that speaks S3 and stores in a folder: S3Proxy."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

from exporter.model import Deadline
from testkit import jars
from testkit.processes import Child, ProcessGroup, java, poll
from testkit.settings import free_ports

START_SECONDS = 120.0
HEAP_MB = 128


class S3Server:
    """One server with one bucket, in a group of processes that stops it."""

    def __init__(self, processes: ProcessGroup, folder: Path, bucket: str = "lake") -> None:
        self.bucket = bucket
        self._key, self._secret = secrets.token_hex(8), secrets.token_hex(16)
        [self._port] = free_ports(1)
        (folder / "objects" / bucket).mkdir(parents=True)
        settings = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": self._key,
            "s3proxy.credential": self._secret,
            "jclouds.provider": "filesystem",
            "jclouds.filesystem.basedir": str(folder / "objects"),
        }
        file = folder / "s3proxy.properties"
        file.touch(mode=0o600)
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        quiet = folder / "s3proxy-log"
        quiet.mkdir()
        (quiet / "logback.xml").write_text('<configuration><root level="WARN"/></configuration>')
        command = java(HEAP_MB, jars.s3proxy(), "org.gaul.s3proxy.Main", "--properties", str(file), classes=quiet)
        self._wait(processes.start("s3proxy", command))

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def conf(self) -> dict[str, str]:
        """Spark's settings for ``s3a://`` URLs."""
        client = "spark.hadoop.fs.s3a"
        return {
            f"{client}.endpoint": self.endpoint,
            f"{client}.endpoint.region": "us-east-1",
            f"{client}.path.style.access": "true",
            f"{client}.access.key": self._key,
            f"{client}.secret.key": self._secret,
            f"{client}.connection.ssl.enabled": "false",
        }

    def _wait(self, child: Child) -> None:
        until = Deadline.after(START_SECONDS)
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
            except OSError:
                if not child.running or not poll(until):
                    raise RuntimeError(f"S3Proxy did not start:\n{child.tail()}") from None
            else:
                return
