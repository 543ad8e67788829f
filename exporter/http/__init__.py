"""Asking others over HTTP: JVM agents and Connect's REST. Every failure is a fault with its reason."""

from __future__ import annotations

from exporter.http.endpoint import AskError, Endpoint, Reply
from exporter.model import Deadline

__all__ = ["MAX_BYTES", "AskError", "Endpoint", "Reply", "ask"]

MAX_BYTES = 32 * 1024 * 1024
"""Greatest answer, decompressed. A catch-all jmx_exporter page of a broker with 10,000 partitions has 11 MB."""


def ask(
    endpoint: Endpoint,
    deadline: Deadline,
    *,
    path: str = "",
    accept: str = "application/json",
    body: bytes | None = None,
    max_bytes: int = MAX_BYTES,
) -> Reply:
    """GET the endpoint's URL and ``path``, or POST ``body`` as JSON to it. Raises AskError.

    Returns by the deadline, but for the look-up of a host name, which has no time limit in Python.
    """
    # requests and what it imports are a tenth of the agent's memory: only for those who have somebody to ask.
    from exporter.http.exchange import exchange  # noqa: PLC0415

    return exchange(endpoint, deadline, path=path, accept=accept, body=body, max_bytes=max_bytes)
