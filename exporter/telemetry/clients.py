"""Metrics that Kafka clients push (KIP-714) or OpenTelemetry agents send: checked, limited, kept until the client is
silent.

A client is known by its client instance id, which the broker gives it (KIP-714) and its receiver forwards, or by the
``service.instance.id`` of an agent. Metrics of a sender without either are refused: two programs with the client id
``producer-1`` would be one series.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import NamedTuple

from exporter.applications.naming import UUID
from exporter.ingest.budget import Budget, series_bytes, text_bytes
from exporter.ingest.latest import LatestBySender, RefusedError
from exporter.model import Clock
from exporter.producers import producer_samples
from exporter.telemetry.points import Point, PointTally, Pushed
from exporter.telemetry.series import SeriesKey, Tracked, following, has_meaning, problem_of

SENDERS = "telemetry"
SILENT_INTERVALS = 3
"""Push intervals of silence after which a client is dropped."""
LEAST_SECONDS = 30.0
"""A client is kept for at least so long after its last push, so that its last numbers are scraped."""
UNKNOWN_INTERVAL = 300.0
"""Seconds between two pushes where they are not known: the default of KIP-714."""
MOST_INTERVAL = 3600.0
"""Longest push interval in seconds that a subscription can ask for (ClientMetricsConfigs)."""
MOST_SERIES = 2000
"""Series of one client."""
UNKNOWN = "unknown"
_SERIES_BYTES, _STATE_BYTES = 400, 1500
_OF_PROCESS = re.compile(rf"({UUID})(?:-StreamThread-\d++|-StateUpdater-\d++)?+$")
_ADMIN = "-admin"  # ClientUtils.adminClientId: the Streams client's metrics are pushed by its admin client


class SenderKey(NamedTuple):
    """The configured name of the Kafka cluster, "" for the only one, and the id of the client's instance."""

    cluster: str
    instance: str


class About(NamedTuple):
    """The identity of a client, "" where it is not known. ``interval`` is in seconds.

    ``whole`` is whether a request has one push of one client, as a broker's receiver forwards it.
    """

    cluster: str = ""
    instance: str = ""
    client_id: str = ""
    software: str = ""
    version: str = ""
    transactional_id: str = ""
    principal: str = ""
    address: str = ""
    interval: float | None = None
    terminating: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class SenderState:
    """The numbers of one client instance. ``pushed`` is monotonic."""

    about: About
    series: Mapping[SeriesKey, Tracked]
    pushed: float

    @property
    def kept_for(self) -> float:
        """Seconds of silence after which it is dropped."""
        if self.about.terminating:
            return LEAST_SECONDS
        return max(LEAST_SECONDS, SILENT_INTERVALS * min(self.about.interval or UNKNOWN_INTERVAL, MOST_INTERVAL))

    def transactional(self) -> AbstractSet[str]:
        """The producers that have a transactional.id or spent time in the transactional API since they are read."""
        if self.about.transactional_id:
            return {key.who for key in self.series}
        return {
            key.who
            for key, tracked in self.series.items()
            if key.place.attribute in producer_samples.OPERATIONS and tracked.value > 0
        }


class TelemetryReceiver:
    """The clients that push, with the last number of each of their series. Any thread may call any method."""

    def __init__(
        self, clusters: Collection[str], clients: int = 500, clock: Clock | None = None, budget: Budget | None = None
    ) -> None:
        """``clusters`` are the names that a sender may give; ``clients`` is how many are kept at most."""
        self._clusters = clusters  # a reload may change them
        self._clock = clock or Clock()
        self.budget = budget or Budget()
        self._latest: LatestBySender[SenderKey, SenderState] = LatestBySender(
            clients, lambda state: state.kept_for, self._clock, _weight, senders=SENDERS, budget=self.budget
        )
        self._points = {"taken": 0, "ignored": 0, "refused": 0}

    def admit(self) -> None:
        """Count a body before it is parsed. Raises RefusedError when there are too many."""
        self._latest.admit()

    def take(self, pushed: Iterator[Pushed], about: About, tally: PointTally) -> None:
        """Keep these points. ``about`` is what the request says of its client; refused points are put on the tally.

        Raises OtlpError of the parser, before anything is kept, and RefusedError for a cluster that is not watched.
        """
        if about.cluster and about.cluster not in self._clusters:
            raise RefusedError(400, "the cluster is none that this agent watches")
        senders: dict[SenderKey, tuple[About, list[tuple[SeriesKey, Point]]]] = {}
        wall = self._clock.wall()
        for resource, points in list(pushed):
            of_resource = _about(resource, about)
            if of_resource.cluster and of_resource.cluster not in self._clusters:
                tally.refuse("kafka_cluster names no cluster that this agent watches", len(points))
                continue
            for point in points:
                self._sort(of_resource, point, senders, tally, wall)
        taken = 0
        for sender, (who, found) in senders.items():
            try:
                taken += self._put(sender, who, found, tally)
            except RefusedError as error:
                tally.refuse(str(error), len(found))
        with self.budget.lock:
            self._points["taken"] += taken
            self._points["ignored"] += tally.ignored
            self._points["refused"] += tally.refused

    def senders(self) -> Mapping[SenderKey, SenderState]:
        """The clients that are not silent for too long."""
        return self._latest.latest()

    def left_out(self) -> int:
        """Number of clients that pushed recently and are not kept."""
        return self._latest.left_out()

    def points(self) -> Mapping[str, int]:
        """Data points so far, by what became of them."""
        with self.budget.lock:
            return dict(self._points)

    @staticmethod
    def _sort(
        about: About,
        point: Point,
        senders: dict[SenderKey, tuple[About, list[tuple[SeriesKey, Point]]]],
        tally: PointTally,
        wall: float,
    ) -> None:
        if problem := problem_of(point, wall):
            tally.refuse(problem)
            return
        if not has_meaning(point):
            tally.ignored += 1
            return
        instance = about.instance or point.attributes.get("client_instance_id", "")
        if not instance:
            tally.refuse("the sender has no client_instance_id and no service.instance.id")
            return
        key = _series_key(about, point)
        if key is None:
            tally.refuse("a metric of Kafka Streams has no thread_id or client id")
            return
        sender = SenderKey(about.cluster, instance)
        senders.setdefault(sender, (about._replace(instance=instance), []))[1].append((key, point))

    def _put(self, sender: SenderKey, about: About, found: list[tuple[SeriesKey, Point]], tally: PointTally) -> int:
        now = self._clock.monotonic()
        result: list[int] = []

        def after(before: SenderState | None) -> SenderState:
            nonlocal result
            series = dict(before.series) if before else {}
            taken = repeated = infinite = beyond = 0
            for key, point in found:
                tracked = following(series.get(key), point, now)
                if tracked is None:
                    repeated += 1
                elif not math.isfinite(tracked.value):
                    infinite += 1
                elif key not in series and len(series) >= MOST_SERIES:
                    beyond += 1
                else:
                    series[key] = tracked
                    taken += 1
            result = [taken, repeated, infinite, beyond]
            state = SenderState(_with_interval(about, before, now), series, now)
            oldest = now - state.kept_for  # a thread that ended, or a metric that is no longer subscribed
            return replace(state, series={key: entry for key, entry in series.items() if entry.seen >= oldest})

        self._latest.put(sender, after)
        taken, repeated, infinite, beyond = result
        tally.ignored += repeated
        if infinite:
            tally.refuse("the sum of a counter's deltas is not finite", infinite)
        if beyond:
            tally.refuse(f"more than {MOST_SERIES} series of one client", beyond)
        return taken


def _with_interval(about: About, before: SenderState | None, now: float) -> About:
    """The interval as the receiver states it, else the time between the last two pushes where requests are pushes."""
    if about.interval is not None or before is None or not about.whole:
        return about
    gap = now - before.pushed
    return about._replace(interval=gap if gap >= 1 else before.about.interval)


def _about(resource: Mapping[str, str], about: About) -> About:
    """Return the client by the request, completed by the attributes of a resource."""

    def first(known: str, *names: str) -> str:
        return known or next((resource[name] for name in names if resource.get(name)), "")

    return about._replace(
        cluster=first(about.cluster, "kafka_cluster"),
        instance=first(about.instance, "client_instance_id", "kafka_client_instance_id", "service_instance_id"),
        client_id=first(about.client_id, "client_id", "kafka_client_id"),
        software=first(about.software, "client_software_name", "telemetry_distro_name", "telemetry_sdk_name"),
        version=first(about.version, "client_software_version", "telemetry_distro_version", "telemetry_sdk_version"),
        transactional_id=first(about.transactional_id, "transactional_id"),
        principal=first(about.principal, "principal", "client_principal"),
        address=first(about.address, "client_source_address", "client_address", "host_name"),
    )


def _series_key(about: About, point: Point) -> SeriesKey | None:
    found = point.attributes
    if point.place.type == producer_samples.TYPE:
        return SeriesKey(point.place, found.get("client_id") or about.client_id or UNKNOWN, found.get("topic", ""))
    if point.place.type == "stream-metrics":
        client = found.get("client_id") or about.client_id.removesuffix(_ADMIN)
        return SeriesKey(point.place, client, "") if client else None
    thread = found.get("thread_id", "")
    return SeriesKey(point.place, thread, found.get("task_id", "")) if thread else None


def process_of(name: str) -> str:
    """The process id of a Streams client or thread: the UUID in its name (KafkaStreams), "" where it has none."""
    match = _OF_PROCESS.search(name)
    return match[1] if match else ""


def _weight(key: SenderKey, state: SenderState) -> int:
    """Most bytes of memory that a client takes, with its series in /metrics."""
    texts = [text for text in state.about if isinstance(text, str)]
    kept = sum(_SERIES_BYTES + text_bytes(series.who, series.part) for series in state.series)
    written = sum(series_bytes(*key, series.who, series.part) for series in state.series)
    return _STATE_BYTES + text_bytes(*key, *texts) + kept + series_bytes(*key, *texts) + written
