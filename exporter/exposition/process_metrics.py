"""The agent's own process in ``/metrics``: ``process_*``, ``python_*``, and which build this is."""

from __future__ import annotations

import platform

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest as text
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics

from exporter import __version__
from exporter.catalogue import EXPORTER_BUILD_INFO
from exporter.exposition.revision import revision
from exporter.exposition.text_format import END_OF_OPENMETRICS, Format
from exporter.model import Sample


def build_info() -> Sample:
    """Which build this is."""
    return EXPORTER_BUILD_INFO(1, __version__, revision(), platform.python_version())


class ProcessMetrics:
    """Families of the process, read when called, from a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def __call__(self, fmt: Format) -> bytes:
        """The families as text, without the final ``# EOF`` of OpenMetrics."""
        if fmt is Format.OPENMETRICS:
            body: bytes = openmetrics(self._registry)  # type: ignore[no-untyped-call]  # prometheus_client's
            return body.removesuffix(END_OF_OPENMETRICS)
        return text(self._registry)
