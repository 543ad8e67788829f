"""Where agents are listed: a file of URLs, Prometheus' file_sd or http_sd, SRV records of DNS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import SplitResult, urlsplit

from exporter.bounds.files import read_regular
from exporter.bounds.text import cut, without_credentials
from exporter.core.file_stamp import FileStamp
from exporter.core.target_files import FileTarget, LeftOut, TargetFileError, TargetFiles, parse_targets
from exporter.fleet.facts import FleetAgent
from exporter.fleet.source.srv import SrvError, SrvRecords
from exporter.http_client import Endpoint, HttpError, ask
from exporter.model import Clock, Deadline

if TYPE_CHECKING:
    from dns.resolver import Resolver

MOST_AGENTS = 1000
"""Agents that are asked; further ones are left out, and a problem says so."""
MAX_BYTES = 4 * 1024 * 1024
POLL_SECONDS = 60.0
"""Seconds between reads of a list over HTTP or DNS."""
HTTP_TIMEOUT = 10.0
LONGEST_URL = 500
_SD_ENDINGS = frozenset({".json", ".yml", ".yaml"})


class ListError(ValueError):
    """The place or an entry of it cannot be used. The text says what to write instead."""


class AgentList(Protocol):
    """A list of agents: ``read`` returns those of now, and what is wrong with the list."""

    def read(self) -> tuple[Sequence[FleetAgent], Sequence[str]]: ...


def agent_list(place: str, ca_file: Path | None, clock: Clock) -> AgentList:
    """Return the list at a place: ``http(s)://``, a file of URLs, or file_sd by its ending. Raises ListError."""
    if place.lower().startswith(("http://", "https://")):
        _without_user(place)
        return PolledList(partial(_over_http, Endpoint(place, ca_file=ca_file), clock), clock)
    if place.startswith("dns+"):
        return srv_list(place, clock)
    if "://" in place:
        raise ListError(f"{without_credentials(place)!r:.80} is neither a file nor http://, https:// or dns+srv://")
    if Path(place).suffix in _SD_ENDINGS:
        return SdFileList(Path(place))
    return UrlFileList(Path(place))


class AgentLists:
    """All lists together; each agent once."""

    def __init__(self, lists: Iterable[AgentList]) -> None:
        self._lists = tuple(lists)

    def __call__(self) -> tuple[Sequence[FleetAgent], Sequence[str]]:
        agents: dict[str, FleetAgent] = {}
        problems: list[str] = []
        for source in self._lists:
            found, wrong = source.read()
            for agent in found:
                agents.setdefault(agent.url, agent)
            problems += wrong
        if len(agents) > MOST_AGENTS:
            problems.append(f"more than {MOST_AGENTS} agents are listed, and {MOST_AGENTS} of them are asked")
        return list(agents.values())[:MOST_AGENTS], problems


class _ListRead(NamedTuple):
    """The contents of a list when it was read."""

    stamp: FileStamp | None
    agents: tuple[FleetAgent, ...]
    problems: tuple[str, ...]


class UrlFileList:
    """A file with a URL on each line; ``#`` begins a comment. It is read when it changed, and keeps its last agents
    while it cannot be read.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._last = _ListRead(None, (), ())

    def read(self) -> tuple[Sequence[FleetAgent], Sequence[str]]:
        try:
            stamp = FileStamp.of(self._file.stat())
            if stamp != self._last.stamp:
                lines = read_regular(self._file, MAX_BYTES).decode("utf-8-sig").splitlines()
                self._last = _ListRead(stamp, *_of_entries(self._file.name, ((line, {}) for line in _entries(lines))))
        except OSError as error:
            return self._last.agents, (f"{self._file}: {error.strerror or 'cannot be read'}",)
        except UnicodeDecodeError:
            return self._last.agents, (f"{self._file}: is no UTF-8 text",)
        return self._last.agents, self._last.problems


class SdFileList:
    """A file, or files by a pattern, in the form of Prometheus' file_sd, watched by their modification time."""

    def __init__(self, pattern: Path) -> None:
        self._pattern = pattern
        self._files = TargetFiles((pattern,))

    def read(self) -> tuple[Sequence[FleetAgent], Sequence[str]]:
        agents, problems = _of_targets(str(self._pattern), self._files.targets())
        if not agents and not problems:
            return (), (f"{self._pattern} lists no agent",)
        return agents, problems


_Read = tuple[tuple[FleetAgent, ...], tuple[str, ...]]
"""Agents, and what is wrong with their list."""


class PolledList:
    """A list that is read over the network once in ``POLL_SECONDS``; when that fails its last agents stay."""

    def __init__(self, read: Callable[[], _Read], clock: Clock) -> None:
        """``read`` raises ListError."""
        self._read, self._clock = read, clock
        self._due = clock.monotonic()
        self._agents: tuple[FleetAgent, ...] = ()
        self._problems: tuple[str, ...] = ()

    def read(self) -> tuple[Sequence[FleetAgent], Sequence[str]]:
        if self._clock.monotonic() >= self._due:
            self._due = self._clock.monotonic() + POLL_SECONDS
            try:
                self._agents, self._problems = self._read()
            except ListError as error:
                self._problems = (cut(str(error), LONGEST_URL),)
        return self._agents, self._problems


def _over_http(endpoint: Endpoint, clock: Clock) -> _Read:
    """A list in the form of Prometheus' http_sd. Agents' credentials are not sent there."""
    origin = without_credentials(endpoint.url)  # a query may have a token
    try:
        reply = ask(endpoint, Deadline.after(HTTP_TIMEOUT, clock.monotonic), max_bytes=MAX_BYTES)
        found = list(parse_targets(reply.body))
    except HttpError as error:
        raise ListError(str(error)) from None
    except TargetFileError as error:
        raise ListError(f"{origin} {error}") from None
    agents, problems = _of_targets(origin, (target for target in found if isinstance(target, FileTarget)))
    if left_out := [target for target in found if isinstance(target, LeftOut)]:
        problems += (f"{origin}: {len(left_out)} left out; the first {left_out[0].why}",)
    return agents, problems


def srv_list(place: str, clock: Clock, resolver: Resolver | None = None) -> AgentList:
    """The agents of SRV records; ``resolver`` is that of the machine where it is None. Raises ListError."""
    try:
        records = SrvRecords(place, resolver)
    except SrvError as error:
        raise ListError(str(error)) from None

    def read() -> _Read:
        try:
            return _of_entries(place, ((url, {}) for url in records.urls()))
        except SrvError as error:
            raise ListError(str(error)) from None

    return PolledList(read, clock)


def _entries(lines: Iterable[str]) -> Iterator[str]:
    """Lines without comments and blank ones."""
    for line in lines:
        if entry := line.partition("#")[0].strip():
            yield entry


def _of_targets(origin: str, targets: Iterable[FileTarget]) -> tuple[tuple[FleetAgent, ...], tuple[str, ...]]:
    """Agents of Prometheus' targets: ``__scheme__`` and ``__metrics_path__`` count as they do for a scrape."""
    return _of_entries(origin, ((_target_url(target), _public(target.labels)) for target in targets))


def _target_url(target: FileTarget) -> str:
    labels = target.labels
    prefix = labels.get("__metrics_path__", "/metrics").removesuffix("/metrics")
    return f"{labels.get('__scheme__', 'http')}://{target.address}{prefix}"


def _public(labels: Mapping[str, str]) -> Mapping[str, str]:
    return {name: text for name, text in labels.items() if not name.startswith("__")}


def _of_entries(
    origin: str, entries: Iterable[tuple[str, Mapping[str, str]]]
) -> tuple[tuple[FleetAgent, ...], tuple[str, ...]]:
    agents: list[FleetAgent] = []
    wrong: list[str] = []
    for url, labels in entries:
        try:
            agents.append(FleetAgent(_checked(url), labels))
        except ListError as error:
            wrong.append(str(error))
        if len(agents) > MOST_AGENTS:
            break
    problems = (f"{origin}: {len(wrong)} left out, the first: {wrong[0]}",) if wrong else ()
    return tuple(agents), problems


def _checked(url: str) -> str:
    """The URL without a slash at its end. Raises ListError, which never quotes a password."""
    parts = _without_user(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or len(url) > LONGEST_URL:
        raise ListError(f"{cut(without_credentials(url), 80)!r} is no URL such as http://eos-exporter-1:10618")
    if parts.query or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        raise ListError(f"{cut(without_credentials(url), 80)!r} has more than scheme, host, port and prefix")
    return url.rstrip("/")


def _without_user(url: str) -> SplitResult:
    """The parts of a URL. Raises ListError."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ListError("a text that is no URL") from None
    if "@" in parts.netloc:
        raise ListError("a URL with a user: give --username and --password-file instead")
    return parts
