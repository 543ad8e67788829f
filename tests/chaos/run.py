"""One run: start everything, two acts of faults, heal, let it settle, and gather the evidence."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from exporter.model import Deadline
from testkit.cluster import StartError
from testkit.orphan import make_orphan
from testkit.processes import poll
from tests.chaos.agent import AgentScrape, AgentUnderTest
from tests.chaos.cluster import TOPICS, ChaosCluster
from tests.chaos.collect import orphans, read_all, read_lost, wait_all_ended
from tests.chaos.evidence import RunEvidence
from tests.chaos.fault_actions import FaultActions
from tests.chaos.journal_lines import journal_lines
from tests.chaos.line_follower import LineFollower
from tests.chaos.nemesis import Nemesis, plan
from tests.chaos.oracle.offset_observer import OffsetObserver
from tests.chaos.verdict.counts import outcomes
from tests.chaos.verdict.service import at_rest
from tests.chaos.verdict.stalls import FOUND_WITHIN
from tests.chaos.workloads import Workload

ACT_ONE_SHARE = 0.7
ORPHAN_TOPIC = "orphans"
ORPHAN_PARTITIONS = 2
QUIET_SECONDS = 15.0
SETTLE_SECONDS = 150.0
HEAL_SECONDS = 300.0
AGENT_SECONDS = 120.0


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@dataclass
class OrphanPlanter:
    """Plants orphans one after the other during the faults."""

    cluster: ChaosCluster
    seed: int
    planted: dict[int, float] = field(default_factory=dict)

    def places(self) -> list[tuple[str, int]]:
        """Those that are planted among the faults."""
        lots = random.Random(f"{self.seed}/orphans")
        busy = [(topic, lots.randrange(count)) for topic, count in TOPICS.items() if count > 2]
        return [(ORPHAN_TOPIC, number) for number in range(1, ORPHAN_PARTITIONS)] + busy

    def plant_first(self) -> None:
        """Plant the one from before the faults."""
        orphan = make_orphan(self.cluster, ORPHAN_TOPIC, 0, transactional_id=self._id(0))
        self.planted[orphan.producer_id] = time.time()

    def _id(self, number: int) -> str:
        """A transactional.id of its own: no other orphan on the cluster has it."""
        return f"orphan-{self.seed}-{number}"

    def plant(self, seconds: float, stop: threading.Event) -> None:
        places = self.places()
        until = Deadline.after(seconds)
        for number, (topic, partition) in enumerate(places, 1):
            while not stop.is_set():
                try:
                    orphan = make_orphan(self.cluster, topic, partition, transactional_id=self._id(number))
                except Exception as error:  # noqa: BLE001 - a broker is away: again
                    say(f"no orphan in {topic}-{partition} yet: {type(error).__name__}: {str(error)[:80]}")
                    if until.over or stop.wait(2):
                        break
                    continue
                self.planted[orphan.producer_id] = time.time()
                say(f"orphan planted in {topic}-{partition} at {orphan.start_offset}")
                break
            stop.wait(seconds / (2 * len(places)))


class Run:
    """``do`` gives the evidence; the cluster's folder stays until ``cluster.close``.

    A second one goes on with the agent, whose state and journal it has, and with the clients of a cluster that is still
    the same. ``elsewhere`` and ``journal_from`` are as in ``RunEvidence`` and ``journal_lines``.
    """

    def __init__(
        self,
        cluster: ChaosCluster,
        seed: int,
        seconds: float,
        *,
        agent: AgentUnderTest | None = None,
        workload: Workload | None = None,
        elsewhere: Sequence[AgentScrape] = (),
        journal_from: float = 0.0,
    ) -> None:
        self.cluster = cluster
        self.seed = seed
        self.seconds = seconds
        self.agent = agent or AgentUnderTest(cluster.processes, cluster.folder, cluster.bootstrap)
        self.agent.scrapes = []
        folder = cluster.folder / f"clients-{seed}"
        self.workload = workload or Workload(cluster.processes, folder, cluster.bootstrap, seed)
        self.observer = OffsetObserver(cluster.bootstrap)
        self.planter = OrphanPlanter(cluster, seed)
        self._elsewhere = elsewhere
        self._journal_from = journal_from
        self.follower = LineFollower(self.agent, cluster.bootstrap, cluster.library)
        self._stop = threading.Event()

    def do(self) -> RunEvidence:
        self._prepare()
        loops = (self.agent.watch, self.observer.watch, self.follower.watch, self.follower.ask)
        watchers = [_thread(loop, self._stop) for loop in loops]
        self._wait_for_first_line()
        faults = plan(self.seed, self.seconds, self.workload.names, self.cluster.mode)
        nemesis = Nemesis(faults, FaultActions(self.cluster, self.workload, self.agent, self.seed).by_kind, say)
        began = time.time()
        second = _thread(self._second_act, self._stop)
        say(f"{len(faults)} faults planned")
        nemesis.run(self._stop)
        self._heal()
        quiet_at = time.time()
        say("quiet")
        second.join()
        self.agent.restart_with_right_clock()
        self._stop.wait(QUIET_SECONDS)
        self.workload.stop()
        say("clients are over")
        wait_all_ended(self.cluster)
        say(self.agent.audit_markers(time.time() - began))

        def evidence() -> RunEvidence:
            # Anew: a line that is followed writes a marker.
            kept = read_all(self.cluster, self.observer.looks)
            return RunEvidence(
                seed=self.seed,
                began=began,
                quiet_at=quiet_at,
                episodes=nemesis.episodes,
                lives=[*self.agent.lives, self.agent.life()],
                pauses=self.agent.pauses,
                crashes=self.agent.crashes,
                scrapes=[*self.agent.scrapes],
                looks=self.observer.looks,
                states=kept.states,
                held=kept.held,
                books=self.workload.books(),
                orphans=orphans(kept.held, self.planter.planted),
                followed=[*self.follower.followed],
                unclean_elections=self.cluster.unclean_elections(),
                journal=journal_lines(self.agent.state / self.cluster.id, self._journal_from),
                mode=self.cluster.mode,
                lost=read_lost(self.cluster, kept),
                elsewhere=self._elsewhere,
            )

        self._settle(evidence)
        self._stop.set()
        for watcher in watchers:
            watcher.join()
        return evidence()

    def _prepare(self) -> None:
        self.cluster.create_topic(ORPHAN_TOPIC, ORPHAN_PARTITIONS)
        if not self.agent.running:
            self.agent.start()
        until = Deadline.after(AGENT_SECONDS)
        while (first := self.agent.look()) is None or not first.follows_log:
            if not poll(until, 0.5):
                raise StartError("the agent does not count in time")
        self.workload.start()
        self.planter.plant_first()

    def _wait_for_first_line(self) -> None:
        """Wait until the line of the first orphan was followed; no longer than it may take."""
        until = Deadline.after(FOUND_WITHIN)
        while not self.follower.followed and poll(until, 0.5):
            continue

    def _second_act(self, stop: threading.Event) -> None:
        if not stop.wait(ACT_ONE_SHARE * self.seconds):
            self.planter.plant((1 - ACT_ONE_SHARE) * self.seconds, stop)

    def _heal(self) -> None:
        self.cluster.heal()
        for broker in self.cluster.brokers.values():
            broker.resume()
            broker.start()
        self.cluster.wait_whole(Deadline.after(HEAL_SECONDS))
        self.cluster.wait_replicated(Deadline.after(HEAL_SECONDS))

    def _settle(self, evidence: Callable[[], RunEvidence]) -> None:
        """Give the agent the time it is promised; less when it says earlier what is true."""
        until = Deadline.after(SETTLE_SECONDS)
        while True:
            now = evidence()
            if next(outcomes(now), None) is None and not list(at_rest(now)):
                return
            if not poll(until, 2.0):
                return


def _thread(target: Callable[[threading.Event], None], stop: threading.Event) -> threading.Thread:
    thread = threading.Thread(target=target, args=(stop,), daemon=True)
    thread.start()
    return thread
