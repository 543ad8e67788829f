"""How the fields of a view are shown: its columns, the same on the terminal, on the page and in ``top``.

A view is one of the documents of this package. A field with a ``ViewColumn`` in its annotation is shown in each table
of that view; a field that is a view itself has the columns of that one at its place::

    seconds: Annotated[float | None, age("open for")]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, get_args

from typing_extensions import get_type_hints, is_typeddict

from exporter.core.durations import format_age
from exporter.lso.next_step import clock_time

View = Mapping[str, Any]
Text = str | Sequence[str]
"""Several texts are several lines on the page, and one on the terminal."""

_BARS = " ▁▂▃▄▅▆▇█"
_MINUTES = 20


class ViewColumn(NamedTuple):
    """One column. ``write`` makes the text of the field's value, or of the whole view where ``whole``.

    ``style`` is its class on the page: ``now`` is not broken, ``id`` anywhere, "" between words. ``mark`` returns the
    level of a view's cell, "" for none. ``links`` is the name of the page's filter that the cell leads to.
    ``page_only`` leaves it out of terminals, which have no room for it. ``by_minute`` is of a list of numbers, which
    the page draws.
    """

    heading: str
    write: Callable[[Any], Text] = str
    style: str = "now"
    mark: Callable[[View], str] = lambda _: ""
    number: bool = False
    whole: bool = False
    links: str = ""
    page_only: bool = False
    by_minute: bool = False


class FieldColumn(NamedTuple):
    """A column with the way to its field in the view."""

    column: ViewColumn
    path: tuple[str, ...]

    def value(self, view: View) -> Any:  # noqa: ANN401 -- of any field
        """What the column is made of."""
        for key in self.path[:-1]:
            view = view[key]
        return view if self.column.whole else view[self.path[-1]]

    def texts(self, view: View) -> Sequence[str]:
        """The lines of the cell."""
        text = self.column.write(self.value(view))
        return (text,) if isinstance(text, str) else text

    def text(self, view: View) -> str:
        """The cell as one line."""
        return "; ".join(self.texts(view))


def label(heading: str, *, links: str = "") -> ViewColumn:
    """The column of a name, "?" where it is not known."""
    return ViewColumn(heading, lambda value: value or "?", "id", links=links)


def number(heading: str) -> ViewColumn:
    """The column of a number, "?" where it is not known."""
    return ViewColumn(heading, lambda value: "?" if value is None else str(value), number=True)


def age(heading: str, unknown: str = "?") -> ViewColumn:
    """The column of seconds."""
    return ViewColumn(heading, lambda seconds: unknown if seconds is None else format_age(seconds), number=True)


def ago(heading: str, unknown: str = "?") -> ViewColumn:
    """The column of seconds since something happened."""
    return ViewColumn(
        heading, lambda seconds: unknown if seconds is None else f"{format_age(seconds)} ago", number=True
    )


def clock(heading: str) -> ViewColumn:
    """The column of an instant in Unix seconds."""
    return ViewColumn(heading, lambda seconds: "?" if seconds is None else clock_time(seconds), "")


def blocks(numbers: Sequence[int]) -> str:
    """The last numbers as blocks of eight heights; a space for 0."""
    last = numbers[-_MINUTES:]
    top = max(last, default=0)
    return "".join(_BARS[0 if not number else 1 + (number * 7) // top] for number in last)


@cache
def page_columns(view: type) -> tuple[FieldColumn, ...]:
    """The columns of a view, in the order of its fields."""
    found: list[FieldColumn] = []
    for key, hint in get_type_hints(view, include_extras=True).items():
        parts: tuple[Any, ...] = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
        columns = [FieldColumn(part, (key,)) for part in parts if isinstance(part, ViewColumn)]
        if not columns and is_typeddict(parts[0]):
            columns = [nested._replace(path=(key, *nested.path)) for nested in page_columns(parts[0])]
        found += columns
    return tuple(found)


@cache
def terminal_columns(view: type) -> tuple[FieldColumn, ...]:
    """The columns that a terminal has room for."""
    return tuple(shown for shown in page_columns(view) if not shown.column.page_only)
