"""``fleet``: one page over many agents."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from exporter.commands.agent_access import add_access_flags, check_access
from exporter.commands.settings import SERVING, UsageError, add_duration_flag, add_flags
from exporter.core import logs
from exporter.model import Clock

if TYPE_CHECKING:
    from exporter.config import ServingConfig
    from exporter.fleet.fleet import RunningFleet
    from exporter.fleet.source.agents import AgentCredentials, FleetAgents

log = logging.getLogger(__name__)

DEFAULT_ADDRESS = ":10619"
ASK_INTERVAL, ASK_TIMEOUT = 15.0, 5.0
"""Seconds between requests to an agent, and seconds within which it has to answer."""
SHORTEST_INTERVAL = 1.0
_EXAMPLES = """\
examples:
  kafka-eos-exporter fleet --agents agents.txt
  kafka-eos-exporter fleet --agents '/etc/prometheus/eos/*.yml' --username fleet --password-file /etc/eos/password
  kafka-eos-exporter fleet --agents https://discovery.example.com/eos --external-url 'https://{host}.eos.example.com'
  kafka-eos-exporter fleet --agents agents.txt --once

agents.txt has a URL on each line, such as http://eos-exporter-1:10618. It asks agents only, never Kafka, and keeps
nothing on disk.

exit codes: with --once 0 every cluster is good, 1 one is not, 2 something is not known
"""


def add_to(commands: Any, summary: str) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``fleet``."""
    parser = commands.add_parser(
        "fleet",
        help=summary,
        description="Serve one page, document and /metrics over many agents.",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "--agents",
        action="append",
        required=True,
        metavar="FILE|URL",
        help="where agents are listed: a file of URLs; file_sd of Prometheus (.json, .yml, .yaml); http_sd; SRV records"
        " by dns+srv://NAME; repeatable",
    )
    add_duration_flag(parser, "--interval", ASK_INTERVAL, "how often to ask (15s)")
    add_duration_flag(parser, "--timeout", ASK_TIMEOUT, "how long an agent may take to answer (5s)")
    add_access_flags(parser, "agents'", token=True)
    parser.add_argument(
        "--external-url",
        default="",
        metavar="TEMPLATE",
        help="page of an agent for links, with {host}, {port}, {cluster} (the URL that is asked)",
    )
    parser.add_argument("--once", action="store_true", help="ask once, print it and end")
    parser.add_argument("--output", choices=("table", "json"), default="table", help="with --once (table)")
    add_flags(parser, SERVING)
    parser.set_defaults(command=_command)


def _command(options: argparse.Namespace) -> int:
    from exporter.fleet.fleet import RunningFleet, links  # noqa: PLC0415 -- the other commands start without the fleet
    from exporter.fleet.source.agents import AgentCredentials  # noqa: PLC0415 -- as above

    check_access(options)
    if options.external_url and not options.external_url.startswith(("http://", "https://")):
        raise UsageError(f"--external-url {options.external_url}: must begin with http:// or https://")
    credentials = AgentCredentials(options.username, options.password_file, options.token_file, options.ca_file)
    agents = fleet_agents(options.agents, credentials, options.interval, options.timeout)
    if options.once:
        logs.configure(vars(options).get("--log.level", "error"), "text")
        return _once(RunningFleet(agents, links(options.external_url), Clock()), options)
    return _serve(agents, _serving(options), options)


def fleet_agents(places: Sequence[str], credentials: AgentCredentials, interval: float, timeout: float) -> FleetAgents:
    """Return the agents that are listed at these places. Raises UsageError."""
    from exporter.fleet.source.agents import FleetAgents  # noqa: PLC0415 -- the other commands start without the fleet
    from exporter.fleet.source.discovery import AgentLists, ListError, agent_list  # noqa: PLC0415 -- as above

    clock = Clock()
    try:
        lists = AgentLists([agent_list(place, credentials.ca_file, clock) for place in places])
    except ListError as error:
        raise UsageError(f"--agents: {error}") from None
    interval = max(SHORTEST_INTERVAL, interval)
    return FleetAgents(lists, credentials, interval, min(timeout, interval), clock)


def _serving(options: argparse.Namespace) -> ServingConfig:
    from exporter.config import serving_config  # noqa: PLC0415 -- as above

    given = vars(options)
    flags = {flag.path: (flag.name, given[flag.name]) for flag in SERVING if flag.name in given}
    flags.setdefault(("web", "listen_address"), ("--web.listen-address", [DEFAULT_ADDRESS]))
    return serving_config(flags)


def _once(fleet: RunningFleet, options: argparse.Namespace) -> int:
    document = fleet.once()
    fleet.stop()
    if options.output == "json":
        from exporter.status.json_lines import json_lines  # noqa: PLC0415 -- as above

        sys.stdout.write(json_lines(document, 4).decode())
    else:
        from rich.console import Console  # noqa: PLC0415 -- the fleet's page is served without rich

        from exporter.commands.fleet_view import fleet_view  # noqa: PLC0415 -- as above

        console = Console(highlight=False, emoji=False, markup=False)
        console.print(fleet_view(document, 10_000))
    if document["state"] == "good":
        return 0
    return 2 if document["state"] == "blind" else 1


def _serve(agents: FleetAgents, config: ServingConfig, options: argparse.Namespace) -> int:
    from exporter.agent.allocator import collect_seldom, share_one_arena  # noqa: PLC0415 -- as above
    from exporter.fleet.endpoint import FleetEndpoint  # noqa: PLC0415 -- as above
    from exporter.fleet.fleet import RunningFleet, links  # noqa: PLC0415 -- as above
    from exporter.web_server.server import ListenError  # noqa: PLC0415 -- as above

    logs.configure(config.log.level, config.log.format)
    logs.catch_all()
    share_one_arena()
    clock = Clock()
    endpoint = FleetEndpoint(config.web, clock)
    fleet = RunningFleet(agents, links(options.external_url), clock, endpoint.publish)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        endpoint.start(fleet)
    except ListenError as error:
        log.critical("%s", error)
        return 2
    collect_seldom()
    fleet.start()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    log.info("stopping")
    fleet.stop()
    endpoint.stop()
    # Threads that ask end at their deadlines, and the interpreter would wait for them.
    logging.shutdown()
    os._exit(0)
