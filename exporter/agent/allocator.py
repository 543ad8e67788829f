"""Memory: the C library's allocator, and Python's garbage collector."""

from __future__ import annotations

import ctypes
import gc

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Constant of glibc's malloc.h."""
LARGE_BYTES = 1024 * 1024
GARBAGE_THRESHOLDS = (20_000, 10, 10)
"""Objects and rounds between two garbage collections. A read makes tens of thousands of values that live until the next
one and hold no cycles: with Python's 700, collections take a third of all processor time and stop all threads.
"""


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


def collect_seldom() -> None:
    """Collect garbage from here on, also where the collector was switched off, but none of what was imported."""
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.freeze()  # imported modules stay alive: the collector need not traverse them
    gc.enable()
