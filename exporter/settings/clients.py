"""Settings of brokers' and producers' JVMs, and of what clients hand in themselves."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Annotated

from pydantic import Field, SecretStr, model_validator

from exporter.settings.targets import Discovered, Secret
from exporter.settings.values import Count, Duration, Section, wrong


class Broker(Discovered):
    """The JVM of a broker. ``id`` is its node.id, for one that cannot be known from the JVM or from its host.

    Targets of files may have a label ``id``.
    """

    interval: Duration = 15.0
    id: Annotated[int, Field(ge=0)] | None = None


class Producers(Discovered):
    """A JVM with producers in it; ``cluster`` may be left out when only one is configured."""

    cluster: str = ""
    interval: Duration = 15.0


class Ingest(Section):
    """Statistics that librdkafka's clients hand in at ``/ingest/librdkafka``; off unless ``enabled``.

    A token is required unless the agent listens on loopback only. A client that is silent for ``expire_after`` is
    forgotten.
    """

    enabled: bool = False
    token: Secret = SecretStr("")
    token_file: FilePath | None = None
    expire_after: Duration = 180.0
    clients: Count = 500

    @model_validator(mode="after")
    def _one_token(self) -> Ingest:
        if self.token.get_secret_value() and self.token_file:
            raise wrong("has token and token_file: keep one")
        if self.token_file:
            self.read_token()
        return self

    @property
    def has_token(self) -> bool:
        """Whether clients must show one."""
        return bool(self.token.get_secret_value()) or self.token_file is not None

    def read_token(self) -> str:
        """The token, read anew from its file; "" when there is none to be given."""
        if self.token_file is None:
            return self.token.get_secret_value()
        try:
            word = self.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "is no UTF-8 text"
            raise wrong(f"token_file cannot be read: {why}") from None
        if not word:
            raise wrong("token_file is empty")
        return word
