"""A folder of Spark event logs (spark.eventLog.dir), followed as applications come, write, roll and end."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from exporter.bounds.files import is_regular, names_in
from exporter.model import Deadline, Fault, Reason
from exporter.spark.application_log import (
    DELIVERED,
    FOLDER_PREFIX,
    IN_PROGRESS,
    ApplicationLog,
    Layout,
    delivered_layout,
    rolled_layout,
    single_layout,
)
from exporter.spark.log_files import UnsupportedCodecError, shown, trouble
from exporter.spark.queries import KEEP_ENDED, KEEP_SILENT, StreamingQuery, remembered

log = logging.getLogger(__name__)

MOST_BYTES = 64 * 1024 * 1024
"""Read at once at most; the rest waits for the next time."""

MOST_APPLICATIONS = 200
"""Logs followed at once, those written to last."""

MOST_PARTITIONS = 100_000
"""Partitions whose offsets are remembered, of all queries of a folder: 25 MB."""

MOST_DEPTH = 4
"""Folders below the given one that are looked into: Databricks delivers to CLUSTER/eventlog/CLUSTER_IP/NUMBER."""
MOST_FOLDERS = 1000
"""Folders looked into, of all depths."""


class _Entry(NamedTuple):
    """The log of an application in the folder. ``key`` stays when Spark renames it."""

    key: str
    path: Path
    layout: Callable[[Path], Layout]


class EventLogFolder:
    """The streaming queries in the logs of a folder. Call from one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: dict[str, ApplicationLog] = {}
        # Logs that are over: the time of the last change in their place, and our clock when that was found.
        self._settled: dict[str, tuple[float, float]] = {}
        self._left_out = 0

    def read(self, deadline: Deadline, now: float) -> Iterator[Fault | StreamingQuery]:
        """Read on in every log; ``now`` is Unix seconds. Queries of a log that is not read to its end yet wait."""
        layouts: list[tuple[_Entry, Layout]] = []
        entries: list[_Entry] = []
        try:
            for entry_or_fault in self._entries():
                if isinstance(entry_or_fault, Fault):
                    yield entry_or_fault
                else:
                    entries.append(entry_or_fault)
        except OSError as error:
            yield trouble(error, self._folder)
            return
        for entry in entries:
            if deadline.over:
                yield Fault(
                    Reason.TIMEOUT, f"not all of {len(entries)} logs in {shown(self._folder)} were read in time"
                )
                break
            try:
                changed = entry.path.stat().st_mtime
                at, settled = self._settled.get(entry.key, (None, now))
                if at == changed and settled <= now:  # a clock that was set back was wrong when it was found
                    continue
                layout = entry.layout(entry.path)
            except FileNotFoundError:
                continue  # renamed or cleaned up between two calls
            except OSError as error:
                yield trouble(error, entry.path)
                continue
            if self._over(entry, layout, now):
                self._settled[entry.key] = (changed, now)
                self._logs.pop(entry.key, None)
            else:
                layouts.append((entry, layout))
        known = {entry.key for entry in entries}
        self._settled = {key: settled for key, settled in self._settled.items() if key in known}
        self._logs = {key: log for key, log in self._logs.items() if key in known}
        layouts.sort(key=lambda layout: layout[1].modified, reverse=True)
        self._say_left_out(len(layouts) - MOST_APPLICATIONS)
        followed = [
            (self._logs.setdefault(entry.key, ApplicationLog()), entry, layout)
            for entry, layout in layouts[:MOST_APPLICATIONS]
        ]
        # One that writes without end, or never ends to be read, must not take the others' turn.
        followed.sort(key=lambda log: (not log[0].current, log[0].taken))
        most = MOST_BYTES
        for application, entry, layout in followed:
            for item in self._follow(application, entry, layout, now, most, deadline):
                if isinstance(item, Fault):
                    yield item
                else:
                    most -= item
        yield from self._without_too_many_offsets()
        for application, _, _ in followed:
            if application.current:
                yield from (query for query in application.queries.values() if remembered(query, now))

    @property
    def left_out(self) -> int:
        """Number of queries left out because one application has too many, and of logs that are not followed."""
        return max(0, self._left_out) + sum(application.left_out for application in self._logs.values())

    def _entries(self) -> Iterator[_Entry | Fault]:
        """The logs in the folder, and in folders below it those whose names show that they are logs.

        Raises OSError for the folder itself.
        """
        folders = deque([(self._folder, 0)])
        looked = 0
        while folders:
            folder, depth = folders.popleft()
            if (looked := looked + 1) > MOST_FOLDERS:
                text = f"{shown(self._folder)} has more than {MOST_FOLDERS} folders; those from {shown(folder)} on"
                yield Fault(Reason.UNSUPPORTED, f"{text} are not read: name a folder further below")
                return
            delivered: list[Path] = []
            try:
                for entry in names_in(folder):
                    name, path = entry.name, Path(entry.path)
                    if name.startswith("."):
                        continue  # checksums of Hadoop's local file system
                    if name.startswith(FOLDER_PREFIX):
                        yield _Entry(self._key(path), path, rolled_layout)
                    elif entry.is_dir(follow_symlinks=False):
                        if depth < MOST_DEPTH:
                            folders.append((path, depth + 1))
                    elif DELIVERED.fullmatch(name) and is_regular(entry):
                        delivered.append(path)
                    elif (not depth or name.endswith(IN_PROGRESS)) and is_regular(entry):
                        yield _Entry(self._key(path).removesuffix(IN_PROGRESS), path, single_layout)
            except OSError as error:
                if not depth:
                    raise
                yield trouble(error, folder)
            if delivered:  # changes are seen at the one that grows
                yield _Entry(self._key(folder / "eventlog"), min(delivered, key=_is_past), delivered_layout)

    def _key(self, path: Path) -> str:
        return str(path.relative_to(self._folder))

    def _without_too_many_offsets(self) -> Iterator[Fault]:
        """Forget the offsets of the applications that have most of them, until the rest are few enough."""
        sizes = {key: application.partitions for key, application in self._logs.items()}
        total = sum(sizes.values())
        for key in sorted(sizes, key=lambda log_key: sizes[log_key], reverse=True):
            if total <= MOST_PARTITIONS:
                return
            total -= sizes[key]
            self._logs[key].forget_offsets()
            text = f"{shown(self._folder / key)} names {sizes[key]} partitions: too many, so lags of it are not known"
            yield Fault(Reason.UNSUPPORTED, text)

    def _follow(
        self, application: ApplicationLog, entry: _Entry, layout: Layout, now: float, most: int, deadline: Deadline
    ) -> Iterator[Fault | int]:
        try:
            yield from application.follow(layout, now, most, deadline)
        except FileNotFoundError:
            return  # cleaned up between two calls
        except OSError as error:
            yield trouble(error, entry.path)
        except UnsupportedCodecError as error:
            text = f"{shown(entry.path)} is compressed by {error}; set spark.eventLog.compression.codec to zstd"
            yield Fault(Reason.UNSUPPORTED, text)

    def _over(self, entry: _Entry, layout: Layout, now: float) -> bool:
        """Return whether all events of a log are too old to be exposed. A name does not show that it has ended."""
        known = self._logs.get(entry.key)
        ended = known is not None and known.current and known.ended
        return now - layout.modified > (KEEP_ENDED if ended else KEEP_SILENT)

    def _say_left_out(self, left_out: int) -> None:
        if left_out > 0 and left_out != self._left_out:
            log.warning("%s has %d more logs than are followed", shown(self._folder), left_out)
        self._left_out = left_out


def _is_past(delivered: Path) -> bool:
    """Return whether a delivered file is of an hour that has passed."""
    return delivered.name != "eventlog"
