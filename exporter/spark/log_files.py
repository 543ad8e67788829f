"""One file of a Spark event log, followed as it grows: plain or zstd, to whole lines.

Spark closes a zstd frame at every flush and begins another (EventLogFileWriter, ZStdCompressionCodec), so a file is
many frames, the last of which may be half written: by a driver that is at it, or for good by one that was killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import zstandard

CHUNK_BYTES = 256 * 1024
LONGEST_LINE = 64 * 1024 * 1024
WIDEST_WINDOW = 128 * 1024 * 1024
_MAGIC = b"\x28\xb5\x2f\xfd"  # RFC 8878: the beginning of every frame
_EVENT = b'{"Event":'


class ReplacedError(Exception):
    """The file is shorter than what was read of it: it is another one by now."""


def is_log(path: Path) -> bool:
    """Whether a file begins as a log does: with an event, or with a frame. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(_EVENT)).startswith((_EVENT, _MAGIC))


class Read(NamedTuple):
    """Part of a file: its whole lines, how many bytes of the file they took, and how often it could not be decoded."""

    lines: tuple[bytes, ...]
    size: int
    damaged: int


class Decoder(Protocol):
    """Bytes of a file, in order, to the text in them; ``damaged`` counts what could not be decoded."""

    damaged: int

    def decode(self, data: bytes) -> bytes: ...


class Plain:
    """A log that is not compressed."""

    damaged = 0

    def decode(self, data: bytes) -> bytes:
        return data


class Zstd:
    """Frames of zstd. One that is damaged is left out, up to the beginning of the next."""

    def __init__(self) -> None:
        self.damaged = 0
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._lost = False
        self._tail = b""  # what may be the beginning of the mark that is looked for

    def decode(self, data: bytes) -> bytes:
        made: list[bytes] = []
        data = self._tail + data
        self._tail = b""
        while data:
            if self._lost:
                at = data.find(_MAGIC)
                if at < 0:
                    self._tail = data[-(len(_MAGIC) - 1) :]
                    break
                data, self._lost = data[at:], False
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor(max_window_size=WIDEST_WINDOW).decompressobj()
            try:
                made.append(self._frame.decompress(data))
            except zstandard.ZstdError:
                self.damaged += 1
                self._frame, self._lost = None, True
                # Not the frame that just failed, should it begin here.
                data = data[1:]
                continue
            if not self._frame.eof:
                break
            data, self._frame = self._frame.unused_data, None
        return b"".join(made)


class Follower:
    """Reads a file from its beginning, and on from where it stopped. Call from one thread at a time."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._position = 0
        self._begun = b""  # a line without its end

    def read(self, path: Path, most: int) -> Iterator[Read]:
        """What came since the last call, in parts, of at most so many bytes of the file.

        ``path`` may change: Spark renames a log once its application has ended. Raises OSError and ReplacedError.
        """
        with path.open("rb") as file:
            if path.stat().st_size < self._position:
                raise ReplacedError
            file.seek(self._position)
            while most > 0 and (data := file.read(min(CHUNK_BYTES, most))):
                most -= len(data)
                self._position += len(data)
                yield self._take(data)

    def _take(self, data: bytes) -> Read:
        before = self._decoder.damaged
        *lines, self._begun = (self._begun + self._decoder.decode(data)).split(b"\n")
        damaged = self._decoder.damaged - before
        if len(self._begun) > LONGEST_LINE:
            self._begun = b""
            damaged += 1
        return Read(tuple(lines), len(data), damaged)
