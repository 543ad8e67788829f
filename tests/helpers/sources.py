"""The sources that read a fake cluster, with their settings as they are unless a test names one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from exporter.groups.source.groups import GroupsSettings, GroupsSource
from exporter.lso.proof.prover import Prover
from exporter.lso.source.lso import LsoSettings, LsoSource
from exporter.transactions.source.transactions import TransactionsSettings, TransactionsSource
from exporter.transactions.source.txnlog import TxnlogSettings, TxnlogSource
from tests.helpers.cluster import FakeKafka


def lso_source(world: FakeKafka, directory: Path | None = None, **settings: Any) -> LsoSource:
    cluster = world.cluster(directory)
    return LsoSource(cluster, LsoSettings(**settings), Prover(cluster, world.reader))


def txnlog_source(world: FakeKafka, directory: Path | None = None, **settings: Any) -> TxnlogSource:
    return TxnlogSource(world.cluster(directory), TxnlogSettings(**settings), world.tail)


def transactions_source(world: FakeKafka, **settings: Any) -> TransactionsSource:
    return TransactionsSource(world.cluster(), TransactionsSettings(**settings))


def groups_source(world: FakeKafka, **settings: Any) -> GroupsSource:
    return GroupsSource(world.cluster(), GroupsSettings(**settings))
