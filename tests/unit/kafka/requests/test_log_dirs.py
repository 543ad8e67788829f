"""The bytes of topics on a broker are known only where all of its log directories are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from exporter.kafka.requests.log_dirs import BrokerLogs, LogDir, log_dirs
from exporter.kafka.requests.metadata import Metadata
from exporter.model import Deadline, Fault, Reason

TOPIC = SimpleNamespace(name="log", partitions=[SimpleNamespace(partition_index=0, partition_size=5)])


def of_broker(*directories: tuple[str, int]) -> BrokerLogs | Fault:
    results = [
        SimpleNamespace(error_code=code, log_dir=path, topics=[] if code else [TOPIC], total_bytes=10, usable_bytes=4)
        for path, code in directories
    ]
    answer = SimpleNamespace(error_code=0, results=results)
    client = cast("Any", SimpleNamespace(ask=lambda requests, _: dict.fromkeys(requests, answer)))
    metadata = Metadata("id", {1: "k1:9092"}, {}, frozenset(), {})
    return log_dirs(client, metadata, ["log"], Deadline.after(5))[1]


def test_the_bytes_of_all_directories_are_added() -> None:
    both = (LogDir("/a", 10, 4), LogDir("/b", 10, 4))
    assert of_broker(("/a", 0), ("/b", 0)) == BrokerLogs({"log": {0: 10}}, both)


def test_a_broker_with_a_failed_directory_has_bytes_that_are_not_known() -> None:
    found = of_broker(("/a", 0), ("/b", 56))
    assert isinstance(found, Fault)
    assert found.reason is Reason.NO_LEADER
    assert found.detail == "DescribeLogDirs of broker 1, /b: KAFKA_STORAGE_ERROR (56): see the broker's log"
