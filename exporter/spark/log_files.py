"""One file of a Spark event log, followed as it grows: plain, zstd or gzip, to whole lines.

Spark closes a zstd frame at every flush and begins another (EventLogFileWriter, ZStdCompressionCodec), so a file is
many frames. The last one may be incomplete: still being written, or cut off because the driver was killed.

Limited are a frame's window, its decoded size, the length of a line, and what one read decodes. Between two reads only
the place of the first incomplete line is kept.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from io import SEEK_END, FileIO
from pathlib import Path
from typing import NamedTuple, Protocol

import zstandard

from exporter.bounds.files import open_regular
from exporter.bounds.text import without_surrogates
from exporter.model import Fault, Reason


def shown(path: Path) -> str:
    """A path in a sentence: a name may be no UTF-8."""
    return without_surrogates(str(path))


def trouble(error: OSError, path: Path) -> Fault:
    """Why a file or a folder could not be read."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Fault(Reason.UNREACHABLE, f"{shown(path)} is not there; the agent reads local and mounted folders")
    if isinstance(error, PermissionError):
        return Fault(
            Reason.AUTHORIZATION,
            f"{shown(path)} may not be read by the agent's user; "
            "Spark lets its own group in: add the agent's user to it",
        )
    return Fault(Reason.UNREACHABLE, f"{shown(path)} cannot be read: {error.strerror or type(error).__name__}")


CHUNK_BYTES = 256 * 1024
LONGEST_LINE = 4 * 1024 * 1024
"""A progress event of a query that reads 10,000 partitions has 1 MB."""
WIDEST_WINDOW = 8 * 1024 * 1024
"""Window of a frame: what RFC 8878 asks of every decoder. Spark's level 1 takes 512 kB, levels above 19 take more."""
MOST_DECODED = 256 * 1024 * 1024
"""Bytes that one read of a file decodes; the rest waits for the next."""
MOST_FRAME = 128 * 1024 * 1024
"""Bytes that a frame decodes to; one of more is left out. Spark flushes after a few events: theirs have some kB."""
SLICE_BYTES = 256
"""Bytes of a compressed file given to the decoder at once. Four bytes decode to 128 kB at most, so this to 8 MB."""
PIECE_BYTES = 256 * 1024
MOST_DAMAGED = 10_000
"""Frames of one read that cannot be decoded, after which the rest of the file is left for the next read."""

_MAGIC = b"\x28\xb5\x2f\xfd"  # RFC 8878: the beginning of every frame
_GZIP = b"\x1f\x8b"  # RFC 1952: the beginning of every member
_GZIP_BITS = 31  # zlib: a window of 32 kB, and gzip's header
_EVENT = b'{"Event":'
_OTHER_CODECS = {"lz4": b"LZ4Block", "snappy": b"\x82SNAPPY", "lzf": b"ZV"}
"""First bytes of the streams of LZ4BlockOutputStream, SnappyOutputStream and LZFOutputStream: Spark's other codecs."""


class UnsupportedCodecError(Exception):
    """The file is compressed in a way that is not read."""


class ReplacedError(Exception):
    """The file is shorter than what was read of it, or gone: it was replaced."""


def is_log(path: Path) -> bool:
    """Return whether a file begins as a log does: with an event, a frame or a member. Raises OSError.

    Raises UnsupportedCodecError for the beginning of a codec that is not read, whatever the name of the file.
    """
    with open_regular(path) as file:
        begin = file.read(len(_EVENT))
    for codec, magic in _OTHER_CODECS.items():
        if begin.startswith(magic):
            raise UnsupportedCodecError(codec)
    return begin.startswith((_EVENT, _MAGIC, _GZIP))


class FileChunk(NamedTuple):
    """Part of a file: its complete lines, its size in bytes of the file, and the number of decoding errors.

    ``too_long`` are the beginnings of lines that are longer than ``LONGEST_LINE``.
    """

    lines: tuple[bytes, ...]
    size: int = 0
    damaged: int = 0
    too_long: tuple[bytes, ...] = ()


class Place(NamedTuple):
    """Where a line begins: so many decoded bytes after a byte of the file at which decoding can begin.

    ``lost``: the next frame is still to be found from there.
    """

    at: int
    after: int = 0
    lost: bool = False


class Piece(NamedTuple):
    """Some decoded bytes in order, with the place of the first of them; ``size`` bytes of the file were taken.

    ``damaged`` is 1 where something before it could not be decoded: what follows does not continue what came before.
    ``more`` says that decoding stops here for this time, and the file goes on.
    """

    data: bytes
    place: Place
    size: int = 0
    damaged: int = 0
    more: bool = False


class Decoder(Protocol):
    """Decodes a file from a place. A new one is made for each read."""

    def pieces(self, file: FileIO, place: Place, most: int) -> Iterator[Piece]:
        """The decoded content from the place, of at most so many bytes of the file. Raises OSError."""


class PlainDecoder:
    """A log that is not compressed."""

    def pieces(self, file: FileIO, place: Place, most: int) -> Iterator[Piece]:
        at = place.at + place.after
        file.seek(at)
        while most > 0 and (data := file.read(min(CHUNK_BYTES, most))):
            yield Piece(data, Place(at), len(data))
            most -= len(data)
            at += len(data)


class ZstdDecoder:
    """Frames of zstd. One that is damaged, or decodes to too much, is skipped up to the start of the next."""

    def pieces(self, file: FileIO, place: Place, most: int) -> Iterator[Piece]:
        return _Frames(file, place, most).pieces()


class GzipDecoder:
    """Members of gzip. A cluster delivers such a file whole; one that is still growing is decoded again to its place.

    What comes after damage, and after ``MOST_DECODED`` bytes of one member, is left out.
    """

    def pieces(self, file: FileIO, place: Place, most: int) -> Iterator[Piece]:
        file.seek(place.at)
        begin, skip, made = place.at, place.after, 0
        member, data, full = zlib.decompressobj(_GZIP_BITS), b"", False
        while True:
            if not data and not full:
                data = file.read(max(0, min(CHUNK_BYTES, most)))
                most -= len(data)
                yield Piece(b"", Place(begin, max(made, skip)), len(data), more=most <= 0)
                if not data:
                    return
            try:
                out = member.decompress(data, PIECE_BYTES)
            except zlib.error:
                out = None
            if out is None or made + len(out) > MOST_DECODED:
                yield Piece(b"", Place(file.tell()), damaged=1)
                return
            if len(out) > (behind := max(0, skip - made)):
                yield Piece(out[behind:], Place(begin, made + behind))
            made, data, full = made + len(out), member.unconsumed_tail, len(out) == PIECE_BYTES
            if member.eof:
                data = member.unused_data
                begin, skip, made, full = file.tell() - len(data), 0, 0, False
                member = zlib.decompressobj(_GZIP_BITS)
                yield Piece(b"", Place(begin))


class _Frames:
    """One reading of frames. ``_data`` from ``_from`` on is not decoded yet; in the file it begins at ``_at``."""

    def __init__(self, file: FileIO, place: Place, most: int) -> None:
        self._file = file
        self._most = most
        self._at = place.at
        self._data = b""
        self._from = 0
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=WIDEST_WINDOW)
        self._skip = place.after  # decoded bytes of the first frame that were delivered before
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._begin = place.at
        self._made = 0  # by this frame
        self._lost = place.lost
        file.seek(place.at)

    def pieces(self) -> Iterator[Piece]:
        decoded = damaged = 0
        while damaged < MOST_DAMAGED and decoded < MOST_DECODED:
            wanting = len(self._data) - self._from < SLICE_BYTES
            read = self._refill() if wanting else 0
            if read:
                yield Piece(b"", self._place, size=read)
            if self._lost and not self._find_frame():
                if wanting and not read:
                    yield Piece(b"", self._place)
                    return
                continue
            # A frame is decoded to its end even beyond the limit: otherwise it has to be decoded again.
            if self._from == len(self._data):
                return
            if self._frame is None and self._most <= 0:
                break
            try:
                out = self._decode()
            except zstandard.ZstdError:
                damaged += 1
                self._give_up_frame()
                yield Piece(b"", self._place, damaged=1)
                continue
            decoded += len(out)
            start = self._made - len(out)
            if self._skip > start:
                out, start = out[self._skip - start :], self._skip
            for at in range(0, len(out), PIECE_BYTES):
                yield Piece(out[at : at + PIECE_BYTES], Place(self._begin, start + at))
            if self._frame is not None and self._frame.eof:
                self._frame, self._skip = None, 0
                yield Piece(b"", self._place)
        yield Piece(b"", self._place, more=True)

    @property
    def _place(self) -> Place:
        """Where the next decoded byte is."""
        return (
            Place(self._at, 0, self._lost) if self._frame is None else Place(self._begin, max(self._made, self._skip))
        )

    def _refill(self) -> int:
        if self._most <= 0 and self._frame is None:
            return 0
        more = self._file.read(CHUNK_BYTES)
        self._data, self._from = self._data[self._from :] + more, 0
        self._most -= len(more)
        return len(more)

    def _decode(self) -> bytes:
        """The decoded next slice. Raises ZstdError, also for a frame that decodes to too much."""
        if self._frame is None:
            self._frame, self._begin, self._made = self._decompressor.decompressobj(), self._at, 0
        part = self._data[self._from : self._from + SLICE_BYTES]
        out = self._frame.decompress(part)
        self._made += len(out)
        if self._made > MOST_FRAME:
            raise zstandard.ZstdError("the frame is too large")
        taken = len(part) - len(self._frame.unused_data)
        self._at, self._from = self._at + taken, self._from + taken
        return out

    def _give_up_frame(self) -> None:
        """Find the next frame, searching from just after the start of this one: its assumed end may be wrong."""
        self._frame, self._lost, self._skip = None, True, 0
        held_from = self._at - self._from
        self._at = self._begin + 1
        if self._at >= held_from:
            self._from = self._at - held_from
        else:
            self._data, self._from = b"", 0
            self._file.seek(self._at)

    def _find_frame(self) -> bool:
        """Return whether the data now begin with a frame. Without one, only a possible start of its magic number is
        kept.
        """
        found = self._data.find(_MAGIC, self._from)
        place = found if found >= 0 else max(self._from, len(self._data) - len(_MAGIC) + 1)
        self._at, self._from = self._at + place - self._from, place
        self._lost = found < 0
        return not self._lost


class Follower:
    """Reads a file from its beginning, and on from where it stopped. Call from one thread at a time."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._place = Place(0)
        self._seen = 0  # bytes of the file
        self.stopped = False
        """True where the last read ended before the file did."""
        self._skipping = False  # the rest of a line that is too long

    def read(self, path: Path, most: int) -> Iterator[FileChunk]:
        """The content added since the last call, in parts, of at most about so many bytes of the file.

        ``path`` may change: Spark renames a log once its application has ended. Raises OSError and ReplacedError.
        """
        self.stopped = False
        begun = bytearray()  # the line that begins at _place
        with open_regular(path) as file:
            if file.seek(0, SEEK_END) < self._seen:
                raise ReplacedError
            for piece in self._decoder.pieces(file, self._place, most):
                self._seen = max(self._seen, file.tell())
                self.stopped = piece.more
                if piece.damaged:
                    begun.clear()
                    self._skipping = False
                yield self._take(piece, begun)

    def _take(self, piece: Piece, begun: bytearray) -> FileChunk:
        if not piece.data:
            if not begun:
                self._place = piece.place
            return FileChunk((), piece.size, piece.damaged)
        *lines, rest = piece.data.split(b"\n")
        too_long: tuple[bytes, ...] = ()
        if lines:
            if self._skipping:
                del lines[0]
                self._skipping = False
            elif begun:
                lines[0] = bytes(begun) + lines[0]
            begun.clear()
        begun += b"" if self._skipping else rest
        if lines or len(begun) == len(rest):
            self._place = piece.place._replace(after=piece.place.after + len(piece.data) - len(rest))
        if len(begun) > LONGEST_LINE:
            too_long = (bytes(begun[:200]),)
            begun.clear()
            self._skipping = True
        if self._skipping:
            self._place = piece.place._replace(after=piece.place.after + len(piece.data))
        return FileChunk(tuple(lines), piece.size, piece.damaged, too_long)
