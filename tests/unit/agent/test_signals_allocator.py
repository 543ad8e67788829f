from __future__ import annotations

import subprocess
import sys


def test_garbage_is_collected_once_the_agent_runs_although_its_start_switches_that_off() -> None:
    script = (
        "import gc, sys, weakref; gc.disable()\n"
        "from exporter.agent.signals import GARBAGE_THRESHOLDS, collect_seldom\n"
        "collect_seldom(); assert gc.isenabled(); assert gc.get_freeze_count()\n"
        "class Ring: pass\n"
        "first = Ring(); first.itself = first; gone = weakref.ref(first); del first\n"
        "kept = [[] for _ in range(2 * GARBAGE_THRESHOLDS[0])]; assert gone() is None\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
