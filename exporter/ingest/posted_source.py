"""The base of the sources of posted data: they send no request, and hold no resources."""

from __future__ import annotations

from collections.abc import Callable

INTERVAL = 2.0


class PostedSource:
    """Base of the sources ``ingest``. ``only_cluster`` names the cluster of clients that give none: the only one, "" if
    several.
    """

    name = "ingest"
    pace = interval = INTERVAL
    timeout = 5.0

    def __init__(self, only_cluster: Callable[[], str]) -> None:
        self._only_cluster = only_cluster

    @property
    def cluster(self) -> str:
        """See ``exporter.model.Source``."""
        return self._only_cluster()

    def close(self) -> None:
        """The source holds no resources."""
