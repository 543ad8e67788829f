"""Trees of texts become sections by their types, with every problem at its path, and are written without secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from exporter.settings.reading import Contradiction, SettingError, ValueForm, keys_of, read, section_of, written
from exporter.settings.root import Config
from exporter.settings.values import Count, Duration, Secret
from exporter.web_server.config import WebSettings


def _parts(value: str) -> str:
    raise SettingError((("first",), "is wrong"), (("second",), "is wrong too"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaf:
    word: Literal["a", "b", "c"]
    seconds: Duration = 1.0
    secret: Secret = field(default="", repr=False)
    parts: Annotated[str, ValueForm(before=_parts)] | None = None

    def contradictions(self) -> Iterator[Contradiction]:
        if self.word == "b" and self.seconds == 1.0:
            yield ("seconds",), "is needed beside b"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    leaves: tuple[Leaf, ...] = ()
    file: Path | None = None
    names: Mapping[str, Count] = field(default_factory=dict)
    number: int = 7
    on: bool = False


def problems(tree: object) -> list[str]:
    value, found = read(Tree, tree, {})
    assert value is None
    return list(map(str, found))


def test_a_tree_of_texts_becomes_its_section() -> None:
    tree = {"leaves": [{"word": "a", "seconds": "1m"}], "file": "/x", "names": {"k": "3"}, "number": " 5 ", "on": "Yes"}
    assert read(Tree, tree, {}) == (
        Tree(leaves=(Leaf(word="a", seconds=60.0),), file=Path("/x"), names={"k": 3}, number=5, on=True),
        (),
    )
    assert read(Tree, {"file": None, "number": None}, {}) == (Tree(), ())


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (None, ["config: must be a section: a mapping of keys"]),
        ({"number": "3.5"}, ["number: must be a whole number"]),
        ({"number": "9" * 5000}, ["number: must be a whole number"]),
        ({"number": []}, ["number: must be a whole number"]),
        ({"on": "maybe"}, ["on: must be true or false"]),
        ({"file": {}}, ["file: must be a path"]),
        ({"leaves": {}}, ["leaves: must be a list"]),
        ({"leaves": [None, {"word": []}]}, [
            "leaves[0]: must be a section: a mapping of keys", "leaves[1].word: must be one of 'a', 'b' or 'c'"]),
        ({"leaves": [{}]}, ["leaves[0].word: is required"]),
        ({"names": {"k": "-1", "l": "x"}}, ["names.k: must be 0 or more", "names.l: must be a whole number"]),
        ({"leaves": [{"word": "b"}]}, ["leaves[0].seconds: is needed beside b"]),
        ({"leaves": [{"word": "b", "seconds": "x y"}]}, [
            "leaves[0].seconds: 'x y' is no duration; write a number with its unit, such as 500ms, 30s, 5m or 1h30m"]),
        ({"leaves": [{"word": "a", "parts": "x"}]}, [
            "leaves[0].parts.first: is wrong", "leaves[0].parts.second: is wrong too"]),
        ({"numbr": "1", "on": "x"}, ["on: must be true or false", "numbr: unknown key; did you mean number?"]),
    ],
)  # fmt: skip
def test_every_problem_has_its_path(tree: object, expected: list[str]) -> None:
    assert problems(tree) == expected


def test_a_problem_has_the_origin_of_the_nearest_setting_above_it() -> None:
    _, found = read(Tree, {"names": {"k": "x"}, "number": "x"}, {("names",): "A", ("names", "k"): "B", (): "C"})
    assert [problem.origin for problem in found] == ["B", "C"]


def test_what_is_written_is_read_back_without_its_secrets() -> None:
    tree = Tree(leaves=(Leaf(word="a", secret="hunter2"),), file=Path("/x"), names={"k": 3})
    shown = written(tree)
    assert "hunter2" not in f"{shown} {tree}"
    assert shown["leaves"][0]["secret"] == "[hidden]"
    assert shown["leaves"][0]["seconds"] == "1s"
    shown["leaves"][0]["secret"] = "hunter2"
    assert read(Tree, shown, {}) == (tree, ())


def sections(kind: Any) -> Iterator[Any]:
    yield kind
    for key in keys_of(kind).values():
        if section := section_of(key.annotation):
            yield from sections(section)


def test_no_secret_of_the_settings_is_in_a_repr() -> None:
    secrets = 0
    for section in (*sections(Config), *sections(WebSettings)):
        assert isinstance(section, type)
        for each in fields(section):
            if keys_of(section)[each.name].annotation == Secret:
                assert not each.repr
                secrets += 1
    assert secrets >= 5
