"""HTML pages from templates: what they show is escaped and printable, without scripts and other hosts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from exporter.bounds.text import printable_value
from exporter.core.durations import format_age
from exporter.lso.next_step import clock_time
from exporter.web_server.messages import encoded

if TYPE_CHECKING:
    from jinja2 import Environment

REFRESH_SECONDS = 10
PARTS_OF_A_PIECE = 200

_TEMPLATES = Path(__file__).parent / "templates"
STYLE = (_TEMPLATES / "status.css").read_text(encoding="utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:;"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""No script, only the inline style sheet of the page, and a form that leads back to it."""


def pieces(
    template: str, prefix: str, /, *, refresh: bool, folder: Path = _TEMPLATES, **shown: object
) -> Iterator[bytes]:
    """Yield a page in pieces. ``prefix`` goes before its links; with ``refresh`` it loads itself anew."""
    stream = (
        environment(folder)
        .get_template(template)
        .stream(prefix=prefix, style=STYLE, refresh=REFRESH_SECONDS if refresh else 0, **shown)
    )
    stream.enable_buffering(PARTS_OF_A_PIECE)
    return map(encoded, stream)


@cache
def environment(folder: Path) -> Environment:
    """Return the environment of the templates in a folder, and of the layout of all pages."""
    # Most agents are scraped for months before somebody looks at their page. It is in parts: Python takes memory for a
    # part while it compiles it, seventy bytes for each of the code that Jinja makes of it.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=FileSystemLoader((folder, _TEMPLATES)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=printable_value,
    )
    environment.filters["age"] = lambda seconds: "unknown" if seconds is None else format_age(seconds)
    environment.filters["clock"] = lambda seconds: "unknown" if seconds is None else clock_time(seconds)
    environment.filters["grouped"] = _grouped
    return environment


def _grouped(number: int) -> Markup:
    return Markup(f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}"))  # noqa: S704 -- digits
