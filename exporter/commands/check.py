"""``check``: settings, the permissions on a cluster, its posture, the stop of a broker, and the settings of clients."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from exporter.bounds.text import count_of, printable
from exporter.commands import client, connection, posture, roll
from exporter.commands.clusters import configured
from exporter.commands.output import print_json, print_not_asked, say
from exporter.commands.runner import FOUND, ClusterReport, add_command, read_all, worst
from exporter.config import Config, ConfigSource
from exporter.settings.layers import ConfigError

_EXAMPLES = """\
examples:
  kafka-eos-exporter check --config /etc/kafka-eos-exporter.yml
  kafka-eos-exporter check config /etc/kafka-eos-exporter.yml
  kafka-eos-exporter check connection --bootstrap-server kafka-1:9092
  kafka-eos-exporter check posture --bootstrap-server kafka-1:9092
  kafka-eos-exporter check roll --bootstrap-server kafka-1:9092 --broker 3
  kafka-eos-exporter check client producer.properties

exit codes: 0 all is as it should be, 1 something is not, 2 something could not be read (and nothing is wrong)
"""
_CONFIG_EXAMPLES = """\
examples:
  kafka-eos-exporter check config /etc/kafka-eos-exporter.yml

exit codes: 0 the settings can be used, 1 they have problems
"""


def add_to(commands: Any, summary: str) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``check``."""
    parser = add_command(
        commands,
        "check",
        _all,
        summary=summary,
        description="Check the settings, the connection to each cluster with its grants, and its posture.",
        examples=_EXAMPLES,
        timeout=60.0,
    )
    posture.add_ignore_flag(parser)
    checks = parser.add_subparsers(title="one check", metavar="CHECK")
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


def _all(options: argparse.Namespace) -> int:
    """The settings, then each cluster's connection and posture. Returns the exit code of all."""
    try:
        config = configured(options)
    except ConfigError as error:
        problems = [printable(str(problem)) for problem in error.problems]
        say("the connection and the posture are not checked: the settings cannot be used")
        if vars(options).get("output") == "json":
            print_json({"settings": {"problems": problems}, "connection": None, "posture": None})
        else:
            print("\n".join(problems))
        return FOUND
    in_time = argparse.Namespace(**{**vars(options), "usual_timeout": connection.SECONDS})
    connections = read_all(in_time, connection.read)
    postures = read_all(options, posture.reader(options))
    if vars(options).get("output") == "json":
        print_json(
            {
                "settings": {"problems": []},
                "connection": connection.FORM.document(connections),
                "posture": posture.FORM.document(postures),
            }
        )
    else:
        print(f"settings: OK, {_names(config)}\n")
        connection.FORM.print(connections)
        print()
        posture.FORM.print(postures)
    asked: list[ClusterReport[Any]] = [*connections, *postures]
    for report in asked:
        print_not_asked(report.cluster.target, report.not_asked)
    return worst((*map(connection.FORM.code, connections), *map(posture.FORM.code, postures)))


def _config(options: argparse.Namespace) -> int:
    try:
        config = ConfigSource(options.file, os.environ, serving=True).load()
    except ConfigError as error:
        for problem in error.problems:
            print(printable(str(problem)))
        say(f"{options.file}: {count_of(len(error.problems), 'problem')}")
        return 1
    print(f"OK: {options.file}, {_names(config)}")
    return 0


def _names(config: Config) -> str:
    names = ", ".join(cluster.name or cluster.kafka.bootstrap_servers for cluster in config.clusters)
    return f"{count_of(len(config.clusters), 'cluster')}: {names}"
