"""Ids in JSON: the quick way gives what get_json_object gives, on documents of every kind, broken ones included."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as f

from exporter.jobs.audit.columns import RAW_SCHEMA, Shape, analysed, named
from exporter.jobs.audit.hashes import Texts, hashed, texts_of
from exporter.jobs.audit.json_path import path_of, pattern_of
from tests.e2e.conftest import in_proof
from tests.e2e.spark.auditing import Auditor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATHS = {"$.id": b"%b", "$.a.id": b'{"x":1,"a":%b}', "$.a.b.id": b'{"a":{"b":%b,"y":[]}}'}
"""With the documents that have the path where ``$.id`` is in another one."""
# What it should answer, and others that look alike.
PLAIN = [
    '{"id":"a"}', '{"id": "a"}', '{"id":7}', '{"id": -12, "x": 1}', '{"x":1,"id":"a"}', '{"x":"y","id":"b","z":[]}',
    '{"x":null,"id":"c"}', '{"x":{},"id":"d"}', '{"x":{"id":"inner"},"id":"outer"}', '{"x":[1,2.5,"s"],"id":"e"}',
    '{"id":"first","id":"second"}', '{"id":"é"}', '{"id":"😀","n":1e5}', '{"id":"with space"}', '{"id":"a\tb"}',
    '{"id":"a\nb"}', '{"na\nme":1,"id":"a"}', '{"id":"123"}', '{"id":999999999999999999}', '{"id":"x","n":-0.5E-10}',
    '{"id":"a:{}[],"}',
]  # fmt: skip
HARD = [
    '{"a":{"id":"p","b":{"id":"q"}},"id":"r"}',
    "", " ", "null", "true", "7", '"id"', "[]", "{}", "{", "}", '{"id"}', '{"id":}', '{"id":"a"', '{"id":"a}',
    '"id":"a"', '{"id":""}', '{"id":null}', '{"id":null,"id":"b"}', '{"id":true}', '{"id":{}}', '{"id":[]}',
    '{"id":["a"]}', '{"id":{"id":"a"}}', '{"id":1.0}', '{"id":1e5}', '{"id":-0}', '{"id":01}', '{"id":+1}',
    '{"id":.5}', '{"id":1.}', '{"id":0x1F}', '{"id":NaN}', '{"id":Infinity}', '{"id":12345678901234567890}',
    '{"id":1' + "0" * 1200 + "}", '{"id":-9223372036854775808}', '{"id":00}', '{"id":"a",}', '{,"id":"a"}',
    '{"id":"a"}}', '{"id":"a"} tail', '{"id":"a"}{"id":"b"}', ' {"id":"a"}', '{"id":"a"} ', '\ufeff{"id":"a"}',
    '{ "id" : "a" }', '{"id"  :  "a"}', '{\n  "id": "a"\n}', '{"id":\t"a"}', "{'id':'a'}", "{\"id\":'a'}", '{id:"a"}',
    '{"id":"a\\"b"}', '{"id":"a\\u0041"}', '{"\\u0069d":"a"}', '{"\\u0069d":"a","id":"b"}', '{"id":"\\q"}',
    '{"id":"\\ud83d\\ude00"}', '{"id":"\\ud83d"}', '{"x":"\\"id\\":\\"no\\"","id":"yes"}', '{"x":"y\\\\","id":"a"}',
    '{"ID":"a"}', '{"id ":"a"}', '{"id.x":"a"}', '{"a.id":"x"}', '{"a":{"id":"x"}}', '{"a":null,"a":{"id":"x"}}',
    '{"a":"s","a":{"id":"x"}}', '{"a":{"x":1},"a":{"id":"y"}}', '{"a":[{"id":"x"}]}', '{"a":{"b":{"id":"z"}}}',
    '{"a":{"b":{"id":"z"},"id":1}}', '{"x":[[[[1]]]],"id":"a"}', '{"x":{"y":{"z":{"w":1}}},"id":"a"}',
    '{"x":[1,],"id":"a"}', '{"x":[,1],"id":"a"}', '{"x":tru,"id":"a"}', '{"x":trueish,"id":"a"}', '{"x":01,"id":"a"}',
    '{"x":1.2.3,"id":"a"}', '{"x":--1,"id":"a"}', '{"x":1e,"id":"a"}', '{"x":1e999,"id":"a"}', '{"id":"a","x":tru}',
    '{"id":"a","x":}', '{"id":"a","x"}', '{"id":"a" "x":1}', '{"id":"a","x":"\\x"}', '{"id":"a","x":1 2}',
    '{"id":"a","id":}', '{"id":"a"/* c */}', '{"id":"a"}//', '{"id":"\x00"}', '{"\x00":1,"id":"\x01"}',
    '{"id":"a"\x00}', '{"id": 5}', '{"id":5 }', '{"id":5,"id":6}', '{"id":"5","n":5}', '{"id":5"}', '{"id":"5}',
    '{"id":"a" }', '{"x":1 ,"id":"a"}', '{"x":1,  "id":"a"}', json.dumps({"n" * 60_000: 1, "id": "long name"}),
    json.dumps({"x": "v" * 40_000, "id": "long value"}), '{"x":' + "[" * 1100 + "]" * 1100 + ',"id":"a"}',
]  # fmt: skip
BYTES = [
    b'{"id":"\xff"}', b'{"id":"a\xc3"}', b'{"\xed\xa0\x80":1,"id":"a"}', b'{"id":"\xed\xa0\xbd\xed\xb8\x80"}',
    b'\xff{"id":"a"}', b'{"id":"\xc0\x80"}', b'{"id":"\xf5\x80\x80\x80"}', b'{"id":"a"}\xff',
    b"\xef\xbb\xbf" + b'{"id":"a"}', '{"id":"a"}'.encode("utf-16"),
]  # fmt: skip


@pytest.fixture
def session(audits: Auditor) -> SparkSession:
    return audits.session


def corpus() -> list[bytes]:
    """All of the above, and some thousands that are made of them by small changes."""
    whole = [text.encode() for text in (*PLAIN, *HARD)] + BYTES
    made = random.Random(16)  # the same ones each time
    small = [document for document in whole if len(document) < 200]
    marks = [bytes([number]) for number in b"{}[],:\"\\ \t\n0123-+.eEtfn'/*\x00\x7f\xc3\xff"] + [
        b"id",
        b'"id":',
        b"null",
        b"\\u0041",
    ]
    found = list(whole)
    for _ in range(12_000):
        one = made.choice(small)
        for _ in range(made.randint(1, 3)):
            at, kind = made.randint(0, len(one)), made.randint(0, 3)
            if kind == 0:
                one = one[:at] + made.choice(marks) + one[at:]
            elif kind == 1:
                one = one[:at] + one[at + made.randint(1, 3) :]
            elif kind == 2:
                one = one[:at] + made.choice(marks) + one[at + 1 :]
            else:
                other = made.choice(small)
                one = one[:at] + other[made.randint(0, len(other)) :]
        found.append(one)
    return found


def frame_of(session: SparkSession, values: list[bytes | None]) -> DataFrame:
    rows = [(None, value, "t", 0, offset, None, None) for offset, value in enumerate(values)]
    return named(session.createDataFrame(rows, RAW_SCHEMA), Shape())


@pytest.mark.parametrize("path", ["$.a.id", *in_proof("$.id", "$.a.b.id")])
def test_the_quick_way_gives_what_get_json_object_gives(session: SparkSession, path: str) -> None:
    text = f"get_json_object(value, '{path}')"
    documents = corpus()
    frame = frame_of(session, [*documents, *(PATHS[path] % document for document in documents), None])
    assert pattern_of(path_of(analysed(frame, text)))
    quick = texts_of(frame, Texts(id=text), [f.col("offset"), f.col("value_bytes"), f.expr(text).alias("theirs")])
    wrong = quick.where("NOT (id <=> theirs)").limit(5).collect()
    assert not [(bytes(row.value_bytes), row.id, row.theirs) for row in wrong]
    assert quick.where("id IS NOT NULL").count() > 500


def test_documents_of_the_usual_form_take_the_quick_way(session: SparkSession) -> None:
    frame = frame_of(session, [text.encode() for text in PLAIN])
    found = frame.select(f.regexp_extract("value", pattern_of("$.id"), 1).alias("it")).where("it != ''").count()
    assert found == len(PLAIN)


def test_an_expression_is_evaluated_once_for_a_record(session: SparkSession) -> None:
    frame = frame_of(session, [b'{"id":"a"}'])
    for text in (
        "get_json_object(value, '$.id')",
        "upper(get_json_object(value, '$.id'))",
        "regexp_extract(value, 'a', 0)",
    ):
        plan = hashed(frame, Texts(id=text, key=text, sequence=text))
        tree: str = plan._jdf.queryExecution().optimizedPlan().toString()
        once = text.partition("(")[0]
        # Id, key and sequence are an expression each; each of them is there once.
        assert tree.count(f"{once}(") <= 3, tree


@pytest.mark.parametrize(
    "text",
    [
        "get_json_object(key, '$.id')",
        "get_json_object(value, '$.id[0]')",
        "get_json_object(value, '$[\\'id\\']')",
        "get_json_object(value, '$.*')",
        "get_json_object(value, concat('$.', key))",
        "get_json_object(upper(value), '$.id')",
        "get_json_object(value, '$.a.b.c.d')",
        "concat(get_json_object(value, '$.id'), '')",
        "key",
    ],
)
def test_other_expressions_are_left_to_spark(session: SparkSession, text: str) -> None:
    assert not pattern_of(path_of(analysed(frame_of(session, [b"{}"]), text)))
