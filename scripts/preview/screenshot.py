"""Pictures of pages for the documentation."""

from __future__ import annotations

import subprocess
from pathlib import Path

from PIL import Image


def screenshot(url: str, png: Path, width: int, height: int) -> None:
    """By headless Chromium, then in a palette of 256 colours: a third of the size, without a visible difference."""
    subprocess.run(
        [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--window-size={width},{height}",
            f"--screenshot={png.resolve()}",
            url,
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    with Image.open(png) as picture:
        small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(png, optimize=True)
