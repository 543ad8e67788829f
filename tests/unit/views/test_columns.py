"""A field of a view is said once, and is then in JSON, in its schema, on the terminal, on the page and in ``top``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from exporter.commands.generate_reference import field_texts
from exporter.commands.runner import print_views
from exporter.commands.top_view import section_of
from exporter.core.documents import document_of
from exporter.status import html
from exporter.status.html import environment
from exporter.views.columns import View, ViewColumn, age, blocks, label, number, page_columns, terminal_columns


class NestedDocument(TypedDict):
    """A part of a view."""

    application: Annotated[str, label("application")]


class WidgetDocument(TypedDict):
    """A view with each kind of column."""

    widget: Annotated[str, label("widget")]
    seconds: Annotated[float | None, age("open for")]
    part: NestedDocument
    told: Annotated[list[str], ViewColumn("lines", lambda lines: lines)]
    hint: Annotated[str, ViewColumn("hint", page_only=True)]
    level: Annotated[int, ViewColumn("level", mark=lambda view: "bad" if view["level"] > 1 else "", number=True)]
    hidden: str


class WiderDocument(WidgetDocument):
    """The view with one field more."""

    colour: Annotated[str, ViewColumn("colour", str.upper)]
    """The colour of it."""


FACTS: View = {
    "widget": "<w>",
    "seconds": None,
    "part": {"application": "pay"},
    "told": ["one", "two"],
    "hint": "for the page",
    "level": 2,
    "hidden": "unseen",
    "colour": "red",
}


def on_page(view: type) -> str:
    """The table of a view on the page."""
    template = environment(Path(html.__file__).parent / "templates").from_string(
        '{% from "table.html" import table with context %}{{ table(view, [row]) }}'
    )
    return template.render(view=view, row=FACTS, columns=page_columns, prefix="", filter_of=lambda **_: "", curve=None)


def test_a_new_field_is_one_line_and_is_shown_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert document_of(WiderDocument, None, **FACTS)["colour"] == "red"
    schema = TypeAdapter(WiderDocument).json_schema(mode="serialization")
    assert schema["properties"]["colour"]["type"] == "string"
    assert "colour" in schema["required"]
    assert field_texts(WiderDocument)["colour"] == "The colour of it."
    print_views(WiderDocument, [("prod", FACTS)])
    heading, _, row = (line.split() for line in capsys.readouterr().out.splitlines())
    assert (heading[-1], row[-1]) == ("colour", "RED")
    section = section_of("widgets", WiderDocument, [FACTS])
    assert (section.columns[-1], section.rows[0][-1]) == ("colour", "RED")
    page = on_page(WiderDocument)
    assert '<th scope="col">colour</th>' in page
    assert '<td data-label="colour" class="now">RED</td>' in page
    assert "colour" not in on_page(WidgetDocument)


def test_what_is_not_known_is_not_called_zero_and_lines_are_one_line_on_a_terminal() -> None:
    texts = {shown.column.heading: shown.text(FACTS) for shown in terminal_columns(WidgetDocument)}
    assert texts == {"widget": "<w>", "open for": "?", "application": "pay", "lines": "one; two", "level": "2"}
    assert number("n").write(None) == label("n").write("") == "?"


def test_the_page_escapes_a_value_marks_its_level_and_has_what_a_terminal_has_no_room_for() -> None:
    page = on_page(WidgetDocument)
    assert "&lt;w&gt;" in page
    assert "<w>" not in page
    assert '<span class="mark-bad">2</span>' in page
    assert "<div>one</div><div>two</div>" in page
    assert "for the page" in page
    assert "unseen" not in page


def test_numbers_by_minute_are_blocks() -> None:
    assert blocks([]) == ""
    assert blocks([0, 1, 8]) == " ▁█"
