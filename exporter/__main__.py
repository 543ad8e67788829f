"""``kafka-eos-exporter``, which ``python -m exporter`` is too: the first code of ours that the process runs."""

from __future__ import annotations

import gc
import signal
import sys


def main() -> int:
    """Run one command; gives back its exit code.

    The agent takes SIGHUP for "reread the settings". It is blocked before anything is imported, which takes longer
    than all else at the start: one that comes meanwhile waits, and would end the process otherwise. Until the agent
    runs no garbage is collected: imports leave next to none, and a tenth of their time was spent on looking for it.
    """
    if sys.argv[1:2] == ["run"]:
        gc.disable()
        if hasattr(signal, "SIGHUP"):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    from exporter import cli  # noqa: PLC0415 -- imports everything

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
