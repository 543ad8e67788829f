"""The composition root: from settings to running sources, exposition and servers, until SIGTERM."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from exporter import __version__
from exporter.agent.allocator import collect_seldom, share_one_arena
from exporter.agent.client_sources import Clients
from exporter.agent.engines import Engines, engines_of
from exporter.agent.with_thresholds import WithThresholds
from exporter.catalogue import EXPORTER_SHARDS
from exporter.config import ClusterConfig, Config, split_address
from exporter.core import logs
from exporter.core.boot import boot_id
from exporter.core.runner import Group, Runner
from exporter.core.state import StateDir
from exporter.documents.status import StatusDocument
from exporter.exposition.process_metrics import ProcessMetrics, build_info
from exporter.exposition.render import Exposition
from exporter.kafka.client import ClusterClient
from exporter.model import Clock, Deadline, Snapshot, Source
from exporter.settings.layers import ConfigError
from exporter.sources.cluster import Cluster
from exporter.sources.groups import GroupsSettings, GroupsSource
from exporter.sources.lso import LsoSettings, LsoSource
from exporter.sources.offsets import OffsetsSource
from exporter.sources.posture import PostureSettings, PostureSource
from exporter.sources.prover import Prover
from exporter.sources.transactions import TransactionsSettings, TransactionsSource
from exporter.sources.txnlog import TxnlogSettings, TxnlogSource
from exporter.transactions.aggregates import Caps
from exporter.transactions.applications import Grouping
from exporter.web.app import App, PostHandler
from exporter.web.authentication import Guard
from exporter.web.config_file import WebFile
from exporter.web.server import ListenError, Server
from exporter.web.status import ClusterSettings, document

if TYPE_CHECKING:
    from exporter.ingest.receivers import Receivers
    from exporter.sources.audits import Names

log = logging.getLogger(__name__)

STOP_SECONDS = 3.0
"""Seconds that a stop waits for running reads; with the server's two seconds less than five."""

SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})

SWITCH_SECONDS = 0.001
"""Longest time that one thread may hold the interpreter, so that a scrape does not wait for a source that decodes."""


class _Watched(NamedTuple):
    """A cluster that is being read, and its settings."""

    config: ClusterConfig
    engines: Engines
    cluster: Cluster
    group: Group


def sources_of(
    cluster: Cluster, config: ClusterConfig, engines: Engines, receivers: Receivers | None, names: Names
) -> tuple[Source, ...]:
    """Build the sources of one cluster, and of the engines on it, from their settings and from posted data.

    ``names`` returns the names of all clusters that are watched.
    """
    around = _around(cluster, engines, receivers, names) if cluster.shard.first else ()
    if not config.watch:
        return around
    lso = LsoSettings(
        interval=config.lso.interval,
        sweep_interval=config.lso.sweep_interval,
        stall_after=config.lso.stall_after,
        include=config.topics.include,
        exclude=config.topics.exclude,
    )
    transactions = TransactionsSettings(
        interval=config.transactions.interval,
        open_transactions=config.transactions.open_transactions,
        outcomes=config.transactions.outcomes,
        applications=config.transactions.applications,
    )
    caps = Caps(
        applications=config.transactions.applications,
        fenced_ids=config.transactions.fenced_ids,
        unclean_ends=config.transactions.unclean_ends,
    )
    groups = GroupsSettings(
        interval=config.groups.interval,
        include=config.groups.include,
        exclude=config.groups.exclude,
        limit=config.groups.limit,
    )
    return (
        LsoSource(cluster, lso, Prover(cluster)),
        TransactionsSource(cluster, transactions),
        *_log_sources(cluster, config.transactions.outcomes, caps),
        GroupsSource(cluster, groups),
        *((OffsetsSource(cluster, config.groups.interval),) if config.groups.offset_commits else ()),
        PostureSource(
            cluster,
            PostureSettings(config.posture.interval, config.posture.ignore, telemetry=receivers is not None),
        ),
        *around,
    )


def _around(cluster: Cluster, engines: Engines, receivers: Receivers | None, names: Names) -> tuple[Source, ...]:
    if receivers is None and not any(engines):
        return ()
    from exporter.agent.engine_sources import engine_sources  # noqa: PLC0415 -- see there

    return engine_sources(cluster, engines, receivers, names)


def _log_sources(cluster: Cluster, outcomes: str, caps: Caps) -> tuple[Source, ...]:
    if outcomes == "polling":
        return ()
    return (TxnlogSource(cluster, TxnlogSettings(caps, or_polling=outcomes == "auto")),)


class Agent:
    """The whole agent. ``load`` rereads the settings, raising ConfigError; ``run`` is all that a command calls."""

    def __init__(self, config: Config, load: Callable[[], Config], clock: Clock | None = None) -> None:
        self._config = config
        self._thresholds = config.in_force()
        self._load = load
        self._clock = clock or Clock(boot=boot_id())
        self._state = StateDir(config.state.dir)
        self._shard = config.shard.shard()
        self._exposition = Exposition(self._clock, own=ProcessMetrics(), shard=self._shard)
        self._receivers, post_handlers = self._ingest(config)
        self._watched = {key: self._watch(key, cluster, config) for key, cluster in _by_key(config).items()}
        self._runner = Runner((each.group for each in self._watched.values()), self._exposition, self._clock)
        self._clients = Clients(self._runner, self._receivers, self._clock)
        self._web = WebFile(config.web.config_file)
        app = App(
            self._exposition,
            self.status,
            self._runner.ready,
            self.reload,
            config.web.route_prefix,
            post_handlers,
            Guard(lambda: self._web.config),
            posts_have_tokens=config.ingest.has_token,
            hosts=config.web.allowed_hosts,
        )
        addresses = [split_address(address) for address in config.web.listen_address]
        self._server = Server(addresses, app, lambda: self._web.config.tls)
        self._reloading = threading.Lock()

    def run(self) -> int:
        """Run until SIGTERM or SIGINT. Exit code 0 after a clean stop, 2 when an address cannot be listened on."""
        # Blocked in every thread that starts from here on: the main thread alone receives signals.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        sys.setswitchinterval(SWITCH_SECONDS)
        share_one_arena()
        collect_seldom()
        try:
            self.start()
        except ListenError as error:
            log.critical("%s", error)
            return 2
        while signal.sigwait(SIGNALS) == signal.SIGHUP:
            self.reload()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # a second Ctrl-C ends it at once
        self.stop()
        return 0

    def start(self) -> None:
        """Listen, then read. Raises ListenError before any connection to Kafka is made."""
        self._exposition.swap({("agent",): self._own_snapshot()})
        self._server.open()
        self._web.start()
        self._exposition.start()
        self._read_clients()
        self._runner.start()
        self._clients.start()
        part = "" if self._shard.whole else f", shard {self._shard}"
        log.info("watching %d cluster(s)%s, version %s", len(self._watched), part, __version__)

    def stop(self) -> None:
        """Stop within five seconds, reads that hang or not."""
        log.info("stopping")
        self._web.close()
        self._clients.stop()
        closing = threading.Thread(target=self._server.close, daemon=True)
        closing.start()
        for key in self._runner.stop(Deadline.after(STOP_SECONDS, self._clock.monotonic)):
            log.warning("a read did not end in time and is left behind: %s", "/".join(filter(None, key[:2])))
        closing.join(STOP_SECONDS)
        self._exposition.stop()
        log.info("stopped")

    @property
    def ports(self) -> list[int]:
        """Where the servers listen, once started."""
        return self._server.ports

    def status(self) -> StatusDocument:
        """The document of ``/api/v1/status``."""
        settings = {
            key: ClusterSettings(each.config.name, each.config.kafka.bootstrap_servers)
            for key, each in self._watched.items()
        }
        return document(
            self._clients.states(self._runner.states()),
            settings,
            now=self._clock.wall(),
            ready=self._runner.ready(),
            version=__version__,
            shard=self._shard,
        )

    def reload(self) -> Sequence[str]:
        """Reread the settings. Problems leave the old ones in force; clusters that did not change run on."""
        with self._reloading:
            try:
                config = self._load()
            except ConfigError as error:
                problems = [str(problem) for problem in error.problems]
                log.warning("the settings were refused, the old ones stay: %s", "; ".join(problems))
                return problems
            if problems := list(self._web.reread()):
                return problems
            try:
                self._apply(config)
            except ImportError as error:  # as where the package was replaced under this process
                problem = f"what the settings need cannot be imported, a restart may help: {error}"
                log.warning("the settings were refused, the old ones stay: %s", problem)
                return [problem]
            return []

    def _apply(self, config: Config) -> None:
        """Raises ImportError, and then changes no cluster."""
        if config.log != self._config.log:
            logs.configure(config.log.level, config.log.format)
        old = self._config
        if (config.web, config.state, config.ingest, config.shard) != (old.web, old.state, old.ingest, old.shard):
            log.warning("web, state, ingest and shard take effect at the next start only")
        wanted = _by_key(config)
        same_applications = config.applications == self._config.applications
        kept = {
            key
            for key, each in self._watched.items()
            if same_applications
            and key in wanted
            and (_without_jvms(wanted[key]), engines_of(config, key)) == (_without_jvms(each.config), each.engines)
        }
        gone = [self._watched[key] for key in self._watched if key not in kept]
        came = {key: self._watch(key, cluster, config) for key, cluster in wanted.items() if key not in kept}
        if self._shard.first:
            self._clients.prepare(config)
        self._config = config
        self._thresholds = config.in_force()
        deadline = Deadline.after(STOP_SECONDS, self._clock.monotonic)
        for watched in gone:
            self._runner.remove(watched.group.key, deadline)
        self._watched = {key: came.get(key) or self._watched[key] for key in wanted}
        for watched in came.values():
            self._runner.add(watched.group)
        self._read_clients()
        log.info("settings reread: %d cluster(s) as before, %d new or changed", len(kept), len(came))

    def _ingest(self, config: Config) -> tuple[Receivers | None, Mapping[str, PostHandler]]:
        """The receivers of what is posted, and what serves their paths."""
        if not (config.ingest.enabled and self._shard.first):
            return None, {}
        # What is not posted need not be read: these take time at the start, and memory.
        from exporter.ingest.apps import ingest_apps  # noqa: PLC0415
        from exporter.ingest.receivers import receivers_of  # noqa: PLC0415

        receivers = receivers_of(config, self._clock)
        return receivers, ingest_apps(receivers, config.ingest.read_token)

    def _read_clients(self) -> None:
        if self._shard.first:
            self._clients.apply(self._config, {key: watched.cluster for key, watched in self._watched.items()})

    def _watch(self, key: str, config: ClusterConfig, whole: Config) -> _Watched:
        """``whole`` are the settings that the cluster's are a part of."""
        engines = engines_of(whole, key)
        cluster = Cluster(
            config.kafka,
            ClusterClient(config.kafka, self._clock),
            Grouping([each.pattern for each in whole.applications], engines.connect_groups),
            self._state,
            config.name,
            self._clock,
            shard=self._shard,
        )
        sources = sources_of(cluster, config, engines, self._receivers, lambda: frozenset(_by_key(self._config)))
        judged = tuple(
            WithThresholds(each, lambda: self._thresholds, self._clock, cluster.grouping) for each in sources
        )
        return _Watched(config, engines, cluster, Group(key, judged, cluster.client.close))

    def _own_snapshot(self) -> Snapshot:
        shards = () if self._shard.whole else (EXPORTER_SHARDS(float(self._shard.count)),)
        return Snapshot.until_replaced("agent", (build_info(), *shards), self._clock)


def _by_key(config: Config) -> dict[str, ClusterConfig]:
    """The clusters by name. Only a single cluster may have none."""
    return {cluster.name: cluster for cluster in config.clusters}


def _without_jvms(cluster: ClusterConfig) -> ClusterConfig:
    """The settings from which the cluster's own sources are made, without its brokers' JVMs."""
    return cluster.model_copy(update={"brokers": ()})
