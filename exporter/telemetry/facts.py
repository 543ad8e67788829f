"""Clients that push their metrics: values that other rooms take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from exporter.model import Fact


class ClientPlace(NamedTuple):
    """Where a client runs, as it or its broker said with its last push; "" where it is not known."""

    client_id: str
    address: str
    principal: str
    software: str


@dataclass(frozen=True, slots=True)
class PushedProducers(Fact):
    """Transactional producers that push, by cluster and transactional.id; several where instances share an id."""

    by_id: Mapping[tuple[str, str], tuple[ClientPlace, ...]]
