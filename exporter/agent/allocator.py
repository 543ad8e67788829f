"""The C library's allocator: one arena for all threads."""

from __future__ import annotations

import ctypes

M_ARENA_MAX = -8
"""Of glibc's malloc.h."""


def share_one_arena() -> None:
    """Let all threads allocate from one arena. Call it before any thread is started.

    glibc gives each thread its own arena, and memory that one thread frees there is not available to another: with a
    thread for each source and broker that was a tenth of the agent's memory. Other C libraries have no such setting and
    need none.
    """
    try:
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
    except (OSError, AttributeError):
        return
