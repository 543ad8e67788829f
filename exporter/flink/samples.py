"""Samples of Flink jobs, up to a cap each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from exporter import catalogue
from exporter.flink.facts import FlinkTransaction, Loss
from exporter.flink.jobs import Jobs
from exporter.model import Sample
from exporter.transactions.facts import OpenTransaction

MOST_AT_RISK = 50
MOST_LOSSES = 20
MOST_PARTITIONS = 20
"""Series of each kind; partitions are those of one loss."""


def flink_samples(
    cluster: str,
    jobs: Jobs,
    opened: Iterable[OpenTransaction],
    judged: Mapping[int, FlinkTransaction],
    now: float,
) -> Iterator[Sample]:
    """Samples of jobs, of transactions at risk (the earliest deadline first), and of losses in the last hour.

    ``now`` is Unix seconds by the coordinators' clock.
    """
    for job in jobs:
        labels = (cluster, job.application, job.prefix)
        if job.interval is not None:
            yield catalogue.FLINK_CHECKPOINT_INTERVAL_SECONDS(job.interval, *labels)
        if job.cleaned is not None:
            yield catalogue.FLINK_LAST_CLEAN_UP_TIMESTAMP_SECONDS(job.cleaned, *labels)
    risks = []
    for transaction in opened if judged else ():
        found = judged.get(transaction.producer_id)
        if found is not None and found.at_risk and found.deadline is not None:
            risks.append((found.deadline, transaction, found.precommit.value))
    for deadline, transaction, precommit in sorted(risks, key=lambda risk: risk[0])[:MOST_AT_RISK]:
        who = (transaction.application, transaction.transactional_id, str(transaction.producer_id), precommit)
        yield catalogue.FLINK_AT_RISK_DEADLINE_TIMESTAMP_SECONDS(deadline, cluster, *who)
    yield from _dropped(len(risks) - MOST_AT_RISK, catalogue.FLINK_AT_RISK_DEADLINE_TIMESTAMP_SECONDS.name)
    losses = jobs.losses(now)
    for loss in losses[:MOST_LOSSES]:
        yield from _loss(cluster, loss)
    yield from _dropped(len(losses) - MOST_LOSSES, catalogue.FLINK_LOSS_TIMESTAMP_SECONDS.name)


def _loss(cluster: str, loss: Loss) -> Iterator[Sample]:
    who = (cluster, loss.application, loss.transactional_id, str(loss.producer_id))
    completed = "yes" if loss.completed else "not known"
    yield catalogue.FLINK_LOSS_TIMESTAMP_SECONDS(loss.ended, *who, str(loss.id.number), completed)
    for partition in sorted(loss.partitions)[:MOST_PARTITIONS]:
        place = loss.places.get(partition)
        offsets = ("", "") if place is None else (str(place[0]), str(place[1]))
        yield catalogue.FLINK_LOSS_INFO(1.0, *who, partition.topic, str(partition.partition), *offsets)


def _dropped(count: int, name: str) -> Iterator[Sample]:
    if count > 0:
        yield catalogue.SERIES_DROPPED(float(count), name)
