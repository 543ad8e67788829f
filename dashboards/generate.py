"""All dashboards, and their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from exporter.dashboards import agent, brokers, clients, jobs, overview, stalls, transactions
from exporter.dashboards.board import Dashboard

GENERATED = Path("dashboards") / "generated"
_MODULES = (overview, stalls, transactions, clients, brokers, jobs, agent)


def boards() -> tuple[Dashboard, ...]:
    """Every dashboard, in the order in which one reads them."""
    return tuple(module.board() for module in _MODULES)


def files() -> Mapping[Path, str]:
    """Path in a checkout, and what belongs there. The same bytes from the same code."""
    return {GENERATED / f"{board.uid}.json": board.text() for board in boards()}
