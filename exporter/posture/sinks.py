"""Sinks that can write a record twice, by the settings of Connect and by what Spark's queries say of theirs. Pure.

A sink task and a micro-batch are repeated after a failure: whether that is seen depends on the write alone. Kinds that
are not in a table here give no result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from exporter.connect.facts import ConnectState
from exporter.connect.rest import Connector
from exporter.posture.check import PostureCheck, Rule, Settings

SINKS = Rule(
    "sink_duplicates",
    "A sink repeats its last records after a failure or a rebalance: only a write that replaces what it wrote before is"
    " exactly-once.",
    "writes by primary key (upsert), or a deduplication behind the sink",
    fixable=False,
)


class SinkKind(NamedTuple):
    """Sinks whose class or description has the ``word``. ``judge`` returns whether a repeated write is harmless, and
    why.
    """

    word: str
    judge: Callable[[Settings], tuple[bool, str]]


def _always(safe: bool, why: str) -> Callable[[Settings], tuple[bool, str]]:
    return lambda _: (safe, why)


def _jdbc(settings: Settings) -> tuple[bool, str]:
    mode = settings.get("insert.mode", "insert").lower()
    if mode == "insert":
        return False, "insert.mode=insert writes its rows again"
    key = settings.get("pk.mode", settings.get("primary.key.mode", "none")).lower()
    return key != "none", f"insert.mode={mode}, with the key {'of no column' if key == 'none' else key}"


CONNECT_SINKS = (
    SinkKind("jdbcsink", _jdbc),
    SinkKind("cassandrasink", _always(True, "Cassandra replaces the row of the same primary key")),
    SinkKind("icebergsink", _always(True, "it commits offsets with the table's snapshot")),
    SinkKind("filestreamsink", _always(False, "it appends lines to a file")),
)
"""By a part of the class in lower case."""
SPARK_SINKS = (
    SinkKind(
        "kafkasourceprovider",
        _always(False, "Spark's Kafka sink is at-least-once: a batch that is repeated is written again"),
    ),
    SinkKind("foreachbatch", _always(False, "foreachBatch repeats a batch; only its batch id tells that to your code")),
    SinkKind("foreachwrite", _always(False, "foreach repeats rows; only their epoch id tells that to your code")),
    SinkKind("filesink", _always(True, "the folder's _spark_metadata names the files of each batch once")),
    SinkKind("deltasink", _always(True, "Delta skips a batch of the query that it has")),
    SinkKind("iceberg", _always(True, "Iceberg skips an epoch of the query that it has")),
)
"""By a part of the description of a progress event in lower case. That of Iceberg is the name of the table, which may
have any other word in it.
"""


def connect_sink_checks(connects: Iterable[ConnectState]) -> Iterator[PostureCheck]:
    """Judge the sink connectors whose settings are known."""
    for state in connects:
        for connector in state.connectors:
            if connector.type == "sink" and connector.settings is not None:
                yield from _connector(f"{state.name}/{connector.name}", connector, connector.settings)


def _connector(subject: str, connector: Connector, settings: Settings) -> Iterator[PostureCheck]:
    for kind in CONNECT_SINKS:
        if kind.word in connector.plugin.lower():
            safe, why = kind.judge(settings)
            yield SINKS.says(subject, passed=safe, found=f"{connector.plugin.rpartition('.')[2]}: {why}")
            return


def spark_sink_checks(sinks: Mapping[str, str]) -> Iterator[PostureCheck]:
    """Judge the sinks of Spark's queries; ``sinks`` has by application and query the description of its sink."""
    for subject, sink in sorted(sinks.items()):
        kind = next((known_sink for known_sink in SPARK_SINKS if known_sink.word in sink.lower()), None)
        if kind is not None:
            safe, why = kind.judge({})
            yield SINKS.says(subject, passed=safe, found=why)
