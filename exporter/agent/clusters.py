"""The clusters that are read: the sources on each, and those around them.

Most of what the agent imports is for these. So this module is imported once the endpoint listens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from exporter import __version__
from exporter.agent.client_sources import Clients
from exporter.agent.cluster_answers import ClusterAnswers, WatchedCluster
from exporter.agent.journals import Journals
from exporter.agent.with_thresholds import WithThresholds
from exporter.applications.applications import Grouping
from exporter.cluster import Cluster
from exporter.core.fact_store import Key
from exporter.core.runner import Group, GroupState, Runner
from exporter.core.source_state import SourceState
from exporter.core.state import StateDir, StateLock
from exporter.core.thresholds import Owners
from exporter.core.worker import SnapshotSink
from exporter.groups.source.groups import GroupsSource
from exporter.kafka.client import ClusterClient
from exporter.lso.proof.prover import Prover
from exporter.lso.source.lso import LsoSource
from exporter.model import Clock, Deadline, Source
from exporter.posture.source import PostureSource
from exporter.settings.root import Config
from exporter.settings.sections import ClusterConfig
from exporter.settings.targets import Engines
from exporter.transactions.source.transactions import TransactionsSource
from exporter.transactions.source.txnlog import TxnlogSource
from exporter.views.stalls import Links
from exporter.views.status import ClusterSettings, document

if TYPE_CHECKING:
    from exporter.agent.receivers import Receivers
    from exporter.audit_results.source import Names
    from exporter.views.documents import StatusDocument


LEAST_SECONDS = 0.5
"""Seconds that a stop gives the journals for their last events, also when reads hang."""


class _Watched(NamedTuple):
    """A cluster that is being read, and its settings."""

    config: ClusterConfig
    engines: Engines
    cluster: Cluster
    group: Group


class Changes(NamedTuple):
    """How many clusters are read on as before, and how many are new or changed."""

    kept: int
    came: int


class Clusters:
    """The clusters of the settings, and the clients of each. ``start`` begins to read them."""

    def __init__(
        self,
        config: Config,
        receivers: Receivers | None,
        sink: SnapshotSink,
        clock: Clock,
        held: StateLock | None = None,
    ) -> None:
        """``receivers`` is None where nothing is posted; ``held`` is the lock of ``state.dir``."""
        self._config = config
        self._receivers = receivers
        self._clock = clock
        self._thresholds = config.in_force()
        self._owners = config.owned()
        self._links = Links(config.web.route_prefix, config.web.dashboard_url or "", config.web.alertmanager_url or "")
        self._state = StateDir(config.state.dir, held)
        self.journals = Journals(config, lambda: self._owners, sink, clock, held)
        self._watched = {key: self._watch(key, cluster, config) for key, cluster in _by_key(config).items()}
        self._runner = Runner((cluster.group for cluster in self._watched.values()), sink, clock)
        self._keep_journals(self._watched)
        self._clients = Clients(self._runner, receivers, clock)
        self.answers = ClusterAnswers(self._watched_clusters, lambda: self._owners)

    def start(self) -> None:
        """Start the workers of all sources."""
        self._read_clients()
        self._runner.start()
        self._clients.start()
        self.journals.start()

    def stop(self, deadline: Deadline) -> list[Key]:
        """Stop every source. Returns the keys whose read still hangs at the deadline."""
        self._clients.stop()
        self.journals.stop()
        hanging = self._runner.stop(deadline)
        self.journals.join(max(LEAST_SECONDS, deadline.remaining()))
        return hanging

    def ready(self) -> bool:
        """Return whether every source has answered or failed once."""
        return self._runner.ready()

    def status(self) -> StatusDocument:
        """The document of ``/api/v1/status``."""
        settings = {
            key: ClusterSettings(cluster.config.name, cluster.config.kafka.bootstrap_servers, self._owners, self._links)
            for key, cluster in self._watched.items()
        }
        states = self._runner.states()
        return document(
            [self._with_journal(state) for state in self._clients.states(states)],
            settings,
            now=self._clock.wall(),
            ready=self.ready(),
            version=__version__,
        )

    @property
    def owners(self) -> Owners:
        """The owners of the settings in force."""
        return self._owners

    def apply(self, config: Config, stop_seconds: float) -> Changes:
        """Read the clusters of these settings; those that did not change are read on. What went is given so many
        seconds to stop. Raises ImportError, and then changes no cluster.
        """
        wanted = _by_key(config)
        same_applications = config.applications == self._config.applications
        kept = {
            key
            for key, cluster in self._watched.items()
            if same_applications
            and key in wanted
            and (_without_jvms(wanted[key]), config.engines_on(key)) == (_without_jvms(cluster.config), cluster.engines)
        }
        gone = [self._watched[key] for key in self._watched if key not in kept]
        came = {key: self._watch(key, cluster, config) for key, cluster in wanted.items() if key not in kept}
        self._clients.prepare(config)
        self._config = config
        self._thresholds = config.in_force()
        self._owners = config.owned()
        if self._receivers is not None:
            self._receivers.accept_names_of(config)
        deadline = Deadline.after(stop_seconds, self._clock.monotonic)
        for watched in gone:
            self._runner.remove(watched.group.key, deadline)
            self._state.release(watched.config.name)
        self.journals.keep(wanted)
        self._watched = {key: came.get(key) or self._watched[key] for key in wanted}
        self._keep_journals(came)
        for watched in came.values():
            self._runner.add(watched.group)
        self._read_clients()
        return Changes(len(kept), len(came))

    def _watched_clusters(self) -> dict[str, WatchedCluster]:
        """The clusters whose transactions are watched, by name."""
        facts = {state.key: state.facts for state in self._runner.states()}
        watched = [(key, watched) for key, watched in self._watched.items() if watched.config.watch and key in facts]
        return {watch.cluster.name: WatchedCluster(watch.cluster, facts[key]) for key, watch in watched}

    def _with_journal(self, group: GroupState) -> GroupState:
        state = self.journals.state(group.key)
        return group if state is None else replace(group, sources=(*group.sources, state))

    def _read_clients(self) -> None:
        self._clients.apply(self._config, {key: watched.cluster for key, watched in self._watched.items()})

    def _keep_journals(self, clusters: Mapping[str, _Watched]) -> None:
        for key, watched in clusters.items():
            self.journals.watch(key, watched.cluster, partial(self._states_of, key))

    def _states_of(self, key: str) -> tuple[SourceState, ...]:
        return self._runner.source_states([key, *self._clients.groups_of(key)])

    def _watch(self, key: str, config: ClusterConfig, whole: Config) -> _Watched:
        """``whole`` are the settings that the cluster's are a part of."""
        engines = whole.engines_on(key)
        cluster = Cluster(
            config.kafka,
            ClusterClient(config.kafka, self._clock),
            Grouping([application.pattern for application in whole.applications], engines.connect_groups),
            self._state,
            config.name,
            self._clock,
        )
        sources = sources_of(cluster, config, engines, self._receivers, lambda: frozenset(_by_key(self._config)))
        judged = tuple(
            WithThresholds(source, lambda: self._thresholds, self._clock, cluster.grouping, lambda: self._owners)
            for source in sources
        )
        return _Watched(config, engines, cluster, Group(key, judged, cluster.client.close))


def sources_of(
    cluster: Cluster, config: ClusterConfig, engines: Engines, receivers: Receivers | None, names: Names
) -> tuple[Source, ...]:
    """Build the sources of one cluster, and of the engines on it, from their settings and from posted data.

    ``names`` returns the names of all clusters that are watched.
    """
    around = _around(cluster, engines, receivers, names)
    if not config.watch:
        return around
    return (
        LsoSource(cluster, config.lso, config.topics, Prover(cluster)),
        TransactionsSource(cluster, config.transactions),
        TxnlogSource(cluster, config.transactions),
        GroupsSource(cluster, config.groups),
        PostureSource(cluster, config.posture),
        *around,
    )


def _around(cluster: Cluster, engines: Engines, receivers: Receivers | None, names: Names) -> tuple[Source, ...]:
    if receivers is None and not any(engines):
        return ()
    from exporter.agent.engine_sources import engine_sources  # noqa: PLC0415 -- see there

    return engine_sources(cluster, engines, receivers, names)


def _by_key(config: Config) -> dict[str, ClusterConfig]:
    """The clusters by name. Only a single cluster may have none."""
    return {cluster.name: cluster for cluster in config.clusters}


def _without_jvms(cluster: ClusterConfig) -> ClusterConfig:
    """The settings from which the cluster's own sources are made, without its brokers' JVMs."""
    return replace(cluster, brokers=())
