"""mkdocs' hook: links of the documents to files beside docs/ lead to the repository, as those files are no pages."""

from __future__ import annotations

import re
from typing import Any

_BESIDE = re.compile(r"\]\((?P<path>\.\./[^)#]+|examples/[^)#]*)(?P<anchor>#[^)]*)?\)")


def on_page_markdown(markdown: str, *, config: Any, **_: Any) -> str:  # noqa: ANN401 -- mkdocs' own types are no dependency
    """Return the page with those links changed."""
    return with_repository(markdown, f"{config['extra']['repository'].rstrip('/')}/blob/main")


def with_repository(markdown: str, repository: str) -> str:
    """Return the page with each link to a file outside of docs/, or of docs/examples, below ``repository``."""

    def changed(match: re.Match[str]) -> str:
        path = match["path"]
        path = path.removeprefix("../") if path.startswith("../") else f"docs/{path}"
        return f"]({repository}/{path}{match['anchor'] or ''})"

    return _BESIDE.sub(changed, markdown)
