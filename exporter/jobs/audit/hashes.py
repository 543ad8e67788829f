"""The columns that the fold takes of a record: its place, and hashes of its id and key.

Each expression is evaluated once for a record. Spark would evaluate one again wherever it is used, so the expressions,
the hashes of their values and what is made of these are separate projections, which Spark joins only where that is
cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as f

from exporter.jobs.audit.columns import analysed, identity, position_column, sequence_number
from exporter.jobs.audit.json_path import LONGEST, path_of, pattern_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame


class Texts(NamedTuple):
    """The expressions that an audit needs of each record, "" where it needs none."""

    id: str = ""
    key: str = ""
    sequence: str = ""


def hashed(frame: DataFrame, texts: Texts, chosen: Column | None = None) -> DataFrame:
    """The columns that ``Plan`` describes, of ``named`` records. The expressions were checked."""
    position = position_column()
    columns = [position]
    if texts.id or texts.key:
        empty = f.shiftleft(f.col("value_bytes").isNull().cast("bigint"), 63)
        columns = [position.bitwiseOR(empty).alias("position")]
    if chosen is not None:
        columns.append(chosen.alias("chosen"))
    if not any(texts):
        return frame.select(*columns)
    return texts_of(frame, texts, columns).select(
        "position", *(["chosen"] if chosen is not None else []), *_hashes(texts)
    )


def texts_of(frame: DataFrame, texts: Texts, columns: Sequence[Column]) -> DataFrame:
    """These columns, and the value of each expression under its name: as text but for a sequence."""
    names = [name for name, text in texts._asdict().items() if text]
    patterns = {name: pattern_of(path_of(analysed(frame, getattr(texts, name)))) for name in names}
    found = {
        f"quick_{name}": f.when(f.octet_length("value") <= LONGEST, f.regexp_extract("value", pattern, 1))
        for name, pattern in patterns.items()
        if pattern
    }
    values = []
    for name in names:
        value = f.expr(getattr(texts, name))
        if name != "sequence":
            value = identity(value)
        if patterns[name]:
            quick = f.col(f"quick_{name}")
            value = f.when(quick != "", quick).otherwise(value)
        values.append(value.alias(name))
    return (frame.withColumns(found) if found else frame).select(*columns, *values)


def _hashes(texts: Texts) -> list[Column]:
    columns = [_hash(f.col("id")).alias("id_hash")] if texts.id else []
    if texts.key and texts.sequence:
        columns += [*key_hashes(f.col("key")), sequence_number(f.col("sequence")).alias("sequence")]
    return columns


def key_hashes(text: Column) -> tuple[Column, Column]:
    """Two hashes of a key's text, ``key_hash`` and ``key_hash_2``: two keys are one only if 128 bits agree."""
    # The second one has another seed, which what comes first makes.
    return _hash(text).alias("key_hash"), f.xxhash64(f.lit(1), text).alias("key_hash_2")


def _hash(text: Column) -> Column:
    return f.when(text.isNotNull(), f.xxhash64(text))
