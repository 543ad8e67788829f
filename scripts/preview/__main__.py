"""Pictures of the dashboards, from a real Prometheus's answers: ``python -m scripts.preview URL``.

They show what the panels ask and how they are laid out. They are drawn by matplotlib and a browser, not by Grafana.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

from exporter.dashboards.generate import GENERATED, boards
from scripts.preview.answers import PrometheusQueries
from scripts.preview.page import HEIGHT, WIDTH, page

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
            _screenshot(html, output / f"{name}.png", rows * HEIGHT + _MARGIN)
            print(output / f"{name}.png")
    return 0


def _screenshot(html: Path, png: Path, height: int) -> None:
    """By headless Chromium, then in a palette of 256 colours: a third of the size, without a visible difference."""
    subprocess.run(
        [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--window-size={WIDTH},{height}",
            f"--screenshot={png.resolve()}",
            html.as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    with Image.open(png) as picture:
        small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(png, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
