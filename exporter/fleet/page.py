"""The fleet's page: its document as HTML that needs no script and no other host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from exporter.status.page import PARTS_OF_A_PIECE, STYLE, environment
from exporter.web_server.messages import encoded

REFRESH_SECONDS = 10
MOST_CLUSTERS = 300
MOST_HOLDERS = 100
MOST_AGENTS = 300
MOST_CHANGES = 100

_TEMPLATES = Path(__file__).parent / "templates"


def fleet_page_pieces(fleet: Mapping[str, Any], prefix: str, *, refresh: bool) -> Iterator[bytes]:
    """The page in pieces. ``prefix`` goes before every link to the fleet itself."""
    holders = list(islice(worst_holders(fleet["clusters"]), MOST_HOLDERS))
    stream = (
        environment(_TEMPLATES)
        .get_template("fleet.html")
        .stream(
            fleet=fleet,
            holders=holders,
            more_holders=sum(len(cluster["holders"]) for cluster in fleet["clusters"]) - len(holders),
            prefix=prefix,
            style=STYLE,
            refresh=REFRESH_SECONDS if refresh else 0,
            most_clusters=MOST_CLUSTERS,
            most_agents=MOST_AGENTS,
            most_changes=MOST_CHANGES,
        )
    )
    stream.enable_buffering(PARTS_OF_A_PIECE)
    return map(encoded, stream)


def worst_holders(clusters: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return each holder with its cluster: those that never end by themselves first, then the longest stalled."""
    found = [(cluster, holder) for cluster in clusters for holder in cluster["holders"]]
    endless = ("hanging", "unmarked")
    return sorted(
        found,
        key=lambda each: (
            each[1]["ignored"],
            each[0]["stale"],
            each[1]["kind"] not in endless,
            -each[1]["seconds"],
            each[0]["name"],
        ),
    )
