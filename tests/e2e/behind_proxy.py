"""Two brokers that reach their controller by a proxy only, which can hold back what one of them asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from testkit.cluster import KafkaCluster
from testkit.settings import free_ports
from tests.helpers.tcp_proxy import TcpProxy

CONTROLLER = 100
HELD_MS = "600000"
"""A broker waits for an answer that is held back. After a shorter timeout its raft thread polls without a pause, for a
quarter of a core.
"""


@contextmanager
def brokers_behind_proxy(**options: Any) -> Iterator[tuple[KafkaCluster, TcpProxy]]:
    """A running cluster, with further options of KafkaCluster, and its proxy, which lets all pass in the end."""
    port = free_ports(1)[0]
    by_proxy = {
        "controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{port}",
        "controller.quorum.fetch.timeout.ms": HELD_MS,
        "controller.quorum.request.timeout.ms": HELD_MS,
    }
    # Or brokers learn the controller's own address from it, and go around the proxy.
    controller = {"advertised.listeners": f"CONTROLLER://127.0.0.1:{port}"}
    nodes = {CONTROLLER: controller, 1: by_proxy, 2: by_proxy}
    kafka = KafkaCluster("4.3.1", 2, node_properties=nodes, heap_mb=384, **options)
    with TcpProxy(kafka.controller_port, port) as proxy:
        try:
            with kafka:
                yield kafka, proxy
        finally:
            proxy.heal()
