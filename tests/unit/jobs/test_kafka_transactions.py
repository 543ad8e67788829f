"""The data source ``kafka_transactions`` without a broker: options, marks and tasks."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.jobs.history.finished import LogSpan
from exporter.jobs.history.transaction_log import LogEnds
from exporter.jobs.session import pyspark_version

if pyspark_version() < "4":
    pytest.skip("Spark 3.5 has no data sources in Python", allow_module_level=True)

from exporter.jobs.kafka_transactions import KafkaTransactions, LogMark, OptionError, advanced, planned

BROKER = {"kafka.bootstrap.servers": "k:9092"}


def reader(**options: str) -> Any:
    source = KafkaTransactions({**BROKER, **options})
    return source.reader(source.schema())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"startingTimestmp": "1"}, "startingTimestmp is no option of kafka_transactions"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp 'yesterday' must be"),
        ({"numPartitions": "0"}, "numPartitions '0' must be"),
        ({"applications": "[1]"}, "applications must be"),
        ({"propertiesFile": "/none"}, "propertiesFile /none: No such file"),
        ({"kafka.acks": "all"}, r"kafka\.acks: "),
        ({"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.password": "hunter2"}, "kafka.s"),
    ],
)
def test_a_wrong_option_is_refused_by_name_and_without_secrets(options: dict[str, str], problem: str) -> None:
    with pytest.raises(OptionError, match=problem) as raised:
        reader(**options)
    assert "hunter2" not in str(raised.value)


def test_a_stream_has_no_end() -> None:
    source = KafkaTransactions({**BROKER, "endingTimestamp": "1"})
    with pytest.raises(OptionError, match="a stream has no end"):
        source.streamReader(source.schema())


def test_options_of_a_file_are_overridden_by_single_ones(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=other:9092\nclient.id=jobs\n")
    settings = reader(
        propertiesFile=str(file), startingTimestamp="2026-11-21T14:00Z", applications='["a", "b"]'
    ).settings
    assert (settings.properties.bootstrap_servers, settings.properties.raw["client.id"]) == ("k:9092", "jobs")
    assert (settings.starting_ms, settings.patterns) == (1_795_269_600_000, ("a", "b"))


def test_a_reader_is_sent_to_workers_without_showing_secrets() -> None:
    password = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    made = reader(**password, **{"kafka.sasl.username": "eos", "kafka.sasl.password": "hunter2"})
    assert pickle.loads(pickle.dumps(made)).settings == made.settings  # noqa: S301
    assert "hunter2" not in repr(made.settings)
    assert list(made.read(None)) == []


def test_marks_go_forward_only_and_are_settled_in_quiet() -> None:
    marks = {0: LogMark(10, 8), 1: LogMark(10, 10), 2: LogMark(10, 8), 3: LogMark(5, 5)}
    now = LogEnds("c", {0: 20, 1: 4, 2: 10, 4: 3}, frozenset({2, 4}))
    assert advanced(marks, now) == {
        0: LogMark(20, 8),
        1: LogMark(10, 10),  # from a broker that is behind
        2: LogMark(10, 10),
        3: LogMark(5, 5),  # without an answer
        4: LogMark(3, 3),
    }


def offset(cluster: str = "c", **marks: list[int]) -> dict[str, Any]:
    return {"cluster": cluster, "partitions": {number.lstrip("p"): mark for number, mark in marks.items()}}


def test_a_stream_plans_what_is_new() -> None:
    source = KafkaTransactions(BROKER)
    stream: Any = source.streamReader(source.schema())
    stream._log = SimpleNamespace(ends=lambda *, whole: LogEnds("c", {0: 10, 1: 4}, frozenset()))
    [task] = stream.partitions(offset(p0=[10, 8], p1=[4, 4]), offset(p0=[10, 10], p1=[4, 4]))
    assert task.spans == (LogSpan(0, 10, 8, 10, quiet=True),)
    assert stream.partitions(offset(), offset()) == []
    with pytest.raises(OptionError, match="ends at 4, before the checkpoint's 10"):
        stream.partitions(offset(p0=[10, 8]), offset(p0=[4, 4]))
    # As when a batch is run again that another run planned.
    with pytest.raises(OptionError, match="ends at 10, before the checkpoint's 12"):
        stream.partitions(offset(p0=[10, 8]), offset(p0=[12, 8]))
    stream._log = SimpleNamespace(ends=lambda *, whole: LogEnds("other", {}, frozenset()))
    with pytest.raises(OptionError, match="of cluster c, and the brokers are those of other"):
        stream.partitions(offset(p0=[10, 8]), offset(p0=[10, 10]))


def test_tasks_are_of_about_the_same_size_and_no_partition_is_split() -> None:
    spans = [LogSpan(number, 0, 0, size, quiet=False) for number, size in enumerate([100, 30, 30, 30, 5])]
    assert sorted(sorted(span.partition for span in task.spans) for task in planned(spans, 2)) == [[0], [1, 2, 3, 4]]
    assert len(planned(spans, 9)) == 5
    assert planned([], 2) == []
