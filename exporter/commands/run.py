"""``run``: the agent."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from exporter.commands.settings import RUN, add_cluster_flags, add_flags, config_source
from exporter.core import logs

_EXAMPLES = """\
examples:
  kafka-eos-exporter run --bootstrap-server kafka-1:9092,kafka-2:9092
  kafka-eos-exporter run --bootstrap-server kafka-1:9093 --command-config client.properties
  kafka-eos-exporter run --config /etc/kafka-eos-exporter.yml --log.format json
  kafka-eos-exporter run --config /etc/kafka-eos-exporter.yml --print-config

Every setting of the file has an environment variable, KAFKA_EOS_ and its path with __ between levels:
  KAFKA_EOS_CLUSTERS__0__KAFKA__SASL_PASSWORD=... KAFKA_EOS_LOG__LEVEL=debug
Flags override the environment, the environment overrides the file. SIGHUP rereads all settings but web, state,
journal and ingest.
"""


def add_to(commands: Any, summary: str) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``run``."""
    parser = commands.add_parser("run", help=summary, description="Run the agent until SIGTERM.", epilog=_EXAMPLES)
    add_cluster_flags(parser)
    add_flags(parser, RUN)
    parser.add_argument(
        "--print-config", action="store_true", help="print the settings as YAML, secrets redacted, and exit"
    )
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    source = dataclasses.replace(config_source(options), serving=True)
    if options.print_config:
        print(source.printed(), end="")
        return 0
    config = source.load()
    logs.configure(config.log.level, config.log.format)
    logs.catch_all()
    # Only this command needs the server and all sources; the others start faster without them.
    from exporter.agent import signals  # noqa: PLC0415
    from exporter.agent.composition import Agent  # noqa: PLC0415

    return signals.run(Agent(config, source.load))
