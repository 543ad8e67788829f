"""The agent as a process: SIGTERM and SIGINT stop it, SIGHUP has it reread its settings.

Its memory: the settings of the C library's allocator and of Python's garbage collector.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import signal
import sys
import threading

from exporter.agent.composition import Agent
from exporter.core.state import StateInUseError
from exporter.web_server.server import ListenError

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


log = logging.getLogger(__name__)

SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})

SWITCH_SECONDS = 0.0001
"""Time that one thread holds the interpreter while others want it: a scrape takes it some ten times, each after some of
the sources that decode. With four of them it waits 0.3 ms each time (1.5 ms for the slowest hundredth), 0.5 and 3.5 ms
at 0.2 ms. They do 13 % less work a CPU second than at 0.2 ms, and only while several decode.
"""


def run(agent: Agent) -> int:
    """Run until SIGTERM or SIGINT. Exit code 0 after a clean stop, 2 when an address cannot be listened on or another
    process has ``state.dir``.
    """
    # Blocked in every thread that starts from here on: the main thread alone receives signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    sys.setswitchinterval(SWITCH_SECONDS)
    share_one_arena()
    try:
        agent.start()
    except (ListenError, StateInUseError) as error:
        log.critical("%s", error)
        return 2
    collect_seldom()
    asked = threading.Event()
    # On a thread of its own: large settings take seconds to read, and SIGTERM does not wait for them.
    threading.Thread(target=_reread, args=(agent, asked), name="settings", daemon=True).start()
    while signal.sigwait(SIGNALS) == signal.SIGHUP:
        asked.set()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # a second Ctrl-C ends it at once
    agent.stop()
    return 0


def _reread(agent: Agent, asked: threading.Event) -> None:
    while asked.wait():
        asked.clear()
        try:
            agent.reload()
        except Exception:
            log.exception("the settings were not reread")
