"""The running fleet: asks agents in the background, and has the last view of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from urllib.parse import quote, urlsplit

from exporter import __version__, catalogue
from exporter.bounds.text import cut
from exporter.fleet.changes import FleetChanges
from exporter.fleet.documents import FleetDocument, Link, fleet_document
from exporter.fleet.facts import Dispute, FleetAgent, FleetView
from exporter.fleet.merge import merge
from exporter.fleet.source.agents import FleetAgents
from exporter.model import Clock, Sample
from exporter.words import FleetState

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""Seconds between merges of answers; more where it would take more than a fifth of the time."""
LIST_SECONDS = 5.0
"""Seconds between looks at the lists of agents."""
DISPUTE_SECONDS = 90.0
"""Seconds for which agents must disagree to contradict each other: their answers are of different instants."""
LONGEST_LABEL = 200
NOT_LISTED = "the lists of agents have not been read yet"


class RunningFleet:
    """Threads that ask and merge; ``publish`` gets the samples of each view. Any thread may call ``document``."""

    def __init__(
        self, agents: FleetAgents, link: Link, clock: Clock, publish: Callable[[list[Sample]], None] = lambda _: None
    ) -> None:
        self._agents, self._link, self._clock, self._publish = agents, link, clock, publish
        self._began = clock.monotonic()
        self._closed, self._listed = threading.Event(), threading.Event()
        self._looking = threading.Lock()  # held while a view is made
        self._lock = threading.Lock()  # guards the two below
        self._changes = FleetChanges()
        self._view: FleetView | None = None
        self._disputes: dict[tuple[str, Dispute], float] = {}  # monotonic: since when

    def start(self) -> None:
        """Ask in the background until ``stop``."""
        for name, run in (("fleet lists", self._follow_lists), ("fleet", self._follow)):
            threading.Thread(target=run, name=name, daemon=True).start()

    def stop(self) -> None:
        self._closed.set()
        self._listed.set()
        self._agents.close()

    def once(self) -> FleetDocument:
        """Ask every agent once, and return the document."""
        self._agents.refresh()
        self._agents.ask_all()
        self.look()
        return self.document()

    @property
    def ready(self) -> bool:
        """Return whether every listed agent has answered or failed once."""
        with self._lock:
            view = self._view
        return view is not None and all(agent.answer is not None or agent.fault is not None for agent in view.agents)

    def document(self) -> FleetDocument:
        """The document of ``/api/v1/fleet``, of the last view."""
        with self._lock:
            view = self._view or merge((), self._clock.wall(), [NOT_LISTED])
            changes = self._changes.last_hour(view.at)
        watched = self._clock.monotonic() - self._began
        return fleet_document(view, changes, self._link, version=__version__, watched=watched)

    def look(self) -> None:
        """Merge the last answers, and publish the samples."""
        with self._looking:
            self._look()

    def _look(self) -> None:
        now, at = self._clock.monotonic(), self._clock.wall()
        lasting = {dispute for (_, dispute), since in self._disputes.items() if now - since >= DISPUTE_SECONDS}
        view = merge(self._agents.readings(), at, self._agents.problems, lasting)
        disputes = {(cluster.name, dispute) for cluster in view.clusters for dispute in cluster.disputes}
        self._disputes = {dispute: self._disputes.get(dispute, now) for dispute in disputes}
        with self._lock:
            self._view = view
            self._changes.note(view)
        self._publish(list(fleet_samples(view)))

    def _follow(self) -> None:
        self._listed.wait()
        look_at = self._clock.monotonic()
        pause = 0.0
        while not self._closed.wait(pause):
            try:
                left = self._agents.ask_due()
                began = self._clock.monotonic()
                if began >= look_at:
                    self.look()
                    look_at = began + max(LOOK_SECONDS, 5 * (self._clock.monotonic() - began))
            except Exception:
                if self._closed.is_set():
                    return
                log.exception("merging the answers of agents failed")
                left = LOOK_SECONDS
            pause = min(1.0, max(0.05, min(left, look_at - self._clock.monotonic())))

    def _follow_lists(self) -> None:
        said: tuple[str, ...] = ()
        while not self._closed.is_set():
            try:
                self._agents.refresh()
            except Exception:
                log.exception("listing agents failed")
            self._listed.set()
            if self._agents.problems != said:
                said = self._agents.problems
                for problem in said:
                    log.warning("%s", problem)
            self._closed.wait(LIST_SECONDS)


def fleet_samples(view: FleetView) -> Iterator[Sample]:
    """Yield the samples of a view. Two clusters of one name are one series: the worst state, and no number."""
    for reading in view.agents:
        name = cut(reading.agent.name, LONGEST_LABEL)
        if reading.fault is not None or reading.answer is not None:
            yield catalogue.FLEET_AGENT_UP(float(reading.fault is None), name)
        if reading.answered is not None:
            yield catalogue.FLEET_AGENT_LAST_ANSWER_TIMESTAMP_SECONDS(reading.answered, name)
    named: dict[str, FleetState] = {}
    for cluster in view.clusters:  # the worst first
        if cluster.name in named:
            continue
        named[cluster.name] = cluster.state
        for state in FleetState:
            yield catalogue.FLEET_CLUSTER_STATE(float(state is cluster.state), cluster.name, state)
        several = sum(other.name == cluster.name for other in view.clusters) > 1
        if cluster.knows_stalls and not cluster.stale and not several:
            yield catalogue.FLEET_CLUSTER_STALLED_PARTITIONS(float(cluster.stalled), cluster.name)


def links(template: str) -> Link:
    """Return the links by a template such as ``https://{host}.example.com``; without one, the URL that is asked.

    ``{host}``, ``{port}`` and ``{cluster}`` stand for what they name. Without ``{cluster}`` the agent's own filter of
    clusters is added.
    """

    def link(agent: FleetAgent, cluster: str) -> str:
        parts = urlsplit(agent.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        made = (
            (template or agent.url)
            .replace("{host}", quote(parts.hostname or "", safe=""))
            .replace("{port}", str(port))
            .replace("{cluster}", quote(cluster, safe=""))
        )
        if not cluster or "{cluster}" in template:
            return made if template else f"{made}/"
        return f"{made.rstrip('/')}/?cluster={quote(cluster, safe='')}"

    return link
