"""Unsigned variable-length integers, as Kafka's flexible messages have them (KIP-482)."""

from __future__ import annotations


def uvarint(number: int) -> bytes:
    """The bytes of a number from 0 on: seven bits in each, the lowest first."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
