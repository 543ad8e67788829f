"""The C library's allocator, told to share."""

from __future__ import annotations

import ctypes

M_ARENA_MAX = -8
"""Of glibc's malloc.h."""


def share_one_arena() -> None:
    """Let all threads allocate from one arena; call it before any is started.

    glibc gives each thread one of its own, and what one thread has freed there no other can use: with a thread for each
    source and broker that was a tenth of the agent's memory. Other C libraries have no such setting and need none.
    """
    try:
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
    except (OSError, AttributeError):
        return
