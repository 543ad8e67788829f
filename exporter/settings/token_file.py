"""The file of a bearer token."""

from __future__ import annotations

from pathlib import Path

from exporter.bounds.files import read_regular

MOST_BYTES = 64 * 1024


def read_token(file: Path) -> str:
    """Return the token. Raises ValueError with the end of a sentence about the settings."""
    try:
        token = read_regular(file, MOST_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is no UTF-8 text"
        raise ValueError(f"token_file cannot be read: {why}") from None
    if not token:
        raise ValueError("token_file is empty")
    return token
