"""``generate mixin``: alerts, recording rules and dashboards as a jsonnet mixin."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from exporter.alerts.mixin import mixin
from exporter.commands.generate_dashboards import files

_EXAMPLES = """\
examples:
  kafka-eos-exporter generate mixin > vendor/kafka-eos/mixin.libsonnet
"""


def add_to(commands: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``generate mixin``."""
    parser = commands.add_parser(
        "mixin",
        help="print alerts, rules and dashboards as a jsonnet mixin",
        description="Print mixin.libsonnet: prometheusAlerts, prometheusRules, grafanaDashboards and _config, with a"
        " selector, group labels and labels to set. Needs the extra: kafka-eos-exporter[generate].",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=_generate)


def _generate(_: argparse.Namespace) -> int:
    try:
        print(mixin({path.name: text for path, text in files().items()}), end="")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0
