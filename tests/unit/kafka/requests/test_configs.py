"""How often the coordinators look for transactions that timed out."""

from __future__ import annotations

from typing import Any

from exporter.kafka.requests.configs import SCAN_INTERVAL, scans_late
from exporter.model import Deadline, Fault, Reason


class ConfiguredBrokers:
    """Looks every 10 s, every 150 s, every second, not known."""

    def configs(self, resource: str, names: list[str], keys: list[str], _: Deadline) -> dict[str, Any]:
        assert (resource, names, keys) == ("broker", ["1", "2", "3", "4"], [SCAN_INTERVAL])
        seen: dict[str, Any] = {"1": {SCAN_INTERVAL: "10000"}, "2": {SCAN_INTERVAL: "150000"}}
        seen["3"] = {SCAN_INTERVAL: "1000"}
        return seen | {"4": Fault(Reason.AUTHORIZATION, "grant DESCRIBE_CONFIGS on Cluster")}


def test_only_brokers_that_are_known_to_look_more_rarely_are_late() -> None:
    client: Any = ConfiguredBrokers()
    assert scans_late(client, [4, 3, 2, 1], Deadline.after(5)) == {2: 140.0}
