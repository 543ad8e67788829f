"""Errors of a folder that Spark writes, as faults with what to do."""

from __future__ import annotations

from pathlib import Path

from exporter.bounds.text import without_surrogates
from exporter.model import Fault, Reason


def shown(path: Path) -> str:
    """A path in a sentence: a name may be no UTF-8."""
    return without_surrogates(str(path))


def trouble(error: OSError, path: Path) -> Fault:
    """Why a file or a folder could not be read."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Fault(Reason.UNREACHABLE, f"{shown(path)} is not there; the agent reads local and mounted folders")
    if isinstance(error, PermissionError):
        return Fault(
            Reason.AUTHORIZATION,
            f"{shown(path)} may not be read by the agent's user; "
            "Spark lets its own group in: add the agent's user to it",
        )
    return Fault(Reason.UNREACHABLE, f"{shown(path)} cannot be read: {error.strerror or type(error).__name__}")
