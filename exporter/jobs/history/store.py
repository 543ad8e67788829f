"""The folder of a history: a batch becomes visible at once, and exactly once.

::

    DIR/transactions/batch=N/day=YYYY-MM-DD/*.parquet   the table: read this, with any reader
    DIR/_batches/N/index.json, ids-*.parquet            where batch N ended, for N+1; the last few are kept
    DIR/_history.json, DIR/_lock, DIR/_tmp/             the cluster of the history; one writer at a time; drafts

A batch is written below ``_tmp``: its rows and the state for the next one. Renaming that folder to ``_batches/N``
commits both at once; renaming ``_batches/N/rows`` to ``transactions/batch=N`` then publishes the rows. Both renames are
atomic. A writer that was killed between them finds the rows still in ``_batches/N`` and publishes them; one that was
killed before leaves only a draft in ``_tmp``, and the next one reads the same records again.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exporter.core.files import replace_file, sync
from exporter.jobs.history.index import FORMAT, HistoryError, Index, TaskResult

KEEP_BATCHES = 3
TABLE = "transactions"
IDENTITY = "_history.json"
BATCH_FILE = "_batch.json"
BATCHES, _TMP, _LOCK, _INDEX, ROWS = "_batches", "_tmp", "_lock", "index.json", "rows"


class HistoryStore:
    """The folder, held by the one writer that it may have. Made by ``opened``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.last: Index | None = None

    # --- Between batches ---

    def kept_files(self) -> list[Path]:
        """Where the ids are that the last batch left."""
        if self.last is None:
            return []
        return [self._batch(self.last.batch) / name for name in self.last.ids]

    @contextmanager
    def under_way(self) -> Iterator[Path]:
        """A folder for the next batch, with ``rows`` in it. It is removed at the end unless it was committed."""
        with self.draft() as made:
            (made / ROWS).mkdir()
            yield made

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """A new folder on the same file system. It is removed at the end unless it was renamed."""
        made = self.folder / _TMP / uuid.uuid4().hex
        made.mkdir(parents=True)
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def commit(self, made: Path, results: Sequence[TaskResult], written_ms: int) -> Index:
        """Make the batch the last one, and show its rows."""
        index = Index.after(self.last, results, written_ms)
        self._keep_only(made, results)
        _write(made / _INDEX, index.to_json())
        if index.rows or index.missing or index.undecodable or index.truncated:
            _write(made / ROWS / BATCH_FILE, index.to_json())
        else:
            (made / ROWS).rmdir()
        for path in (*sorted(made.glob(f"{ROWS}/*/"), reverse=True), *made.glob(ROWS), made):
            sync(path)
        target = self._batch(index.batch)
        made.rename(target)
        sync(target.parent)
        self.last = index
        self._publish(index.batch)
        self._delete_old(index.batch)
        return index

    def _keep_only(self, made: Path, results: Iterable[TaskResult]) -> None:
        """Remove what attempts of tasks left that Spark ran again."""
        wanted = {made / result.ids for result in results}
        wanted |= {made / ROWS / name for result in results for name in result.files}
        for path in made.rglob("*.parquet"):
            if path not in wanted:
                path.unlink()
        for path in (made / ROWS).iterdir():
            if not any(path.iterdir()):
                path.rmdir()

    def _batch(self, number: int) -> Path:
        return self.folder / BATCHES / str(number)

    def _publish(self, number: int) -> None:
        rows = self._batch(number) / ROWS
        if rows.exists():
            rows.rename(self.folder / TABLE / f"batch={number}")
            sync(self.folder / TABLE)

    def _delete_old(self, number: int) -> None:
        for path in (self.folder / BATCHES).iterdir():
            if path.name.isdecimal() and int(path.name) <= number - KEEP_BATCHES:
                shutil.rmtree(path, ignore_errors=True)

    # --- Opening ---

    def load(self) -> None:
        """Find the last batch and show its rows, if a writer was killed before. Raises HistoryError."""
        for name in (BATCHES, _TMP, TABLE):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for path in (self.folder / _TMP).iterdir():
            shutil.rmtree(path, ignore_errors=True)
        numbers = [int(path.name) for path in (self.folder / BATCHES).iterdir() if path.name.isdecimal()]
        if not numbers:
            if any((self.folder / TABLE).iterdir()):
                raise HistoryError(f"{self.folder} has transactions and has lost {BATCHES}: {_ANEW}")
            return
        last = max(numbers)
        file = self._batch(last) / _INDEX
        try:
            self.last = Index.from_json(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise HistoryError(f"{file} cannot be used ({_reason(error)}): {_ANEW}") from None
        self._publish(last)


@contextmanager
def opened(folder: Path, cluster_id: str, cluster_name: str, now_ms: int) -> Iterator[HistoryStore]:
    """The history in this folder, made when there is none, for one writer at a time.

    Raises HistoryError when it is another cluster's, another writer has it, or it is damaged; nothing is changed then.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise HistoryError(f"--output {folder}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HistoryError(f"--output {folder}: another history run writes here; stop it first") from None
        except OSError as error:
            raise HistoryError(f"--output {folder}: cannot be locked for one writer: {error.strerror}") from None
        _claim(folder, cluster_id, cluster_name, now_ms)
        store = HistoryStore(folder)
        store.load()
        yield store
    finally:
        os.close(handle)


def identity(folder: Path) -> Mapping[str, Any] | None:
    """Whose history this is: ``cluster_id``, ``cluster_name``, ``begun_ms``; None where there is none.

    Raises HistoryError when the file is damaged.
    """
    file = folder / IDENTITY
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise HistoryError(f"{file} cannot be used ({_reason(error)}): {_ANEW}") from None
    if not isinstance(found, dict) or not isinstance(found.get("cluster_id"), str):
        raise HistoryError(f"{file} cannot be used (it names no cluster): {_ANEW}")
    return found


def _claim(folder: Path, cluster_id: str, cluster_name: str, now_ms: int) -> None:
    known = identity(folder)
    if known is None:
        # A draft of a writer that was killed at its first step begins with an underscore, as all files of the job do.
        strangers = sorted(path.name for path in folder.iterdir() if not path.name.startswith("_"))
        if strangers:
            raise HistoryError(f"--output {folder}: holds {strangers[0]} and is not a history; give an empty folder")
        whose = {"format": FORMAT, "cluster_id": cluster_id, "cluster_name": cluster_name, "begun_ms": now_ms}
        _write(folder / IDENTITY, json.dumps(whose, indent=1))
        sync(folder)
    elif known["cluster_id"] != cluster_id:
        raise HistoryError(
            f"--output {folder}: is the history of cluster {known['cluster_id']}, and the brokers are those of"
            f" {cluster_id}: give each cluster its own folder"
        )


def _write(path: Path, text: str) -> None:
    replace_file(path, text + "\n", durable=True)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


_ANEW = "restore it from a copy, or start again with another --output"
