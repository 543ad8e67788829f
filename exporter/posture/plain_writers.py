"""Records that are written without a transaction to topics of transactions. Pure, over samples of their batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from exporter.inventory.applications_in_log import WrittenOutside
from exporter.posture.check import PostureCheck, Rule

MOST_GROUPS = 3
"""Groups that a check names."""

PLAIN_WRITERS = Rule(
    "plain_writers",
    "Readers get a record that was written without a transaction at once, also with read_committed, and twice if its"
    " producer sends it again.",
    "a transactional producer for every writer of the topic, or a topic of its own for the other ones"
    " (`kafka-eos-exporter applications`)",
    fixable=False,
)


def writer_checks(cluster: str, topics: Iterable[WrittenOutside], error: str) -> Iterator[PostureCheck]:
    """Judge the topics of which a partition was read; ``error`` is why another was not."""
    if error:
        yield PLAIN_WRITERS.cannot(cluster, error)
    for topic in topics:
        if topic.sampled:
            found = (
                f"{topic.outside} of the newest {topic.batches} batches without a transaction, in {topic.sampled} of"
                f" {topic.partitions} partitions; read by {', '.join(topic.groups[:MOST_GROUPS])}"
            )
            yield PLAIN_WRITERS.says(topic.topic, passed=not topic.outside, found=found)
