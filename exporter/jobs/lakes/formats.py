"""The formats by name."""

from __future__ import annotations

from exporter.jobs.lakes.delta import DeltaLake
from exporter.jobs.lakes.iceberg import IcebergLake
from exporter.jobs.lakes.lake import Lake

LAKES: dict[str, type[Lake]] = {"iceberg": IcebergLake, "delta": DeltaLake}
