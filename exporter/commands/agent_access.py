"""The agents that a command asks over HTTP: their flags, and the endpoint of one."""

from __future__ import annotations

import argparse
from pathlib import Path
from urllib.parse import urlsplit

from exporter.bounds.files import warn_of_writers
from exporter.bounds.text import without_credentials
from exporter.commands.settings import UsageError
from exporter.http_client import Endpoint


def add_access_flags(parser: argparse.ArgumentParser, whose: str) -> None:
    """Flags of how an agent lets the command in."""
    parser.add_argument("--username", default="", metavar="NAME", help=f"user of the {whose} web configuration")
    parser.add_argument("--password-file", type=Path, default=None, metavar="FILE", help="file with the password")
    parser.add_argument("--ca-file", type=Path, default=None, metavar="FILE", help="authorities in PEM, for https")


def agent_endpoint(url: str, options: argparse.Namespace) -> Endpoint:
    """Return the endpoint of an agent, by the flags of ``add_access_flags``. Raises UsageError."""
    if options.password_file and not options.username:
        raise UsageError("--password-file needs --username")
    if options.password_file:
        warn_of_writers(options.password_file)
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"}:
        raise UsageError(f"{without_credentials(url)}: give the agent's address, such as http://127.0.0.1:10618")
    if "@" in parts.netloc:
        raise UsageError(f"{without_credentials(url)}: give --username and --password-file, no credentials in it")
    return Endpoint(url, username=options.username, password_file=options.password_file, ca_file=options.ca_file)
