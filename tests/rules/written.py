"""The generated files of the alerts: a process writes them once, as that takes a second, and reads the rules once."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import yaml

from exporter.alerts.files import generated

written = cache(generated)


def written_rules() -> dict[str, Any]:
    """The rules as Prometheus reads them; a copy that may be changed."""
    return deepcopy(_read())


@cache
def _read() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(written()["alerts/generated/rules.yaml"])
    return read
