"""Documents become dataclasses by their types only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from exporter.settings.from_document import DocumentError, from_document


@dataclass(frozen=True)
class Leaf:
    seconds: float
    word: Literal["a", "b"]


@dataclass(frozen=True)
class Tree:
    leaves: tuple[Leaf, ...]
    file: Path | None
    names: Mapping[str, str]
    number: int
    on: bool


GOOD: dict[str, Any] = {
    "leaves": [{"seconds": 1, "word": "a"}], "file": "/tmp/x", "names": {"k": "v"}, "number": 3, "on": True,
}  # fmt: skip


def test_a_document_becomes_its_dataclass() -> None:
    tree = from_document(Tree, GOOD)
    assert tree == Tree((Leaf(1.0, "a"),), Path("/tmp/x"), {"k": "v"}, 3, on=True)
    assert type(tree.leaves[0].seconds) is float
    assert from_document(Tree, GOOD | {"file": None}).file is None


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"number": True}, "Tree.number"),
        ({"number": "3"}, "Tree.number"),
        ({"number": 3.0}, "Tree.number"),
        ({"on": 1}, "Tree.on"),
        ({"file": 3}, "Tree.file"),
        ({"leaves": {}}, "Tree.leaves"),
        ({"leaves": [{"seconds": 1, "word": "c"}]}, "Tree.leaves[0].word"),
        ({"leaves": [{"seconds": True, "word": "a"}]}, "Tree.leaves[0].seconds"),
        ({"leaves": [{"seconds": 1}]}, "Tree.leaves[0]"),
        ({"names": {"k": None}}, "Tree.names.k"),
        ({"other": 1}, "Tree"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_place(change: dict[str, Any], place: str) -> None:
    with pytest.raises(DocumentError) as raised:
        from_document(Tree, GOOD | change)
    assert str(raised.value).startswith(f"{place}: ")


def test_no_document_at_all_is_refused() -> None:
    with pytest.raises(DocumentError):
        from_document(Tree, None)
