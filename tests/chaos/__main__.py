"""``python -m tests.chaos --seed 1 --minutes 10``: one run and its verdict.

The exit code is 1 on any disagreement, and 3 when there is no verdict: the servers of the run did not start, or did not
come back, in time, or the cluster lost records that it had acknowledged (an unclean election), and so has no truth.
"""

from __future__ import annotations

import argparse
import pickle
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from testkit import jars
from testkit.cluster import StartError
from tests.chaos.cluster import ChaosCluster
from tests.chaos.collect import CollectError
from tests.chaos.evidence import RunEvidence
from tests.chaos.modes import MODES, ORDINARY
from tests.chaos.report import report
from tests.chaos.run import say
from tests.chaos.runs import runs
from tests.chaos.verdict import judge

DISAGREED, NO_STAGE = 1, 3


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10.0, help="of faults; starting and settling come on top")
    parser.add_argument("--mode", choices=MODES, default=ORDINARY.name, help="faults that an ordinary run has not")
    parser.add_argument("--version", default=jars.DEFAULT_VERSION, help="of the brokers")
    parser.add_argument("--output", type=Path, default=Path("build/chaos"), help="folder for reports and logs")
    parser.add_argument(
        "--judge", type=Path, metavar="EVIDENCE", help="judge what an earlier run kept, and run nothing"
    )
    options = parser.parse_args()
    try:
        every = list(_evidence(options))
    except (StartError, CollectError) as error:
        say(f"there is no verdict: {error}")
        return NO_STAGE
    code = 0
    for evidence in every:
        disagreements = judge(evidence)
        text = report(evidence, disagreements)
        print(text)
        if not options.judge:
            (_kept(options) / f"report-{evidence.seed}.txt").write_text(text + "\n")
        if disagreements and evidence.unclean_elections and not evidence.mode.unclean:
            say("there is no verdict: the cluster lost what it acknowledged")
            code = code or NO_STAGE
        elif disagreements:
            code = DISAGREED
    return code


def _evidence(options: argparse.Namespace) -> Iterator[RunEvidence]:
    if options.judge:
        with options.judge.open("rb") as stream:
            kept: RunEvidence = pickle.load(stream)  # noqa: S301 - our own file
        yield replace(kept)  # what follows from it is found anew, by the rules of now
        return
    folder = _kept(options)
    cluster = ChaosCluster(options.version, MODES[options.mode])
    try:
        say(f"starting three brokers of Kafka {options.version}; seed {options.seed}, {options.mode}")
        cluster.start()
        for run in runs(cluster, options.seed, options.minutes * 60):
            evidence = run.do()
            shutil.copytree(run.agent.state, folder / "agent-state", dirs_exist_ok=True)
            name = "evidence.pickle" if run.seed == options.seed else f"evidence-{run.seed}.pickle"
            with (folder / name).open("wb") as stream:
                pickle.dump(evidence, stream)
            yield evidence
    finally:
        for log in [*cluster.folder.glob("*.log"), *cluster.folder.glob("*/*.tsv")]:
            shutil.copy(log, folder)
        cluster.close()


def _kept(options: argparse.Namespace) -> Path:
    mode = "" if options.mode == ORDINARY.name else f"-{options.mode}"
    folder: Path = options.output / f"seed-{options.seed}{mode}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())
