"""Ids without an open transaction, in some 250 bytes each: a dict of rows of fixed size, by the key of their records.

An ``Entry`` takes some 700 bytes. Flink leaves an id for each checkpoint and subtask until the broker expires it. To
put an id in and take it out again costs 4 µs (``tests.bench.log_read``).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from operator import attrgetter
from struct import Struct
from typing import TypeAlias

from exporter.transactions.machine.entries import Entry
from exporter.transactions.machine.records import decode_key

_ROW = Struct("<IIBqhhhbi6q")
"""Application and section by number, layout; then the numbers of an entry."""
_APPLICATION = Struct("<I")
_USE = Struct("<II13xhxi24xq16x")
"""Of a row the application, the section, the version and timeout of its client, and when it last wrote."""
UsedId: TypeAlias = tuple[str, int, int, bool]
"""Of an id its application, the version and timeout (ms) of its client, and whether its partitions are known."""
_SPARE_NAMES = 64
_NUMBERS = (
    *("producer_id", "epoch", "previous_epoch", "client_version", "status", "timeout_ms", "start_ms", "update_ms"),
    *("prepared_ms", "record_ms", "offset", "begun_offset"),
)
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
        self._rows: dict[bytes, bytes] = {}
        self._application_names, self._sections = _Names(), _Names()

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: bytes) -> bool:
        return key in self._rows

    def put(self, key: bytes, entry: Entry) -> None:
        """Keep an id that is not in here, has no open transaction and waits for no outcome.

        Raises struct.error for numbers that no record has, and then nothing has changed.
        """
        application = self._application_names.number(entry.application)
        section = self._sections.number(entry.section)
        self._rows[key] = _ROW.pack(application, section, entry.layout, *_numbers_of(entry))
        if len(self._sections.values) + len(self._application_names.values) > 2 * len(self._rows) + _SPARE_NAMES:
            self._forget_names()

    def take(self, key: bytes) -> Entry | None:
        """The id as it was put in, which is not kept any more; None for an id that is not in here."""
        row = self._rows.pop(key, None)
        return None if row is None else self._entry(key, row)

    def entries(self, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[Entry]:
        """Every id that is ``wanted``. What is done to an entry does not change what is kept."""
        for key, row in self._rows.items():
            if wanted(decode_key(key)):
                yield self._entry(key, row)

    def entries_of(self, applications: Container[str]) -> Iterator[Entry]:
        """Every id of these applications, as ``entries``. Of another one a row is not taken apart."""
        names = self._application_names.values
        wanted = {number for number, name in enumerate(names) if name in applications}
        for key, row in self._rows.items() if wanted else ():
            if _APPLICATION.unpack_from(row)[0] in wanted:
                yield self._entry(key, row)

    def unseen_since(self, record_ms: int) -> list[str]:
        """The application of each id without a record with this timestamp or a later one."""
        names = self._application_names.values
        return [str(names[number]) for number, *_, at in map(_USE.unpack, self._rows.values()) if at < record_ms]

    def used_since(self, record_ms: int) -> list[UsedId]:
        """As ``UsedId``, each id that wrote since then."""
        names, none = self._application_names.values, self._sections.number(b"")
        return [
            (str(names[number]), version, timeout_ms, section != none)
            for number, section, version, timeout_ms, at in map(_USE.unpack, self._rows.values())
            if at >= record_ms
        ]

    def _entry(self, key: bytes, row: bytes) -> Entry:
        numbers = _ROW.unpack(row)
        entry = Entry(decode_key(key), self._log_partition, str(self._application_names.values[numbers[0]]))
        entry.section = bytes(self._sections.values[numbers[1]])
        (
            entry.layout,
            entry.producer_id,
            entry.epoch,
            entry.previous_epoch,
            entry.client_version,
            entry.status,
            entry.timeout_ms,
            entry.start_ms,
            entry.update_ms,
            entry.prepared_ms,
            entry.record_ms,
            entry.offset,
            entry.begun_offset,
        ) = numbers[2:]
        return entry

    def _forget_names(self) -> None:
        """Forget the applications and sections of ids that were taken out."""
        kept = {key: self._entry(key, row) for key, row in self._rows.items()}
        self._application_names, self._sections = _Names(), _Names()
        for key, entry in kept.items():
            self.put(key, entry)
