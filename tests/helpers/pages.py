"""The status page as one text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporter.status.page import page_pieces


def page(status: Mapping[str, Any], prefix: str = "", **options: Any) -> str:
    """Return the page as a whole, with the options of ``page_pieces``."""
    return b"".join(page_pieces(status, prefix, **options)).decode()
