"""Settings of the JVMs of brokers and producers, and of the statistics that clients post."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Annotated

from pydantic import Field, SecretStr, model_validator

from exporter.bounds.files import warn_of_writers
from exporter.settings.targets import DiscoveredSection, Secret
from exporter.settings.token_file import read_token
from exporter.settings.values import Count, Duration, Section, Size, wrong


class BrokerSection(DiscoveredSection):
    """The JVM of a broker. Targets in files may have a label ``id``."""

    interval: Duration = 15.0
    """How often to read it."""
    id: Annotated[int, Field(ge=0)] | None = None
    """The broker's `node.id`, where neither the JVM nor its host name gives it."""


class ProducersSection(DiscoveredSection):
    """A JVM with Java producers."""

    cluster: str = ""
    """Name of the producers' cluster; may be omitted when only one is configured."""
    interval: Duration = 15.0
    """How often to read it."""


class IngestSection(Section):
    """Data that librdkafka clients, Spark drivers and audits post to the paths below ``/ingest``, and telemetry that
    clients push to ``/v1/metrics``.
    """

    enabled: bool = False
    """Whether the agent accepts posted data."""
    token: Secret = SecretStr("")
    """Bearer token that clients send; required unless the agent listens on loopback only. Better: `token_file`."""
    token_file: FilePath | None = None
    """File with the token, read at every request."""
    expire_after: Duration = 180.0
    """The agent drops the series of a librdkafka client that has sent nothing for this long."""
    clients: Count = 500
    """Largest number of clients; the agent refuses and counts further ones. Of audits, a further one replaces the
    one that was silent longest.
    """
    memory: Size = 64 * 1024**2
    """Limit of the estimated memory of all posted data. Above it the agent drops and counts the oldest data."""

    @model_validator(mode="after")
    def _one_token(self) -> IngestSection:
        if self.token.get_secret_value() and self.token_file:
            raise wrong("has token and token_file: keep one")
        if self.token_file:
            try:
                read_token(self.token_file)
                warn_of_writers(self.token_file)
            except ValueError as error:
                raise wrong(str(error)) from None
        return self
