"""The file of a bearer token."""

from __future__ import annotations

from pathlib import Path


def read_token(file: Path) -> str:
    """Return the token. Raises ValueError with the end of a sentence about the settings."""
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is no UTF-8 text"
        raise ValueError(f"token_file cannot be read: {why}") from None
    if not token:
        raise ValueError("token_file is empty")
    return token
