"""The columns that an operator's expressions may use, and the check that they are plain expressions."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType

from exporter.jobs.audit import debezium
from exporter.jobs.session import SessionError

COLUMNS = "key, value, key_bytes, value_bytes, headers, partition, offset, timestamp"
CONFLUENT_HEADER = 5
"""Bytes before the Avro data in Confluent's wire format: a zero and the schema's id."""

RAW_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
    " headers array<struct<key: string, value: binary>>"
)

# Static methods of any Java class, and files and other sources by name.
_REFLECTION = frozenset({"CallMethodViaReflection", "TryReflect", "StaticInvoke", "Invoke"})
_KINDS = {
    "AggregateExpression": "an aggregate",
    "ScalarSubquery": "a subquery",
    "Exists": "a subquery",
    "ListQuery": "a subquery",
    "InSubquery": "a subquery",
    "LateralSubquery": "a subquery",
    "WindowExpression": "a window function",
    "Alias": "a name (AS)",
}


class ExpressionError(SessionError):
    """An expression cannot be used; the text has the expression and what it may contain."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How ``value`` is read: as text, or by this Avro schema (JSON), with Confluent's 5 bytes before it or without.

    With ``envelope``, values are Debezium's change events, and ``debezium.COLUMNS`` are columns too.
    """

    avro_schema: str | None = None
    confluent: bool = True
    envelope: bool = False


def named(raw: DataFrame, shape: Shape) -> DataFrame:
    """The columns of ``COLUMNS`` from those of Spark's Kafka source. Raises ExpressionError for a bad schema."""
    value: Column = f.col("value").cast("string")
    if shape.avro_schema is not None:
        value = _avro(shape.avro_schema, shape.confluent)
    columns = [
        f.col("key").cast("string").alias("key"),
        value.alias("value"),
        f.col("key").alias("key_bytes"),
        f.col("value").alias("value_bytes"),
        f.col("partition"),
        f.col("offset"),
        f.col("timestamp"),
    ]
    if "headers" in raw.columns:
        pairs = f.transform("headers", lambda header: f.struct(header["key"], header["value"].cast("string")))
        columns.append(f.map_from_entries(pairs).alias("headers"))
    try:
        frame = raw.select(*columns)
        return debezium.with_envelope(frame) if shape.envelope else frame
    except PySparkException as error:
        if shape.avro_schema is None:
            raise
        raise ExpressionError(f"value_schema: {reason(error)}") from None


def _avro(schema: str, confluent: bool) -> Column:
    from pyspark.sql.avro.functions import from_avro  # noqa: PLC0415 -- only where there is a schema

    # PERMISSIVE: a value that is not such a record becomes null, and a null id makes the verdict unknown.
    options = {"mode": "PERMISSIVE"}
    if not confluent:
        return from_avro(f.col("value"), schema, options)
    body = f.expr(f"substring(value, {CONFLUENT_HEADER + 1})")
    framed = f.expr(f"length(value) >= {CONFLUENT_HEADER} AND substring(value, 1, 1) = X'00'")
    return from_avro(f.when(framed, body), schema, options)


def uses_headers(expressions: Mapping[str, str]) -> bool:
    """Return whether any of these needs the headers: Spark reads them only on request."""
    return any(re.search(r"\bheaders\b", text, re.IGNORECASE) for text in expressions.values())


def checked(frame: DataFrame, flag: str, text: str) -> Column:
    """The column of one expression over ``named`` records. Raises ExpressionError for anything but one plain
    expression.
    """
    if not text.strip():
        raise ExpressionError(f"{flag} is empty: give a Spark SQL expression over {COLUMNS}")
    session: Any = frame.sparkSession._jsparkSession  # noqa: SLF001 -- Spark's parser and plans have no way in from Python
    try:
        parsed = session.sessionState().sqlParser().parseExpression(text)
        _refuse(flag, text, parsed)
        plan = _plan(frame, text)
    except PySparkException as error:
        raise ExpressionError(f"{flag} {text!r}: {reason(error)}. Columns: {columns_of(frame)}") from None
    if plan.nodeName() == "Aggregate":
        raise ExpressionError(_refused(flag, text, "an aggregate"))
    if plan.nodeName() != "Project" or plan.child().nodeName() == "Generate":
        raise ExpressionError(_refused(flag, text, "a generator"))
    chosen = _chosen(plan)
    _refuse(flag, text, chosen)
    if not chosen.deterministic():
        raise ExpressionError(_refused(flag, text, "not the same at every reading"))
    return f.expr(text)


def _plan(frame: DataFrame, text: str) -> Any:  # noqa: ANN401 -- a plan of the JVM
    java: Any = frame.select(f.expr(text).alias("it"))._jdf  # noqa: SLF001 -- as above
    return java.queryExecution().analyzed()


def _chosen(plan: Any) -> Any:  # noqa: ANN401 -- as above
    return plan.projectList().apply(0).child()


def condition(frame: DataFrame, flag: str, text: str) -> Column:
    """As ``checked``, for an expression that must be true or false."""
    column = checked(frame, flag, text)
    if not isinstance(frame.select(column).schema.fields[0].dataType, BooleanType):
        raise ExpressionError(f"{flag} {text!r} is no condition: it must be true or false for a record")
    return column


def chosen_by(shape: Shape, where: str) -> Column | None:
    """Which records count, None for all. A tombstone of Debezium repeats the deletion before it, and does not."""
    columns = [f.expr(where)] if where else []
    if shape.envelope:
        columns.append(f.col("value_bytes").isNotNull())
    return functools.reduce(lambda one, other: one & other, columns) if columns else None


def _refuse(flag: str, text: str, root: Any) -> None:  # noqa: ANN401 -- an expression of the JVM
    for node in _nodes(root):
        name = node.getClass().getSimpleName()
        if name in _REFLECTION:
            raise ExpressionError(_refused(flag, text, "a call into Java"))
        if name in _KINDS:
            raise ExpressionError(_refused(flag, text, _KINDS[name]))
        if name.startswith("UnresolvedStar"):
            raise ExpressionError(_refused(flag, text, "a list of columns (*)"))


def _refused(flag: str, text: str, what: str) -> str:
    return f"{flag} {text!r} is {what}: it must be one expression over the record itself ({COLUMNS})"


def _nodes(root: Any) -> Iterator[Any]:  # noqa: ANN401 -- as above
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        children = node.children()
        waiting += [children.apply(number) for number in range(children.size())]


def columns_of(frame: DataFrame) -> str:
    """The columns with their types, a struct's fields included."""
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields)


def reason(error: Exception) -> str:
    """Spark's error message in one sentence, without the class, the plan and the trace."""
    text = str(error)
    first = text.split("\n== SQL", 1)[0].split(";\n", 1)[0].split("\n\n", 1)[0]
    first = re.sub(r"\s+", " ", first).strip()
    first = re.sub(r" ?SQLSTATE: \w+.*", "", first)
    return first.rstrip(". ;")


def identity(column: Column) -> Column:
    """The value that is compared: the expression's value as text. A binary's bytes are kept as they are."""
    return column.cast("string")


def sequence_number(sequence: Column) -> Column:
    """The number in a sequence; null for a value that is not a number."""
    return sequence.cast("bigint")
