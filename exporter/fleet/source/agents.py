"""Asks every listed agent for its status, and keeps its last answer reduced to what is shown."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from exporter.bounds.files import read_regular
from exporter.bounds.json_text import weight
from exporter.bounds.memory import MEMORY
from exporter.bounds.text import cut, printable
from exporter.fleet.answer import AnswerError, read_answer, size_of
from exporter.fleet.facts import AgentAnswer, AgentReading, FleetAgent
from exporter.http_client import Endpoint, HttpError, ask
from exporter.model import Clock, Deadline, Fault, Reason

log = logging.getLogger(__name__)

MAX_BYTES = 16 * 1024 * 1024
"""Largest answer, decompressed. A status with 5,000 stalled partitions has 8 MB."""
LONGEST_DETAIL = 500
MAX_TOKEN_BYTES = 64 * 1024
_PATH = "/api/v1/status"
STATUS = f"{_PATH}?without=open_transactions,unclean_ends,unclean_ids"
"""Without lists that the fleet does not need. An agent that does not know the parameter answers with all."""
WORKERS, SLOW_WORKERS, SILENT_WORKERS = 32, 4, 8
"""Requests at once to agents that answered last time, to those that took long, and to those that did not answer: they
wait for their own kind only.
"""
SLOW_SECONDS = 1.0
LIGHT_BYTES = 1024 * 1024
"""Memory of a document, while it is read, up to which it does not wait for others."""
KEPT_BYTES = 12 * 1024 * 1024
"""Memory of all answers that are kept, about. Beyond, the largest keeps half of its stalled partitions, or nothing."""
_TOO_LARGE = Fault(Reason.MALFORMED, f"{_PATH} is too large to be kept beside those of the other agents")
STALE_INTERVALS = 3
"""Intervals after which an answer is no longer the present, as for the gauges of a source."""


@dataclass(frozen=True, slots=True)
class AgentCredentials:
    """Who asks: ``token_file`` has a bearer token, and is read at every request, as ``password_file`` is."""

    username: str = ""
    password_file: Path | None = None
    token_file: Path | None = None
    ca_file: Path | None = None

    def endpoint(self, url: str) -> Endpoint:
        """Return the endpoint of a URL. Raises HttpError where the token cannot be read."""
        return Endpoint(
            url,
            username=self.username,
            password_file=self.password_file,
            ca_file=self.ca_file,
            token=self._token(),
        )

    def _token(self) -> str:
        if self.token_file is None:
            return ""
        try:
            token = read_regular(self.token_file, MAX_TOKEN_BYTES).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "is no ASCII text"
            raise HttpError(Fault(Reason.AUTHENTICATION, f"token file {self.token_file}: {why}")) from None
        if not token or not token.isprintable() or " " in token:
            raise HttpError(Fault(Reason.AUTHENTICATION, f"token file {self.token_file}: has no token in one line"))
        return token


@dataclass(slots=True)
class _AskedAgent:
    """An agent's state; ``due`` and the other instants are monotonic but for those of ``reading``."""

    reading: AgentReading
    due: float
    answered: float = 0.0
    asking: bool = False


class FleetAgents:
    """All listed agents. ``list_agents`` gives them, and why some could not be listed; it may take time.

    An agent that does not answer costs its own row only: its requests run on threads of their own.
    """

    def __init__(
        self,
        list_agents: Callable[[], tuple[Sequence[FleetAgent], Sequence[str]]],
        credentials: AgentCredentials,
        interval: float,
        timeout: float,
        clock: Clock,
    ) -> None:
        self._list = list_agents
        self._credentials = credentials
        self._interval, self._timeout, self._clock = interval, timeout, clock
        self._lock = threading.Lock()  # guards the two below
        self._asked: dict[str, _AskedAgent] = {}
        self.problems: tuple[str, ...] = ()
        self._prompt = ThreadPoolExecutor(WORKERS, thread_name_prefix="agents")
        self._parsing = threading.Lock()  # one large document at a time is in memory as Python's objects
        self._slow = ThreadPoolExecutor(SLOW_WORKERS, thread_name_prefix="slow agents")
        self._silent = ThreadPoolExecutor(SILENT_WORKERS, thread_name_prefix="silent agents")

    def refresh(self) -> None:
        """Reread the list of agents: new ones are asked at once, and those that are gone are forgotten."""
        listed, problems = self._list()
        now = self._clock.monotonic()
        with self._lock:
            self.problems = tuple(problems)
            before = self._asked
            self._asked = {}
            for agent in listed:
                known = before.get(agent.url) or _AskedAgent(_not_asked(agent), now)
                known.reading = known.reading._replace(agent=agent)
                self._asked[agent.url] = known

    def ask_due(self) -> float:
        """Begin a request to every agent that is due; return the seconds until the next one is."""
        now = self._clock.monotonic()
        with self._lock:
            due = [asked for asked in self._asked.values() if not asked.asking and asked.due <= now]
            for asked in due:
                asked.asking = True
            left = min((asked.due - now for asked in self._asked.values() if not asked.asking), default=self._interval)
        for asked in due:
            self._lane(asked.reading).submit(self._ask, asked)
        return max(0.0, left)

    def _lane(self, reading: AgentReading) -> ThreadPoolExecutor:
        if reading.fault is not None:
            return self._silent
        return self._prompt if reading.took is None or reading.took < SLOW_SECONDS else self._slow

    def ask_all(self) -> None:
        """Ask every agent once and wait for all of them: for a command that ends then."""
        with self._lock:
            every = list(self._asked.values())
        for future in [self._prompt.submit(self._ask, asked) for asked in every]:
            future.result()

    def readings(self) -> list[AgentReading]:
        """Return what is known of every agent, with the age of its answer."""
        now = self._clock.monotonic()
        with self._lock:
            return [self._aged(asked, now) for asked in self._asked.values()]

    def close(self) -> None:
        """End the threads; a request that runs ends at its deadline."""
        for lane in (self._prompt, self._slow, self._silent):
            lane.shutdown(wait=False, cancel_futures=True)

    def _aged(self, asked: _AskedAgent, now: float) -> AgentReading:
        if asked.reading.answer is None:
            return asked.reading
        age = max(0.0, now - asked.answered)
        return asked.reading._replace(age=age, stale=age > STALE_INTERVALS * self._interval)

    def _ask(self, asked: _AskedAgent) -> None:
        began = self._clock.monotonic()
        try:
            found = self._answer(asked.reading.agent.url)
        except Exception:
            log.exception("asking an agent failed", extra={"agent": asked.reading.agent.name})
            found = Fault(Reason.INTERNAL, "an error of this program: its log has the traceback")
        now, wall = self._clock.monotonic(), self._clock.wall()
        with self._lock:
            before = asked.reading
            if not isinstance(found, Fault):
                since = before.since if before.fault is None and before.answer is not None else wall
                asked.reading = before._replace(answer=found, answered=wall, fault=None, since=since, took=now - began)
                asked.answered = now
                _bound([other for other in self._asked.values() if other.reading.answer is not None], wall)
                found = asked.reading.fault or found
            if isinstance(found, Fault):
                since = before.since if before.fault is not None else wall
                asked.reading = asked.reading._replace(fault=found, since=since, took=now - began)
            # From when it was due, so that requests do not drift; one that took longer than that is no backlog.
            asked.due = max(now, asked.due + self._interval)
            asked.asking = False
        if isinstance(found, Fault) and before.fault is None:
            log.warning("agent %s does not answer: %s", before.agent.name, printable(found.detail))
        elif not isinstance(found, Fault) and before.fault is not None:
            log.info("agent %s answers again", before.agent.name)

    def _answer(self, url: str) -> AgentAnswer | Fault:
        try:
            endpoint = self._credentials.endpoint(url)
            deadline = Deadline.after(self._timeout, self._clock.monotonic)
            with MEMORY.hold() as hold:
                reply = ask(endpoint, deadline, path=STATUS, max_bytes=MAX_BYTES, hold=hold)
                with self._parsing if weight(reply.body) > LIGHT_BYTES else nullcontext():
                    return read_answer(reply.body)
        except HttpError as error:
            # The row has the address.
            return error.fault._replace(detail=cut(error.fault.detail.replace(f"{url}{STATUS}", _PATH), LONGEST_DETAIL))
        except AnswerError as error:
            return Fault(Reason.MALFORMED, f"{_PATH} {error}")


def _not_asked(agent: FleetAgent) -> AgentReading:
    return AgentReading(agent, None, None, None, None, None, None, stale=False)


def _bound(answered: Sequence[_AskedAgent], wall: float) -> None:
    """Keep all answers together within ``KEPT_BYTES``: the largest loses half of its stalled partitions, and is a fault
    once it has none.
    """
    sizes = {id(asked): asked.reading.answer.size for asked in answered if asked.reading.answer}
    while sum(sizes.values()) > KEPT_BYTES:
        largest = max(answered, key=lambda asked: sizes[id(asked)])
        answer = largest.reading.answer
        if answer is not None and any(cluster.stalls for cluster in answer.clusters):
            halved = _halved(answer)
            largest.reading = largest.reading._replace(answer=halved)
            sizes[id(largest)] = halved.size
        else:
            largest.reading = largest.reading._replace(answer=None, answered=None, fault=_TOO_LARGE, since=wall)
            sizes[id(largest)] = 0


def _halved(answer: AgentAnswer) -> AgentAnswer:
    clusters = []
    for cluster in answer.clusters:
        kept = cluster.stalls[: len(cluster.stalls) // 2]
        left_out = cluster.left_out + len(cluster.stalls) - len(kept)
        clusters.append(cluster._replace(stalls=kept, left_out=left_out))
    return answer._replace(clusters=tuple(clusters), size=size_of(tuple(clusters)))
