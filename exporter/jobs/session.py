"""A Spark session with the settings that the jobs need, and a clear message where it cannot be started.

Started by ``kafka-eos-exporter`` itself, Spark's own output (Ivy's resolution, log4j) goes to a file that is quoted
when something fails. Under ``spark-submit`` the session is the submitted one: its master, memory and jars are not
changed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from exporter.jobs.spark_error import error_line
from exporter.model import CommandError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
"""Spark 4 runs on Java 17 and later."""
JAVA_SECONDS = 20.0
STOP_SECONDS = 10.0
POSTGRESQL = "org.postgresql:postgresql:42.7.4"
TRIED_PYSPARK = ("3.5.7", "4.0.0", "4.1.1", "4.2.0")
"""The versions of pyspark that `make spark-versions` tries. Their Kafka connectors resolve, which that of every other
version may not.
"""
EXCLUDED_JARS = ("com.google.code.findbugs:jsr305", "org.scala-lang.modules:scala-parallel-collections_2.13")
"""Transitive jars that the Kafka connector names and does not need here; some mirrors lack them."""
# Names of options whose values Spark must never show: beside its own secret, password, token and access key, Kafka's.
REDACTED = r"(?i)secret|password|passwd|token|credential|access[.]?key|jaas|keystore[.]key|key[.]pem"
LOG_LINES = 15
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC")
_TWO_COLLECTORS = ("Multiple garbage collectors selected", "Conflicting collector combinations")
"""The message of a JVM that is given two collectors, and does not start. One may come from the environment or Spark's
own files.
"""
_LOG4J = Path(__file__).with_name("log4j2.properties")
_UNRESOLVED = re.compile(r"unresolved dependency: ([^:\s]+#[^;\s]+;\S+?)(?::|\s|$)")
_NOT_DOWNLOADED = re.compile(r"download failed: ([^!\s\]]+)!")
"""Ivy's words for a jar that is missing where a repository, mostly that of Maven on this machine, has its POM."""


class SessionError(CommandError):
    """Spark cannot be started or used. The text is what is wrong and what to do."""


def kafka_connector() -> str:
    """Coordinates of Spark's Kafka source for the installed pyspark. Raises SessionError without pyspark."""
    return spark_module("spark-sql-kafka-0-10")


def spark_module(name: str) -> str:
    """Coordinates of a module of Spark, of pyspark's version and Scala. Raises SessionError without pyspark."""
    return f"org.apache.spark:{name}_{_scala_version()}:{pyspark_version()}"


def hadoop_aws() -> str:
    """Coordinates of Hadoop's client of S3, of the Hadoop that Spark has."""
    return f"org.apache.hadoop:hadoop-aws:{_jar_version('hadoop-client-api')}"


def _scala_version() -> str:
    """Scala's binary version of the installed Spark, by its own scala-library jar: 2.12 in pyspark 3.5 of PyPI."""
    return ".".join(_jar_version("scala-library").split(".")[:2])


def _jar_version(name: str) -> str:
    """The version of a jar of the installed Spark."""
    version, spec = pyspark_version(), find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or next(iter((spec and spec.submodule_search_locations) or ()), version)
    jars = sorted(Path(home, "jars").glob(f"{name}-[0-9]*.jar"))
    if not jars:
        raise SessionError(f"{home} has no jars/{name}: it is no Spark; set SPARK_HOME, or unset it")
    return jars[0].stem.removeprefix(f"{name}-")


def settings(packages: Sequence[str] = ()) -> dict[str, str]:
    """The settings of our jobs where the user has none: times are UTC, no web UI, nothing secret in plans or event
    logs.
    """
    chosen = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "kafka-eos-exporter-warehouse"),
        "spark.redaction.regex": REDACTED,
        "spark.sql.redaction.options.regex": f"{REDACTED}|(?i)url",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        # Java's host name may resolve to an address that nothing listens on; a local run needs loopback only.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}",
    }
    if packages:
        chosen["spark.jars.packages"] = ",".join(packages)
        chosen["spark.jars.excludes"] = ",".join(EXCLUDED_JARS)
    return chosen


@contextlib.contextmanager
def spark_session(
    name: str,
    *,
    master: str = "local[*]",
    packages: Sequence[str] = (),
    conf: Mapping[str, str] | None = None,
    java_options: Sequence[str] = (),
) -> Iterator[SparkSession]:
    """A session for one job, stopped at the end; not for use within another one.

    ``packages`` are Maven coordinates; ``conf`` wins over ``settings``, so that ``spark.jars.packages`` in it replaces
    them. ``java_options`` are for the driver's JVM. Output of Spark itself goes into a file. Raises SessionError when
    there is no pyspark, no Java 17, or Spark does not start: mostly for a connector that cannot be resolved.
    """
    check_installed()
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit
        with _submitted(name, conf or {}) as session:
            yield session
        return
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- pyspark is an extra: the rest of the program runs without it

    check_java()
    chosen = settings(packages)
    chosen["spark.driver.extraJavaOptions"] = " ".join((chosen["spark.driver.extraJavaOptions"], *java_options))
    chosen |= conf or {}
    if is_local(master):
        # Python workers are started by this name, and must find what this Python finds.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        # The workers of a cluster must reach the driver by its address, and use their own Python.
        for key in ("spark.driver.host", "spark.driver.bindAddress"):
            if key not in (conf or {}):
                del chosen[key]
    folder = Path(tempfile.mkdtemp(prefix="kafka-eos-spark-"))
    try:
        with (folder / "spark.log").open("w+", encoding="utf-8", errors="replace") as log:
            context = _started(name, master, chosen, log)
            try:
                yield SparkSession(context)
            finally:
                _stop(context)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_installed() -> None:
    """Raises SessionError without the packages of the extra ``spark``."""
    pyspark_version()


def check_java() -> None:
    """Raises SessionError without a Java that Spark 4 runs on."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else "java"
    advice = f"Spark needs Java {OLDEST_JAVA} or later: install it, or set JAVA_HOME"
    try:
        done = subprocess.run(  # noqa: S603 -- the user's own Java
            [program, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        raise SessionError(f"{program} cannot be run. {advice}") from None
    found = java_major(done.stderr + done.stdout)
    if found is None or found < OLDEST_JAVA:
        raise SessionError(f"{program} is version {found or 'unknown'}. {advice}")


def java_major(text: str) -> int | None:
    """The major version in the output of ``java -version``; None where it has none."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def pyspark_version() -> str:
    """The version of the installed pyspark. Raises SessionError without the packages of the extra ``spark``."""
    try:
        found = installed_version("pyspark")
    except PackageNotFoundError:
        found = ""
    if not found or any(find_spec(module) is None for module in ("pyspark", "pyarrow", "pandas")):
        raise SessionError("pyspark is not installed: pip install 'kafka-eos-exporter[spark]'")
    return found


def is_local(master: str) -> bool:
    """Return whether Spark is one process on this machine."""
    return master.partition("[")[0] == "local"


@contextlib.contextmanager
def _submitted(name: str, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    from pyspark import SparkConf  # noqa: PLC0415 -- pyspark is an extra: the rest of the program runs without it
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- as above

    given = SparkConf()
    builder = SparkSession.Builder().appName(name)
    mine = {key: value for key, value in settings().items() if key.startswith(("spark.sql.", "spark.redaction"))}
    for key, value in {**mine, **conf}.items():
        if not given.contains(key):
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def _started(name: str, master: str, chosen: dict[str, str], log: IO[str]) -> SparkContext:
    """As ``_start``, and again without a collector of ours where the JVM was told of another one."""
    try:
        return _start(name, master, chosen, log)
    except SessionError as error:
        options = chosen["spark.driver.extraJavaOptions"]
        if not any(text in str(error) for text in _TWO_COLLECTORS) or not _COLLECTOR.search(options):
            raise
    log.seek(0)
    log.truncate()
    return _start(name, master, chosen | {"spark.driver.extraJavaOptions": _COLLECTOR.sub("", options)}, log)


def _start(name: str, master: str, chosen: Mapping[str, str], log: IO[str]) -> SparkContext:
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 -- as above
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 -- as above

    conf = SparkConf(loadDefaults=False).setAppName(name).setMaster(master).setAll(list(chosen.items()))
    # py4j logs each exception with its traceback; the callers report it in one line.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # Spark's output is not a result of the command: never to standard output.
    try:
        # In a separate session: a Ctrl-C in the terminal is for this process, which ends the workers in good order.
        gateway = launch_gateway(conf, {"stdout": log, "stderr": log, "start_new_session": True})  # type: ignore[no-untyped-call]
        context = SparkContext(conf=conf, gateway=gateway)
    except Exception as error:  # noqa: BLE001 -- py4j raises what Java threw: an unreachable master, a wrong setting
        raise SessionError(_why_not(master, chosen, log, error)) from None
    context.setLogLevel("WARN")
    return context


def _stop(context: SparkContext) -> None:
    """Stop Spark and its JVM, so that nothing of it outlives the job and a next one starts with its own settings."""
    from pyspark import SparkContext  # noqa: PLC0415 -- as above
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- as above

    gateway: Any = context._gateway  # noqa: SLF001 -- pyspark keeps the JVM for the life of the process and has no way to end it
    with contextlib.suppress(Exception):  # the JVM may have ended already
        active = SparkSession.getActiveSession()
        if active is not None:
            active.stop()
    with contextlib.suppress(Exception):
        context.stop()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 -- as above
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    with contextlib.suppress(Exception):
        gateway.shutdown()
    if process is not None:
        if process.stdin is not None:
            process.stdin.close()  # the gateway's JVM ends when this pipe does
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _why_not(master: str, chosen: Mapping[str, str], log: IO[str], error: Exception) -> str:
    log.seek(0)
    said = log.read()
    if missing := sorted(set(_UNRESOLVED.findall(said))):
        return (
            f"Spark could not resolve {_coordinates(missing)} (asked for: {chosen.get('spark.jars.packages', '')})."
            f" If the repository lacks that version: pip install 'pyspark=={TRIED_PYSPARK[-1]}'."
            " Behind a mirror give --conf spark.jars.repositories=URL or --conf spark.jars.ivySettings=FILE;"
            " without a network --conf spark.jars.packages= --conf spark.jars=FILE,FILE with the jars themselves."
        )
    if missing := sorted(set(_NOT_DOWNLOADED.findall(said))):
        return (
            f"Spark could not download the jar of {_coordinates(missing)}: if ~/.m2 or ~/.ivy2 has its POM without the"
            " jar, remove that folder; or give --conf spark.jars.packages= --conf spark.jars=FILE,FILE with the jars."
        )
    lines = [line for line in said.splitlines() if line.strip()][-LOG_LINES:]
    cause = "\n".join(lines) or error_line(error)
    return f"Spark did not start on master {master}:\n{cause}"


def _coordinates(packages: Iterable[str]) -> str:
    """Ivy's names of packages as Maven's."""
    return ", ".join(package.replace("#", ":").replace(";", ":") for package in packages)
