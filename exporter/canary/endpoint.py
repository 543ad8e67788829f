"""``/metrics`` of the canary: the agent's own exposition and server, with its TLS, users and limits."""

from __future__ import annotations

import threading

from exporter import catalogue
from exporter.config import Config, split_address
from exporter.exposition.process_metrics import ProcessMetrics, build_info
from exporter.exposition.render import Exposition
from exporter.model import Clock, Snapshot
from exporter.status.app import App
from exporter.web_server.authentication import Guard
from exporter.web_server.config_file import WebFile
from exporter.web_server.server import Server


class CanaryEndpoint:
    """``/metrics`` and health. Ready after the first turn."""

    def __init__(self, config: Config) -> None:
        clock = Clock()
        families = [row for row in catalogue.rows() if row.source == "canary"]
        self._exposition = Exposition(clock, [catalogue.EXPORTER_BUILD_INFO, *families], own=ProcessMetrics())
        self._ready = threading.Event()
        self._web = WebFile(config.web.config_file)
        app = App(
            self._exposition,
            None,
            self._ready.is_set,
            None,
            config.web.route_prefix,
            guard=Guard(lambda: self._web.config),
            hosts=config.web.allowed_hosts,
        )
        addresses = [split_address(address) for address in config.web.listen_address]
        self._server = Server(addresses, app, lambda: self._web.config.tls)
        self._exposition.swap({("agent",): Snapshot.until_replaced("agent", [build_info()], clock)})

    @property
    def ports(self) -> list[int]:
        """Where it listens, once started."""
        return self._server.ports

    def start(self) -> None:
        """Listen. Raises ListenError."""
        self._server.open()
        self._web.start()

    def publish(self, snapshot: Snapshot) -> None:
        """Serve these samples from now on."""
        self._exposition.swap({("canary",): snapshot})
        self._ready.set()

    def stop(self) -> None:
        """Stop within about two seconds."""
        self._web.close()
        self._server.close()
