"""Ids that are put away take few bytes and come back as they were."""

from __future__ import annotations

import struct
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.transactions.machine.entries import Entry, encode_key
from exporter.transactions.machine.finished import _NUMBERS, _ROW, _USE, FinishedIds
from tests.helpers.calls import calls_of

INT64 = st.integers(-(2**63), 2**63 - 1)
BITS = {
    "epoch": 16,
    "previous_epoch": 16,
    "client_version": 16,
    "status": 8,
    "timeout_ms": 32,
}
NAMES = [f"orders-\u00e9-{number}" for number in range(12)]


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    entry = Entry(draw(st.sampled_from(NAMES)), 7, draw(st.sampled_from(("orders", "pay", "x" * 300))))
    for name in _NUMBERS:
        bits = BITS.get(name, 64)
        setattr(entry, name, draw(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)))
    entry.section = draw(st.binary(max_size=40))
    entry.layout = draw(st.integers(0, 1))
    return entry


def told(entry: Entry) -> dict[str, object]:
    return {name: getattr(entry, name) for name in Entry.__slots__}


@given(st.lists(st.one_of(entries(), st.sampled_from(NAMES)), max_size=120), INT64)
def test_it_is_a_dictionary_of_ids(steps: list[Entry | str], since: int) -> None:
    kept = FinishedIds(7)
    meant: dict[str, Entry] = {}
    for step in steps:
        name = step if isinstance(step, str) else step.transactional_id
        found = kept.take(encode_key(name))
        expected = meant.pop(name, None)
        assert (None if found is None else told(found)) == (None if expected is None else told(expected))
        if isinstance(step, Entry):
            kept.put(encode_key(name), step)
            meant[name] = step
        assert len(kept) == len(meant)
        assert all((encode_key(name) in kept) == (name in meant) for name in NAMES)
    assert {entry.transactional_id: told(entry) for entry in kept.entries()} == {
        name: told(entry) for name, entry in meant.items()
    }
    assert {entry.transactional_id for entry in kept.entries(NAMES[0].__eq__)} == meant.keys() & {NAMES[0]}
    of_pay = {name for name, entry in meant.items() if entry.application == "pay"}
    assert {entry.transactional_id for entry in kept.entries_of({"pay", "another"})} == of_pay
    unseen = [entry.application for entry in meant.values() if entry.record_ms < since]
    assert Counter(kept.unseen_since(since)) == Counter(unseen)
    seen = [entry for entry in meant.values() if entry.record_ms >= since]
    used = [(ended.application, ended.client_version, ended.timeout_ms, bool(ended.section)) for ended in seen]
    assert Counter(kept.used_since(since)) == Counter(used)


def test_of_other_applications_no_id_is_taken_apart() -> None:
    kept = FinishedIds(0)
    for number in range(100):
        kept.put(encode_key(f"id-{number}"), Entry(f"id-{number}", 0, "pay" if number < 3 else "orders"))
    found = calls_of(lambda: list(kept.entries_of({"pay"})))
    assert (found["FinishedIds._entry"], found["decode_key"]) == (3, 3)


def test_numbers_that_no_record_has_are_refused_and_change_nothing() -> None:
    kept, entry = FinishedIds(0), Entry("orders-1", 0, "orders")
    entry.epoch = 10**6
    with pytest.raises(struct.error):
        kept.put(encode_key("orders-1"), entry)
    assert not len(kept)
    assert encode_key("orders-1") not in kept


def test_an_id_takes_at_most_260_bytes() -> None:
    kept = FinishedIds(0)
    for number in range(20_000):
        entry = Entry(f"flink-orders-{number % 16}-{number}", 0, "flink-orders")
        entry.section = b"section of a topic"
        kept.put(encode_key(entry.transactional_id), entry)
    assert _USE.size == _ROW.size
    held = sum(key.__sizeof__() + row.__sizeof__() for key, row in kept._rows.items()) + kept._rows.__sizeof__()
    assert held <= 260 * 20_000


def test_names_of_ids_that_were_taken_out_are_forgotten() -> None:
    kept = FinishedIds(0)
    for number in range(10_000):
        entry = Entry(f"id-{number}", 0, f"application-{number}")
        entry.section = str(number).encode()
        kept.put(encode_key(entry.transactional_id), entry)
        if number >= 100:
            kept.take(encode_key(f"id-{number - 100}"))
    assert len(kept) == 100
    assert len(kept._sections.values) <= 2 * 100 + 64
    assert {entry.application for entry in kept.entries()} == {
        f"application-{number}" for number in range(9900, 10_000)
    }
