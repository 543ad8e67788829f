"""How often coordinators look for transactions that timed out: until then a client can still commit its own."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.kafka.client import ClusterClient
from exporter.model import Deadline, Fault

SETTING = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
DEFAULT_SECONDS = 10.0


def scans_late(client: ClusterClient, brokers: Iterable[int], deadline: Deadline) -> dict[int, float]:
    """By how many seconds rarer than by default each broker looks for them.

    Those that look as often are left out, as are those whose settings may not be read.
    """
    answers = client.configs("broker", [str(broker) for broker in sorted(brokers)], [SETTING], deadline)
    found = {
        int(broker): int(answer.get(SETTING) or 0) / 1000 - DEFAULT_SECONDS
        for broker, answer in answers.items()
        if not isinstance(answer, Fault)
    }
    return {broker: seconds for broker, seconds in found.items() if seconds > 0}
