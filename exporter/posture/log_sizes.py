"""Check that the internal topics are compacted, and have partitions for every broker. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exporter.bounds.text import some
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, TRANSACTION_STATE
from exporter.posture.check import PostureCheck, Rule

MOST_BYTES = 1024**3
"""Bytes of one partition of an internal topic, ten segments: compacted, a million ids or offsets have a tenth of it."""
MOST_NAMED = 3

SIZE = Rule(
    "internal_topic_size",
    "A partition that is not compacted fills the disk, and its coordinator reads all of it before it serves after a"
    " restart.",
    "the cleaner of the brokers that hold it: look for `uncleanable` and the topic in log-cleaner.log, then restart"
    " that broker",
)
PARTITIONS = Rule(
    "transaction_log_partitions",
    "Brokers beyond the number of partitions coordinate no transactions, and the number cannot be changed safely.",
    "transaction.state.log.num.partitions=50 (the default) before the first transaction of a cluster",
    fixable=False,
)


def size_checks(sizes: Mapping[int, Mapping[str, Mapping[int, int]] | str]) -> Iterator[PostureCheck]:
    """Judge the largest partition of each topic. ``sizes`` has by broker the bytes by topic and partition, or why they
    are not known.
    """
    largest: dict[str, list[tuple[int, int, int]]] = {}
    errors = [size for size in sizes.values() if isinstance(size, str)]
    for broker, logs in sizes.items():
        if not isinstance(logs, str):
            for topic, partitions in logs.items():
                largest.setdefault(topic, []).extend(
                    (size, broker, partition) for partition, size in partitions.items()
                )
    for topic, rows in sorted(largest.items()):
        rows.sort(reverse=True)
        over = [row for row in rows if row[0] > MOST_BYTES]
        if over:
            named = [f"partition {number} on broker {broker}: {_shown(size)}" for size, broker, number in over]
            yield SIZE.says(topic, passed=False, found=some(named, MOST_NAMED))
        elif not errors and rows:
            yield SIZE.says(topic, passed=True, found=f"the largest partition has {_shown(rows[0][0])}")
    if errors:
        # The grant is not one of those that the agent needs: its lack is told, and no check that could not be made.
        yield SIZE.notes(
            f"{TRANSACTION_STATE} and {CONSUMER_OFFSETS}", f"not known of {len(errors)} brokers: {errors[0]}"
        )


def partition_check(partitions: int, brokers: int) -> Iterator[PostureCheck]:
    """Compare the partitions of the transaction log with the brokers."""
    if partitions:
        found = f"{partitions} partitions, {brokers} brokers"
        yield PARTITIONS.says(TRANSACTION_STATE, passed=partitions >= brokers, found=found)


def _shown(size: int) -> str:
    return f"{size / 1024**2:.1f} MiB"
