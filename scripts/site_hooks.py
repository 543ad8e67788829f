"""mkdocs' hook: links of the documents to files beside docs/ lead to the repository, as those files are no pages."""

from __future__ import annotations

import re
from posixpath import dirname, join, normpath
from typing import Any

_LINK = re.compile(r"\]\((?P<path>(?:\.\./|examples/)[^)#]*)(?P<anchor>#[^)]*)?\)")


def on_page_markdown(markdown: str, *, config: Any, page: Any, **_: Any) -> str:  # noqa: ANN401 -- mkdocs' own types are no dependency
    """Return the page with those links changed."""
    repository = f"{config['extra']['repository'].rstrip('/')}/blob/main"
    return with_repository(markdown, repository, dirname(page.file.src_uri))


def with_repository(markdown: str, repository: str, folder: str = "") -> str:
    """Return a page of ``folder`` below docs/ with each link to a file that is no page changed to ``repository``."""

    def changed(match: re.Match[str]) -> str:
        path = normpath(join("docs", folder, match["path"]))
        if path.startswith("docs/") and path.endswith((".md", ".png", ".svg")):
            return match[0]
        return f"]({repository}/{path}{match['anchor'] or ''})"

    return _LINK.sub(changed, markdown)
