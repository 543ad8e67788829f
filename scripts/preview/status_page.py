"""The picture of the status page in README.md, from an agent that runs: ``python -m scripts.preview.status_page URL``.

``make demo`` starts such an agent. The picture is taken once an open and a hanging transaction hold partitions.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.request
from pathlib import Path

from scripts.preview.screenshot import screenshot

SIZE = (1180, 1000)
WAIT_SECONDS = 300.0
KINDS = {"open", "hanging"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.preview.status_page", description=__doc__)
    parser.add_argument("url", help="of an agent, such as `make demo` starts")
    parser.add_argument("--output", type=Path, default=Path("docs/status-page.png"))
    options = parser.parse_args()
    until = time.monotonic() + WAIT_SECONDS
    while not _kinds(options.url) >= KINDS:
        if time.monotonic() > until:
            print(f"no open and no hanging transaction in {WAIT_SECONDS:.0f} s", file=sys.stderr)
            return 1
        time.sleep(1.0)
    screenshot(options.url, options.output, *SIZE)
    print(options.output)
    return 0


def _kinds(url: str) -> set[str]:
    with urllib.request.urlopen(f"{url}/api/v1/status", timeout=10) as answer:  # noqa: S310
        document = json.load(answer)
    return {stall["blocker"]["kind"] for cluster in document["clusters"] for stall in cluster["stalled_partitions"]}


if __name__ == "__main__":
    sys.exit(main())
