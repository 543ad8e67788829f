"""Requests about groups and transactional ids to their coordinators, by the partitions of an internal topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from exporter.kafka.answers import Answers
from exporter.kafka.client import AskError
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.routing import BrokerAccess, Question, ask_everyone, ask_leaders
from exporter.model import Deadline

V = TypeVar("V")


def ask_coordinators_of(
    client: BrokerAccess,
    metadata: Metadata,
    topic: str,
    keys: Iterable[str],
    question: Callable[[int], Question[str, V]],
    deadline: Deadline,
    *,
    anywhere: bool = False,
) -> Answers[str, V]:
    """Ask the leader of each key's partition of ``topic``; ``question`` takes the number of its partitions.

    Without the topic there is no coordinator, and the answers are empty. Where it cannot be described (DESCRIBE on the
    topic is missing), or with ``anywhere``, every broker is asked, and the one that does not answer NOT_COORDINATOR is
    the coordinator. FindCoordinator is not used: it creates the topic on a cluster that has none.
    """
    wanted = list(dict.fromkeys(keys))
    if not wanted:
        return Answers({}, {}, ())
    if topic not in metadata.topics:
        try:
            metadata = client.metadata(deadline, [topic])
        except AskError as error:
            return Answers({}, dict.fromkeys(wanted, error.fault), (error.fault,))
    count = len(metadata.topics.get(topic, ()))
    if not count and not metadata.denies(topic) and not anywhere:
        return Answers({}, {}, ())
    ask = ask_leaders if count else ask_everyone
    return ask(client, metadata, question(count or 1), wanted, deadline)
