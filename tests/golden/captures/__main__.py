"""Record the captures anew: ``python -m tests.golden.captures [jvms|connect|streams|spark ...]``, by default all."""

from __future__ import annotations

import sys
from importlib import import_module

CAPTURES = ("jvms", "connect", "streams", "spark")


def main(*names: str) -> None:
    for name in names or CAPTURES:
        import_module(f"tests.golden.captures.{name}.capture").main()


if __name__ == "__main__":
    main(*sys.argv[1:])
