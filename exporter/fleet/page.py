"""The fleet's page: its document as HTML that needs no script and no other host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from exporter.status.html import pieces

MOST_HOLDERS = 100
MOST = {"clusters": 300, "agents": 300, "changes": 100}
"""Entries of the other lists."""

_TEMPLATES = Path(__file__).parent / "templates"


def fleet_page_pieces(fleet: Mapping[str, Any], prefix: str, *, refresh: bool) -> Iterator[bytes]:
    """The page in pieces. ``prefix`` goes before every link to the fleet itself."""
    holders = list(islice(worst_holders(fleet["clusters"]), MOST_HOLDERS))
    return pieces(
        "fleet.html",
        prefix,
        refresh=refresh,
        folder=_TEMPLATES,
        fleet=fleet,
        holders=holders,
        more_holders=sum(len(cluster["holders"]) for cluster in fleet["clusters"]) - len(holders),
        most=MOST,
    )


def worst_holders(clusters: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return each holder with its cluster: those that never end by themselves first, then the longest stalled."""
    found = [(cluster, holder) for cluster in clusters for holder in cluster["holders"]]
    endless = ("hanging", "unmarked")
    return sorted(
        found,
        key=lambda pair: (
            pair[1]["ignored"],
            pair[0]["stale"],
            pair[1]["kind"] not in endless,
            -pair[1]["seconds"],
            pair[0]["name"],
        ),
    )
