"""Requests over HTTP: JVM agents and Connect's REST API. Every failure is a fault with its reason."""

from __future__ import annotations

from contextlib import nullcontext

from exporter.bounds.memory import AnswerRoom
from exporter.http_client.endpoint import Endpoint, HttpError, Reply, causes
from exporter.model import Deadline

__all__ = ["MAX_BYTES", "Endpoint", "HttpError", "Reply", "ask", "causes"]

MAX_BYTES = 32 * 1024 * 1024
"""Greatest answer, decompressed. A catch-all jmx_exporter page of a broker with 10,000 partitions has 11 MB."""


def ask(
    endpoint: Endpoint,
    deadline: Deadline,
    *,
    path: str = "",
    accept: str = "application/json",
    body: bytes | None = None,
    content_type: str = "application/json",
    method: str = "",
    max_bytes: int = MAX_BYTES,
    room: AnswerRoom | None = None,
) -> Reply:
    """GET the endpoint's URL and ``path``, or POST ``body`` to it, or another ``method``. Raises HttpError.

    Returns by the deadline, except for the lookup of a host name, which has no timeout in Python. ``room`` is where
    the answer stays in memory while it is parsed; without one it has room until this returns.
    """
    # requests and its imports are a tenth of the agent's memory: they are imported only where an endpoint is
    # configured.
    from exporter.http_client.exchange import exchange  # noqa: PLC0415

    with nullcontext(room) if room is not None else AnswerRoom() as kept:
        return exchange(
            endpoint,
            deadline,
            path=path,
            accept=accept,
            body=body,
            content_type=content_type,
            method=method or ("GET" if body is None else "POST"),
            max_bytes=max_bytes,
            room=kept,
        )
