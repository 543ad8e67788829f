"""Patterns of the settings on names of others: as ``re`` matches, in a bounded time."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.bounds.patterns import MOST_SECONDS, BoundedPattern, PatternError, given_up
from exporter.model import Reason

LONGEST_ID = 32_767
"""Characters of the longest transactional.id: a string of Kafka's protocol."""

SLOW = (
    (r"(a+)+$", "a" * LONGEST_ID + "!"),
    (r"(a|a)*$", "a" * 249 + "!"),
    (r"(a|aa)+$", "a" * 60 + "!"),
    (r"^(?!(a|a)*$).*z", "a" * 60 + "!"),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * LONGEST_ID),
    (r"(\w+\s?)*$", "a" * LONGEST_ID + "!"),
    (r"\s*\s*\s*$", " " * LONGEST_ID + "!"),
    (r"(.+)+\1$", "ab" * 16_000 + "!"),
    (r"(?P<application>(x+x+)+)y", "x" * LONGEST_ID),
)

USUAL = (
    ".*",
    "",
    "(?!)",
    "^ord",
    r"^(?!__|_schemas).*$",
    r"(?i)^Orders-\d+$",
    r"^(?P<application>billing)-.*",
    r"(?P<application>[a-z]+?)-(?P<n>\d+)",
    r"(a)|(b)|\bc\b",
    r"a{2,}b?[^c-e]|\.x",
    r"^\w+(?<!-test)$",
    r"(-|_)a\1",
)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("pattern", USUAL)
@given(name=st.text("ab-_.1c_ORDersé\n", max_size=12) | st.sampled_from(["orders-17", "__t", "billing-7", "a-test"]))
def test_a_pattern_matches_as_re_does(pattern: str, whole: bool, name: str) -> None:
    theirs = re.compile(pattern)
    expected = theirs.fullmatch(name) if whole else theirs.search(name)
    ours = BoundedPattern(pattern, "topics.include", whole=whole)
    found = ours.match(name)
    assert (found and (found.span(), found.groupdict())) == (expected and (expected.span(), expected.groupdict()))
    assert ours.matches(name) is ours.matches(name) is (expected is not None)
    assert ours.given_up() is None


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("pattern", "name"), SLOW)
def test_a_name_costs_a_bounded_time_whatever_the_pattern(pattern: str, name: str, whole: bool) -> None:
    ours = BoundedPattern(pattern, "applications", whole=whole)
    began = time.process_time()
    ours.match(name)
    assert time.process_time() - began < MOST_SECONDS + 0.1


def test_all_names_together_cost_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.bounds.patterns.MOST_SECONDS", 0.005)  # each; a tenth of what it is
    ours = BoundedPattern("(a|a)*$", "applications")
    began = time.process_time()
    for length in range(LONGEST_ID, 0, -31):
        ours.match("a" * length + "!")
    assert time.process_time() - began < 0.2 + 1  # a second for what is not matched


def test_a_name_that_takes_too_long_is_a_fault_that_names_pattern_and_name() -> None:
    ours = BoundedPattern("(a|a)*$", "topics.exclude")
    name = "a" * 100 + "!"
    assert not ours.matches(name)
    (fault,) = given_up([ours, BoundedPattern(".*", "topics.include")])
    assert fault.reason is Reason.TIMEOUT
    assert fault.detail.startswith("topics.exclude: '(a|a)*$' takes too long on 'aaaaaa")
    assert "(101 characters)" in fault.detail
    assert "up to 75 characters" in fault.detail
    assert ours.given_up() is None
    assert ours.matches("aaa"), "short names are matched as before"
    assert ours.given_up() is None
    assert not ours.matches(name)
    assert ours.given_up() is not None, "it is unknown as long as the name is there"


def test_a_name_that_cannot_be_shown_can_be_matched() -> None:
    ours = BoundedPattern("^a", "topics.exclude")
    assert ours.matches("a\ud800")
    slow = BoundedPattern("(a|a)*$", "topics.exclude")
    slow.matches("\ud800" + "a" * 100 + "!")
    fault = slow.given_up()
    assert fault is not None
    fault.detail.encode()


@pytest.mark.parametrize("pattern", ["(", "a**", "[", r"\p{L}", "(?P<a>x)(?P<a>y)", "(?<a>x)", "(?R)", r"(?r)a"])
def test_what_re_does_not_know_is_no_pattern(pattern: str) -> None:
    with pytest.raises(PatternError, match="is no regular expression"):
        BoundedPattern(pattern, "topics.include")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a" * 10_001, "has more than 10000 characters"),
        ("(" * 5_000, "is nested too deeply"),
        ("a{9999999999999999999999}", "a number in it is too large"),
    ],
)
def test_a_pattern_that_cannot_be_compiled_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(PatternError, match=why):
        BoundedPattern(pattern, "topics.include")
