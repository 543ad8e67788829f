"""Where what others hand in over HTTP is kept: clients' statistics, streaming queries, results of audits."""

from __future__ import annotations

from typing import NamedTuple

from exporter.config import Config
from exporter.ingest.audit import AuditInbox
from exporter.ingest.budget import Budget
from exporter.ingest.librdkafka import Inbox
from exporter.ingest.spark import SparkInbox
from exporter.model import Clock


class Inboxes(NamedTuple):
    """One for each kind of sender."""

    clients: Inbox
    spark: SparkInbox
    audits: AuditInbox
    budget: Budget


def inboxes_of(config: Config, clock: Clock) -> Inboxes | None:
    """The inboxes that the settings ask for; None when nothing is to be handed in."""
    ingest = config.ingest
    if not ingest.enabled:
        return None
    names = [cluster.name for cluster in config.clusters if cluster.name]
    budget = Budget(ingest.memory)
    return Inboxes(
        Inbox(names, ingest.clients, ingest.expire_after, clock, budget),
        SparkInbox(names, ingest.clients, clock, budget),
        AuditInbox(names, ingest.clients, clock, budget),
        budget,
    )
