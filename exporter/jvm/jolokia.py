"""A JVM through its Jolokia agent: one POST for all queries, with exactly the attributes that are needed.

The answer is described in Jolokia's reference (protocol 8.2) and was seen on Jolokia 2.6.0: the items are in the order
of the queries, each with its own status; a pattern without a match is a 404; NaN is null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from exporter.bounds.json_text import NO_JSON, JsonError, parse_json, weight
from exporter.bounds.memory import AnswerRoom, one_heavy_at_a_time
from exporter.bounds.text import cut
from exporter.http_client import Endpoint, HttpError, ask
from exporter.jvm.answers import MOST_VALUES, JvmAnswer, MBeanValue
from exporter.jvm.mbeans import MBeanQuery, is_pattern, parse_object_name
from exporter.model import Deadline, Fault, Reason

_OPTIONS = {"ignoreErrors": True, "includeStackTrace": False, "serializeException": False}
_FAILED = "ERROR: "
"""Prefix of the text in place of an attribute that could not be read, with ignoreErrors."""
MOST_BYTES = 16 * 1024 * 1024
"""Greatest answer. For three attributes of 10,000 partitions it has 3 MB."""
MOST_COMMAS = 5 * MOST_VALUES
"""A value has one, and those of its MBean's name: up to four with a topic, a partition and a client."""
LONGEST_TEXT = 1000
"""Characters of an attribute's text that are kept: states, versions, ids."""


class JolokiaReader:
    """See ``JvmReader``."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def read(self, queries: Sequence[MBeanQuery], deadline: Deadline) -> JvmAnswer:
        """Read all queries in one exchange; see ``JvmReader.read``."""
        if not queries:
            return JvmAnswer()
        with AnswerRoom() as room:
            try:
                reply = ask(self._endpoint, deadline, body=question(queries), max_bytes=MOST_BYTES, room=room)
            except HttpError as error:
                return JvmAnswer(faults=(error.fault,), failed=tuple(queries))
            with one_heavy_at_a_time(weight(reply.body)):
                return read_answer(queries, reply.body, self._endpoint.url)


def question(queries: Sequence[MBeanQuery]) -> bytes:
    """The body of the POST."""
    return json.dumps(
        [
            {"type": "read", "mbean": query.pattern, "attribute": list(query.attributes), "config": _OPTIONS}
            for query in queries
        ]
    ).encode()


def read_answer(queries: Sequence[MBeanQuery], body: bytes, url: str) -> JvmAnswer:
    """The agent's answer as values; an invalid item affects no other."""
    try:
        items = parse_json(body, most_commas=MOST_COMMAS)
    except JsonError as error:
        what = f"{_looks_like(body)}, not JSON of a Jolokia" if str(error) == NO_JSON else f"JSON that {error}"
        return JvmAnswer(faults=(Fault(Reason.MALFORMED, f"{url} answered {what}"),), failed=tuple(queries))
    if isinstance(items, dict) and isinstance(items.get("status"), int):  # it refused the request as a whole
        return JvmAnswer(faults=(_refusal(url, "the request", items),), failed=tuple(queries))
    if not isinstance(items, list) or len(items) != len(queries) or not all(isinstance(item, dict) for item in items):
        fault = Fault(Reason.MALFORMED, f"{url} answered JSON that is not a Jolokia's")
        return JvmAnswer(faults=(fault,), failed=tuple(queries))
    values: list[MBeanValue] = []
    faults: list[Fault] = []
    failed: list[MBeanQuery] = []
    for query, item in zip(queries, items, strict=True):
        status = item.get("status")
        if status == 404:
            continue  # no such MBean, or not yet: Kafka registers many at first use
        if status != 200:
            faults.append(_refusal(url, query.pattern, item))
            failed.append(query)
            continue
        found = list(_readings(query, item.get("value")))
        values += (answer for answer in found if isinstance(answer, MBeanValue))
        if wrong := [answer for answer in found if not isinstance(answer, MBeanValue)]:
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            faults.append(Fault(Reason.MALFORMED, f"{url}, {query.pattern}: {wrong[0]}{more}"))
            failed.append(query)
        if len(values) > MOST_VALUES:
            fault = Fault(Reason.MALFORMED, f"{url} answered with more than {MOST_VALUES} values")
            return JvmAnswer(faults=(fault,), failed=tuple(queries))
    return JvmAnswer(tuple(values), tuple(faults), failed=tuple(failed), exhaustive=True)


def _readings(query: MBeanQuery, value: Any) -> Iterator[MBeanValue | str]:  # noqa: ANN401 -- JSON
    """The readings, and what is wrong with each MBean that has none."""
    by_name = value if is_pattern(query.pattern) else {query.pattern: value}
    if not isinstance(by_name, Mapping):
        yield "the value is no object"
        return
    wanted = parse_object_name(query.pattern)
    for name, attributes in by_name.items():
        if not isinstance(attributes, Mapping):
            yield "the attributes are no object"
            continue
        try:
            mbean = parse_object_name(name)
        except ValueError as error:
            yield str(error)
            continue
        if mbean.domain != wanted.domain or mbean.properties.keys() != wanted.properties.keys():
            yield f"an MBean that was not asked for, {cut(name, 120)!r}"
            continue
        for attribute in query.attributes:
            found = attributes.get(attribute)
            if isinstance(found, str):
                if not found.startswith(_FAILED):
                    yield MBeanValue(mbean, attribute, cut(found, LONGEST_TEXT))
            elif isinstance(found, (int, float)) and math.isfinite(found):
                yield MBeanValue(mbean, attribute, float(found))
            elif query.presence and attribute in attributes:
                yield MBeanValue(mbean, attribute, "")


def _refusal(url: str, what: str, item: Mapping[str, Any]) -> Fault:
    status, error = item.get("status"), cut(str(item.get("error") or ""), 200)
    if status == 403:
        return Fault(Reason.AUTHORIZATION, f"{url} refuses {what}: allow it in jolokia-access.xml")
    return Fault(Reason.MALFORMED, f"{url}, {what}: status {status!s:.5}, {error}")


def _looks_like(body: bytes) -> str:
    start = body[:200].lstrip().lower()
    if not start:
        return "nothing"
    return "HTML" if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<")) else "something broken or cut off"
