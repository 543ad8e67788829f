"""The composition root: from settings to exposition and servers, and the clusters that are read."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from exporter import __version__
from exporter.core import logs
from exporter.core.state import StateLock, boot_id, lock_state
from exporter.exposition.process_metrics import ProcessMetrics, build_info
from exporter.exposition.render import Exposition
from exporter.model import Clock, Deadline, Snapshot
from exporter.settings.layers import ConfigError
from exporter.settings.root import Config
from exporter.settings.values import split_address
from exporter.status.app import App, PostHandler
from exporter.web_server.authentication import Guard
from exporter.web_server.config_file import WebFile
from exporter.web_server.server import Server

if TYPE_CHECKING:
    from exporter.agent.clusters import Clusters
    from exporter.agent.receivers import Receivers
    from exporter.views.documents import StatusDocument

log = logging.getLogger(__name__)

STOP_SECONDS = 3.0
"""Seconds that a stop waits for running reads; with the server's two seconds less than five."""


class Agent:
    """The whole agent, which ``signals.run`` runs. ``load`` rereads the settings, raising ConfigError."""

    def __init__(self, config: Config, load: Callable[[], Config], clock: Clock | None = None) -> None:
        self._config = config
        self._load = load
        self._clock = clock or Clock(boot=boot_id())
        self._exposition = Exposition(self._clock, own=ProcessMetrics())
        self._receivers, post_handlers = self._ingest(config)
        self._web = WebFile(config.web.config_file)
        self._app = App(
            self._exposition,
            self.status,
            self._ready,
            self.reload,
            config.web.route_prefix,
            post_handlers,
            Guard(lambda: self._web.config),
            posts_have_tokens=config.ingest.has_token,
            hosts=config.web.allowed_hosts,
            events=lambda: self._clusters.journals,
            queries=lambda: self._clusters.answers,
            owners=lambda: self._clusters.owners,
        )
        addresses = [split_address(address) for address in config.web.listen_address]
        self._server = Server(addresses, self._app, lambda: self._web.config.tls)
        self._changing = threading.Lock()  # held while clusters are built, and while settings are reread
        self._built: Clusters | None = None
        self._state_lock: StateLock | None = None

    def start(self) -> None:
        """Listen, then read. Raises ListenError and StateInUseError before any connection to Kafka is made.

        What reads clusters is imported when the endpoint answers: that takes half of the start. ``/metrics`` has only
        the process's own series until then.
        """
        self._state_lock = lock_state(self._config.state.dir)
        self._exposition.swap({("agent",): self._own_snapshot()})
        with self._changing:
            self._server.open()
            self._web.start()
            from exporter.agent.clusters import Clusters  # noqa: PLC0415 -- see above

            clusters = Clusters(self._config, self._receivers, self._exposition, self._clock, self._state_lock)
            clusters.start()
            self._built = clusters  # not before all sources are there: until then the agent is not ready
        log.info("watching %d cluster(s), version %s", len(self._config.clusters), __version__)

    def stop(self) -> None:
        """Stop within five seconds, reads that hang or not."""
        log.info("stopping")
        self._web.close()
        closing = threading.Thread(target=self._server.close, daemon=True)
        closing.start()
        for key in self._clusters.stop(Deadline.after(STOP_SECONDS, self._clock.monotonic)):
            log.warning("a read did not end in time and is left behind: %s", "/".join(filter(None, key[:2])))
        closing.join(STOP_SECONDS)
        self._app.close()
        if self._state_lock is not None:
            self._state_lock.close()
        log.info("stopped")

    @property
    def ports(self) -> list[int]:
        """Where the servers listen, once started."""
        return self._server.ports

    @property
    def _clusters(self) -> Clusters:
        """The clusters; a request that comes before they are built waits."""
        if self._built is None:
            with self._changing:
                pass
        if self._built is None:
            raise RuntimeError("the agent was not started")
        return self._built

    def _ready(self) -> bool:
        return self._built is not None and self._built.ready()

    def status(self) -> StatusDocument:
        """The document of ``/api/v1/status``."""
        return self._clusters.status()

    def reload(self) -> Sequence[str]:
        """Reread the settings. Problems leave the old ones in force; clusters that did not change run on."""
        clusters = self._clusters
        with self._changing:
            try:
                config = self._load()
            except ConfigError as error:
                problems = [str(problem) for problem in error.problems]
                log.warning("the settings were refused, the old ones stay: %s", "; ".join(problems))
                return problems
            if problems := list(self._web.reread()):
                return problems
            try:
                self._apply(config, clusters)
            except ImportError as error:  # as where the package was replaced under this process
                problem = f"what the settings need cannot be imported, a restart may help: {error}"
                log.warning("the settings were refused, the old ones stay: %s", problem)
                return [problem]
            return []

    def _apply(self, config: Config, clusters: Clusters) -> None:
        """Raises ImportError, and then changes no cluster."""
        if config.log != self._config.log:
            logs.configure(config.log.level, config.log.format)
        at_start = ("web", "state", "journal", "ingest")
        if any(getattr(config, key) != getattr(self._config, key) for key in at_start):
            log.warning("web, state, journal and ingest take effect at the next start only")
        changes = clusters.apply(config, STOP_SECONDS)
        self._config = config
        log.info("settings reread: %d cluster(s) as before, %d new or changed", changes.kept, changes.came)

    def _ingest(self, config: Config) -> tuple[Receivers | None, Mapping[str, PostHandler]]:
        """The receivers of what is posted, and what serves their paths."""
        if not config.ingest.enabled:
            return None, {}
        # What is not posted need not be read: these take time at the start, and memory.
        from exporter.agent.receivers import ingest_apps, receivers_of  # noqa: PLC0415

        receivers = receivers_of(config, self._clock)
        return receivers, ingest_apps(receivers, config.ingest.read_token)

    def _own_snapshot(self) -> Snapshot:
        return Snapshot.until_replaced("agent", [build_info(self._config.web.external_url)], self._clock)
