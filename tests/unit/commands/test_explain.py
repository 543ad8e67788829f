"""Tests of what ``transactions explain`` prints of a record."""

from __future__ import annotations

import argparse

import pytest

from exporter.applications.applications import Grouping
from exporter.cluster import Cluster
from exporter.commands.explain import Explanation, _print, add_to
from exporter.core.state import StateDir
from exporter.kafka.client import ClusterClient
from exporter.kafka.properties.client import Properties
from exporter.lso.proof.record_fate import RecordEnds, RecordFate
from exporter.model import TopicPartition
from exporter.words import RecordState

PROPERTIES = Properties.parse({"bootstrap.servers": "127.0.0.1:1"})


@pytest.mark.parametrize("state", [RecordState.COMMITTED, RecordState.NO_TRANSACTION])
@pytest.mark.parametrize(("stable", "waits"), [(6, False), (5, True), (0, True)])
def test_a_record_behind_an_open_transaction_is_not_said_to_be_read_already(
    state: RecordState, stable: int, waits: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    found = RecordFate(TopicPartition("orders", 0), 5, state, RecordEnds(0, stable, 10))
    cluster = Cluster(PROPERTIES, ClusterClient(PROPERTIES), Grouping([]), StateDir(None), "prod")
    _print(cluster, Explanation(found, "", "", None), several=False)
    said = "read_committed consumers get it"
    later = ", once the transactions before it in the partition have ended"
    assert capsys.readouterr().out.splitlines()[0].endswith(f"{said}{later if waits else ''}")


@pytest.mark.parametrize(("end", "said"), [(10, "offsets  7 to 9"), (7, "offsets  none")])
def test_the_offsets_of_a_partition_are_said_and_that_an_empty_one_has_none(
    end: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = RecordFate(TopicPartition("orders", 0), 5, RecordState.BELOW_LOG_START, RecordEnds(7, 7, end))
    cluster = Cluster(PROPERTIES, ClusterClient(PROPERTIES), Grouping([]), StateDir(None), "prod")
    _print(cluster, Explanation(found, "", "", None), several=False)
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--offset", "--partition"])
def test_a_number_below_0_is_no_offset_that_retention_took(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_to(parser.add_subparsers())
    numbers = {"--offset": "5", "--partition": "0"} | {flag: "-1"}
    with pytest.raises(SystemExit):
        parser.parse_args(["explain", "--topic", "orders", *(f"{name}={number}" for name, number in numbers.items())])
    assert f"argument {flag}: '-1' is no number from 0" in capsys.readouterr().err
