"""The start of the process, before anything is imported."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def blocks_sighup_alone(pid: int) -> bool:
    """Whether the command has blocked it: a newer C library blocks all signals for a moment before, while it starts."""
    [mask] = [
        line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigBlk:")
    ]
    return int(mask, 16) == 1 << signal.SIGHUP - 1


def imports_the_agent(pid: int) -> bool:
    return "httptools" in Path(f"/proc/{pid}/maps").read_text()


def test_a_sighup_while_the_agent_is_still_being_imported_is_heeded_once_it_runs() -> None:
    argv = [sys.executable, "-m", "exporter", "run", "--bootstrap-server", "127.0.0.1:1"]
    with subprocess.Popen(
        [*argv, "--web.listen-address", "127.0.0.1:0"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as agent:
        assert agent.stderr
        while not blocks_sighup_alone(agent.pid):  # the test's own time limit ends this
            assert agent.poll() is None
        assert not imports_the_agent(agent.pid)
        agent.send_signal(signal.SIGHUP)
        said = []
        for line in agent.stderr:
            said.append(line)
            if "settings reread" in line:
                break
        agent.terminate()
        assert agent.wait(30) == 0
    assert "settings reread" in said[-1]
    assert any("listening on" in line for line in said[:-1])


@pytest.mark.parametrize("arguments", [["--version"], ["check", "config", "--help"]])
def test_other_commands_end_by_a_sighup_as_a_terminal_that_is_closed_expects(arguments: list[str]) -> None:
    code = (
        "import signal, sys; from exporter.__main__ import main; main();"
        "sys.exit(signal.SIGHUP in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
