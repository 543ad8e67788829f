"""``incident``: a report of what happened between two instants, from the journals of agents."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from exporter.bounds.text import printable
from exporter.commands.agent_access import add_access_flags, agent_endpoint
from exporter.commands.incident_text import markdown, report_page
from exporter.commands.output import say
from exporter.commands.settings import UsageError
from exporter.core.durations import parse_duration
from exporter.http_client import Endpoint, HttpError, ask
from exporter.journal.incident import Wanted, incident
from exporter.journal.query import MOST_EVENTS, QueryError, instant_of
from exporter.journal.segments import DAY, FOLDER, began, is_event, lines, parsed, segments
from exporter.model import Deadline, Fault, Reason
from exporter.status.json_lines import json_lines

ANSWER_SECONDS = 30.0
MOST_PAGES = 500
MOST_READ = 300_000
"""Events that are read of one journal."""
REPORT_LEVELS = 2
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
_EXAMPLES = """\
examples:
  kafka-eos-exporter incident --from 02:00 --to 04:00
  kafka-eos-exporter incident --from 2h --application payments --agent http://eos-exporter:10618
  kafka-eos-exporter incident --from 02:00 --to 04:00 --state-dir one --state-dir two --format html > night.html

An instant is RFC 3339, Unix seconds, a time of the day in UTC (the last such), or a duration before now.
Several agents of one cluster are merged: what both saw is told once, and only what none could see is a gap.

exit codes: 0 the report is made, 2 no journal could be read
"""


def add_to(commands: Any, summary: str) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``incident``."""
    parser = commands.add_parser(
        "incident",
        help=summary,
        description="Report what happened between two instants, from the journals of agents.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--from", dest="begin", required=True, metavar="INSTANT", help="begin, such as 02:00 or 2h")
    parser.add_argument("--to", dest="end", default="", metavar="INSTANT", help="end (now)")
    parser.add_argument("--cluster", default="", metavar="NAME", help="the cluster, where the journals have several")
    parser.add_argument(
        "--application", action="append", default=[], metavar="NAME", help="of this application only; repeatable"
    )
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="URL",
        help="an agent, with its route prefix (http://127.0.0.1:10618); repeatable",
    )
    parser.add_argument(
        "--state-dir", action="append", default=[], type=Path, metavar="DIR", help="a state.dir, instead; repeatable"
    )
    add_access_flags(parser, "agents'")
    parser.add_argument(
        "--format", "--output", choices=("markdown", "html", "json"), default="markdown", help="(markdown)"
    )
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    now = time.time()
    begin = instant(options.begin, now)
    end = instant(options.end, now) if options.end else now
    if end <= begin and _CLOCK.fullmatch(options.end):
        end += DAY
    if end <= begin:
        raise UsageError("--to is before --from")
    try:
        journals = list(_journals(options, begin))
    except (OSError, HttpError) as error:
        say(f"incident: {error}")
        return 2
    names = sorted({name for by_cluster in journals for name in by_cluster})
    cluster = options.cluster or (names[0] if len(names) == 1 else "")
    if cluster not in names:
        known = f"there are {', '.join(map(printable, names))}: choose one by --cluster" if names else "there is none"
        say(f"incident: which cluster? {known}")
        return 2
    wanted = Wanted(cluster, begin, end, frozenset(options.application))
    document = incident([by_cluster[cluster] for by_cluster in journals if cluster in by_cluster], wanted)
    if options.format == "json":
        sys.stdout.buffer.write(json_lines(document, REPORT_LEVELS) + b"\n")
    elif options.format == "html":
        from exporter.jobs.report.html_page import render  # noqa: PLC0415 -- reads its templates

        print(render(report_page(document)))
    else:
        print("\n".join(markdown(document)))
    return 0


def instant(text: str, now: float) -> float:
    """Return Unix seconds of an instant of the command line. Raises UsageError."""
    if (clock := _CLOCK.fullmatch(text)) is not None:
        today = datetime.fromtimestamp(now, UTC)
        hour, minute, second = (int(part or 0) for part in clock.groups())
        found = today.replace(hour=hour, minute=minute, second=second, microsecond=0)
        return (found if found <= today else found - timedelta(days=1)).timestamp()
    try:
        return now - parse_duration(text)
    except ValueError:
        pass
    try:
        return instant_of(text)
    except QueryError as error:
        raise UsageError(str(error)) from None


Journals = dict[str, list[Mapping[str, Any]]]
"""The events of one agent, by cluster."""


def _journals(options: argparse.Namespace, begin: float) -> Iterator[Journals]:
    """The journals of each agent: from a day before, for what was open then. Raises OSError and HttpError."""
    for folder in options.state_dir:
        yield of_folder(folder, begin - DAY)
    for url in options.agent or ([] if options.state_dir else ["http://127.0.0.1:10618"]):
        yield _of_agent(agent_endpoint(url, options), begin - DAY)


def of_folder(folder: Path, since: float) -> Journals:
    """Return the events of a ``state.dir`` from an instant on, by cluster. Raises OSError."""
    found: Journals = {}
    for journal in sorted(folder.glob(f"*/{FOLDER}")):
        paths = segments(journal)
        first = max((number for number, path in enumerate(paths) if began(path) <= since), default=0)
        events = [
            event
            for path in paths[first:]
            for _, line in lines(path)
            if (event := parsed(line)) is not None and is_event(event)
        ]
        if events:
            name = events[-1].get("cluster") or journal.parent.name
            found.setdefault(str(name), []).extend(events[-MOST_READ:])
    if not found:
        raise FileNotFoundError(f"{folder} has no journal")
    return found


def _of_agent(endpoint: Endpoint, since: float) -> Journals:
    """The events of an agent from an instant on, page by page. Raises HttpError."""
    query = urlencode({"since": f"{since:.6f}", "limit": MOST_EVENTS})
    found: Journals = {}
    for _ in range(MOST_PAGES):
        reply = ask(endpoint, Deadline.after(ANSWER_SECONDS), path=f"/api/v1/events?{query}")
        try:
            page = json.loads(reply.body)
            events, following, goes_on = page["events"], page["next"], page["truncated"]
            for event in filter(is_event, events):
                found.setdefault(event["cluster"], []).append(event)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            why = "is no list of events: is the path right, and the agent new enough?"
            raise HttpError(Fault(Reason.MALFORMED, f"{endpoint.url}/api/v1/events {why}")) from None
        if not isinstance(following, str) or not (goes_on or len(events) == MOST_EVENTS):
            break
        query = following
    return found
