"""Check the built site: ``python -m scripts.check_site FOLDER``. Every link, image and anchor within it must be there.

Links to other hosts are not followed. Nothing but links may lead there: a page that is read loads nothing of others.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The links, loaded addresses and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := given.get(key))}
        if tag == "a" and (link := given.get("href")):
            self.links.add(link)
        if tag in {"img", "script", "iframe"} and (source := given.get("src")):
            self.loaded.add(source)
        if tag == "link" and given.get("rel") in {"stylesheet", "icon"} and (source := given.get("href")):
            self.loaded.add(source)


def problems(folder: Path) -> Iterator[str]:
    """Yield a line for each link that leads nowhere and for each file that is loaded from another host."""
    pages = {file: _Page(file.read_text(encoding="utf-8")) for file in sorted(folder.rglob("*.html"))}
    for file, page in pages.items():
        name = file.relative_to(folder)
        for source in sorted(page.loaded):
            if urlsplit(source).netloc:
                yield f"{name} loads {source} of another host"
        for link in sorted(page.links | page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("/"):
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{name} links to {link}, which is not there"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name} links to {link}: no such place on that page"


if __name__ == "__main__":
    found = list(problems(Path(sys.argv[1]).resolve()))
    print(*found, sep="\n", file=sys.stderr)
    sys.exit(1 if found else 0)
