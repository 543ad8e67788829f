"""``generate dashboards``: the Grafana dashboards as JSON files; ``generate mixin``: with alerts, as jsonnet."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from exporter.alerts.mixin import mixin
from exporter.alerts.settings import SettingsError, settings
from exporter.alerts.table import names
from exporter.commands.settings import UsageError
from exporter.model import CommandError

_EXAMPLES = """\
examples:
  kafka-eos-exporter generate dashboards --output /etc/grafana/dashboards/kafka-eos
"""
_MIXIN_EXAMPLES = """\
examples:
  kafka-eos-exporter generate mixin > vendor/kafka-eos/mixin.libsonnet
  kafka-eos-exporter generate mixin --set 'selector=env="prod"' --set group_labels=namespace
"""


def add_to(commands: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command lines of ``generate dashboards`` and ``generate mixin``."""
    parser = commands.add_parser(
        "dashboards",
        help="write the Grafana dashboards",
        description="Write the Grafana dashboards, a JSON file each.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--output", type=Path, metavar="DIR", default=Path(), help="where to write them (.)")
    parser.set_defaults(command=_generate)
    whole = commands.add_parser(
        "mixin",
        help="print alerts, rules and dashboards as a jsonnet mixin",
        description="Print mixin.libsonnet: prometheusAlerts, prometheusRules, grafanaDashboards and _config, with"
        " addresses, labels and overrides. Needs the extra: kafka-eos-exporter[generate].",
        epilog=_MIXIN_EXAMPLES,
    )
    whole.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments", help="a key of generate alerts"
    )
    whole.set_defaults(command=_print_mixin)


def files() -> Mapping[Path, str]:
    """Generate the committed files, by their paths in a checkout. Raises CommandError without grafanalib."""
    try:
        from exporter.dashboards.generate import files as made  # noqa: PLC0415 -- grafanalib is an extra that the agent runs without
    except ModuleNotFoundError as error:
        raise CommandError(f"{error}: pip install 'kafka-eos-exporter[generate]'") from None
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
        raise CommandError(str(error)) from None
    return 0


def _print_mixin(options: argparse.Namespace) -> int:
    try:
        chosen = settings(options.assignments, names())
    except SettingsError as error:
        raise UsageError(str(error)) from None
    print(mixin({path.name: text for path, text in files().items()}, chosen), end="")
    return 0
