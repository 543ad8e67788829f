"""The agent's command in a process whose wall clock is wrong: the first argument is by how many seconds it is ahead.

All that the agent knows of the time of day comes from ``time.time``. A library that is loaded before libc's clock does
the same to more of the process, and was seen to stop it whole, or to make its sockets fail.
"""

from __future__ import annotations

import sys
import time


def main() -> int:
    ahead = int(sys.argv.pop(1))
    right = time.time
    time.time = lambda: right() + ahead
    from exporter.cli import main as agent  # noqa: PLC0415 - with the clock as it is now

    return agent()


if __name__ == "__main__":
    sys.exit(main())
