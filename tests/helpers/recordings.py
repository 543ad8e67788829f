"""Recorded answers of real JVMs and of Connect's REST API, which ``make captures`` records anew."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from exporter.jvm.answers import JvmAnswer
from exporter.jvm.jolokia import read_answer
from exporter.jvm.mbeans import MBeanQuery, parse_object_name

RECORDINGS = Path(__file__).parents[1] / "golden" / "captures"
URL = "http://127.0.0.1:8778/jolokia"

Name = tuple[str, frozenset[tuple[str, str]]]


def jolokia_answer(recording: str, queries: Sequence[MBeanQuery]) -> JvmAnswer:
    """Return what the recorded JVM answers to these queries, matched by MBean: see ``replay``."""
    return read_answer(queries, replay(recording, queries), URL)


def recorded(recording: str, queries: Sequence[MBeanQuery]) -> tuple[MBeanQuery, ...]:
    """Return those of the queries that the recording has an item for."""
    names = {_name(item["request"]["mbean"]) for item in json.loads(recording)}
    return tuple(query for query in queries if _name(query.pattern) in names)


def replay(recording: str, queries: Sequence[MBeanQuery]) -> bytes:
    """Return the body of Jolokia's answer to these queries, from the JSON text of a recorded one.

    A query is matched by domain and properties of its MBean, whatever its place. An MBean or an attribute that was not
    recorded does not exist, so a query that is added or moved changes no other answer.
    """
    items: dict[Name, list[dict[str, Any]]] = {}
    for item in json.loads(recording):
        items.setdefault(_name(item["request"]["mbean"]), []).append(item)
    return json.dumps([_answer(items.get(_name(query.pattern), ()), query) for query in queries]).encode()


def _answer(items: Sequence[dict[str, Any]], query: MBeanQuery) -> dict[str, Any]:
    absent = {"status": 404, "error": f"{query.pattern}: not recorded"}
    asked = [item for item in items if set(item["request"]["attribute"]) & set(query.attributes)]
    return next((_only(item, query.attributes) for item in asked), absent)


def _only(item: dict[str, Any], attributes: Sequence[str]) -> dict[str, Any]:
    """The item with only these attributes: of one MBean, or of each that matches a pattern."""
    value = item.get("value")
    if not isinstance(value, Mapping):
        return item
    if all(isinstance(member, Mapping) for member in value.values()):
        return item | {"value": {name: _cut(member, attributes) for name, member in value.items()}}
    return item | {"value": _cut(value, attributes)}


def _cut(values: Mapping[str, Any], attributes: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in attributes}


def _name(text: str) -> Name:
    mbean = parse_object_name(text)
    return mbean.domain, frozenset(mbean.properties.items())
