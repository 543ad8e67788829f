"""The HTML page of a report: one file, no script, no other host, for screen and print.

A report is data (``ReportPage``), which is escaped here and nowhere else. Plots are SVG from ``plots.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from exporter.status.html import STYLE, environment


@dataclass(frozen=True, slots=True)
class Table:
    """``numbers`` are the columns that are aligned right; ``marks`` gives a row a level: good, bad, blind or "".

    With ``linked``, each row has an address in the page, its first cell.
    """

    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    numbers: frozenset[str] = frozenset()
    marks: Sequence[str] = ()
    more: str = ""
    linked: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing of ``plots.py``, with a sentence that describes it."""

    svg: Markup
    caption: str


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph."""

    text: str


Block = Table | Plot | Note


@dataclass(frozen=True, slots=True)
class PageSection:
    """A heading and its content."""

    heading: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class ReportPage:
    """A whole report. ``level`` of the verdict is good, bad or blind (unknown)."""

    title: str
    level: str
    verdict: str
    details: Sequence[str]
    facts: Sequence[tuple[str, str]]
    sections: Sequence[PageSection]
    footer: str


def render(page: ReportPage) -> str:
    """The page as one HTML document."""
    return _ENVIRONMENT.get_template("report.html").render(page=page, style=Markup(_STYLE))  # noqa: S704 -- our own CSS


_HERE = Path(__file__).parent
_STYLE = f"{STYLE}\n{(_HERE / 'report.css').read_text(encoding='utf-8')}"
_ENVIRONMENT = environment(_HERE)
_ENVIRONMENT.tests["a_table"] = lambda block: isinstance(block, Table)
_ENVIRONMENT.tests["a_plot"] = lambda block: isinstance(block, Plot)
