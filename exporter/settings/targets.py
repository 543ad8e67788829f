"""Settings of targets over HTTP (JVMs by Jolokia or jmx_exporter, Connect's REST API), from folders (Spark's event logs
and checkpoints, results of audits), and of what clients post.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from exporter.bounds.files import read_regular, warn_of_writers
from exporter.http_client import Endpoint
from exporter.jvm.answers import AgentKind, JvmTarget
from exporter.settings.reading import Contradiction
from exporter.settings.values import LOWER, Count, Duration, LocalPath, Name, Paths, Secret, Size, Url, Urls, text

TARGET = "{target}"
"""Placeholder in an address; each target of the files of `file_sd` replaces it."""
MOST_TOKEN_BYTES = 64 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """Basic authentication, and the authorities that sign the server's certificate."""

    username: str = ""
    """User of basic authentication."""
    password: Secret = field(default="", repr=False)
    """Its password. Better: `password_file`."""
    password_file: Path | None = None
    """File with the password, read at every request."""
    ca_file: Path | None = None
    """PEM file with the authorities of the server's certificate; unset: those of this host."""

    def contradictions(self) -> Iterator[Contradiction]:
        if self.password and self.password_file:
            yield (), "has password and password_file: keep one"
        if (self.password or self.password_file) and not self.username:
            yield (), "has a password without username"
        if self.password_file:
            warn_of_writers(self.password_file)

    def endpoint(self, url: str) -> Endpoint:
        """Return the endpoint at ``url``."""
        return Endpoint(url, self.username, self.password, self.password_file, self.ca_file)


@dataclass(frozen=True, kw_only=True, slots=True)
class Jvm(Access):
    """A JVM, by its Jolokia agent or by its jmx_exporter."""

    jolokia: Url | None = None
    """Address of the Jolokia agent, such as `http://127.0.0.1:8778/jolokia`; either this or `jmx_exporter`."""
    jmx_exporter: Url | None = None
    """Address of the jmx_exporter, such as `http://127.0.0.1:9404/metrics`."""
    profile: Annotated[Literal["", "jmx_exporter", "confluent", "default"], LOWER] = ""
    """Spelling of the jmx_exporter's series: `jmx_exporter`, `confluent` or `default`; unset: detected."""

    def contradictions(self) -> Iterator[Contradiction]:
        yield from Access.contradictions(self)
        if (self.jolokia is None) == (self.jmx_exporter is None):
            yield (), "needs either jolokia or jmx_exporter, an address such as http://127.0.0.1:8778/jolokia"

    def target(self) -> JvmTarget:
        """Return what is asked, and how."""
        if self.jolokia is not None:
            return JvmTarget(AgentKind.JOLOKIA, self.endpoint(self.jolokia))
        return JvmTarget(AgentKind.JMX_EXPORTER, self.endpoint(self.jmx_exporter or ""), self.profile)


@dataclass(frozen=True, kw_only=True, slots=True)
class Discovered(Jvm):
    """A JVM, or with ``file_sd`` every JVM that the files list; the address then contains ``{target}``."""

    file_sd: Paths = ()
    """Files in Prometheus's file_sd form, JSON or YAML, or patterns such as `/etc/eos/*.yml`; each target replaces
    `{target}` in the address.
    """

    def contradictions(self) -> Iterator[Contradiction]:
        yield from Jvm.contradictions(self)
        address = self.jolokia or self.jmx_exporter or ""
        if self.file_sd and TARGET not in address:
            yield (), f"has file_sd, so its address needs {TARGET} in it, as in http://{TARGET}/jolokia"
        if not self.file_sd and TARGET in address:
            yield (), f"has {TARGET} in its address but no file_sd to take targets from"


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokerJvm(Discovered):
    """The JVM of a broker. Targets in files may have a label ``id``."""

    interval: Duration = 15.0
    """How often to read it."""
    id: Count | None = None
    """The broker's `node.id`, where neither the JVM nor its host name gives it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Producers(Discovered):
    """A JVM with Java producers."""

    cluster: str = ""
    """Name of the producers' cluster; may be omitted when only one is configured."""
    interval: Duration = 15.0
    """How often to read it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Connect(Access):
    """A Connect cluster. It needs ``rest``, ``workers`` or both."""

    name: Annotated[str, text(1)]
    """Value of the labels `connect` and `target`."""
    cluster: str = ""
    """Name of its Kafka cluster; may be omitted when only one is configured."""
    group_id: str = ""
    """The workers' `group.id`, which joins tasks with their transactions."""
    rest: Urls = ()
    """Addresses of the REST API, such as `http://127.0.0.1:8083`. One address that answers is enough."""
    validate_plugins: bool = True
    """Ask each worker of `rest` whether it enables exactly-once, and whether the source plugins support it, by
    `PUT /connector-plugins/…/config/validate` with no setting but the class; it changes nothing.
    """
    workers: tuple[Discovered, ...] = ()
    interval: Duration = 10.0
    """How often to read it."""

    def contradictions(self) -> Iterator[Contradiction]:
        yield from Access.contradictions(self)
        if not self.rest and not self.workers:
            yield (), "needs rest, such as [http://127.0.0.1:8083], or workers, or both"


@dataclass(frozen=True, kw_only=True, slots=True)
class Streams(Discovered):
    """A JVM with Kafka Streams."""

    cluster: str = ""
    """Name of its Kafka cluster; may be omitted when only one is configured."""
    interval: Duration = 10.0
    """How often to read it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spark:
    """A folder that Spark writes: a folder of event logs, or the checkpoint of one query."""

    event_log: LocalPath | None = None
    """Folder of event logs (`spark.eventLog.dir`), local or mounted; either this or `checkpoint`."""
    checkpoint: LocalPath | None = None
    """Checkpoint folder of one query, local or mounted."""
    application: Name = ""
    """Label `spark_application` of a checkpoint's query, where no event gives it."""
    query: Name = ""
    """Label `query` of a checkpoint's query, where no event gives it; unset: the folder's name."""
    cluster: str = ""
    """Name of the Kafka cluster that the queries read; may be omitted when only one is configured."""
    interval: Duration = 10.0
    """How often to read it."""

    def contradictions(self) -> Iterator[Contradiction]:
        if (self.event_log is None) == (self.checkpoint is None):
            yield (), "needs either event_log, such as /var/log/spark-events, or checkpoint, the folder of a query"
        if self.event_log is not None and (self.application or self.query):
            yield (), "has an event_log, which has the names of applications and queries itself"


@dataclass(frozen=True, kw_only=True, slots=True)
class Audits:
    """Results of audits."""

    path: LocalPath
    """File that `audit --output-dir` writes, or a pattern such as `/data/audits/*.json`."""


class Engines(NamedTuple):
    """The settings of the engines on one cluster."""

    connect: tuple[Connect, ...] = ()
    spark: tuple[Spark, ...] = ()
    audits: tuple[Audits, ...] = ()

    @property
    def connect_groups(self) -> tuple[str, ...]:
        """The group ids by which their tasks' transactional ids are known."""
        return tuple(connect.group_id for connect in self.connect if connect.group_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ingest:
    """Data that librdkafka clients, Spark drivers and audits post to the paths below ``/ingest``, and telemetry that
    clients push to ``/v1/metrics``.
    """

    enabled: bool = False
    """Whether the agent accepts posted data."""
    token: Secret = field(default="", repr=False)
    """Bearer token that clients send; required unless the agent listens on loopback only. Better: `token_file`."""
    token_file: Path | None = None
    """File with the token, read at every request."""
    expire_after: Duration = 180.0
    """The agent drops the series of a librdkafka client that has sent nothing for this long."""
    clients: Count = 500
    """Largest number of clients; the agent refuses and counts further ones. Of audits, a further one replaces the
    one that was silent longest.
    """
    memory: Size = 64 * 1024**2
    """Limit of the estimated memory of all posted data. Above it the agent drops and counts the oldest data."""

    def contradictions(self) -> Iterator[Contradiction]:
        if self.token and self.token_file:
            yield (), "has token and token_file: keep one"
        if self.token_file:
            try:
                read_token(self.token_file)
                warn_of_writers(self.token_file)
            except ValueError as error:
                yield (), str(error)

    @property
    def has_token(self) -> bool:
        """Return whether clients must show one."""
        return bool(self.token) or self.token_file is not None

    def read_token(self) -> str:
        """Return the token, read again from its file; "" when none is required. Raises ValueError."""
        return self.token if self.token_file is None else read_token(self.token_file)


def read_token(file: Path) -> str:
    """Return the bearer token in a file. Raises ValueError with the end of a sentence about the settings."""
    try:
        token = read_regular(file, MOST_TOKEN_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is no UTF-8 text"
        raise ValueError(f"token_file cannot be read: {why}") from None
    if not token:
        raise ValueError("token_file is empty")
    return token
