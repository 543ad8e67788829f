"""``python -m tests.chaos --seed 1 --minutes 10``: one run and its verdict.

The exit code is 1 on any disagreement, and 3 when there is no verdict: the servers of the run did not start, or did not
come back, in time, or the cluster lost records that it had acknowledged (an unclean election), and so has no truth.
"""

from __future__ import annotations

import argparse
import pickle
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from demo import jars
from demo.cluster import StartError
from tests.chaos.cluster import ChaosCluster
from tests.chaos.collect import CollectError
from tests.chaos.evidence import RunEvidence
from tests.chaos.report import report
from tests.chaos.run import Run, say
from tests.chaos.verdict import judge

DISAGREED, NO_STAGE = 1, 3


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10.0, help="of faults; starting and settling come on top")
    parser.add_argument("--version", default=jars.DEFAULT_VERSION, help="of the brokers")
    parser.add_argument("--output", type=Path, default=Path("build/chaos"), help="folder for reports and logs")
    parser.add_argument(
        "--judge", type=Path, metavar="EVIDENCE", help="judge what an earlier run kept, and run nothing"
    )
    options = parser.parse_args()
    if options.judge:
        with options.judge.open("rb") as stream:
            kept: RunEvidence = pickle.load(stream)  # noqa: S301 - our own file
        evidence = replace(kept)  # what follows from it is found anew, by the rules of now
    else:
        try:
            evidence = _run(options.seed, options.minutes * 60, options.version, options.output)
        except (StartError, CollectError) as error:
            say(f"there is no verdict: {error}")
            return NO_STAGE
    disagreements = judge(evidence)
    text = report(evidence, disagreements)
    print(text)
    if not options.judge:
        (_kept(options.output, options.seed) / "report.txt").write_text(text + "\n")
    if disagreements and evidence.unclean_elections:
        say("there is no verdict: the cluster lost what it acknowledged")
        return NO_STAGE
    return DISAGREED if disagreements else 0


def _run(seed: int, seconds: float, version: str, output: Path) -> RunEvidence:
    kept = _kept(output, seed)
    cluster = ChaosCluster(version)
    try:
        say(f"starting three brokers of Kafka {version}; seed {seed}")
        cluster.start()
        run = Run(cluster, seed, seconds)
        evidence = run.do()
        shutil.copytree(run.agent.state, kept / "agent-state", dirs_exist_ok=True)
        with (kept / "evidence.pickle").open("wb") as stream:
            pickle.dump(evidence, stream)
    finally:
        for log in [*cluster.folder.glob("*.log"), *cluster.folder.glob("*.tsv")]:
            shutil.copy(log, kept)
        cluster.close()
    return evidence


def _kept(output: Path, seed: int) -> Path:
    folder = output / f"seed-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())
