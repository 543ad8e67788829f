"""``top``: a live view of an agent's status for the terminal.

It reads the agent's ``/api/v1/status`` and sends no request to Kafka, however many people use it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from exporter.commands.agent_access import add_access_flags, agent_endpoint
from exporter.commands.output import say
from exporter.commands.settings import add_duration_flag
from exporter.http_client import Endpoint, HttpError, ask
from exporter.model import Deadline, Fault, Reason

if TYPE_CHECKING:
    from rich.console import RenderableType

ANSWER_SECONDS = 3.0
SHORTEST_INTERVAL = 0.5
QUIT = frozenset({"q", "Q", "\x03"})
_EXAMPLES = """\
examples:
  kafka-eos-exporter top
  kafka-eos-exporter top http://eos-exporter-1:10618
  kafka-eos-exporter top https://eos:10618 --username me --password-file ~/.eos --ca-file ca.pem
  kafka-eos-exporter top --once | less

Keys: q ends it. Into a pipe it is printed once.

exit codes: 0 ended by you, 2 the agent does not answer at the start
"""


def add_to(commands: Any, summary: str) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``top``."""
    parser = commands.add_parser(
        "top",
        help=summary,
        description="Show the status of an agent, updated every two seconds.",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "url",
        nargs="?",
        default="http://127.0.0.1:10618",
        metavar="URL",
        help="the agent, with its route prefix (http://127.0.0.1:10618)",
    )
    add_duration_flag(parser, "--interval", 2.0, "how often (2s)")
    parser.add_argument("--once", action="store_true", help="print it once and end")
    add_access_flags(parser, "agent's")
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Run the command. Returns the exit code."""
    endpoint = agent_endpoint(options.url, options)
    try:
        status = read(endpoint)
        whole = drawn(status, options.url, 10_000)
    except HttpError as error:
        say(f"top: {error}")
        return 2
    from exporter.commands.top_view import unreachable  # noqa: PLC0415 -- reads the page's templates

    if _printed_once(options):
        _print(whole)
        return 0
    latest = [status]  # the first screen is of the answer that is there

    def screen(height: int) -> RenderableType:
        try:
            return drawn(latest.pop() if latest else read(endpoint), endpoint.url, height)
        except HttpError as error:
            return unreachable(endpoint.url, str(error))

    _follow(screen, max(SHORTEST_INTERVAL, options.interval))
    return 0


def _printed_once(options: argparse.Namespace) -> bool:
    """Return whether there is no terminal to draw on, or nobody wants that."""
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return bool(options.once) or not at_terminal


def read(endpoint: Endpoint) -> dict[str, Any]:
    """Return the agent's status. Raises HttpError, also for an answer that is no status of this version."""
    reply = ask(endpoint, Deadline.after(ANSWER_SECONDS), path="/api/v1/status")
    try:
        status = json.loads(reply.body)
        for cluster in status["clusters"]:
            _ = cluster["last_hour"], cluster["posture"]  # an agent of 0.1 has neither
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _no_status(endpoint.url) from None
    return dict(status)


def drawn(status: Mapping[str, Any], url: str, height: int) -> RenderableType:
    """Return the screen of a status. It is foreign: raises HttpError where any part of it has another form."""
    from exporter.commands.top_view import view  # noqa: PLC0415 -- reads the page's templates

    try:
        return view(status, url, height)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, OSError, RecursionError):
        raise _no_status(url) from None


def _no_status(url: str) -> HttpError:
    why = "is no status of version 0.2 or later: is the path right, and the agent new enough?"
    return HttpError(Fault(Reason.MALFORMED, f"{url}/api/v1/status {why}"))


def _print(screen: RenderableType) -> None:
    from rich.console import Console  # noqa: PLC0415 -- the agent runs without rich

    Console(highlight=False, emoji=False, markup=False).print(screen)


def _follow(screen: Callable[[int], RenderableType], interval: float) -> None:
    """Draw the screen of so many lines until a key ends it."""
    from rich.console import Console  # noqa: PLC0415 -- as above
    from rich.live import Live  # noqa: PLC0415

    console = Console(highlight=False, emoji=False, markup=False)
    first = screen(console.height)
    with _keys() as key, Live(first, console=console, screen=True, auto_refresh=False) as live:
        while key(interval) not in QUIT:
            live.update(screen(console.height), refresh=True)


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Keys without Enter: a function that waits so many seconds for one, "" when none came. Puts the terminal back."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def key(seconds: float) -> str:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        return os.read(descriptor, 1).decode(errors="replace") or "q" if ready else ""

    tty.setcbreak(descriptor)
    try:
        yield key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
