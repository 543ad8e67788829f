"""Records that are written without a transaction to topics of transactions. Pure, over samples of their batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from exporter.inventory.applications_in_log import WrittenOutside
from exporter.model import Fact
from exporter.posture.check import PostureCheck, Rule

MOST_GROUPS = 3
"""Groups that a check names."""

PLAIN_WRITERS = Rule(
    "plain_writers",
    "Readers get a record that was written without a transaction at once, also with read_committed, and twice if its"
    " producer sends it again.",
    "a transactional producer for every writer of the topic, or a topic of its own for the other ones"
    " (`kafka-eos-exporter transactions inventory`)",
    fixable=False,
)


@dataclass(frozen=True, slots=True)
class WriterSamples(Fact):
    """The newest batches of topics that transactions write to and groups read."""

    topics: tuple[WrittenOutside, ...]


def writer_checks(topics: Iterable[WrittenOutside]) -> Iterator[PostureCheck]:
    """Judge the topics of which a partition was read."""
    for topic in topics:
        if topic.sampled:
            found = (
                f"{topic.outside} of the newest {topic.batches} batches without a transaction, in {topic.sampled} of"
                f" {topic.partitions} partitions; read by {', '.join(topic.groups[:MOST_GROUPS])}"
            )
            yield PLAIN_WRITERS.says(topic.topic, passed=not topic.outside, found=found)
