"""``python -m exporter`` is ``kafka-eos-exporter``."""

from __future__ import annotations

import sys

from exporter.cli import main

if __name__ == "__main__":
    sys.exit(main())
