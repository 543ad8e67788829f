"""The definition of an audit as users write it: a YAML file, or flags for its commonest keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from exporter.bounds.files import warn_of_writers
from exporter.config import ConfigError
from exporter.jobs.audit import debezium
from exporter.jobs.audit.columns import Shape
from exporter.jobs.audit.definition import Audit, KeyedSink, NullId, Outbox
from exporter.jobs.audit.offset_range import Bound, BoundError, parse_bound
from exporter.jobs.audit.tables import SinkTable
from exporter.jobs.lakes import LAKES
from exporter.settings.file_text import read_file_text
from exporter.settings.layers import Problem
from exporter.settings.reading import read
from exporter.settings.values import NotEmpty
from exporter.settings.yaml_file import layer_of

_LAKE = re.compile(rf"(?P<format>{'|'.join(LAKES)}):(?P<url>.+?)(?:@(?P<snapshot>\d+))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSpec:
    """A table by JDBC, of Iceberg or Delta, Parquet files, or what else Spark reads."""

    url: NotEmpty
    """A JDBC URL, a folder, `parquet:`, `iceberg:` or `delta:` with a folder or a table, perhaps with `@SNAPSHOT`."""
    table: str = ""
    """Table of a JDBC URL."""
    user: str = ""
    """User of the database."""
    password_file: Path | None = None
    """File with the password."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SinkSpec(TableSpec):
    """What stores the topic: rows with kafka_topic, kafka_partition and kafka_offset, or one row for each key."""

    format: str = ""
    """A format of Spark that reads `url`, such as `orc`."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of `format`."""
    key: str = ""
    """Expression over a row: its key, where the sink keeps one row for each key. Compared with `key`."""
    version: str = ""
    """Version of a row, a whole number. Compared with `version`."""
    content: str = ""
    """Content of a row. Compared with `content`."""
    group: str = ""
    """What this group has committed of the topic must be in the sink."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceSpec:
    """A topic whose records must all be in the audited one, by `id`."""

    topic: NotEmpty
    """Its name."""
    id: str = ""
    """Id of one of its records (as `id`)."""
    where: str = ""
    """Only records for which this is true."""
    group: str = ""
    """What this group has committed of it must be downstream."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OutboxSpec(TableSpec):
    """A table whose rows must all be in the topic."""

    id: NotEmpty
    """The `id` of a row, over the table's columns."""
    where: str = ""
    """Only rows for which this is true."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditSpec:
    """The definition of an audit. An expression is Spark SQL over one record."""

    topic: NotEmpty
    """The topic to audit."""
    id: str = ""
    """Expression whose value only one record may have."""
    key: str = ""
    """Expression: key of the numbers of `sequence`, or of the rows of `sink.key`."""
    sequence: str = ""
    """Expression: a number that grows by one with each record of a key."""
    sparse: bool = False
    """Numbers of `sequence` grow, and a missing number is no gap."""
    where: str = ""
    """Audit only records for which this is true."""
    null_id: Literal["skip", "count", "fail"] = "fail"
    """Records without id, key or number: ignore, note, or result unknown (`fail`)."""
    format: Literal["plain", "debezium"] = "plain"
    """Format of the values."""
    begin: str = "beginning"
    """First records: `beginning`, `earliest`, offset(s) or an instant."""
    end: str = ""
    """End, exclusive; without it the last stable offset."""
    value_schema: Path | None = None
    """The values are Avro, by the schema in this file."""
    value_framing: Literal["confluent", "plain"] = "confluent"
    """Avro with Confluent's five bytes before it, or plain."""
    version: str = ""
    """Expression: a number that grows with each record of a key. Compared with `sink.version`."""
    content: str = ""
    """Expression: content of a record. Compared with `sink.content`."""
    deleted: str = ""
    """Expression that is true for a record that deletes its key's row; without it, a null value."""
    source: SourceSpec | None = None
    """A topic that this one is made from."""
    sink: SinkSpec | None = None
    """What stores the topic."""
    outbox: OutboxSpec | None = None
    """A table whose rows are sent to the topic."""


def spec_of_file(file: Path) -> Audit:
    """The audit of a file; paths in it are relative to it. Raises ConfigError with every problem and its path."""
    layer = layer_of(read_file_text(file))
    if layer.problems:
        raise ConfigError(layer.problems)
    return audit_of(layer.tree, str(file), file.parent)


def audit_of(tree: Any, origin: str, folder: Path = Path()) -> Audit:  # noqa: ANN401 -- a tree of YAML is anything
    """The audit of these keys. Raises ConfigError with every problem and its path."""
    spec, problems = read(AuditSpec, tree, {(): origin})
    if spec is None:
        raise ConfigError(problems)
    reading = _Reading(_with_defaults(spec), folder)
    audit = reading.audit()
    if reading.problems:
        raise ConfigError([Problem(path, text, origin) for path, text in reading.problems])
    return audit


def _with_defaults(spec: AuditSpec) -> AuditSpec:
    """The defaults for Debezium's change events, where the file does not say it."""
    if spec.format != "debezium":
        return spec
    more: dict[str, Any] = {}
    if not spec.id and not spec.key:
        more = {"id": debezium.EVENT, "key": debezium.ROW_KEY, "sequence": debezium.SOURCE_POSITION}
    sequence = more.get("sequence", spec.sequence)
    more["sparse"] = spec.sparse or sequence == debezium.SOURCE_POSITION
    more["deleted"] = spec.deleted or (debezium.DELETED if spec.sink is not None and spec.sink.key else "")
    return replace(spec, **more)


class _Reading:
    """From a spec to an audit; ``problems`` are those that no single key has, each with its path."""

    def __init__(self, spec: AuditSpec, folder: Path) -> None:
        self._spec, self._folder = spec, folder
        self.problems: list[tuple[tuple[str, ...], str]] = list(_contradictions(spec))

    def audit(self) -> Audit:
        spec, source = self._spec, self._spec.source
        sink = None if spec.sink is None else self._table("sink", spec.sink)
        outbox = None if spec.outbox is None else self._table("outbox", spec.outbox)
        keyed = None
        if spec.sink is not None and sink is not None and spec.sink.key:
            keyed, sink = KeyedSink(sink, spec.sink.key, spec.sink.version, spec.sink.content), None
        schema = None if spec.value_schema is None else self._schema(spec.value_schema)
        return Audit(
            topic=spec.topic,
            id=spec.id,
            key=spec.key,
            sequence=spec.sequence,
            shape=Shape(schema, spec.value_framing == "confluent", spec.format == "debezium"),
            begin=self._bound("begin", spec.begin),
            end=self._bound("end", spec.end) if spec.end else None,
            source_topic=source.topic if source else "",
            source_id=source.id if source else "",
            source_group=(source.group if source else "") or (spec.sink.group if spec.sink else ""),
            sink=sink,
            where=spec.where,
            source_where=source.where if source else "",
            null_id=NullId(spec.null_id),
            sparse=spec.sparse,
            version=spec.version,
            content=spec.content,
            deleted=spec.deleted or "value_bytes IS NULL",
            keyed=keyed,
            outbox=None if spec.outbox is None or outbox is None else Outbox(outbox, spec.outbox.id, spec.outbox.where),
        )

    def _table(self, name: str, spec: TableSpec) -> SinkTable:
        url = spec.url
        if url.startswith("jdbc:") != bool(spec.table):
            self.problems.append(((name, "table"), "belongs to a JDBC URL, and to nothing else"))
        if isinstance(spec, SinkSpec) and spec.format:
            return SinkTable(url, format=spec.format, options=tuple(spec.options.items()))
        if (lake := _LAKE.fullmatch(url)) is not None:
            return SinkTable(lake["url"], format=lake["format"], snapshot=lake["snapshot"] or "")
        password = ""
        if spec.password_file is not None:
            warn_of_writers(self._folder / spec.password_file)
            password = self._text((name, "password_file"), spec.password_file).strip()
        return SinkTable(url.removeprefix("parquet:"), spec.table, spec.user, password)

    def _schema(self, file: Path) -> str:
        text = self._text(("value_schema",), file)
        try:
            json.loads(text or "{}")
        except ValueError as error:
            self.problems.append((("value_schema",), f"{file} is no JSON: {error}"))
        return text

    def _text(self, path: tuple[str, ...], file: Path) -> str:
        read = read_file_text(self._folder / file)
        if read.problem:
            self.problems.append((path, f"{file} {read.problem}"))
        return read.text

    def _bound(self, name: str, text: str) -> Bound:
        try:
            return parse_bound(text)
        except BoundError as error:
            self.problems.append(((name,), str(error)))
            return Bound(text)


_NEEDS: Mapping[str, tuple[str, ...]] = {
    "source": ("id",),
    "sequence": ("key",),
    "sparse": ("sequence",),
    "sink.options": ("sink.format",),
    "sink.key": ("key",),
    "version": ("sink.version",),
    "sink.version": ("version", "sink.key"),
    "content": ("sink.content",),
    "sink.content": ("content", "sink.key"),
    "deleted": ("sink.key",),
    "outbox": ("id",),
}
"""What a key is of no use without."""


def _contradictions(spec: AuditSpec) -> Iterator[tuple[tuple[str, ...], str]]:
    def value(path: str) -> Any:  # noqa: ANN401 -- a value of the spec
        part: Any = spec
        for name in path.split("."):
            part = getattr(part, name, None)
        return part

    for path, needed in _NEEDS.items():
        if value(path) and (missing := [name for name in needed if not value(name)]):
            yield tuple(path.split(".")), f"needs {' and '.join(missing)}"
    if spec.key and not (spec.sequence or value("sink.key")):
        yield ("key",), "needs sequence, or sink.key"
    if spec.format == "debezium" and spec.value_schema is not None:
        yield ("value_schema",), "format debezium reads JSON; for Avro, name the fields: value.op, value.source.lsn"
    if value("source.topic") == spec.topic:
        yield ("source", "topic"), "is the audited topic itself"
    asked = [name for name in ("source", "sink", "outbox") if value(name)]
    if len(asked) > 1:
        yield (asked[1],), f"{', '.join(asked)} are different audits: ask for one at a time"
    if spec.where and value("sink") and not value("sink.key"):
        yield ("where",), "needs sink.key: by positions, each record must be in the sink"
