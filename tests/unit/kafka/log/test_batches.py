"""Records of a batch, in every codec, and what a batch may decode to."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
import zstandard
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.util import encode_varint

from exporter.kafka.log.batches import MOST_DECODED, UNREADABLE, BatchRecord, batches, records_of

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def plain(*records: tuple[bytes | None, bytes | None], headers: int = 0) -> bytes:
    made = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for number, (key, value) in enumerate(records):
        made.append(number, timestamp=1000 + number, key=key, value=value, headers=[("", None)] * headers)
    return bytes(made.build())


def packed(data: bytes, codec: int, encode: Callable[[bytes], bytes]) -> bytes:
    """The same batch with its records compressed."""
    size = DefaultRecordBatch.HEADER_STRUCT.size
    out = bytearray(data[:size]) + encode(data[size:])
    struct.pack_into(">i", out, 8, len(out) - 12)
    struct.pack_into(">h", out, 21, codec)
    return bytes(out)


def zstd(data: bytes) -> bytes:
    """As Kafka writes it: in a stream, which does not know its length beforehand."""
    encoder = zstandard.ZstdCompressor().compressobj()
    return encoder.compress(data) + encoder.flush()


CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (0, bytes),
    "gzip": (GZIP, gzip.compress),
    "zstd": (ZSTD, zstd),
}


def read(data: bytes) -> list[BatchRecord]:
    (found,) = batches(data)
    return list(records_of(found))


@pytest.mark.parametrize("codec", CODECS)
def test_records_are_the_same_in_every_codec(codec: str) -> None:
    data = packed(plain((b"k", b"v"), (None, b"x" * 300), (b"k", None), headers=3), *CODECS[codec])
    assert read(data) == [
        BatchRecord(0, 1000, b"k", b"v"),
        BatchRecord(1, 1001, None, b"x" * 300),
        BatchRecord(2, 1002, b"k", None),
    ]


def bomb(codec: str) -> bytes:
    """A batch whose records decode to 256 MB."""
    encoder = zlib.compressobj(wbits=31) if codec == "gzip" else zstandard.ZstdCompressor().compressobj()
    body = b"".join(encoder.compress(b"\0" * (1 << 20)) for _ in range(256)) + encoder.flush()
    return packed(plain((None, None)), CODECS[codec][0], lambda _: body)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_batch_of_256_mb_is_refused_before_it_takes_them(codec: str) -> None:
    data = bomb(codec)
    assert len(data) < 2 << 20
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more than 8 MB when decoded"):
            read(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MOST_DECODED


@pytest.mark.parametrize(("codec", "name"), [(SNAPPY, "snappy"), (LZ4, "lz4"), (7, "codec 7")])
def test_other_codecs_are_named_and_not_decoded(codec: int, name: str) -> None:
    with pytest.raises(ValueError, match=f"compressed by {name}, which is not read"):
        read(packed(plain((b"k", b"v")), codec, bytes))


def test_a_batch_without_compression_has_the_same_bound() -> None:
    with pytest.raises(ValueError, match="more than 8 MB"):
        read(packed(plain((None, None)), 0, lambda _: b"\0" * (MOST_DECODED + 1)))


def test_headers_are_passed_over() -> None:
    """Two bytes of a header would be an object of 64: this batch of 6 MB would take 200 MB."""
    fields = bytearray(b"\0\0\0\2k\2v")
    encode_varint(3_000_000, fields.append)
    fields += b"\0\1" * 3_000_000
    body = bytearray()
    encode_varint(len(fields), body.append)
    data = packed(plain((None, None)), ZSTD, lambda _: zstd(bytes(body + fields)))
    tracemalloc.start()
    try:
        assert read(data) == [BatchRecord(0, 1000, b"k", b"v")]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MOST_DECODED


def test_a_batch_that_announces_more_records_than_it_has_is_refused() -> None:
    data = bytearray(plain((b"k", b"v")))
    struct.pack_into(">i", data, 57, 2**31 - 1)
    with pytest.raises(UNREADABLE):
        read(bytes(data))


def test_headers_of_batches_are_what_the_library_reads() -> None:
    data = plain((b"k", b"v"), (b"k", b"w"))
    (found,), theirs = batches(data + data[:-1]), DefaultRecordBatch(data)
    assert (found.base_offset, found.last_delta, found.leader_epoch) == (0, 1, theirs.leader_epoch)
    assert (found.first_ms, found.max_ms) == (theirs.first_timestamp, theirs.max_timestamp)
    assert (found.producer_id, found.producer_epoch) == (theirs.producer_id, theirs.producer_epoch)
    assert (found.records, found.transactional, found.control) == (2, False, False)
    assert [(record.offset, record.timestamp, record.key, record.value) for record in records_of(found)] == [
        (record.offset, record.timestamp, record.key, record.value) for record in theirs
    ]


def test_frames_of_zstd_with_a_wide_window_are_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)

    def encode(data: bytes) -> bytes:
        encoder = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        return encoder.compress(data) + encoder.flush()

    with pytest.raises(ValueError, match="no zstd"):
        read(packed(plain((b"k", b"v")), ZSTD, encode))


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_was_cut_anywhere_is_unreadable(codec: str) -> None:
    whole = packed(plain((b"key", b"value" * 20), (b"key", b"other" * 20)), *CODECS[codec])
    size = DefaultRecordBatch.HEADER_STRUCT.size
    for left in range(size, len(whole) - (9 if codec == "gzip" else 1)):
        cut = bytearray(whole[:left])
        struct.pack_into(">i", cut, 8, left - 12)
        with pytest.raises(UNREADABLE):
            read(bytes(cut))
