"""The agent as a process: SIGTERM and SIGINT stop it, SIGHUP has it reread its settings."""

from __future__ import annotations

import logging
import signal
import sys
import threading

from exporter.agent.allocator import collect_seldom, share_one_arena
from exporter.agent.composition import Agent
from exporter.core.state import StateInUseError
from exporter.web_server.server import ListenError

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
    # On a thread of its own: another process reads the settings, and SIGTERM does not wait for it.
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
