"""Have Spark download its packages, once for a user: ``python -m tests.e2e.spark.packages``.

Sessions that download the same packages at the same time break each other's files (Ivy's cache has no lock).
"""

from __future__ import annotations

import fcntl
import hashlib
from contextlib import suppress

from exporter.jobs.lakes import LAKES, Lake
from exporter.jobs.session import POSTGRESQL, SessionError, kafka_connector, spark_module, spark_session
from testkit import jars


def all_packages() -> list[str]:
    """Maven coordinates of all that an audit may need, but table formats."""
    return [kafka_connector(), spark_module("spark-avro"), POSTGRESQL]


def released() -> list[type[Lake]]:
    """The table formats that have a release for this Spark."""
    found = []
    for lake in LAKES.values():
        with suppress(SessionError):
            lake.packages("")
            found.append(lake)
    return found


def fetch() -> None:
    """Start a session with all packages, unless that was done before; one process at a time."""
    packages = [*all_packages(), *(package for lake in released() for package in lake.packages(""))]
    folder = jars.cache_root() / "spark-packages"
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / hashlib.sha256(" ".join(packages).encode()).hexdigest()[:12]
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            jars.say("fetching Spark's packages with Ivy (130 MB)")
            with spark_session("packages", master="local[1]", packages=packages):
                done.touch()


if __name__ == "__main__":
    fetch()
