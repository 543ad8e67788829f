from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.jvm.mbeans import MBean, matches, parse_object_name, unquoted


@pytest.mark.parametrize(
    ("text", "domain", "properties"),
    [
        ("kafka.server:type=ReplicaManager,name=X", "kafka.server", {"type": "ReplicaManager", "name": "X"}),
        ('k:type=t,client-id="a,b=c:d"', "k", {"type": "t", "client-id": "a,b=c:d"}),
        (r'k:client-id="a\"b\\c\*d\ne",type=t', "k", {"client-id": 'a"b\\c*d\ne', "type": "t"}),
        ("k:type=t,empty=", "k", {"type": "t", "empty": ""}),
        ("k:type=t,client-id=*", "k", {"type": "t", "client-id": "*"}),
    ],
)
def test_an_object_name_is_taken_apart_and_its_quotes_undone(
    text: str, domain: str, properties: dict[str, str]
) -> None:
    assert parse_object_name(text) == MBean(domain, properties)


@pytest.mark.parametrize("text", ["", "kafka", "k:", "k:type", 'k:type="open', "k:=x"])
def test_what_is_no_object_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no ObjectName"):
        parse_object_name(text)


def quoted(text: str) -> str:
    """As ObjectName.quote does."""
    escaped = "".join(f"\\{sign}" if sign in '"\\*?' else sign for sign in text)
    return '"' + escaped.replace("\n", "\\n") + '"'


@given(st.text())
def test_whatever_was_quoted_comes_out_as_it_was(text: str) -> None:
    assert unquoted(quoted(text)) == text
    assert parse_object_name(f"k:type=t,id={quoted(text)},z=1").properties["id"] == text


def test_an_mbean_matches_with_exactly_the_wanted_keys() -> None:
    wanted = {"type": "t", "client-id": "*"}
    assert matches(wanted, {"type": "t", "client-id": "a[b]"})
    assert not matches(wanted, {"type": "t", "client-id": "a", "topic": "x"})
    assert not matches(wanted, {"type": "t"})
    assert matches({"client-id": "a[b]"}, {"client-id": "a[b]"})
    assert not matches({"type": "t"}, {"type": "T"})
