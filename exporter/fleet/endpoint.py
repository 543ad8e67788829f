"""The fleet's endpoint: its page, document and ``/metrics``, with the agent's server, TLS, users and limits."""

from __future__ import annotations

from exporter import catalogue
from exporter.exposition.process_metrics import ProcessMetrics
from exporter.exposition.render import Exposition
from exporter.fleet.fleet import RunningFleet
from exporter.fleet.page import fleet_page_pieces
from exporter.model import Clock, Sample, Snapshot
from exporter.settings.addresses import split_address
from exporter.settings.plain import EndpointConfig
from exporter.status.app import PAGE_SECONDS, App, Route
from exporter.status.json_lines import json_pieces
from exporter.status.renders import HTML, Renders, rendered
from exporter.web_server.authentication import Guard
from exporter.web_server.config_file import WebFile
from exporter.web_server.messages import Answer, Request, plain
from exporter.web_server.server import Server

DOCUMENT_LEVELS = 4
"""The document, its clusters, each of them, and its lists: each holder is a line."""


class FleetApp(App):
    """The agent's application with the fleet's page and document."""

    def __init__(self, exposition: Exposition, fleet: RunningFleet, web: EndpointConfig, guard: Guard) -> None:
        super().__init__(
            exposition, None, lambda: fleet.ready, None, web.route_prefix, guard=guard, hosts=web.allowed_hosts
        )
        self._fleet = fleet
        self._renders = Renders(PAGE_SECONDS)
        self._closing.append(self._renders.close)
        prefix = web.route_prefix
        self._routes |= {
            f"{prefix}/": Route("GET", self._fleet_page, long=True),
            f"{prefix}/api/v1/fleet": Route("GET", self._fleet_document, long=True),
        }
        if prefix:
            self._routes |= dict.fromkeys(("/", prefix), Route("GET", self._to_prefix))

    async def _fleet_page(self, request: Request) -> Answer:
        refresh = "refresh=off" not in request.query.split("&")
        make = lambda: fleet_page_pieces(self._fleet.document(), self._prefix, refresh=refresh)
        return await rendered(self._renders.get(("page", refresh), make, request.client, whole=True), HTML)

    async def _fleet_document(self, request: Request) -> Answer:
        make = lambda: json_pieces(self._fleet.document(), DOCUMENT_LEVELS)
        return await rendered(self._renders.get("document", make, request.client, whole=True))

    async def _readiness(self, _: Request) -> Answer:
        if self._ready():
            return plain("Ready.")
        return plain("Not ready: not every agent has answered or failed once yet.", 503)


class FleetEndpoint:
    """Serves a fleet. ``publish`` of it is what the fleet calls with its samples."""

    def __init__(self, web: EndpointConfig, clock: Clock) -> None:
        """Raises ConfigError for a web-config file that cannot be used."""
        self._web, self._clock = web, clock
        families = [row for row in catalogue.rows() if row.source == "fleet"]
        self._exposition = Exposition(clock, families, own=ProcessMetrics())
        self._file = WebFile(web.config_file)
        self._server: Server | None = None
        self._app: FleetApp | None = None

    @property
    def ports(self) -> list[int]:
        """Where it listens, once started."""
        return self._server.ports if self._server else []

    def publish(self, samples: list[Sample]) -> None:
        """Serve these samples from now on."""
        self._exposition.swap({("fleet",): Snapshot.until_replaced("fleet", samples, self._clock)})

    def start(self, fleet: RunningFleet) -> None:
        """Listen. Raises ListenError."""
        app = self._app = FleetApp(self._exposition, fleet, self._web, Guard(lambda: self._file.config))
        addresses = [split_address(address) for address in self._web.listen_address]
        server = Server(addresses, app, lambda: self._file.config.tls)
        server.open()
        self._server = server
        self._file.start()

    def stop(self) -> None:
        """Stop within about two seconds."""
        self._file.close()
        if self._server:
            self._server.close()
        if self._app:
            self._app.close()
