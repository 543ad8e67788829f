"""Ids without an open transaction, in some 120 bytes each: a row of fixed size, and a hash table of row numbers.

An ``Entry`` takes some 700 bytes, a dict of packed rows 230. Flink leaves an id for each checkpoint and subtask until
the broker expires it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Container, Iterator
from itertools import repeat
from operator import attrgetter
from struct import Struct
from typing import TypeAlias

from exporter.transactions.machine.entries import Entry
from exporter.transactions.machine.records import decode_key

_ROW = Struct("<IHIIBqhhhbi6q")
"""Where the key is and its length, application and section by number, layout; then the numbers of an entry."""
_KEY = Struct("<IH")
_APPLICATION = Struct("<10xI")
_USE = Struct("<6xII13xhxi24xq16x")
"""Of a row the section, the application, the version and timeout of its client, and when it last wrote."""
_NONE, _GONE = -1, -2
NEVER_MS = 2**63 - 1
"""Later than any timestamp."""
UsedId: TypeAlias = tuple[str, int, int, bool]
"""Of an id its application, the version and timeout (ms) of its client, and whether its partitions are known."""
_SMALLEST = 8
_NUMBERS = (
    *("producer_id", "epoch", "previous_epoch", "client_version", "status", "timeout_ms", "start_ms", "update_ms"),
    *("prepared_ms", "record_ms", "offset", "begun_offset"),
)
_NO_ROW = _ROW.pack(*[0] * 5, *[-1] * 9, NEVER_MS, -1, -1)
"""Where an id was taken out: as one that is in use, of no known client."""
_numbers_of = attrgetter(*_NUMBERS)


class _Names:
    """Values by number."""

    def __init__(self) -> None:
        self.values: list[bytes | str] = []
        self._numbers: dict[bytes | str, int] = {}

    def number(self, value: bytes | str) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found


class FinishedIds:
    """The ids of one partition of the log, by the key of their records. What is put in comes out as it was,
    but for ``begun_ahead_ms``, which is 0.
    """

    def __init__(self, log_partition: int) -> None:
        self._log_partition = log_partition
        self._clear(_SMALLEST)

    def _clear(self, slots: int) -> None:
        self._slots = array("i", repeat(_NONE, slots))
        self._used = 0  # slots that were ever taken
        self._rows = bytearray()
        self._keys = bytearray()
        self._free: list[int] = []
        self._application_names, self._sections = _Names(), _Names()

    def __len__(self) -> int:
        return len(self._rows) // _ROW.size - len(self._free)

    def __contains__(self, key: bytes) -> bool:
        return self._slot(key) is not None

    def put(self, key: bytes, entry: Entry) -> None:
        """Keep an id that is not in here, has no open transaction and waits for no outcome.

        Raises struct.error for numbers that no record has, and then nothing has changed.
        """
        if 3 * (self._used + 1) > 2 * len(self._slots):
            self._grow()
        row = _ROW.pack(
            len(self._keys),
            len(key),
            self._sections.number(entry.section),
            self._application_names.number(entry.application),
            entry.layout,
            *_numbers_of(entry),
        )
        if self._free:
            number = self._free.pop()
            self._rows[number * _ROW.size : (number + 1) * _ROW.size] = row
        else:
            number = len(self._rows) // _ROW.size
            self._rows += row
        self._keys += key
        self._slots[self._never_taken(key)] = number
        self._used += 1

    def take(self, key: bytes) -> Entry | None:
        """The id as it was put in, which is not kept any more; None for an id that is not in here."""
        at = self._slot(key)
        if at is None:
            return None
        number = self._slots[at]
        entry = self._entry(number)
        self._slots[at] = _GONE
        self._rows[number * _ROW.size : (number + 1) * _ROW.size] = _NO_ROW
        self._free.append(number)
        return entry

    def entries(self, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[Entry]:
        """Every id that is ``wanted``. What is done to an entry does not change what is kept."""
        for number in self._slots:
            if number >= 0 and wanted(decode_key(self._key(number))):
                yield self._entry(number)

    def entries_of(self, applications: Container[str]) -> Iterator[Entry]:
        """Every id of these applications, as ``entries``. Of another one a row is not taken apart."""
        names = self._application_names.values
        wanted = {number for number, name in enumerate(names) if name in applications}
        for number in self._slots if wanted else ():
            if number >= 0 and _APPLICATION.unpack_from(self._rows, number * _ROW.size)[0] in wanted:
                yield self._entry(number)

    def unseen_since(self, record_ms: int) -> list[str]:
        """The application of each id without a record with this timestamp or a later one."""
        names = self._application_names.values
        return [str(names[number]) for _, number, *_, at in _USE.iter_unpack(self._rows) if at < record_ms]

    def used_since(self, record_ms: int) -> list[UsedId]:
        """As ``UsedId``, each id that wrote since then."""
        names, none = self._application_names.values, self._sections.number(b"")
        return [
            (str(names[number]), version, timeout_ms, section != none)
            for section, number, version, timeout_ms, at in _USE.iter_unpack(self._rows)
            if NEVER_MS > at >= record_ms
        ]

    def _slot(self, key: bytes) -> int | None:
        slots, mask, size = self._slots, len(self._slots) - 1, len(key)
        at = hash(key) & mask
        while (number := slots[at]) != _NONE:
            if number >= 0:
                start, length = _KEY.unpack_from(self._rows, number * _ROW.size)
                if length == size and self._keys[start : start + size] == key:
                    return at
            at = (at + 1) & mask
        return None

    def _never_taken(self, key: bytes) -> int:
        """The first slot for this key that never had a row."""
        slots, mask = self._slots, len(self._slots) - 1
        at = hash(key) & mask
        while slots[at] != _NONE:
            at = (at + 1) & mask
        return at

    def _entry(self, number: int) -> Entry:
        start, length, section, application, layout, *numbers = _ROW.unpack_from(self._rows, number * _ROW.size)
        key = bytes(self._keys[start : start + length])
        entry = Entry(decode_key(key), self._log_partition, str(self._application_names.values[application]))
        entry.section = bytes(self._sections.values[section])
        entry.layout = layout
        for name, value in zip(_NUMBERS, numbers, strict=True):
            setattr(entry, name, value)
        return entry

    def _grow(self) -> None:
        """Make room, and leave out what ids that were taken out left behind."""
        slots = _SMALLEST
        while slots < 2 * len(self):
            slots *= 2
        if self._used == len(self):  # nothing was taken out: the rows stay as they are
            self._slots = array("i", repeat(_NONE, slots))
            for number in range(len(self)):
                self._slots[self._never_taken(self._key(number))] = number
            return
        kept = [(self._key(number), self._entry(number)) for number in self._slots if number >= 0]
        self._clear(slots)
        for key, entry in kept:
            self.put(key, entry)

    def _key(self, number: int) -> bytes:
        start, length = _KEY.unpack_from(self._rows, number * _ROW.size)
        return bytes(self._keys[start : start + length])
