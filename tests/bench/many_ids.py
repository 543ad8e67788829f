"""``python -m tests.bench.many_ids``: what so many finished ids and open transactions take, their log read at once.

No broker takes part: the records are made here, one begin, decision and end for each id, and read in the batches and by
the state machines that the agent reads with. What librdkafka takes is in the other rows.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from exporter.agent.signals import share_one_arena
from exporter.applications.applications import Grouping
from exporter.kafka.ask import coordinator_partition
from exporter.model import TopicPartition
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.counting.aggregates import Aggregates
from exporter.transactions.machine.entries import encode_key, encode_section
from exporter.transactions.machine.records import HEAD, PREVIOUS_ID_TAGS, TIMES, Status
from exporter.transactions.machine.state_machine import StateMachine
from exporter.transactions.tail import BATCH
from tests.bench.machine import rss_mb

PARTITIONS = 50
TAGS = PREVIOUS_ID_TAGS + b"\xff" * 8
NO_PARTITIONS = b"\x01"
SUBTASKS = 16
BEGIN_MS = 1_790_000_000_000
PER_SECOND = 400


class MadeRecord(NamedTuple):
    """One record of the log."""

    partition: int
    ms: int
    key: bytes
    value: bytes


def records(finished: int, opened: int) -> Iterator[MadeRecord]:
    """The log of a Flink application that takes a new id for each checkpoint and subtask."""
    for number in range(finished + opened):
        subtask, checkpoint = number % SUBTASKS, number // SUBTASKS
        transactional_id = f"flink-orders-{subtask}-{checkpoint}"
        partition, key = coordinator_partition(transactional_id, PARTITIONS), encode_key(transactional_id)
        section = encode_section(frozenset({TopicPartition("orders", subtask)}))
        ms = BEGIN_MS + number * 1000 // PER_SECOND
        for status in (Status.ONGOING, Status.PREPARE_COMMIT):
            value = HEAD.pack(1, number, 0, 60_000, status) + section + TIMES.pack(ms, ms) + TAGS
            yield MadeRecord(partition, ms, key, value)
            if number >= finished:
                break
        else:
            end = (
                HEAD.pack(1, number, 0, 60_000, Status.COMPLETE_COMMIT) + NO_PARTITIONS + TIMES.pack(ms + 2, ms) + TAGS
            )
            yield MadeRecord(partition, ms, key, end)


def main() -> int:
    """Print what it took."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.many_ids", description=__doc__.split("\n")[0])
    parser.add_argument("--finished", type=int, default=1_000_000)
    parser.add_argument("--open", type=int, default=20_000)
    options = parser.parse_args()
    share_one_arena()
    aggregates = Aggregates(Grouping(), TransactionsConfig())
    machines = [StateMachine(number) for number in range(PARTITIONS)]
    before = rss_mb(os.getpid())
    made = 0.0
    read = 0
    offsets = [0] * PARTITIONS
    source = records(options.finished, options.open)
    began = time.process_time()
    while True:
        making = time.process_time()
        batch = list(islice(source, BATCH))
        made += time.process_time() - making
        if not batch:
            break
        read += len(batch)
        for partition, ms, key, value in batch:
            offsets[partition] += 1
            for event in machines[partition].apply(offsets[partition], ms, key, value):
                aggregates.take(event, new=True)
        for partition in {record.partition for record in batch}:
            machines[partition].make_room()
    cpu = time.process_time() - began - made
    held = rss_mb(os.getpid()) - before
    print(f"{read:,} records in {cpu:.1f} CPU s ({read / cpu:,.0f} a second)")
    known = sum(len(machine.entries) + len(machine.finished) for machine in machines)
    print(f"{known:,} ids, {sum(len(machine.open) for machine in machines):,} open: {held:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
