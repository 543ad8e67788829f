"""Pictures of the dashboards, from a real Prometheus's answers: ``python -m scripts.preview URL``.

They show what the panels ask and how they are laid out. They are drawn by matplotlib and a browser, not by Grafana.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from exporter.dashboards.generate import GENERATED, boards
from scripts.preview.answers import PrometheusQueries
from scripts.preview.page import HEIGHT, WIDTH, page
from scripts.preview.screenshot import screenshot

_MARGIN = 90


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.preview", description=__doc__)
    parser.add_argument("url", help="of a Prometheus, such as `python -m demo.full_stack` starts")
    parser.add_argument("uid", nargs="*", help="of the dashboards to draw (all)")
    parser.add_argument("--output", type=Path, default=Path("docs/dashboards"))
    parser.add_argument("--minutes", type=int, default=15, help="to show (%(default)s)")
    parser.add_argument("--at", type=float, default=None, help="Unix time of the right edge (now)")
    options = parser.parse_args()
    prometheus = PrometheusQueries(options.url, options.minutes, options.at or time.time())
    output, wanted = options.output, set(options.uid)
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in (board.uid for board in boards() if not wanted or board.uid in wanted):
            board = json.loads((GENERATED / f"{name}.json").read_text())
            html = Path(folder) / f"{name}.html"
            html.write_text(page(board, prometheus))
            rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
            screenshot(html.as_uri(), output / f"{name}.png", WIDTH, rows * HEIGHT + _MARGIN)
            print(output / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
