"""Variable-length integers: unsigned ones of Kafka's flexible messages (KIP-482), signed ones of records (KIP-98)."""

from __future__ import annotations

MOST_BYTES, MOST_BYTES_64 = 5, 10
"""Of a number of 32 and of 64 bits. One that goes on would take a time that is quadratic in its bytes."""


def uvarint(number: int) -> bytes:
    """The bytes of a number from 0 on: seven bits in each, the lowest first."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_uvarint(data: bytes, at: int, most: int = MOST_BYTES) -> tuple[int, int]:
    """The number at ``at``, and where it ends. Raises IndexError where the data ends before, ValueError for more than
    ``most`` bytes.
    """
    number = 0
    for place in range(most):
        byte = data[at + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    raise ValueError(f"a variable-length number of more than {most} bytes")


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """As ``read_uvarint``, of a signed number of 64 bits in zigzag order: 0, -1, 1, -2 ..."""
    number, at = read_uvarint(data, at, MOST_BYTES_64)
    return number >> 1 ^ -(number & 1), at
