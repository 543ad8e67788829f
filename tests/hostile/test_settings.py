"""Settings of up to 1 MB are read, or refused in a few lines, within seconds of processor time and little memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.settings.layers import LONGEST_PROBLEM, MOST_PROBLEMS

ROOT = Path(__file__).parents[2]
CPU_SECONDS, MEMORY_MB = 20, 512
SIZE = 1_000_000
HEAD = "clusters: [{name: a, kafka: {bootstrap.servers: 'k:9092'}}]\n"


def pattern(text: str) -> str:
    return f"{HEAD}applications: [{{pattern: {json.dumps('(?P<application>x)' + text)}}}]\n"


def repeated(unit: str, size: int = SIZE) -> str:
    return unit * (size // len(unit))


SHAPES = {
    "host of colons": f"{HEAD}web: {{allowed_hosts: {json.dumps(repeated(':') + '!')}}}\n",
    "pattern of groups": pattern(repeated("()")),
    "pattern of open groups": pattern(repeated("(")),
    "pattern of a number": pattern("a{4294967294}"),
    "pattern of numbers": pattern("(?:" * 9 + "a" + "){99}" * 9),
    "pattern of pluses": pattern("(?:" * 99 + "a" + "+)" * 99),
    "patterns": HEAD
    + f"applications: {json.dumps([{'pattern': f'(?P<application>a)()()()-{at}'} for at in range(4000)])}",
    "unknown keys": HEAD + "".join(f"aplications{at}: 1\n" for at in range(9000)),
    "long scalar": HEAD + "x: " + repeated("a"),
    "quotes": HEAD + "x: '" + repeated("''") + "'\n",
    "escapes": HEAD + 'x: "' + repeated("\\n") + '"\n',
    "lines without an end": HEAD + "x: '" + repeated("\n"),
    "folded lines": HEAD + "x: >\n" + repeated(" a\n"),
    "key": HEAD + repeated("a") + ": 1\n",
    "comments": HEAD + repeated("#\n"),
    "lists": HEAD + "x: " + repeated("["),
    "servers": f"clusters: [{{name: a, kafka: {{bootstrap.servers: '{repeated(':')}'}}}}]\n",
    "login": f"{HEAD[:-4]}, sasl.jaas.config: {json.dumps('a required ' + repeated('b=c '))}}}}}]\n",
    "prefix": f"{HEAD}web: {{route_prefix: {json.dumps(repeated('/'))}}}\n",
}

COSTLY = ("patterns", "unknown keys", "folded lines", "login")
"""Those that take most, and that ``make test`` has as well."""

READ = """
import sys
from pathlib import Path
from exporter.config import ConfigSource
from exporter.settings.layers import ConfigError
try:
    ConfigSource(Path(sys.argv[1]), environ={}).load()
except ConfigError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "shape", [pytest.param(shape, marks=[] if shape in COSTLY else pytest.mark.proof) for shape in SHAPES]
)
def test_a_megabyte_of_settings_is_read_or_refused_soon(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.yml"
    path.write_text(SHAPES[shape])
    limits = [f"--cpu={CPU_SECONDS}", f"--as={MEMORY_MB << 20}"]
    done = subprocess.run(
        ["prlimit", *limits, sys.executable, "-c", READ, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    lines = done.stdout.splitlines()
    assert len(lines) <= MOST_PROBLEMS + 1
    assert all(len(line) < LONGEST_PROBLEM + 200 for line in lines)


def test_the_limits_end_a_process() -> None:
    done = subprocess.run(["prlimit", "--cpu=1", sys.executable, "-c", "while True: pass"], check=False)
    assert done.returncode < 0
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime >= 0.5
