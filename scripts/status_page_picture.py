"""The picture of the status page in README.md, of an agent that runs: ``python -m scripts.status_page_picture URL``.

``make demo`` starts such an agent. Headless Chromium takes the picture once an open and a hanging transaction hold
partitions.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

SIZE = "1180,1000"
WAIT_SECONDS = 300.0
KINDS = {"open", "hanging"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.status_page_picture", description=__doc__)
    parser.add_argument("url", help="of an agent, such as `make demo` starts")
    parser.add_argument("--output", type=Path, default=Path("docs/status-page.png"))
    options = parser.parse_args()
    until = time.monotonic() + WAIT_SECONDS
    while not _kinds(options.url) >= KINDS:
        if time.monotonic() > until:
            print(f"no open and no hanging transaction in {WAIT_SECONDS:.0f} s", file=sys.stderr)
            return 1
        time.sleep(1.0)
    screenshot(options.url, options.output)
    print(options.output)
    return 0


def screenshot(url: str, png: Path) -> None:
    chromium = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    subprocess.run(
        [*chromium, f"--window-size={SIZE}", f"--screenshot={png.resolve()}", url],
        check=True,
        capture_output=True,
        timeout=120,
    )


def _kinds(url: str) -> set[str]:
    with urllib.request.urlopen(f"{url}/api/v1/status", timeout=10) as answer:  # noqa: S310
        document = json.load(answer)
    return {stall["blocker"]["kind"] for cluster in document["clusters"] for stall in cluster["stalled_partitions"]}


if __name__ == "__main__":
    sys.exit(main())
