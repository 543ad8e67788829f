"""Kafka's jars from Maven, and our one Java program compiled against them, in a cache that clean clones share.

``${XDG_CACHE_HOME:-~/.cache}/kafka-eos-exporter/jars/VERSION-HASH`` where HASH is of ``jars/pom.xml``; classes likewise
by the hash of their source. A folder appears there by one rename once it is whole, so an interrupted download leaves
nothing behind that looks ready, and preparing again is instant.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

DEFAULT_VERSION = "4.3.1"
JMX_EXPORTER = "1.0.1"
POM = Path(__file__).parent / "jars" / "pom.xml"
AGENTS_POM = POM.with_name("agents.xml")
DEBEZIUM = "3.1.3.Final"
DEBEZIUM_POM = POM.with_name("debezium.xml")
FLINK = "2.0.0"
FLINK_POM = POM.with_name("flink.xml")
ICEBERG = "1.11.0"
ICEBERG_POM = POM.with_name("iceberg.xml")
S3PROXY = "2.7.0"
S3PROXY_POM = POM.with_name("s3proxy.xml")
FLINK_SOURCE = Path(__file__).parent / "java" / "FlinkJob.java"
TELEMETRY = Path(__file__).parents[1] / "telemetry"
JAVA_SOURCE = Path(__file__).parent / "java" / "TransactionalClient.java"

Progress = Callable[[str], None]


class JarsError(RuntimeError):
    """The jars or classes cannot be prepared; the text says what is missing and how to get it."""


def say(text: str) -> None:
    """Progress for people: one line on standard error."""
    print(text, file=sys.stderr, flush=True)


def cache_root() -> Path:
    """Per user and outside of any clone."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "kafka-eos-exporter"


def require(command: str, package: str) -> str:
    """The path of a command. Raises JarsError that names the Debian package which has it."""
    found = shutil.which(command)
    if found is None:
        raise JarsError(f"{command} is not installed: install it with `apt-get install {package}`")
    return found


def library(version: str = DEFAULT_VERSION, progress: Progress = say) -> Path:
    """The folder that holds all jars of this Kafka version; downloads them if they are not there yet."""
    require("java", "openjdk-17-jre-headless")
    what = f"fetching the jars of Kafka {version} with Maven (about 130 MB the first time)"
    return _fetched(version, POM, {"kafka.version": version}, what, progress)


def agents(jmx_exporter: str = JMX_EXPORTER, progress: Progress = say) -> Path:
    """The folder that holds the JVM agents of Jolokia and of this version of the jmx_exporter; ``jvm_agents`` has how
    to use them.
    """
    what = "fetching Jolokia and the jmx_exporter with Maven (4 MB)"
    return _fetched(f"agents-{jmx_exporter}", AGENTS_POM, {"jmx_exporter.version": jmx_exporter}, what, progress)


def flink(version: str = FLINK, progress: Progress = say) -> Path:
    """The folder that holds the jars of this Flink version with its Kafka connector."""
    require("java", "openjdk-17-jre-headless")
    what = f"fetching the jars of Flink {version} with Maven (about 80 MB the first time)"
    return _fetched(f"flink-{version}", FLINK_POM, {"flink.version": version}, what, progress)


def s3proxy(version: str = S3PROXY, progress: Progress = say) -> Path:
    """The folder that holds the jars of S3Proxy."""
    what = f"fetching the jars of S3Proxy {version} with Maven (40 MB)"
    return _fetched(f"s3proxy-{version}", S3PROXY_POM, {"s3proxy.version": version}, what, progress)


def debezium(version: str = DEBEZIUM, progress: Progress = say) -> Path:
    """A folder for ``plugin.path``: Debezium's PostgreSQL connector with all its jars."""
    what = f"fetching Debezium {version} with Maven (5 MB)"
    properties = {"debezium.version": version}
    return _fetched(f"debezium-{version}", DEBEZIUM_POM, properties, what, progress, goal="unpack-dependencies")


def iceberg(version: str = ICEBERG, progress: Progress = say) -> Path:
    """A folder for ``plugin.path``: Iceberg's sink connector with all that it needs for a catalog in a folder."""
    what = f"fetching Iceberg's sink connector {version} with Maven (80 MB)"
    return _fetched(f"iceberg-{version}", ICEBERG_POM, {"iceberg.version": version}, what, progress)


def _fetched(
    name: str,
    pom: Path,
    properties: Mapping[str, str],
    what: str,
    progress: Progress,
    goal: str = "copy-dependencies",
) -> Path:
    """The folder of this name and these dependencies; they are downloaded, after ``what``, if it is not there yet."""
    target = cache_root() / "jars" / f"{name}-{_digest(pom.read_bytes())}"
    with _prepared(target) as staging:
        if staging is not None:
            progress(what)
            _download(pom, properties, staging, progress, goal)
    return target


def telemetry(progress: Progress = say) -> Path:
    """The jar of our receiver of client telemetry for brokers, built by Maven as ``make telemetry`` does."""
    sources = sorted(path for path in TELEMETRY.rglob("*") if path.suffix in {".java", ".xml"})
    target = cache_root() / "telemetry" / _digest(b"".join(path.read_bytes() for path in sources))
    with _prepared(target) as staging:
        if staging is not None:
            progress("building the receiver of client telemetry with Maven")
            with tempfile.TemporaryDirectory(prefix="kafka-eos-telemetry-") as folder:
                copy = shutil.copytree(TELEMETRY, Path(folder) / TELEMETRY.name)
                command = [require("mvn", "maven"), "--batch-mode", "-Dstyle.color=never", f"--file={copy}", "package"]
                run = subprocess.run(command, capture_output=True, text=True, check=False)
                if run.returncode != 0:
                    raise JarsError(f"Maven could not build {TELEMETRY.name}:\n{run.stdout[-3000:]}")
                shutil.copy(Path(folder) / "build" / "telemetry" / "kafka-eos-telemetry.jar", staging)
    return target / "kafka-eos-telemetry.jar"


def flink_classes(version: str = FLINK, progress: Progress = say) -> Path:
    """The folder that holds our Flink job compiled against this Flink version."""
    target = f"flink-{version}-{_digest(FLINK_POM.read_bytes() + FLINK_SOURCE.read_bytes())}"
    return _compiled(target, flink(version, progress), FLINK_SOURCE, progress)


def classes(version: str = DEFAULT_VERSION, progress: Progress = say, source: Path = JAVA_SOURCE) -> Path:
    """The folder that holds a Java program of ours compiled against this Kafka version."""
    target = f"{version}-{_digest(POM.read_bytes() + source.read_bytes())}"
    return _compiled(target, library(version, progress), source, progress)


def _compiled(name: str, lib: Path, source: Path, progress: Progress) -> Path:
    target = cache_root() / "classes" / name
    with _prepared(target) as staging:
        if staging is not None:
            progress(f"compiling {source.name} for {name.rpartition('-')[0]}")
            compiler = require("javac", "openjdk-17-jdk-headless")
            options = ["-Xlint:all,-processing,-classfile,-path", "-cp", str(lib / "*"), "-d", str(staging)]
            command = [compiler, *options, str(source)]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode != 0:
                raise JarsError(f"javac failed:\n{run.stdout}{run.stderr}")
    return target


@contextmanager
def _prepared(target: Path) -> Iterator[Path | None]:
    """Give a staging folder to fill when ``target`` is missing, else None; rename it into place when filled.

    Under a lock between processes, so that test runs that start together download once.
    """
    if target.is_dir():
        yield None
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.is_dir():
            yield None
            return
        staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            yield staging
            staging.chmod(0o755)
            staging.rename(target)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise


def _download(pom: Path, versions: Mapping[str, str], staging: Path, progress: Progress, goal: str) -> None:
    # Maven notes beside the POM what it unpacked: a copy keeps that out of the sources.
    with tempfile.TemporaryDirectory(prefix="kafka-eos-pom-") as folder:
        _run_maven(shutil.copy(pom, folder), versions, staging, progress, goal)


def _run_maven(pom: str, versions: Mapping[str, str], staging: Path, progress: Progress, goal: str) -> None:
    maven = require("mvn", "maven")
    command = [
        maven,
        "--batch-mode",
        f"--file={pom}",
        *(f"-D{name}={version}" for name, version in versions.items()),
        f"-DoutputDirectory={staging}",
        "-Dstyle.color=never",
        f"dependency:{goal}",
    ]
    began = last = time.monotonic()
    output: list[str] = []
    copied = downloaded = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        try:
            for line in run.stdout or ():
                output.append(line)
                downloaded += bool(re.search(r"Downloaded from .*\.jar", line))
                copied += "Copying " in line
                if time.monotonic() - last >= 2:
                    last = time.monotonic()
                    progress(f"  {downloaded} jars downloaded, {copied} in place, {last - began:.0f} s")
        except BaseException:
            run.kill()
            raise
    if run.returncode != 0:
        raise JarsError(f"Maven could not fetch what {Path(pom).name} lists:\n{''.join(output[-25:])}")
    jars = list(staging.rglob("*.jar"))
    size = sum(jar.stat().st_size for jar in jars) / 1e6
    progress(f"  {len(jars)} jars, {size:.0f} MB, {time.monotonic() - began:.0f} s")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m testkit.jars", description="Fetch the jars of a Kafka version.")
    parser.add_argument("version", nargs="*", default=[DEFAULT_VERSION])
    try:
        for version in parser.parse_args().version:
            print(library(version))
    except JarsError as error:
        say(str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
