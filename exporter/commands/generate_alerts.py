"""``generate alerts``: the rules with your links and severities, for Prometheus, its operator, Alertmanager."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from exporter.alerts.files import FORMATS
from exporter.alerts.settings import SettingsError, knobs, settings
from exporter.alerts.table import names
from exporter.commands.settings import UsageError
from exporter.config import ConfigSource

_EXAMPLES = """\
examples:
  kafka-eos-exporter generate alerts > kafka-eos.rules.yaml
  kafka-eos-exporter generate alerts --set runbook_url=https://wiki.example.com/eos
  kafka-eos-exporter generate alerts --set KafkaEosTransactionTimeouts.enabled=false --format prometheusrule
  kafka-eos-exporter generate alerts --format alertmanager --owners eos.yaml > alertmanager.yml

"""


def add_to(commands: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``generate alerts``."""
    keys = "".join(f"  {key} ({default or 'none'})\n      {meaning}\n" for key, default, meaning in knobs())
    parser = commands.add_parser(
        "alerts",
        help="print alert rules with your links and severities",
        description="Print the alert and recording rules, or the configuration of Alertmanager for them.",
        epilog=f"{_EXAMPLES}keys of --set, with their defaults:\n{keys}"
        "  ALERT.for, ALERT.keep_firing_for, ALERT.severity, ALERT.enabled\n"
        "      for every alert by its name, such as KafkaEosProducerFenced.severity=critical\n",
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments")
    parser.add_argument("--format", choices=tuple(FORMATS), default="rules", help="what to print (rules)")
    parser.add_argument(
        "--owners",
        type=Path,
        metavar="FILE",
        help="the agent's settings, each team of whose `owners` gets routes: for the format alertmanager",
    )
    parser.set_defaults(command=_generate)


def _generate(options: argparse.Namespace) -> int:
    try:
        chosen = settings(options.assignments, names())
    except SettingsError as error:
        raise UsageError(str(error)) from None
    if options.owners is not None:
        config = ConfigSource(options.owners).load()
        chosen = replace(chosen, teams=tuple(dict.fromkeys(owner.team for owner in config.owners)))
    print(FORMATS[options.format](chosen), end="")
    return 0
