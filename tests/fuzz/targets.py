"""One function for each reader: any bytes give a value or the reader's own fault, never another error.

Values are used as the agent uses them: samples are written as lines, names are encoded, documents become strict JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kafka.protocol.consumer import FetchRequest

from exporter import catalogue
from exporter.applications.applications import Grouping
from exporter.audit_results.posts import AuditReceiver
from exporter.audit_results.result import AuditResultError, dump_result, parse_result, weight
from exporter.audit_results.source import audit_samples
from exporter.bounds.yaml_text import YamlError, parse_yaml
from exporter.config import ConfigError, ConfigSource
from exporter.connect import rest
from exporter.connect.failures import cause_of, last_line
from exporter.core.durations import parse_duration, parse_go_duration
from exporter.core.state import StateDir
from exporter.core.target_files import LeftOut, TargetFileError, parse_targets
from exporter.exposition.text_format import block
from exporter.ingest.latest import RefusedError
from exporter.journal.conditions import ConditionRules
from exporter.journal.facts import LastReads
from exporter.journal.journal import Instants, Journal, JournalSettings
from exporter.journal.keeper import started
from exporter.journal.query import EventQuery, page_of
from exporter.journal.rebuild import KeptJournal, gaps_of, merged, stalls_of
from exporter.journal.segments import DAY, KeptLimits
from exporter.journal.stall_rules import StallRules
from exporter.jvm.jmx_exporter import read_page
from exporter.jvm.jolokia import read_answer
from exporter.jvm.mbeans import MBean, MBeanQuery, parse_object_name
from exporter.kafka.auth.jaas import parse_jaas
from exporter.kafka.log.markers import OffsetRange, read_markers
from exporter.kafka.log.offset_commits import read_commits
from exporter.kafka.log.unread_records import count_records
from exporter.kafka.properties.client import Properties, PropertiesError
from exporter.kafka.requests.metadata import Metadata, PartitionMetadata
from exporter.linter.files import FileError
from exporter.linter.forms import parts as client_parts
from exporter.lso.tracker import StallTracker
from exporter.model import Clock, Deadline, Facts, Fault, Metric, Reason, Sample, TopicPartition
from exporter.producers.source.librdkafka import IngestSource, LibrdkafkaReceiver
from exporter.settings.sections import TransactionsConfig
from exporter.settings.values import split_address
from exporter.spark.checkpoint import CheckpointFolder
from exporter.spark.event_log import EventLogFolder
from exporter.spark.posts import SparkReceiver
from exporter.spark.queries import StreamingQuery
from exporter.spark.source import query_samples
from exporter.telemetry.clients import TelemetryReceiver
from exporter.telemetry.otlp import OtlpApp
from exporter.telemetry.source import TelemetrySource
from exporter.transactions.counting.aggregates import Aggregates
from exporter.transactions.keeper import Keeper
from exporter.transactions.machine import records
from exporter.transactions.saved import begin
from exporter.web_server.config import read_web_config
from exporter.web_server.messages import Request
from tests.helpers.wire import agree, exchange

Target = Callable[[bytes], None]
TARGETS: dict[str, Target] = {}

NOW = 1_795_272_600.0
LABELS = ("cluster", "target", "a", "b")


def target(function: Target) -> Target:
    TARGETS[function.__name__] = function
    return function


def write(samples: Iterable[Sample]) -> None:
    """Write samples as the page does, each family by itself."""
    for metric, labels, value in samples:
        block(metric, {labels: value})


def show(faults: Iterable[Fault]) -> None:
    for fault in faults:
        fault.detail.encode()


class ScratchFolder:
    """A folder for the readers of files, used again by each input."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))

    def file(self, name: str, content: bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def clear(self) -> Path:
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        return self.root


_scratch: list[ScratchFolder] = []


def scratch() -> ScratchFolder:
    if not _scratch:
        _scratch.append(ScratchFolder())
    return _scratch[0]


@target
def log_records(data: bytes) -> None:
    for decode in (records.decode_key, records.decode_value):
        try:
            decode(data)
        except records.UndecodableRecord:
            continue
    at = data[:1]
    try:
        records.partitions_end(data[1:], at[0] & 1) if at and len(data) > records.HEAD_SIZE + 5 else None
    except records.UndecodableRecord:
        return


MANY = MBeanQuery("kafka.server:type=Many,name=X,client-id=*", ("Value", "Count"), expected=True)
ONE = MBeanQuery("kafka.server:type=One", ("Value",))


@target
def jmx_text(data: bytes) -> None:
    page = b"kafka_server_many_x 1\n" + data
    for item in (data, page):
        answer = read_page([MANY, ONE], item, "http://jvm:9404/metrics")
        show(answer.faults)
        for reading in answer.values:
            write([Sample(_metric(reading.mbean), tuple(reading.mbean.properties.values()), 1.0)])


def _metric(mbean: MBean) -> Metric:
    return Metric("x", catalogue.SOURCE_UP.kind, "x", tuple(f"l{at}" for at in range(len(mbean.properties))))


@target
def jolokia(data: bytes) -> None:
    answer = read_answer([MANY, ONE], data, "http://jvm:8778/jolokia")
    show(answer.faults)
    for reading in answer.values:
        assert reading.mbean.properties.keys() in ({"type", "name", "client-id"}, {"type"})
        assert isinstance(reading.value, str) or reading.value == float(reading.value)


@target
def object_names(data: bytes) -> None:
    try:
        parse_object_name(data.decode("utf-8", "replace"))
    except ValueError as error:
        assert type(error) is ValueError  # noqa: PT017 -- the reader's own, none of those below it


@target
def connect(data: bytes) -> None:
    answer = rest.parse(data, "worker:8083")
    show(answer.faults)
    for connector in answer.connectors or ():
        texts = [connector.name, connector.type, connector.state, connector.worker, connector.error, connector.plugin]
        texts += [item for task in connector.tasks for item in (task.task, task.state, task.worker, task.error)]
        "".join([*texts, connector.exactly_once_support, connector.transaction_boundary]).encode()
    rest.plugin_versions(data)
    text = data.decode("utf-8", "replace")
    cause_of(text)
    assert "hunter22" not in last_line(text, {"hunter22"})


def _clock() -> Clock:
    return Clock(lambda: 1000.0, lambda: NOW)


@target
def statistics(data: bytes) -> None:
    inbox = LibrdkafkaReceiver(["prod"], clock=_clock())
    try:
        inbox.take(data)
    except RefusedError as error:
        str(error).encode()
    found = IngestSource(inbox, lambda: "prod", inbox.budget).read(Deadline.after(1), Facts())
    write(item for item in found if isinstance(item, Sample))


@target
def telemetry(data: bytes) -> None:
    """The first byte is the encoding, the second whether it is compressed."""
    receiver = TelemetryReceiver(["prod"], 10, _clock())
    app = OtlpApp(receiver, lambda: "")
    kind = "application/x-protobuf" if data[:1] < b"\x80" else "application/json"
    body = data[2:]
    headers = {"content-type": kind, "content-length": str(len(body)), "kafka-client-instance-id": "i"}
    if data[1:2] >= b"\x80":
        headers["content-encoding"] = "gzip"
    answer = app(Request("POST", "/v1/metrics", headers=headers), body)
    assert answer.status in {200, 400, 413}
    if kind == "application/json":
        json.loads(answer.body, parse_constant=_refuse)
    found = TelemetrySource(receiver, lambda: "prod").read(Deadline.after(1), Facts())
    write(item for item in found if isinstance(item, Sample))


@target
def listener(data: bytes) -> None:
    inbox = SparkReceiver(["prod"], 10, _clock())
    try:
        inbox.take(data)
    except RefusedError as error:
        str(error).encode()
    for query in (*inbox.queries(""), *inbox.queries("prod")):
        write(_spark(query))


def _spark(query: StreamingQuery) -> Iterable[Sample]:
    return query_samples(query, ("prod", "spark", "a", "q"))


@target
def audit_results(data: bytes) -> None:
    try:
        result = parse_result(data)
    except AuditResultError as error:
        str(error).encode()
        return
    assert weight(result) > 0
    json.loads(dump_result(result), parse_constant=_refuse)
    write(audit_samples(result, ("prod", "audits", result.audit)))
    inbox = AuditReceiver(["prod"], 10, _clock())
    try:
        inbox.take(data)
    except RefusedError as error:
        assert "kafka_cluster" in str(error)  # noqa: PT017 -- all else is right


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@target
def event_log(data: bytes) -> None:
    folder = scratch().clear()
    suffix = ".zstd" if data[:1] < b"\x80" else ""
    head = b'{"Event":"SparkListenerLogStart"}\n' if not suffix else b""
    path = scratch().file(f"eventlog_v2_a/events_1_a{suffix}", head + data[1:])
    reader = EventLogFolder(folder)
    now = path.stat().st_mtime
    for _ in range(2):  # the second finds what the first left
        for item in reader.read(Deadline.after(10), now):
            if isinstance(item, Fault):
                show([item])
            else:
                write(_spark(item))
        with path.open("ab") as file:
            file.write(b'\n{"Event":"x"}\n')


@target
def event_lines(data: bytes) -> None:
    """As ``event_log``, with the bytes as the fields of an event."""
    prefix = b'{"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$Query'
    kinds = (b"StartedEvent", b"ProgressEvent", b"IdleEvent", b"TerminatedEvent")
    lines = [prefix + kind + b'",' + data.replace(b"\n", b" ") + b"}\n" for kind in kinds]
    event_log(b"\xff" + b"".join(lines))


@target
def checkpoints(data: bytes) -> None:
    scratch().clear()
    parts = (data.split(b"\xff", 3) + [b""] * 4)[:4]
    for name, part in zip(("metadata", "offsets/7", "commits/7", "sources/0/0"), parts, strict=True):
        if part:
            scratch().file(name, part)
    if parts[0][:1] == b"n":
        scratch().file("offsets/" + str(len(data)) * 60, b"")
    for item in CheckpointFolder(scratch().root).read(Deadline.after(10), NOW):
        if isinstance(item, Fault):
            show([item])
        else:
            write(_spark(item))


@target
def target_files(data: bytes) -> None:
    try:
        for item in parse_targets(data):
            if isinstance(item, LeftOut):
                item.why.encode()
            else:
                "".join((item.address, *item.labels, *item.labels.values())).encode()
    except TargetFileError as error:
        str(error).encode()
    try:
        parse_yaml(data.decode("utf-8", "replace"))
    except YamlError:
        return


@target
def settings(data: bytes) -> None:
    head = b"clusters:\n- kafka: {bootstrap.servers: k:9092}\n"
    for content in (data, head + data):
        path = scratch().file("settings.yml", content)
        try:
            ConfigSource(file=path, environ={}).printed().encode()
        except ConfigError as error:
            str(error).encode()


@target
def web_config(data: bytes) -> None:
    path = scratch().file("web.yml", data)
    for problem in read_web_config(path).problems:
        str(problem).encode()


@target
def state_files(data: bytes) -> None:
    """A snapshot of the transaction log's state and, behind a byte that UTF-8 does not have, its journal."""
    snapshot, _, journal = data.partition(b"\xff")
    path = scratch().file("cluster/txnlog.json", snapshot)
    scratch().file("cluster/txnlog.journal", journal)
    aggregates = Aggregates(Grouping(), TransactionsConfig())
    saved, _ = Keeper(StateDir(path.parents[1]), "txnlog").load("cluster", "", aggregates)
    for partition in saved.partitions.values():
        begin(1000, 10, partition, from_zero=False)


@target
def event_journal(data: bytes) -> None:
    """The last segment of a journal: gone on with, shown, and told by ``incident``."""
    path = scratch().file("cluster/journal/1795255200000000.jsonl", data)
    settings = JournalSettings(path.parents[2], KeptLimits(2**20, 2 * DAY), Instants())
    made = Journal(settings, lambda: "prod", lambda _: ())
    found = made.open("cluster")
    conditions = ConditionRules()
    conditions.restore(found.events)
    made.record([started(found, NOW)], NOW)
    page = page_of(EventQuery(topics=frozenset({"t"})), [made.lines], made.kept_since)
    page_of(EventQuery(since=0.0), [made.lines], made.kept_since)
    reading = LastReads(NOW, NOW - 100.0, ())
    stalls = StallRules()
    stalls.restore(found.events)
    told = [event.document() for event in (*conditions.events(reading), *stalls.close(reading))]
    json.dumps((page, told, [event.document() for event in stalls.open(NOW)], made.newest()), allow_nan=False).encode()
    gaps_of(KeptJournal(merged([made.newest()]), made.kept_since), NOW)
    stalls_of(made.newest())


@target
def stalls_state(data: bytes) -> None:
    """The state of stalls: ``0.1`` had no anchor, and a hand may have written any number."""
    path = scratch().file("cluster/stalls.json", data)
    watch = StallTracker(30.0)
    watch.date(1000.0, NOW, 0.0, "boot")
    watch.remember(StateDir(path.parents[1]).load("cluster", "stalls"))
    json.dumps(watch.memory())


@target
def fetched_batches(data: bytes) -> None:
    """Batches of an answer to Fetch, which hold records of anybody: commits of groups, markers, what is unread."""
    count_records(data, [(7, 3), (9, 0)], 0, 100)
    answer = SimpleNamespace(error_code=0, records=data, high_watermark=100, partition_index=0)
    place = TopicPartition("orders", 0)
    fetched = SimpleNamespace(responses=[SimpleNamespace(topic=place.topic, partitions=[answer])])
    silent = Fault(Reason.TIMEOUT, "no answer to ListOffsets")
    metadata = Metadata("id", {1: "k1:9092"}, {"orders": {0: PartitionMetadata(1, (1,), (1,))}}, frozenset(), {})
    client: Any = SimpleNamespace(
        ask=lambda asked, _: {1: fetched if isinstance(asked[1], FetchRequest) else silent},
        metadata=lambda *_: metadata,
    )
    faults: list[Fault] = []
    commits = read_commits(client, metadata, {place: 0}, {place: 100}, faults, Deadline.after(0.2))
    "".join(str(item[:2]) for item in commits).encode()
    show(faults)
    for found in read_markers(client, metadata, {place: OffsetRange(0, 100)}, Deadline.after(0.2)).values():
        show([found.fault] if found.fault else [])


@target
def client_properties(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    pairs = dict(line.partition("=")[::2] for line in text.split("\n") if "\0" not in line)
    for item in (
        pairs,
        {"bootstrap.servers": "k:9092", **pairs},
        {"bootstrap.servers": "k:9092", "sasl.jaas.config": text},
    ):
        if any(name.endswith((".file", ".location")) for name in item):
            continue  # files are read by others
        try:
            repr(Properties.parse(item)).encode()
        except PropertiesError as error:
            str(error).encode()
    try:
        parse_jaas(text)
    except ValueError:
        return


@target
def client_settings(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for suffix in (".properties", ".json", ".yml", ".env", ".sql"):
        try:
            for part in client_parts(text, f"application{suffix}"):
                for setting in part.settings:
                    (part.name + setting.name + setting.shown).encode("utf-8", "backslashreplace")
        except FileError as error:
            str(error).encode()


@target
def short_texts(data: bytes) -> None:
    """Durations and addresses: of settings, and of web-config files."""
    text = data.decode("utf-8", "replace")
    for parse in (parse_duration, parse_go_duration, split_address):
        try:
            parse(text)
        except ValueError as error:
            assert type(error) is ValueError  # noqa: PT017 -- the reader's own


@target
def exposition(data: bytes) -> None:
    text = data[: len(data) // 2 * 2].decode("utf-16-le", "surrogatepass")  # lone surrogates are frequent so
    labels = tuple(f"{text}||||".split("|")[:4])
    block(Metric("x", catalogue.SOURCE_UP.kind, "x", ("a", "b", "c", "d")), {labels: 1.0}).piece.data.decode()


@target
def web_requests(data: bytes) -> None:
    """A connection's bytes, whole and in pieces as long as the first byte says: the same answers, and no error."""
    size, stream = data[0] % 97 + 1 if data else 1, data[1:]
    if len(stream) > 2000:  # each piece takes rounds of an event loop
        size = max(size, len(stream) // 20)
    whole = asyncio.run(exchange([stream]))
    cut = asyncio.run(exchange([stream[at : at + size] for at in range(0, len(stream), size)]))
    assert agree(whole, cut), (whole, cut)


logging.disable(logging.CRITICAL)  # what the readers log is judged elsewhere
os.environ.pop("KAFKA_EOS_CONFIG", None)
