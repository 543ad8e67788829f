"""The agent's own process in ``/metrics``: ``process_*``, ``python_*``, and which build this is."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from exporter import __version__
from exporter.catalogue import EXPORTER_BUILD_INFO
from exporter.core.bare_packages import bare
from exporter.exposition.revision import revision
from exporter.exposition.text_format import Format, number
from exporter.model import Sample

if TYPE_CHECKING:
    from prometheus_client import Metric


def build_info(external_url: str | None = None) -> Sample:
    """Which build this is, and the address of its page, where ``web.external_url`` has one."""
    return EXPORTER_BUILD_INFO(1, __version__, revision(), platform.python_version(), external_url or "")


class ProcessMetrics:
    """Families of the process, read when called, from a registry of its own."""

    def __init__(self) -> None:
        bare("prometheus_client")  # its package imports servers and parsers
        from prometheus_client.gc_collector import GCCollector  # noqa: PLC0415 -- below ``bare``
        from prometheus_client.platform_collector import PlatformCollector  # noqa: PLC0415
        from prometheus_client.process_collector import ProcessCollector  # noqa: PLC0415
        from prometheus_client.registry import CollectorRegistry  # noqa: PLC0415

        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def __call__(self, fmt: Format) -> bytes:
        """The families as text, without the final ``# EOF`` of OpenMetrics."""
        return "".join(_lines(family, fmt) for family in self._registry.collect()).encode()


def _lines(family: Metric, fmt: Format) -> str:
    """A counter has its ``_total`` in the name of its family in the text format only."""
    total = "_total" if family.type == "counter" and fmt is Format.TEXT else ""
    name = f"{family.name}{total}"
    lines = [f"{sample.name}{_labels(sample.labels)} {number(sample.value)}\n" for sample in family.samples]
    return "".join((f"# HELP {name} {family.documentation}\n# TYPE {name} {family.type}\n", *lines))


def _labels(labels: dict[str, str]) -> str:
    """Versions and numbers of Python: nothing in them has to be escaped."""
    inner = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
    return f"{{{inner}}}" if inner else ""
