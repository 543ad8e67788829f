"""State that survives a restart: small JSON documents under ``state.dir``, in a folder for each cluster id that Kafka
reports.

Without it the counters of the transaction log start at 0 at the log's end, and the start of a stall is when this
process first saw it. Replicas never share a directory.

Instants of the monotonic clock compare only within one boot of the machine, so what has them has the boot's id.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import re
import socket
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from exporter.bounds.files import NotRegularError, TooLargeError, read_regular
from exporter.bounds.json_text import JsonError, parse_json
from exporter.bounds.text import decoded, printable
from exporter.core.files import PRIVATE, PRIVATE_FOLDER, append_line, replace_file, sync

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id(path: Path = BOOT_ID) -> str:
    """Return the kernel's id of the boot (Linux, random(4)), the same in all containers of a machine; "" elsewhere."""
    try:
        return path.read_text("ascii").strip()[:64]
    except (OSError, UnicodeDecodeError):
        return ""


LOCK = ".lock"
"""Held by the process that writes. No cluster id has a dot in the name of its folder."""
_HOLDER = b"process "
MOST_BYTES = 64 * 1024 * 1024
MOST_WEIGHT = 512 * 1024 * 1024
"""Limits of a document that is read, in the file and in memory. The agent wrote it, so it may be larger than foreign
input.
"""


log = logging.getLogger(__name__)


class StateInUseError(Exception):
    """Another process writes to ``state.dir``; the text says which one."""


class StateLock:
    """The lock of ``state.dir``, whose counters and positions belong to one process. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        """Raises StateInUseError where another process has it, OSError where it cannot be locked."""
        self._directory = directory
        self._lock = threading.Lock()
        self._handle = _locked(directory)

    def hold(self) -> None:
        """Lock again where the lock file vanished, as with its folder: before each write. Raises OSError where that
        fails, as when another process has locked the folder meanwhile.
        """
        with self._lock:
            if self._held():
                return
            try:
                handle = _locked(self._directory)
            except StateInUseError as error:
                raise OSError(errno.EBUSY, str(error)) from None
            os.close(self._handle)
            self._handle = handle
        log.warning("%s vanished while this process held it, and is locked again", self._directory / LOCK)

    def close(self) -> None:
        """Let others have the folder: nothing is written any more."""
        with self._lock:
            os.close(self._handle)
            self._handle = -1

    def _held(self) -> bool:
        """Return whether the file that is locked is the one that another process would lock."""
        locked = os.fstat(self._handle)
        try:
            there = (self._directory / LOCK).stat(follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(there, locked)


def lock_state(directory: Path | None) -> StateLock | None:
    """Keep other agents out of ``state.dir`` until this process ends.

    Returns None without a directory, and where it cannot be locked, as one that cannot be written. Raises
    StateInUseError.
    """
    if directory is None:
        return None
    try:
        return StateLock(directory)
    except OSError as error:
        path = directory / LOCK
        log.warning("%s cannot be locked: %s; no other agent may use this state.dir", path, error.strerror)
        return None


def _locked(directory: Path) -> int:
    """Return the descriptor of the lock file, locked. The folder is made. Raises OSError and StateInUseError."""
    path = directory / LOCK
    directory.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, PRIVATE)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise NotRegularError(path)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(OSError):  # a full disk: only the message to another agent lacks who holds it
            if os.pread(handle, len(_HOLDER), 0) in {b"", _HOLDER}:  # a lock file of another program stays as it is
                os.truncate(handle, 0)
                os.write(handle, _HOLDER + f"{os.getpid()} on {socket.gethostname()}\n".encode())
    except BlockingIOError:
        holder = printable(decoded(os.pread(handle, 200, 0)).strip())
        os.close(handle)
        raise StateInUseError(
            f"state.dir {directory} is in use by {holder or 'another agent'}: give each agent its own"
        ) from None
    except OSError:
        os.close(handle)
        raise
    return handle


class StateDir:
    """One directory of documents, ``<cluster id>/<name>.json``, and of journals beside them, ``<name>.journal``.

    A document is replaced whole. Frequent changes are appended to its journal, with the changes since the document of
    the same generation was written.

    Unset: nothing is kept. Not writable: one warning, and earlier files stay.
    """

    def __init__(self, directory: Path | None, held: StateLock | None = None) -> None:
        """``held`` is the lock of the directory, which each write checks; None where there is none."""
        self._directory = directory
        self._held = held
        self._lock = threading.Lock()
        self._written: dict[Path, str] = {}
        self._failing: dict[Path, str] = {}
        self._readers: dict[str, str] = {}  # the cluster of the settings that has each folder
        self._unread: dict[Path, Path] = {}  # the file that could not be read, by its path without the suffix

    @property
    def kept(self) -> bool:
        """Return whether a directory is set."""
        return self._directory is not None

    def folder(self, cluster_id: str) -> str:
        """Return the name of a cluster's folder; "" while its id is not known."""
        return re.sub(r"[^A-Za-z0-9_-]", "_", cluster_id)

    def claim(self, cluster_id: str, name: str) -> str:
        """Return the name of the cluster of the settings that has the folder of this cluster id: the first that asked.
        Without a folder it is ``name``.
        """
        if self._directory is None or not cluster_id:
            return name
        return self._readers.setdefault(self.folder(cluster_id), name)

    def release(self, name: str) -> None:
        """Let other clusters of the settings have the folders of this one."""
        for folder, reader in list(self._readers.items()):
            if reader == name:
                del self._readers[folder]

    def load(self, cluster_id: str, name: str) -> dict[str, Any]:
        """Return the document, {} when there is none.

        What is no document is set aside. One that cannot be read is not written over while it is there.
        """
        path = self._path(cluster_id, name)
        if path is None:
            return {}
        try:
            document = parse_json(read_regular(path, MOST_BYTES), MOST_WEIGHT)
            if not isinstance(document, dict):
                raise JsonError("is no JSON object")  # noqa: TRY301 -- as what is no JSON
        except FileNotFoundError:
            return {}
        except (TooLargeError, JsonError) as error:
            kept = self.set_aside(cluster_id, name) or "nothing"
            log.warning("state %s cannot be used and is kept as %s, starting without it: %s", path, kept, error)
            return {}
        except OSError as error:
            self._note_unread(path, error)
            return {}
        return document

    def has(self, cluster_id: str, name: str) -> bool:
        """Return whether the document exists; False where its folder cannot be searched."""
        path = self._path(cluster_id, name)
        try:
            return path is not None and path.exists()
        except OSError:
            return False

    def save(self, cluster_id: str, name: str, document: dict[str, Any], *, durable: bool = False) -> bool:
        """Replace the document in one step: a crash leaves the old one or the new one. False when that fails.

        Nothing is written when it is unchanged. A ``durable`` one is always written, and is on disk before it replaces
        the old one, so that it survives the machine's crash, too.
        """
        path = self._path(cluster_id, name)
        if path is None:
            return False
        text = _text(document)

        def replace() -> None:
            if self._written.get(path) == text and path.exists():
                return
            path.parent.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
            replace_file(path, text, durable=durable, mode=PRIVATE)
            if durable:
                sync(path.parent)
            self._written[path] = text if not durable else ""

        return self._write(path, replace)

    # --- Journals ---

    def append(self, cluster_id: str, name: str, entry: dict[str, Any]) -> bool:
        """Add a line to the journal. It survives the end of this process, however it ends. False when that fails."""
        path = self._path(cluster_id, name, ".journal")
        if path is None:
            return False
        line = _line(entry)

        def append() -> None:
            path.parent.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
            append_line(path, line)

        return self._write(path, append)

    def journal(self, cluster_id: str, name: str) -> list[dict[str, Any]]:
        """The lines of the journal, up to the first incomplete one; none of one that cannot be read, as in ``load``."""
        path = self._path(cluster_id, name, ".journal")
        entries: list[dict[str, Any]] = []
        try:
            lines = read_regular(path, MOST_BYTES).split(b"\n") if path is not None else []
        except FileNotFoundError:
            return entries
        except TooLargeError as error:
            kept = self.set_aside(cluster_id, name, (".journal",)) or "nothing"
            log.warning("state %s cannot be used and is kept as %s, going on without it: %s", path, kept, error)
            return entries
        except OSError as error:
            self._note_unread(path, error)
            return entries
        for line in lines[:-1]:
            try:
                entry = parse_json(line, MOST_WEIGHT)
            except JsonError:
                break
            if not isinstance(entry, dict):
                break
            entries.append(entry)
        return entries

    def forget_journal(self, cluster_id: str, name: str) -> None:
        """Truncate the journal."""
        if (path := self._path(cluster_id, name, ".journal")) is not None:
            self._write(path, lambda: path.unlink(missing_ok=True))

    def set_aside(self, cluster_id: str, name: str, suffixes: Sequence[str] = (".journal", ".json")) -> str:
        """Rename the document and its journal to ``<name>.unusable.*``, so that nothing is written over them.

        Returns the new path of the document, or of the journal where there is no document; "" when there is neither, or
        it cannot be renamed.
        """
        moved = ""
        with self._lock:
            for suffix in suffixes:
                path = self._path(cluster_id, name, suffix)
                if path is None:
                    continue
                try:
                    self._hold()
                    moved = str(path.replace(path.with_name(f"{name}.unusable{suffix}")))
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self._failed(path, error)
        return moved

    @property
    def trouble(self) -> str:
        """Why the last write failed; "" when it succeeded."""
        with self._lock:
            return next(iter(self._failing.values()), "")

    def _write(self, path: Path, change: Callable[[], None]) -> bool:
        """Return whether a change on disk succeeded."""
        with self._lock:
            try:
                self._hold()
                self._check_unread(path)
                change()
            except OSError as error:
                self._failed(path, error)
                return False
            if self._failing.pop(path, None) and not self._failing:
                log.info("state.dir %s is written again", self._directory)
            return True

    def _hold(self) -> None:
        """Raises OSError while another process has locked the directory."""
        if self._held is not None:
            self._held.hold()

    def _note_unread(self, path: Path | None, error: OSError) -> None:
        log.warning("state %s cannot be read and is not written over, starting without it: %s", path, error)
        if path is not None:
            with self._lock:
                self._unread[path.with_suffix("")] = path
                self._failing[path] = f"{path.name} cannot be read: {error.strerror}"

    def _check_unread(self, path: Path) -> None:
        """Raises OSError while the document or journal of this path is there and was not read: it may have the counters
        of the process before.
        """
        if (unread := self._unread.get(path.with_suffix(""))) is None:
            return
        if unread.exists():
            raise OSError(errno.EACCES, f"{unread.name} could not be read, and is not written over")
        del self._unread[path.with_suffix("")]
        self._failing.pop(unread, None)

    def _failed(self, path: Path, error: OSError) -> None:
        if not self._failing:
            log.warning("state.dir %s is not writable, nothing is kept over a restart: %s", self._directory, error)
        self._failing[path] = error.strerror or "it cannot be written"

    def _path(self, cluster_id: str, name: str, suffix: str = ".json") -> Path | None:
        if self._directory is None or not cluster_id:
            return None
        return self._directory / self.folder(cluster_id) / f"{name}{suffix}"


def _text(document: dict[str, Any]) -> str:
    """Compact JSON, equal for equal documents. None contains itself, and to check that takes a fifth of the time."""
    return json.dumps(document, separators=(",", ":"), sort_keys=True, check_circular=False)


def _line(entry: dict[str, Any]) -> bytes:
    """A line of a journal. None contains itself."""
    return _LINE.encode(entry).encode() + b"\n"


_LINE = json.JSONEncoder(separators=(",", ":"), check_circular=False)
