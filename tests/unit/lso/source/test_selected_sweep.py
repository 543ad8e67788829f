"""Which partitions a read sweeps."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from exporter.lso.source.selected import Sweep
from exporter.model import TopicPartition


def partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition(f"t-{number // 10}", number % 10) for number in range(count)]


def sweep_of(count: int, seconds: float = 60.0, interval: float = 5.0) -> Sweep:
    sweep = Sweep(seconds, interval)
    sweep.of(partitions(count))
    return sweep


def test_the_first_read_is_of_all() -> None:
    assert sweep_of(101).due(1000.0) == frozenset(partitions(101))


def test_later_reads_are_of_the_share_that_the_time_is_and_each_has_its_turn() -> None:
    sweep = sweep_of(120)
    sweep.due(0.0)
    sweep.read()
    slices = []
    for turn in range(1, 13):
        slices.append(sweep.due(5.0 * turn))
        sweep.read()
    assert {len(part) for part in slices} == {10}
    assert frozenset[TopicPartition]().union(*slices) == frozenset(partitions(120))


def test_what_was_not_read_is_due_again_with_what_came_since() -> None:
    sweep = sweep_of(120)
    sweep.due(0.0)
    sweep.read()
    first = sweep.due(5.0)
    both = sweep.due(10.0)
    assert first < both
    assert len(both) == 20


def test_a_read_that_comes_a_little_early_takes_a_whole_part() -> None:
    often = sweep_of(120, seconds=5.0)
    often.due(0.0)
    often.read()
    assert often.due(4.9) == frozenset(partitions(120)), "all at each read"
    slow = sweep_of(120)
    slow.due(0.0)
    slow.read()
    assert len(slow.due(4.9)) == 10


def test_reads_that_come_much_sooner_take_no_more_in_all() -> None:
    sweep = sweep_of(1200)
    sweep.due(0.0)
    sweep.read()
    taken = []
    for turn in range(1, 11):
        taken.append(len(sweep.due(1.5 * turn)))
        sweep.read()
    assert taken == [30] * 10


def test_no_partitions_are_no_work() -> None:
    sweep = sweep_of(0)
    assert not sweep.due(0.0)
    sweep.read()
    assert not sweep.due(5.0)


def test_fewer_partitions_than_before_are_swept_from_their_first() -> None:
    sweep = sweep_of(100)
    sweep.due(0.0)
    sweep.read()
    sweep.due(57.0)
    sweep.read()
    sweep.of(partitions(3))
    sweep.due(59.0)
    sweep.read()
    assert sweep.due(200.0) == frozenset(partitions(3))


@given(count=st.integers(1, 50), gaps=st.lists(st.floats(0.1, 70.0), min_size=1, max_size=40))
def test_no_partition_waits_longer_than_the_interval_and_two_reads(count: int, gaps: list[float]) -> None:
    sweep = sweep_of(count)
    instants = [0.0, *accumulate(gaps)]
    seen: dict[TopicPartition, list[float]] = {partition: [] for partition in partitions(count)}
    for now in instants:
        for partition in sweep.due(now):
            seen[partition].append(now)
        sweep.read()
    longest = max(gaps)
    for reads in seen.values():
        assert reads[0] == 0.0
        assert all(later - sooner <= 60.0 + 2 * longest for sooner, later in pairwise([*reads, instants[-1]]))
