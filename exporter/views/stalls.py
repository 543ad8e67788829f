"""A stalled partition as the running agent has it: who waits, who owns it, where its producer runs, and links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from exporter.core.documents import document_of
from exporter.core.runner import GroupState
from exporter.core.thresholds import Owners
from exporter.groups.facts import Blocked, BlockedGroup, BlockedGroups, GroupsHeld, HolderGroups
from exporter.lso.facts import Stall
from exporter.model import TopicPartition
from exporter.telemetry.facts import ClientPlace, PushedProducers
from exporter.transactions.facts import CoordinatorTime
from exporter.views import documents as docs
from exporter.views.holders import holder_document
from exporter.views.transactions import stall_document
from exporter.words import BlockerKind

MOST_PLACES = 5
"""Producers listed for one stall."""
_DASHBOARD = "kafka-eos-stalls"
_RUNBOOKS = {
    BlockerKind.HANGING: "KafkaEosHangingTransaction",
    BlockerKind.UNMARKED: "KafkaEosUnmarkedTransaction",
}


class Links(NamedTuple):
    """Bases of links: the endpoint's own prefix, Grafana's /d and Alertmanager, "" where the settings have none."""

    prefix: str = ""
    dashboard: str = ""
    alertmanager: str = ""


class StallContext(NamedTuple):
    """The settings and facts of a cluster beside its stalls."""

    cluster: str
    bootstrap_servers: str
    now: float
    time: CoordinatorTime
    ignored: Mapping[str, str]
    blocked: Mapping[TopicPartition, Blocked]
    held: Mapping[TopicPartition, Sequence[str]]
    producers: Mapping[tuple[str, str], tuple[ClientPlace, ...]]
    owners: Owners
    links: Links
    holders: HolderGroups | None = None

    @classmethod
    def of(
        cls,
        group: GroupState,
        names: tuple[str, str],
        now: float,
        ignored: Mapping[str, str],
        owners: Owners,
        links: Links,
    ) -> StallContext:
        """Return that of a cluster; ``names`` are its name and its bootstrap servers."""
        blocked = group.facts.get(BlockedGroups)
        held = group.facts.get(GroupsHeld)
        return cls(
            *names,
            now,
            group.facts.get(CoordinatorTime) or CoordinatorTime(),
            ignored,
            blocked.by_partition if blocked else {},
            held.by_partition if held else {},
            {who: places for fact in group.facts.all(PushedProducers) for who, places in fact.by_id.items()},
            owners,
            links,
            group.facts.get(HolderGroups),
        )

    def document(self, stall: Stall) -> docs.WatchedStallDocument:
        """Return the stall as the page and ``/api/v1/status`` have it."""
        place, who = stall.partition, stall.blocker
        owner = self.owners.of_holder(who.application, (place.topic,))
        groups = self.blocked.get(place)
        return {
            **stall_document(stall, self.bootstrap_servers, self.now, self.time),
            "ignored": self.ignored.get(place.topic),
            "waiting_groups": list(self.held.get(place, ())),
            "blocked_groups": None if groups is None else [self._blocked(group) for group in groups.worst],
            "blocked_group_count": None if groups is None else groups.total,
            "owner": owner,
            "owner_channel": self.owners.channel(owner),
            "producers": [
                document_of(docs.ProducerPlaceDocument, connection)
                for connection in self.producers.get((self.cluster, who.transactional_id), ())[:MOST_PLACES]
                if who.transactional_id
            ],
            "holder": holder_document(who, self.holders),
            "links": self._links(stall),
        }

    def _blocked(self, group: BlockedGroup) -> docs.BlockedGroupDocument:
        return {
            "group": group.group,
            "blocked_offsets": group.offsets,
            "owner": self.owners.of("group", group.group),
        }

    def _links(self, stall: Stall) -> docs.StallLinksDocument:
        who, links = stall.blocker, self.links
        page = _query(cluster=self.cluster, application=who.application)
        place = _query(cluster=self.cluster, topic=stall.partition.topic, partition=str(stall.partition.partition))
        silence = None
        if links.alertmanager and who.producer_id is not None:
            matchers = {"kafka_cluster": self.cluster, "producer_id": str(who.producer_id)}
            written = ",".join(f'{name}="{_quoted(value)}"' for name, value in matchers.items())
            silence = f"{links.alertmanager}/#/silences/new?{urlencode({'filter': f'{{{written}}}'})}"
        dashboard = urlencode({"var-kafka_cluster": self.cluster, "var-topic": stall.partition.topic})
        return {
            "page": f"{links.prefix}/{f'?{page}' if page else ''}#{anchor(who.producer_id, stall.partition)}",
            "runbook": f"{links.prefix}/runbooks/{_RUNBOOKS.get(who.kind, 'KafkaEosLsoStalled')}?{place}",
            "dashboard": f"{links.dashboard}/{_DASHBOARD}?{dashboard}" if links.dashboard else None,
            "silence": silence,
        }


def anchor(producer_id: int | None, place: TopicPartition) -> str:
    """Return the fragment of the card on the page: that of the holder, or of the partition where none is known."""
    return f"producer-{producer_id}" if producer_id is not None else f"partition-{place.topic}-{place.partition}"


def _query(**values: str) -> str:
    return urlencode({name: value for name, value in values.items() if value})


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
