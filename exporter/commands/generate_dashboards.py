"""``generate dashboards``: the Grafana dashboards as JSON files, to import or to provision."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

_EXAMPLES = """\
examples:
  kafka-eos-exporter generate dashboards --output /etc/grafana/dashboards/kafka-eos
"""


def add_to(commands: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``generate dashboards``."""
    parser = commands.add_parser(
        "dashboards",
        help="write the Grafana dashboards",
        description="Write the Grafana dashboards, a JSON file each.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", type=Path, metavar="DIR", default=Path(), help="where to write them (.)")
    parser.set_defaults(command=_generate)


def files() -> Mapping[Path, str]:
    """Generate the committed files, by their paths in a checkout. Raises ValueError without grafanalib."""
    try:
        from exporter.dashboards.generate import files as made  # noqa: PLC0415 -- grafanalib is an extra that the agent runs without
    except ModuleNotFoundError as error:
        raise ValueError(f"{error}: pip install 'kafka-eos-exporter[generate]'") from None
    return made()


def installed() -> Iterator[tuple[str, str]]:
    """Name and JSON of each dashboard, read from the package: grafanalib is not needed."""
    folder = resources.files("exporter.dashboards") / "generated"
    for file in sorted(folder.iterdir(), key=lambda path: path.name):
        if file.name.endswith(".json"):
            yield file.name, file.read_text(encoding="utf-8")


def _generate(options: argparse.Namespace) -> int:
    try:
        options.output.mkdir(parents=True, exist_ok=True)
        for name, text in installed():
            file = options.output / name
            file.write_text(text, encoding="utf-8")
            print(file)
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    return 0
