"""Clients that push their metrics, into the families that are otherwise read from their JVMs. The source sends no
request. A client that stops pushing expires.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator

from exporter import catalogue
from exporter.ingest.posted_source import PostedSource
from exporter.jvm.answers import MBeanValue
from exporter.jvm.mbeans import MBean
from exporter.model import Deadline, Fact, Facts, Fault, Sample
from exporter.producers.producer_samples import TYPE, producer_samples
from exporter.streams.streams_samples import jvm_samples
from exporter.telemetry.clients import About, SenderKey, SenderState, TelemetryReceiver, process_of
from exporter.telemetry.facts import ClientPlace, PushedProducers
from exporter.telemetry.series import SeriesKey


class TelemetrySource(PostedSource):
    """Source ``ingest``, target ``telemetry``."""

    target = "telemetry"

    def __init__(self, receiver: TelemetryReceiver, only_cluster: Callable[[], str]) -> None:
        self._receiver = receiver
        super().__init__(only_cluster)

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        del deadline, facts
        streams: dict[tuple[str, str], dict[SeriesKey, MBeanValue]] = defaultdict(dict)
        producers: dict[tuple[str, str], list[ClientPlace]] = defaultdict(list)
        for sender, state in sorted(self._receiver.senders().items()):
            cluster = sender.cluster or self._only_cluster()
            yield from _producers(cluster, sender, state)
            for key, reading in _streams_readings(state):
                streams[cluster, process_of(key.who) or sender.instance][key] = reading
            yield _info(cluster, sender, state)
            if state.about.transactional_id:
                producers[cluster, state.about.transactional_id].append(_place(state.about))
        for head, readings in streams.items():
            yield from jvm_samples(head, tuple(readings.values()))
        for result, count in self._receiver.points().items():
            yield catalogue.TELEMETRY_POINTS_TOTAL(float(count), result)
        yield PushedProducers({who: tuple(sorted(set(places))) for who, places in producers.items()})
        if left_out := self._receiver.left_out():
            yield catalogue.SERIES_DROPPED(left_out, catalogue.TELEMETRY_CLIENT_INFO.name)


def _producers(cluster: str, sender: SenderKey, state: SenderState) -> Iterator[Sample]:
    """A number of the client as a whole wins over those of its topics, which are added up."""
    whole: dict[str, dict[str, float]] = defaultdict(dict)
    topics: dict[str, dict[str, float]] = defaultdict(dict)
    for key, tracked in state.series.items():
        if key.place.type == TYPE and not key.part:
            whole[key.who][key.place.attribute] = tracked.value
        elif key.place.type == TYPE:
            of_client = topics[key.who]
            total = of_client.get(key.place.attribute, 0.0) + tracked.value
            of_client[key.place.attribute] = max(-sys.float_info.max, min(sys.float_info.max, total))
    transactional = state.transactional()
    for client_id in sorted({*whole, *topics}):
        numbers = {**topics.get(client_id, {}), **whole.get(client_id, {})}
        labels = (cluster, sender.instance, client_id)
        yield from producer_samples(labels, numbers, transactional=client_id in transactional)


def _streams_readings(state: SenderState) -> Iterator[tuple[SeriesKey, MBeanValue]]:
    for key, tracked in state.series.items():
        if key.place.type == TYPE:
            continue
        who = "client-id" if key.place.type == "stream-metrics" else "thread-id"
        properties = {"type": key.place.type, who: key.who, "task-id": key.part}
        yield key, MBeanValue(MBean("kafka.streams", properties), key.place.attribute, tracked.value)


def _place(about: About) -> ClientPlace:
    software = f"{about.software} {about.version}".strip()
    return ClientPlace(about.client_id, about.address, about.principal, software)


def _info(cluster: str, sender: SenderKey, state: SenderState) -> Sample:
    about = state.about
    names = {key.who for key in state.series if key.place.type != TYPE}
    target = next((process for name in sorted(names) if (process := process_of(name))), "") or sender.instance
    return catalogue.TELEMETRY_CLIENT_INFO(
        1.0,
        cluster,
        target,
        about.client_id,
        sender.instance,
        about.software,
        about.version,
        about.transactional_id,
        about.principal,
        about.address,
    )
