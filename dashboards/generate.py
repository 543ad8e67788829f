"""All dashboards, and their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from exporter.dashboards import (
    agent,
    audit,
    brokers,
    connect,
    lso,
    overview,
    producers,
    slo,
    spark,
    streams,
    transactions,
)
from exporter.dashboards.board import Board
from exporter.dashboards.normalise import text

GENERATED = Path("dashboards") / "generated"
_MODULES = (overview, slo, transactions, lso, brokers, producers, connect, streams, spark, audit, agent)


def boards() -> tuple[Board, ...]:
    """Every dashboard, in the order in which one reads them."""
    return tuple(module.board() for module in _MODULES)


def files() -> Mapping[Path, str]:
    """Path in a checkout, and what belongs there. The same bytes from the same code."""
    return {GENERATED / f"{board.uid}.json": text(board.dashboard()) for board in boards()}
