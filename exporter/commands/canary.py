"""``canary``: transactions of its own through every coordinator."""

from __future__ import annotations

import argparse
import logging
import signal
import threading
from typing import Any

from exporter import catalogue
from exporter.cluster import Cluster
from exporter.commands.clusters import configured, one_cluster
from exporter.commands.output import print_table, say
from exporter.commands.settings import (
    SERVING,
    add_cluster_flags,
    add_duration_flag,
    add_flags,
)
from exporter.config import Config
from exporter.core import logs

log = logging.getLogger(__name__)

_EXAMPLES = """\
examples:
  kafka-eos-exporter canary --bootstrap-server kafka-1:9092 --command-config canary.properties --once
  kafka-eos-exporter canary --bootstrap-server kafka-1:9092 --command-config canary.properties

It writes: in turn through each coordinator a transaction over two partitions of its own topic, with offsets of its own
group, an abort, and a fence. Give it a principal of its own; docs/canary.md has the grants. `run` never writes.

exit codes: with --once 0 all worked, 1 a phase failed, 2 could not begin
"""


def add_to(commands: Any, summary: str) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``canary``."""
    parser = commands.add_parser(
        "canary",
        help=summary,
        description="Make test transactions through every coordinator, and serve their times and failures at /metrics.",
        epilog=_EXAMPLES,
    )
    add_cluster_flags(parser)
    add_flags(parser, SERVING)
    parser.add_argument("--topic", default=catalogue.CANARY, help=f"topic to write to ({catalogue.CANARY})")
    add_duration_flag(parser, "--interval", 1.0, "shortest time between two transactions (1s)")
    add_duration_flag(parser, "--timeout", 10.0, "how long each phase may take (10s)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--once", action="store_true", help="one turn for each coordinator partition, then a table")
    what.add_argument("--remove", action="store_true", help="delete the canary's topic and group, and exit")
    parser.set_defaults(command=_command)


def _command(options: argparse.Namespace) -> int:
    with one_cluster(options, "a canary writes to one cluster") as cluster:
        if options.remove:
            return _remove(cluster, options)
        if options.once:
            return _once(cluster, options)
        return _serve(cluster, configured(options), options)


def _remove(cluster: Cluster, options: argparse.Namespace) -> int:
    from exporter.canary.clients import CanaryAdmin, ClientError  # noqa: PLC0415 -- only here are clients that write

    try:
        CanaryAdmin(cluster.properties, options.timeout).remove(options.topic, catalogue.CANARY)
    except ClientError as error:
        say(f"could not remove {options.topic}: {error}")
        return 2
    return 0


def _once(cluster: Cluster, options: argparse.Namespace) -> int:
    from exporter.canary.canary import Canary, CanarySettings  # noqa: PLC0415 -- as above

    canary = Canary(
        cluster, CanarySettings(options.topic, options.interval, options.timeout, thorough=True), lambda _: None
    )
    say(f"making transactions on {cluster.target} ...")
    canary.run(cycles=1)
    rows = canary.tally.table()
    print_table(("coordinator", "phase", "times", "mean", "slowest", "failed", "errors"), rows)
    return canary.tally.exit_code


def _serve(cluster: Cluster, config: Config, options: argparse.Namespace) -> int:
    from exporter.canary.canary import Canary, CanarySettings  # noqa: PLC0415 -- as above
    from exporter.canary.endpoint import CanaryEndpoint  # noqa: PLC0415 -- as above
    from exporter.web_server.server import ListenError  # noqa: PLC0415 -- the server is loaded by what serves

    logs.configure(config.log.level, config.log.format)
    logs.catch_all()
    endpoint = CanaryEndpoint(config)
    canary = Canary(cluster, CanarySettings(options.topic, options.interval, options.timeout), endpoint.publish)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        endpoint.start()
    except ListenError as error:
        log.critical("%s", error)
        return 2
    worker = threading.Thread(target=canary.run, name="canary")
    worker.start()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    canary.stop()
    worker.join(3 * options.timeout)
    endpoint.stop()
    return 0
