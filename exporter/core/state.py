"""What survives a restart: small JSON documents under ``state.dir``, kept apart by the cluster id that Kafka reports.

Safe to lose: without it the tail starts at the end of the log and stalls are dated anew. Replicas never share a
directory.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from pathlib import Path
from typing import Any

from exporter.bounds.files import read_regular
from exporter.bounds.json_text import JsonError, parse_json

MOST_BYTES = 64 * 1024 * 1024
MOST_WEIGHT = 512 * 1024 * 1024
"""Greatest document that is read, in the file and in memory: the agent wrote it, so it may be larger than others'."""

log = logging.getLogger(__name__)


class StateDir:
    """One directory of documents, ``<cluster id>/<name>.json``.

    Unset or not writable: one warning, and nothing is kept.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._written: dict[Path, str] = {}
        self._warned = False

    def load(self, cluster_id: str, name: str) -> dict[str, Any]:
        """The document, {} when there is none. One that cannot be read is a warning, and as good as none."""
        path = self._path(cluster_id, name)
        if path is None:
            return {}
        try:
            document = parse_json(read_regular(path, MOST_BYTES), MOST_WEIGHT)
        except FileNotFoundError:
            return {}
        except (OSError, JsonError) as error:
            log.warning("state %s cannot be read, starting without it: %s", path, error)
            return {}
        return document if isinstance(document, dict) else {}

    def save(self, cluster_id: str, name: str, document: dict[str, Any]) -> None:
        """Replace the document in one step: a crash leaves the old one or the new one.

        Nothing is written when it is unchanged.
        """
        path = self._path(cluster_id, name)
        if path is None:
            return
        text = json.dumps(document, separators=(",", ":"), sort_keys=True)
        with self._lock:
            if self._written.get(path) == text:
                return
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                fresh = path.with_suffix(".new")
                fresh.write_text(text)
                fresh.replace(path)
            except OSError as error:
                if not self._warned:
                    log.warning(
                        "state.dir %s is not writable, nothing is kept over a restart: %s", self._directory, error
                    )
                    self._warned = True
                return
            self._written[path] = text
            self._warned = False

    def _path(self, cluster_id: str, name: str) -> Path | None:
        if self._directory is None or not cluster_id:
            return None
        return self._directory / re.sub(r"[^A-Za-z0-9_-]", "_", cluster_id) / f"{name}.json"
