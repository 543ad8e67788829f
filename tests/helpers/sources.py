"""The sources that read a fake cluster, with their settings as they are unless a test names one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from exporter.groups.source.groups import GroupsSource
from exporter.lso.proof.prover import Prover
from exporter.lso.source.lso import LsoSource
from exporter.settings.sections import GroupsConfig, LsoConfig, TopicsConfig, TransactionsConfig
from exporter.transactions.source.transactions import TransactionsSource
from exporter.transactions.source.txnlog import TxnlogSource
from tests.helpers.cluster import FakeKafka

EVERY_TOPIC = TopicsConfig()


def lso_source(
    world: FakeKafka, directory: Path | None = None, *, topics: TopicsConfig = EVERY_TOPIC, **settings: Any
) -> LsoSource:
    cluster = world.cluster(directory)
    return LsoSource(cluster, LsoConfig(**settings), topics, Prover(cluster, world.reader))


def txnlog_source(world: FakeKafka, directory: Path | None = None, **settings: Any) -> TxnlogSource:
    return TxnlogSource(world.cluster(directory), TransactionsConfig(**settings), world.tail)


def transactions_source(world: FakeKafka, **settings: Any) -> TransactionsSource:
    return TransactionsSource(world.cluster(), TransactionsConfig(**settings))


def groups_source(
    world: FakeKafka, *, looking: float = 0.05, pause: Callable[[float], None] | None = None, **settings: Any
) -> GroupsSource:
    """``pause`` has to move the clock of the world: looks end by it."""
    return GroupsSource(world.cluster(), GroupsConfig(**settings), looking, pause or world.time.pass_)
