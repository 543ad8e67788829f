"""``generate slo``: objectives of applications and topics as files for sloth and OpenSLO."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from exporter.alerts.slo_files import SLO_FORMATS, Objective
from exporter.commands.settings import UsageError

DEFAULTS = {"application": 95.0, "topic": 99.0}
"""In percent: an application's threshold `unclean`, and a topic's share of time, by default."""
_EXAMPLES = """\
examples:
  kafka-eos-exporter generate slo --application pay=99.9 --application billing > kafka-eos.sloth.yaml
  kafka-eos-exporter generate slo --format openslo --cluster prod --topic orders=99
"""


def add_to(commands: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``generate slo``."""
    parser = commands.add_parser(
        "slo",
        help="print objectives for sloth or OpenSLO",
        description="Print objectives over 30 days for sloth (prometheus/v1) or OpenSLO (v1): the share of an"
        " application's transactions that is committed (95 unless PERCENT says otherwise), and the share of time in"
        " which readers of a topic get records within its threshold fresh_within (99). The recording rules of"
        " `generate alerts` are needed for topics.",
        epilog=_EXAMPLES,
    )
    for kind in DEFAULTS:
        parser.add_argument(f"--{kind}", action="append", default=[], metavar="NAME[=PERCENT]", dest=f"{kind}s")
    parser.add_argument("--cluster", default="", metavar="NAME", help="the label kafka_cluster; unset: any cluster")
    parser.add_argument("--format", choices=tuple(SLO_FORMATS), default="sloth", help="what to print (sloth)")
    parser.set_defaults(command=_generate)


def _generate(options: argparse.Namespace) -> int:
    found = [_objective(kind, text, options.cluster) for kind in DEFAULTS for text in getattr(options, f"{kind}s")]
    if not found:
        raise UsageError("give at least one --application or --topic")
    if twice := [name for name, count in Counter(objective.name for objective in found).items() if count > 1]:
        raise UsageError(f"two objectives would have the name {twice[0]}")
    print(SLO_FORMATS[options.format](found), end="")
    return 0


def _objective(kind: str, text: str, cluster: str) -> Objective:
    """Raises UsageError for what is no objective. A name may have an equals sign: the last one is before the number."""
    name, equals, number = text.rpartition("=")
    if not equals:
        name, number = text, str(DEFAULTS[kind])
    try:
        percent = float(number)
    except ValueError:
        percent = 0.0
    if not name or not 0 < percent < 100:
        raise UsageError(f"--{kind} {text}: needs NAME or NAME=PERCENT, above 0 and below 100")
    if "{{" in name + cluster:  # sloth takes queries for templates
        raise UsageError(f"--{kind} {text}: the name may not have two braces in a row")
    return Objective(kind, name, percent, cluster)
