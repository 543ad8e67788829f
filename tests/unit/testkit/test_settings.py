from __future__ import annotations

import subprocess
import sys

from testkit.settings import free_ports


def test_a_port_that_one_process_was_given_is_given_to_no_other_before_anything_listens_there() -> None:
    code = (
        "import random, sys\n"
        "from testkit.settings import free_ports\n"
        "random.sample = lambda *_: range(int(sys.argv[1]), 32000)\n"
        "print(free_ports(1)[0])\n"
    )
    [ours] = free_ports(1)
    theirs = subprocess.run(
        [sys.executable, "-c", code, str(ours)], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(theirs.stdout) > ours
