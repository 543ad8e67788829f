"""Facts about clients that push their metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from exporter.model import Fact


class ClientSoftware(NamedTuple):
    """What a client says that it is: ``cluster`` is the one that it uses, ``streams`` says that it is Kafka Streams."""

    cluster: str
    software: str
    version: str
    streams: bool


@dataclass(frozen=True, slots=True)
class PushedSoftware(Fact):
    """The software of all clients that push, and how many clients have it."""

    clients: tuple[tuple[ClientSoftware, int], ...]
