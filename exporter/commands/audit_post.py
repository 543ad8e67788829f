"""Post the result of an audit to the agent, and the exit code of an audit."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from exporter.audit_results.result import AuditResult, dump_result
from exporter.bounds.files import warn_of_writers
from exporter.commands.output import say
from exporter.commands.settings import UsageError
from exporter.http_client import Endpoint, HttpError, ask
from exporter.model import Deadline
from exporter.words import AuditVerdict

CODES = {"clean": 0, "findings": 1, "unknown": 2}
POST_SECONDS = 10.0
POST_BYTES = 60_000
"""The agent accepts 64 KB: the counts and a few examples."""


class AgentAddress(NamedTuple):
    """Where a result is posted; ``token`` is "" for none."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"AgentAddress({self.url})"


def add_agent_flags(parser: argparse._ActionsContainer) -> None:
    """The flags that ``agent_of`` reads."""
    text = "post the result to this agent, such as http://eos-exporter:10618"
    parser.add_argument("--agent", default="", metavar="URL", help=text)
    parser.add_argument("--agent-token-file", type=Path, metavar="FILE", help="the agent's ingest token")


def agent_of(options: argparse.Namespace) -> AgentAddress | None:
    """Where to post the result, None for nowhere. Raises UsageError."""
    file: Path | None = options.agent_token_file
    if not options.agent:
        if file is not None:
            raise UsageError("--agent-token-file needs --agent")
        return None
    if not options.agent.startswith(("http://", "https://")):
        raise UsageError(f"--agent {options.agent!r}: must begin with http:// or https://")
    return AgentAddress(options.agent.rstrip("/"), secret_of_file("--agent-token-file", file))


def secret_of_file(flag: str, file: Path | None) -> str:
    """Return the secret in the file of a flag, "" without one. Raises UsageError."""
    if file is None:
        return ""
    warn_of_writers(file)
    return text_of_file(flag, file).strip()


def text_of_file(flag: str, file: Path) -> str:
    """Return the text of the file of a flag. Raises UsageError."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{flag} {file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{flag} {file}: is no UTF-8 text") from None


def post(agent: AgentAddress, result: AuditResult) -> bool:
    """Post the result with as many examples as fit. Returns whether it was accepted; a failure is reported."""
    bodies = (dump_result(result, examples).encode() for examples in (20, 3, 0))
    body = next((body for body in bodies if len(body) <= POST_BYTES), dump_result(result, 0).encode())
    try:
        ask(Endpoint(agent.url, token=agent.token), Deadline.after(POST_SECONDS), path="/ingest/audit", body=body)
    except HttpError as error:
        say(f"the agent did not take the result: {error}")
        return False
    return True


def exit_code(verdict: AuditVerdict, *, delivered: bool) -> int:
    """The exit code of one run: a clean result that the agent did not take is not known there."""
    return CODES[verdict] or (0 if delivered else CODES["unknown"])
