"""``incident``: a report of what happened between two instants, from the journals of agents."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from exporter.bounds.text import printable
from exporter.commands.agent_access import add_access_flags, agent_endpoint
from exporter.commands.incident_text import markdown
from exporter.commands.settings import UsageError
from exporter.core.durations import parse_duration
from exporter.http_client import Endpoint, HttpError, ask
from exporter.journal.documents import EventDocument, event_of
from exporter.journal.incident import Wanted, incident
from exporter.journal.query import MOST_EVENTS, QueryError, instant_of
from exporter.journal.rebuild import LASTING_KINDS, KeptJournal
from exporter.journal.segments import DAY, FOLDER, began, lines, read_event, segments, touched
from exporter.model import CommandError, Deadline, Fault, Reason
from exporter.status.json_lines import json_lines

CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
"""A time of the day in UTC: the last one that is past."""


def parse_instant(text: str, now: float) -> float:
    """Return Unix seconds of a time of the day, a duration before now, RFC 3339, or Unix seconds. Raises UsageError."""
    if (clock := CLOCK.fullmatch(text)) is not None:
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


ANSWER_SECONDS = 30.0
AGENT_SECONDS = 120.0
"""Longest time for all pages of one agent."""
MOST_READ = 300_000
"""Events that are read of one journal."""
MOST_EMPTY = 100
"""Pages without an event: an agent looks through 16 MB of its journal for one page."""
REPORT_LEVELS = 2
_LASTING = tuple(f'"kind":"{kind}"'.encode() for kind in LASTING_KINDS)
"""As lines of a journal have them."""
_EXAMPLES = """\
examples:
  kafka-eos-exporter incident --from 02:00 --to 04:00
  kafka-eos-exporter incident --from 2h --application payments --agent http://eos-exporter:10618
  kafka-eos-exporter incident --from 02:00 --to 04:00 --state-dir one --state-dir two > night.md

An instant is RFC 3339, Unix seconds, a time of the day in UTC (the last such), or a duration before now.
Of several agents of one cluster, an event that two recorded is shown once, and only what none could see is a gap.

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
    parser.add_argument("--format", "--output", choices=("markdown", "json"), default="markdown", help="(markdown)")
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    now = time.time()
    begin = parse_instant(options.begin, now)
    end = parse_instant(options.end, now) if options.end else now
    if end <= begin and CLOCK.fullmatch(options.end):
        end += DAY
    if end <= begin:
        raise UsageError("--to is before --from")
    try:
        journals = list(_journals(options, begin))
    except (OSError, HttpError) as error:
        raise CommandError(f"incident: {error}") from None
    names = sorted({name for journal in journals for name in journal.events})
    cluster = options.cluster or (names[0] if len(names) == 1 else "")
    if cluster not in names:
        known = f"there are {', '.join(map(printable, names))}: choose one by --cluster" if names else "there is none"
        raise UsageError(f"incident: which cluster? {known}")
    wanted = Wanted(cluster, begin, end, frozenset(options.application))
    ids = {cluster_id for journal in journals for cluster_id in journal.ids.get(cluster, ())}
    chosen = [journal for journal in journals if cluster in journal.events]
    document = incident([journal.of(cluster) for journal in chosen], wanted)
    document["unknown"] += [journal.unread for journal in journals if journal.unread]
    if len(ids) > 1:
        document["unknown"].append(
            f"Several clusters have this name, and are told as one: ids {', '.join(sorted(ids))}."
        )
    if options.format == "json":
        sys.stdout.buffer.write(json_lines(document, REPORT_LEVELS) + b"\n")
    else:
        print("\n".join(markdown(document)))
    return 0


class AgentJournals(NamedTuple):
    """The events of one agent, the cluster ids of a folder, from when on events are kept, and of a folder when an
    agent last wrote there (Unix seconds), all by the cluster's name. ``unread`` is a sentence on events that were not
    read, "" where all were.
    """

    events: dict[str, list[EventDocument]]
    ids: dict[str, set[str]]
    since: dict[str, float]
    until: dict[str, float]
    unread: str = ""

    def of(self, cluster: str) -> KeptJournal:
        """Return the journal of one of its clusters."""
        return KeptJournal(self.events[cluster], self.since.get(cluster), self.until.get(cluster))


def _journals(options: argparse.Namespace, begin: float) -> Iterator[AgentJournals]:
    """The journals of each agent: from a day before, for what was open then, and all that is kept of stalls and of
    sources that were down, which may last longer. Raises OSError and HttpError.
    """
    for folder in options.state_dir:
        yield of_folder(folder, begin - DAY)
    for url in options.agent or ([] if options.state_dir else ["http://127.0.0.1:10618"]):
        endpoint = agent_endpoint(url, options)
        yield _of_agent(endpoint, begin - DAY)


def of_folder(folder: Path, since: float) -> AgentJournals:
    """Return the events of a ``state.dir`` from an instant on. Raises OSError."""
    found, cut = AgentJournals({}, {}, {}, {}), False
    for journal in sorted(folder.glob(f"*/{FOLDER}")):
        paths = segments(journal)
        first = max((number for number, path in enumerate(paths) if began(path) <= since), default=0)
        events = [
            event
            for number, path in enumerate(paths)
            for line in lines(path)
            if (number >= first or any(kind in line for kind in _LASTING)) and (event := read_event(line)) is not None
        ]
        if events:
            name = events[-1]["cluster"] or journal.parent.name
            found.events.setdefault(name, []).extend(events[-MOST_READ:])
            cut = cut or len(events) > MOST_READ
            found.ids.setdefault(name, set()).add(journal.parent.name)
            found.since[name] = min(found.since.get(name, math.inf), began(paths[0]))
            last = max(touched(paths[-1]) or 0.0, events[-1]["recorded_timestamp"])
            found.until[name] = max(found.until.get(name, 0.0), last)
    if not found.events:
        raise FileNotFoundError(f"{folder} has no journal")
    return found._replace(unread=_unread(str(folder), MOST_READ)) if cut else found


def _of_agent(endpoint: Endpoint, begin: float) -> AgentJournals:
    """The events of an agent from an instant on, and from before those of what may last. Raises HttpError."""
    found, limit, unread = AgentJournals({}, {}, {}, {}), Deadline.after(AGENT_SECONDS), ""
    lasting = [("since", "0"), ("to", f"{begin:.6f}"), *(("kind", kind) for kind in sorted(LASTING_KINDS))]
    for asked in (lasting, [("since", f"{begin:.6f}")]):
        read = _read_pages(endpoint, urlencode([*asked, ("limit", str(MOST_EVENTS))]), limit, found)
        unread = unread if read is None else _unread(endpoint.url, read)
    return found._replace(unread=unread)


def _read_pages(endpoint: Endpoint, query: str, limit: Deadline, found: AgentJournals) -> int | None:
    """Read events page by page into ``found``. Returns None where all were read, else how many. Raises HttpError."""
    read = empty = 0
    while True:
        reply = ask(endpoint, Deadline.after(ANSWER_SECONDS), path=f"/api/v1/events?{query}")
        try:
            page = json.loads(reply.body)
            events, following, goes_on = page["events"], page["next"], page["truncated"]
            kept = page["kept_since_timestamp"]
            for event in filter(None, map(event_of, events)):
                found.events.setdefault(event["cluster"], []).append(event)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            why = "is no list of events: is the path right, and the agent new enough?"
            raise HttpError(Fault(Reason.MALFORMED, f"{endpoint.url}/api/v1/events {why}")) from None
        if isinstance(kept, int | float) and math.isfinite(kept):
            found.since.update(dict.fromkeys(found.events, kept))
        read += len(events)
        empty += not events
        if not isinstance(following, str) or not (goes_on or len(events) == MOST_EVENTS):
            return None
        if following == query or empty > MOST_EMPTY or read >= MOST_READ or limit.over:
            return read
        query = following


def _unread(whose: str, read: int) -> str:
    return f"Events of {whose} are missing: it has more than the {read} that were read."
