"""The C library's allocator: one arena for all threads, and large blocks given back when they are freed."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Constant of glibc's malloc.h."""
LARGE_BYTES = 1024 * 1024


def share_one_arena() -> None:
    """Let all threads allocate from one arena, and return large blocks to the system. Call it before any thread starts.

    glibc gives each thread its own arena, and memory that one thread frees there is not available to another: with a
    thread for each source and broker that was a tenth of the agent's memory. Without fixed thresholds glibc raises its
    own with the largest freed block, up to 32 MB, and keeps twice as much: 30 MB while 18 JVMs send answers of the
    largest size. Other C libraries have no such settings.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_ARENA_MAX, 1)
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(M_TRIM_THRESHOLD, LARGE_BYTES)
    except (OSError, AttributeError):
        return
