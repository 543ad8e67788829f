"""The state that the sources of one cluster share: its client, name, settings, and state directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from exporter.applications.applications import Grouping
from exporter.core.state import StateDir
from exporter.kafka.client import AskError, ClusterClient, Metadata
from exporter.kafka.properties.client import Properties
from exporter.model import Clock, Deadline, Fact, Fault, Reason


class NamedCluster(Protocol):
    """A cluster for sources that send no request to it: its name, "" while that is unknown."""

    @property
    def name(self) -> str: ...


@dataclass(slots=True)
class Cluster:
    """One cluster. ``configured_name`` is "" when its name is the cluster id that Kafka reports."""

    properties: Properties
    client: ClusterClient
    grouping: Grouping
    state: StateDir
    configured_name: str = ""
    clock: Clock = field(default_factory=Clock)
    cluster_id: str = ""

    @property
    def name(self) -> str:
        """Value of ``kafka_cluster``: "" while no name is configured and the cluster has not answered yet."""
        return self.configured_name or self.cluster_id

    @property
    def target(self) -> str:
        """Value of ``target``: the name, or the bootstrap servers while there is none."""
        return self.name or self.properties.bootstrap_servers

    def metadata(self, deadline: Deadline, topics: Sequence[str] | None = None, max_age: float = 0.0) -> Metadata:
        """As ``ClusterClient.metadata``; also remembers the cluster id. Raises AskError, also where another cluster of
        the settings has the state of this one: both would write it.
        """
        metadata = self.client.metadata(deadline, topics, max_age)
        reader = self.state.claim(metadata.cluster_id, self.configured_name)
        if reader != self.configured_name:
            text = f"the cluster {metadata.cluster_id} is read as {reader} already, with its state in state.dir"
            raise AskError(Fault(Reason.IDENTITY, f"{text}: nothing of it is taken a second time"))
        self.cluster_id = metadata.cluster_id
        return metadata


@dataclass(frozen=True, slots=True)
class ClusterIdentity(Fact):
    """The cluster's identity; ``transaction_version`` is the finalised feature level, None before 4.0."""

    cluster_id: str
    bootstrap_servers: str
    transaction_version: int | None
    brokers: int


C = TypeVar("C", bound=NamedCluster)


class ClusterSource(Generic[C]):
    """Base of the sources of one cluster: the value of their label ``kafka_cluster``, and nothing to close."""

    def __init__(self, cluster: C, interval: float, timeout: float = 10.0) -> None:
        self._cluster = cluster
        self.pace = self.interval = interval
        self.timeout = timeout

    @property
    def cluster(self) -> str:
        """See ``exporter.model.Source``."""
        return self._cluster.name

    def close(self) -> None:
        """The source holds no resources, unless a subclass overrides this."""


class TargetSource(ClusterSource[C]):
    """Base of the sources of something beside the cluster, such as a JVM, a Connect cluster or a folder."""

    def __init__(self, cluster: C, target: str, interval: float, timeout: float = 10.0) -> None:
        super().__init__(cluster, interval, timeout)
        self.target = target


class KafkaSource(ClusterSource[Cluster]):
    """Base of the sources whose target is the cluster itself."""

    @property
    def target(self) -> str:
        """See ``exporter.model.Source``."""
        return self._cluster.target
