"""Check of push telemetry: brokers that can take it ask their clients for the metrics of transactions. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exporter.model import Fault
from exporter.posture.check import PostureCheck, Rule

WANTED = "org.apache.kafka.producer.txn."
_EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class PushTelemetry:
    """The receiver of client metrics of a broker, or none, and the prefixes of each subscription."""

    receiver: bool
    subscriptions: Mapping[str, tuple[str, ...]] | Fault


SUBSCRIPTION = Rule(
    "telemetry_subscription",
    "A client pushes what a subscription asks for, and nothing without one: a receiver alone brings no metrics.",
    f"kafka-client-metrics.sh --alter --name eos --interval 15000 --metrics {WANTED},... as in docs/telemetry.md",
)


def telemetry_checks(cluster: str, found: PushTelemetry | None) -> Iterator[PostureCheck]:
    """Judge the subscriptions of a cluster whose brokers have a receiver; ``found`` is None where the agent takes no
    pushed metrics.
    """
    if found is None or not found.receiver:
        return  # OpenTelemetry's agents push past the brokers
    if isinstance(found.subscriptions, Fault):
        yield SUBSCRIPTION.cannot(cluster, found.subscriptions.detail)
        return
    serving = sorted(name for name, prefixes in found.subscriptions.items() if any(map(_covers, prefixes)))
    if serving:
        yield SUBSCRIPTION.says(cluster, passed=True, found=f"subscription {', '.join(serving[:3])}")
    else:
        names = ", ".join(sorted(found.subscriptions)[:3])
        other = f"subscriptions {names} ask for other metrics" if names else "no subscription"
        yield SUBSCRIPTION.says(cluster, passed=False, found=other)


def _covers(prefix: str) -> bool:
    return prefix == _EVERYTHING or prefix.startswith(WANTED) or WANTED.startswith(prefix)
