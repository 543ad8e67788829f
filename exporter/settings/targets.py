"""Settings of targets over HTTP (JVMs by Jolokia or jmx_exporter, Connect's REST API) and from folders (Spark's
event logs and checkpoints, results of audits).
"""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, SecretStr, model_validator

from exporter.bounds.files import warn_of_writers
from exporter.settings.plain import TARGET
from exporter.settings.values import Duration, Lower, Section, local_path, one_or_more, wrong


def _url(value: str) -> str:
    """An address without credentials. A message never repeats the value: it may hold a secret."""
    try:
        parts = urlsplit(value.strip())
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_is_fine = urlsplit(""), False
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port_is_fine:
        raise wrong("must be an address such as http://127.0.0.1:8778/jolokia")
    if "@" in parts.netloc:
        raise wrong("must not hold credentials: set username and password_file beside it")
    if parts.query or parts.fragment:
        raise wrong("must be without ? and #")
    return value.strip().rstrip("/")


Paths = Annotated[tuple[FilePath, ...], BeforeValidator(one_or_more)]
Url = Annotated[str, AfterValidator(_url)]
Urls = Annotated[tuple[Url, ...], BeforeValidator(one_or_more)]
LocalPath = Annotated[FilePath, BeforeValidator(local_path)]
Secret = Annotated[SecretStr, PlainSerializer(lambda secret: "[hidden]" if secret.get_secret_value() else "")]


class AccessSection(Section):
    """Basic authentication, and the authorities that sign the server's certificate."""

    username: str = ""
    """User of basic authentication."""
    password: Secret = SecretStr("")
    """Its password. Better: `password_file`."""
    password_file: FilePath | None = None
    """File with the password, read at every request."""
    ca_file: FilePath | None = None
    """PEM file with the authorities of the server's certificate; unset: those of this host."""

    @model_validator(mode="after")
    def _one_password(self) -> AccessSection:
        if self.password.get_secret_value() and self.password_file:
            raise wrong("has password and password_file: keep one")
        if (self.password.get_secret_value() or self.password_file) and not self.username:
            raise wrong("has a password without username")
        if self.password_file:
            warn_of_writers(self.password_file)
        return self


class JvmSection(AccessSection):
    """A JVM, by its Jolokia agent or by its jmx_exporter."""

    jolokia: Url | None = None
    """Address of the Jolokia agent, such as `http://127.0.0.1:8778/jolokia`; either this or `jmx_exporter`."""
    jmx_exporter: Url | None = None
    """Address of the jmx_exporter, such as `http://127.0.0.1:9404/metrics`."""
    profile: Annotated[Literal["", "jmx_exporter", "confluent", "default"], Lower] = ""
    """Spelling of the jmx_exporter's series: `jmx_exporter`, `confluent` or `default`; unset: detected."""

    @model_validator(mode="after")
    def _one_way(self) -> JvmSection:
        if (self.jolokia is None) == (self.jmx_exporter is None):
            raise wrong("needs either jolokia or jmx_exporter, an address such as http://127.0.0.1:8778/jolokia")
        return self


class DiscoveredSection(JvmSection):
    """A JVM, or with ``file_sd`` every JVM that the files list; the address then contains ``{target}``."""

    file_sd: Paths = ()
    """Files in Prometheus's file_sd form, JSON or YAML, or patterns such as `/etc/eos/*.yml`; each target replaces
    `{target}` in the address.
    """

    @model_validator(mode="after")
    def _pattern_for_files(self) -> DiscoveredSection:
        address = self.jolokia or self.jmx_exporter or ""
        if self.file_sd and TARGET not in address:
            raise wrong(f"has file_sd, so its address needs {TARGET} in it, as in http://{TARGET}/jolokia")
        if not self.file_sd and TARGET in address:
            raise wrong(f"has {TARGET} in its address but no file_sd to take targets from")
        return self


class ConnectSection(AccessSection):
    """A Connect cluster. It needs ``rest``, ``workers`` or both."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
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
    workers: tuple[DiscoveredSection, ...] = ()
    interval: Duration = 10.0
    """How often to read it."""

    @model_validator(mode="after")
    def _some_way(self) -> ConnectSection:
        if not self.rest and not self.workers:
            raise wrong("needs rest, such as [http://127.0.0.1:8083], or workers, or both")
        return self


class StreamsSection(DiscoveredSection):
    """A JVM with Kafka Streams."""

    cluster: str = ""
    """Name of its Kafka cluster; may be omitted when only one is configured."""
    interval: Duration = 10.0
    """How often to read it."""


class SparkSection(Section):
    """A folder that Spark writes: a folder of event logs, or the checkpoint of one query."""

    event_log: LocalPath | None = None
    """Folder of event logs (`spark.eventLog.dir`), local or mounted; either this or `checkpoint`."""
    checkpoint: LocalPath | None = None
    """Checkpoint folder of one query, local or mounted."""
    application: Annotated[str, Field(max_length=200)] = ""
    """Label `spark_application` of a checkpoint's query, where no event gives it."""
    query: Annotated[str, Field(max_length=200)] = ""
    """Label `query` of a checkpoint's query, where no event gives it; unset: the folder's name."""
    cluster: str = ""
    """Name of the Kafka cluster that the queries read; may be omitted when only one is configured."""
    interval: Duration = 10.0
    """How often to read it."""

    @model_validator(mode="after")
    def _one_folder(self) -> SparkSection:
        if (self.event_log is None) == (self.checkpoint is None):
            raise wrong("needs either event_log, such as /var/log/spark-events, or checkpoint, the folder of a query")
        if self.event_log is not None and (self.application or self.query):
            raise wrong("has an event_log, which has the names of applications and queries itself")
        return self


class AuditsSection(Section):
    """Results of audits."""

    path: LocalPath
    """File that `audit --output-dir` writes, or a pattern such as `/data/audits/*.json`."""
