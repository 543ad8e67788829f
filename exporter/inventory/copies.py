"""Applications that read on one cluster and write in transactions on another: no transaction has both. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations

from exporter.inventory.facts import ClusterCopy, Inventory


def copies_of(inventories: Mapping[str, Inventory]) -> Iterator[ClusterCopy]:
    """Yield what is copied between these clusters, which are by name.

    Brokers do not know that a group and a transactional.id are of one program: a group counts that has the name of the
    application, commits its offsets outside of transactions, and exists on the cluster that is read only. An
    application whose own cluster has such a group, or that commits offsets in its transactions, is one of that cluster:
    teams run the same names on several.
    """
    for (source, read), (target, written) in permutations(inventories.items(), 2):
        if read.cluster_id == written.cluster_id:
            continue
        for application in written.applications:
            name = application.application
            topics = read.committed_outside.get(name)
            if topics and application.topics and not application.commits_offsets and name not in written.groups:
                yield ClusterCopy(name, source, topics, target, application.topics)
