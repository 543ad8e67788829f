"""``check``: settings, the permissions on a cluster, its posture, the stop of a broker, and the settings of clients."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from exporter.bounds.text import count_of, printable
from exporter.commands import applications, client, connection, posture, roll
from exporter.commands.output import say
from exporter.config import ConfigSource
from exporter.settings.layers import ConfigError

_EXAMPLES = """\
examples:
  kafka-eos-exporter check config /etc/kafka-eos-exporter.yml
  kafka-eos-exporter check connection --bootstrap-server kafka-1:9092
  kafka-eos-exporter check posture --bootstrap-server kafka-1:9092
  kafka-eos-exporter check roll --bootstrap-server kafka-1:9092 --broker 3
  kafka-eos-exporter check client producer.properties
  kafka-eos-exporter check applications --bootstrap-server kafka-1:9092
"""
_CONFIG_EXAMPLES = """\
examples:
  kafka-eos-exporter check config /etc/kafka-eos-exporter.yml

exit codes: 0 the settings can be used, 1 they have problems
"""


def add_to(commands: Any, summary: str) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``check``."""
    parser = commands.add_parser(
        "check",
        help=summary,
        description="Check settings, the access to a cluster and its grants, its posture, whether a broker may be"
        " stopped, or the settings of clients.",
        epilog=_EXAMPLES,
    )
    parser.set_defaults(help_of=parser)
    checks = parser.add_subparsers(title="checks", metavar="CHECK")
    config = checks.add_parser(
        "config",
        help="every problem of a settings file, each with its path",
        description="Print every problem of a settings file (with the environment over it), each with its path.",
        epilog=_CONFIG_EXAMPLES,
    )
    config.add_argument("file", type=Path, metavar="FILE")
    config.set_defaults(command=_config)
    connection.add_to(checks)
    posture.add_to(checks)
    roll.add_to(checks)
    client.add_to(checks)
    applications.add_to(checks)


def _config(options: argparse.Namespace) -> int:
    try:
        config = ConfigSource(options.file, os.environ, serving=True).load()
    except ConfigError as error:
        for problem in error.problems:
            print(printable(str(problem)))
        say(f"{options.file}: {count_of(len(error.problems), 'problem')}")
        return 1
    names = ", ".join(cluster.name or cluster.kafka.bootstrap_servers for cluster in config.clusters)
    print(f"OK: {options.file}, {count_of(len(config.clusters), 'cluster')}: {names}")
    return 0
