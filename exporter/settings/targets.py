"""Settings of what is asked over HTTP, JVMs by Jolokia or jmx_exporter and Connect's REST API, and of what is read from
folders: Spark's logs and checkpoints, results of audits.
"""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, SecretStr, model_validator

from exporter.http import Endpoint
from exporter.jvm.reader import JvmTarget, Way
from exporter.settings.values import Duration, Lower, Section, local_path, one_or_more, wrong


def _url(value: str) -> str:
    """An address without credentials. What is wrong with one is said without repeating it: it may hold a secret."""
    try:
        parts = urlsplit(value.strip())
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_is_fine = urlsplit(""), False
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port_is_fine:
        raise wrong("must be an address such as http://127.0.0.1:8778/jolokia")
    if parts.username or parts.password:
        raise wrong("must not hold credentials: set username and password_file beside it")
    if parts.query or parts.fragment:
        raise wrong("must be without ? and #")
    return value.strip().rstrip("/")


TARGET = "{target}"
"""Stands in an address for each target of the files."""

Paths = Annotated[tuple[FilePath, ...], BeforeValidator(one_or_more)]
Url = Annotated[str, AfterValidator(_url)]
Urls = Annotated[tuple[Url, ...], BeforeValidator(one_or_more)]
LocalPath = Annotated[FilePath, BeforeValidator(local_path)]
Secret = Annotated[SecretStr, PlainSerializer(lambda secret: "[hidden]" if secret.get_secret_value() else "")]


class Access(Section):
    """How to come in: basic authentication, and the authorities that sign the other side's certificate."""

    username: str = ""
    password: Secret = SecretStr("")
    password_file: FilePath | None = None
    ca_file: FilePath | None = None

    @model_validator(mode="after")
    def _one_password(self) -> Access:
        if self.password.get_secret_value() and self.password_file:
            raise wrong("has password and password_file: keep one")
        if (self.password.get_secret_value() or self.password_file) and not self.username:
            raise wrong("has a password without username")
        return self

    def endpoint(self, url: str) -> Endpoint:
        return Endpoint(url, self.username, self.password.get_secret_value(), self.password_file, self.ca_file)


class Jvm(Access):
    """A JVM, by its Jolokia agent or by its jmx_exporter; ``profile`` names the spelling of the latter's series."""

    jolokia: Url | None = None
    jmx_exporter: Url | None = None
    profile: Annotated[Literal["", "jmx_exporter", "confluent", "default"], Lower] = ""

    @model_validator(mode="after")
    def _one_way(self) -> Jvm:
        if (self.jolokia is None) == (self.jmx_exporter is None):
            raise wrong("needs either jolokia or jmx_exporter, an address such as http://127.0.0.1:8778/jolokia")
        return self

    def target(self) -> JvmTarget:
        if self.jolokia is not None:
            return JvmTarget(Way.JOLOKIA, self.endpoint(self.jolokia))
        return JvmTarget(Way.JMX_EXPORTER, self.endpoint(self.jmx_exporter or ""), self.profile)


class Discovered(Jvm):
    """A JVM, or as many as the files of ``file_sd`` list: then the address is a pattern with ``{target}`` in it.

    The files are in Prometheus's file_sd form, JSON or YAML, and may be named by a pattern such as ``/etc/eos/*.yml``.
    """

    file_sd: Paths = ()

    @model_validator(mode="after")
    def _pattern_for_files(self) -> Discovered:
        address = self.jolokia or self.jmx_exporter or ""
        if self.file_sd and TARGET not in address:
            raise wrong(f"has file_sd, so its address needs {TARGET} in it, as in http://{TARGET}/jolokia")
        if not self.file_sd and TARGET in address:
            raise wrong(f"has {TARGET} in its address but no file_sd to take targets from")
        return self


class Connect(Access):
    """A Connect cluster. ``rest`` are addresses of its workers, of which one that answers is enough; ``cluster`` may be
    left out when only one is configured.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    cluster: str = ""
    group_id: str = ""
    rest: Urls = ()
    workers: tuple[Discovered, ...] = ()
    interval: Duration = 10.0

    @model_validator(mode="after")
    def _some_way(self) -> Connect:
        if not self.rest and not self.workers:
            raise wrong("needs rest, such as [http://127.0.0.1:8083], or workers, or both")
        return self


class Streams(Discovered):
    """A JVM with Kafka Streams in it; ``cluster`` may be left out when only one is configured."""

    cluster: str = ""
    interval: Duration = 10.0


class Spark(Section):
    """A folder that Spark writes: a folder of event logs, or the checkpoint of one query.

    ``application`` and ``query`` name a checkpoint's query on the metrics where no event does; ``query`` is by itself
    the folder's name. ``cluster`` is the one that the queries read; it may be left out when only one is configured.
    """

    event_log: LocalPath | None = None
    checkpoint: LocalPath | None = None
    application: Annotated[str, Field(max_length=200)] = ""
    query: Annotated[str, Field(max_length=200)] = ""
    cluster: str = ""
    interval: Duration = 10.0

    @model_validator(mode="after")
    def _one_folder(self) -> Spark:
        if (self.event_log is None) == (self.checkpoint is None):
            raise wrong("needs either event_log, such as /var/log/spark-events, or checkpoint, the folder of a query")
        if self.event_log is not None and (self.application or self.query):
            raise wrong("has an event_log, which tells the names of applications and queries itself")
        return self


class Audits(Section):
    """Results that ``audit --output-dir`` writes: a file, or a pattern such as ``/data/audits/*.json``."""

    path: LocalPath
