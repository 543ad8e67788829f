"""``kafka-eos-exporter``: runs one command and returns its exit code.

0 clean or done, 1 found, 2 could not be determined (usage, settings, a cluster that does not answer), 130 Ctrl-C. Only
a command's result goes to standard output, everything else to standard error.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import io
import os
import platform
import signal
import sys
from collections.abc import Collection, Sequence
from typing import NoReturn

import exporter
from exporter.bounds.text import printable
from exporter.exposition.revision import revision
from exporter.model import CommandError
from exporter.settings.layers import ConfigError
from exporter.settings.removed import removed_argument

CLEAN, FOUND, UNKNOWN, INTERRUPTED = 0, 1, 2, 130

COMMANDS = {
    "run": "run the agent",
    "top": "a live view of an agent: stalls, applications, open transactions, fences",
    "incident": "what happened between two instants: a report from the journals of agents",
    "transactions": "open, hanging and stalled transactions, and how the last ones ended",
    "applications": "applications: how their ids are grouped, their topics, groups, rates and owners",
    "history": "keep the history of all transactions (Spark), and report on it",
    "audit": "duplicates, gaps and aborted records in a topic or its sink (Spark)",
    "canary": "make test transactions through every coordinator: does the cluster or an application fail?",
    "check": "check the settings, the connection to a cluster and its posture; a roll; a client's settings",
    "generate": "print alert rules, or write the generated files of a checkout",
}
"""The modules of ``exporter.commands`` that add a command, each with its line in the help, in that order."""

_DESCRIPTION = "Observability exporter and alerting agent for exactly-once (EOS) on Kafka."
_EXAMPLES = """\
examples:
  kafka-eos-exporter run --bootstrap-server kafka-1:9092
  kafka-eos-exporter transactions stalled --bootstrap-server kafka-1:9092
  kafka-eos-exporter check config /etc/kafka-eos-exporter.yml

exit codes: 0 clean, 1 found, 2 could not be determined
"""


class _Parser(argparse.ArgumentParser):
    """Long flags in full only, examples as they were written, and one line of usage error instead of a page."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # passed on as they came

    def error(self, message: str) -> NoReturn:
        self.exit(UNKNOWN, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parser(names: Collection[str] = COMMANDS) -> argparse.ArgumentParser:
    """The command line of these commands. Of the others it has only their line in the help: their modules are not
    imported.
    """
    whole = _Parser(prog="kafka-eos-exporter", description=_DESCRIPTION, epilog=_EXAMPLES)
    whole.add_argument("--version", action="version", version=version())
    commands = whole.add_subparsers(title="commands", metavar="COMMAND")
    for name, summary in COMMANDS.items():
        if name in names:
            importlib.import_module(f"exporter.commands.{name}").add_to(commands, summary)
        else:
            commands.add_parser(name, help=summary)
    return whole


def version() -> str:
    """One line in Prometheus's form."""
    return (
        f"kafka-eos-exporter, version {exporter.__version__} "
        f"(revision: {revision()}, python: {platform.python_version()})"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives back its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name of a file may be in no encoding
    try:
        code = _run(sys.argv[1:] if argv is None else list(argv))
        sys.stdout.flush()
        return code
    except (ConfigError, CommandError) as error:
        for line in str(error).split("\n"):
            print(printable(line), file=sys.stderr)
        return UNKNOWN
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe, as `| head` does: what Python still buffers must not fail a second time at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except Exception:  # noqa: BLE001 -- Python's own exit code for a bug is 1, which here would say "found"
        sys.excepthook(*sys.exc_info())  # `run` logs it, the others print it
        return UNKNOWN


def _run(arguments: list[str]) -> int:
    if removed := removed_argument(arguments):
        print(f"kafka-eos-exporter: {removed}", file=sys.stderr)
        return UNKNOWN
    command_line = parser(arguments[:1])
    try:
        options, unknown = command_line.parse_known_args(arguments)
    except SystemExit as leaving:  # argparse leaves this way after --help, --version and a usage error
        return leaving.code if isinstance(leaving.code, int) else CLEAN
    if unknown:
        return _unknown_arguments(unknown, parser())
    if not hasattr(options, "command"):
        getattr(options, "help_of", command_line).print_help()
        return CLEAN
    return int(options.command(options))


def _unknown_arguments(unknown: Sequence[str], whole: argparse.ArgumentParser) -> int:
    flag = unknown[0].partition("=")[0]
    near = difflib.get_close_matches(flag, _flags(whole), n=1)
    hint = f", did you mean {near[0]}?" if near else ""
    if near == [flag]:
        hint = " of this command"
    print(f"kafka-eos-exporter: unknown argument {flag}{hint} (see --help)", file=sys.stderr)
    return UNKNOWN


def _flags(command: argparse.ArgumentParser) -> set[str]:
    found: set[str] = set()
    for action in command._actions:  # noqa: SLF001 -- argparse shows its own flags nowhere else
        found.update(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 -- as above
            for child in action.choices.values():
                found |= _flags(child)
    return found
