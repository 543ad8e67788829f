"""Unsigned variable-length integers, as Kafka's flexible messages have them (KIP-482)."""

from __future__ import annotations

MOST_BYTES = 5
"""Of a number of 32 bits. One that goes on would take a time that is quadratic in its bytes."""


def uvarint(number: int) -> bytes:
    """The bytes of a number from 0 on: seven bits in each, the lowest first."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """The number at ``at``, and where it ends. Raises IndexError where the data ends before, ValueError for more than
    ``MOST_BYTES``.
    """
    number = 0
    for place in range(MOST_BYTES):
        byte = data[at + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    raise ValueError("a variable-length number of more than five bytes")
