"""Facts that the source of a Connect cluster publishes for the status page and the posture checks."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.connect.rest import Connector
from exporter.model import Fact


@dataclass(frozen=True, slots=True)
class ConnectState(Fact):
    """The connectors of one Connect cluster, as its REST API or its workers' MBeans describe them.

    ``by_rest`` is False where only MBeans were read: then settings and reasons of failures are not known. ``notes`` are
    sentences on signals that are missing because of the configuration, or that a jmx_exporter's rules leave out.
    """

    name: str
    connectors: tuple[Connector, ...]
    by_rest: bool
    notes: tuple[str, ...] = ()
