"""The state of a Connect cluster, from the answer of ``GET /connectors?expand=status&expand=info``.

The answer has every connector's whole configuration, passwords included. Only the keys of ``KEPT_SETTINGS`` are kept;
no other value leaves this module.

The workers' versions are from ``GET /`` of each. Requests of one read run at once: one that hangs does not delay the
others.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from exporter.bounds.json_text import NO_JSON, JsonError, parse_json, weight
from exporter.bounds.memory import AnswerRoom, one_heavy_at_a_time
from exporter.bounds.text import cut
from exporter.connect.failures import cause_of, last_line, secrets_of
from exporter.connect.preflight import PluginSupport, Preflight, preflight, with_settings
from exporter.http_client import Endpoint, HttpError, ask
from exporter.model import Deadline, Fault, Reason
from exporter.words import FailureCause

LONGEST_VERSION = 60
"""Characters of a version that are kept."""


def worker_versions(endpoints: Sequence[Endpoint], deadline: Deadline) -> Mapping[str, str]:
    """Return the version by address of the workers that answer. Never raises."""
    found: dict[str, str] = {}
    for number, endpoint in enumerate(endpoints):
        share = deadline.within(deadline.remaining() / (len(endpoints) - number))
        try:
            document = parse_json(ask(endpoint, share, path="/", max_bytes=64 * 1024).body)
        except (HttpError, JsonError):
            continue
        version = document.get("version") if isinstance(document, dict) else None
        if isinstance(version, str) and version:
            found[endpoint.address] = cut(version, LONGEST_VERSION)
    return found


T = TypeVar("T")

GRACE_SECONDS = 0.5
"""Requests keep the deadline themselves, except the lookup of a host name, which has no timeout; it is abandoned."""


def run_concurrently(questions: Sequence[Callable[[], T]], deadline: Deadline) -> list[T | None]:
    """Return the results in the order of ``questions``, None for one that has not returned soon after the deadline.

    Raises what a question raised, which is a bug in it.
    """
    answers: list[T | None] = [None] * len(questions)
    errors: list[BaseException] = []

    def run(number: int, question: Callable[[], T]) -> None:
        try:
            answers[number] = question()
        except Exception as error:  # noqa: BLE001 -- raised again below, on the thread that asked
            errors.append(error)

    threads = [
        # Daemon threads: one that hangs must not keep the process from stopping.
        threading.Thread(target=run, args=(number, question), name="connect question", daemon=True)
        for number, question in enumerate(questions)
    ]
    for thread in threads:
        thread.start()
    late = Deadline(deadline.at + GRACE_SECONDS, deadline.monotonic)
    for thread in threads:
        thread.join(late.remaining())
    if errors:
        raise errors[0]
    return list(answers)


log = logging.getLogger(__name__)

PATH = "/connectors?expand=status&expand=info"
PLUGINS_PATH = "/connector-plugins"
VERSIONS_INTERVAL = 600.0
"""Seconds between two reads of the versions of plugins and workers, which change only when one is restarted."""

KEPT_SETTINGS = (
    "exactly.once.support",
    "transaction.boundary",
    "transaction.boundary.interval.ms",
    "offsets.storage.topic",
    "producer.override.transaction.timeout.ms",
    "consumer.override.isolation.level",
    "consumer.override.group.id",
    "insert.mode",
    "pk.mode",
    "primary.key.mode",
)
"""Keys of a connector's configuration that are kept: those that concern exactly-once. None is a secret."""

PREFLIGHT_INTERVAL = 120.0
"""Seconds between two questions for the workers' configuration, which changes when one is restarted."""

MOST_BYTES = 16 * 1024 * 1024
"""Greatest answer. A connector with a long configuration and a failed task has 10 kB."""
MOST_CONNECTORS = 2000
MOST_TASKS = 20_000
"""Connectors and tasks of one Connect cluster that are kept."""
MOST_PLUGINS = 2000
MOST_FAULTS = 20
LONGEST_WORD = 1000
"""Characters of a name, a state, an address or a setting."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task. ``state`` is lower case, "" when there is none yet; ``cause`` and ``error`` are those of a failed one.

    ``mark`` differs between two failures that the REST API distinguishes, by worker and by trace.
    """

    connector: str
    task: str
    state: str
    worker: str = ""
    cause: FailureCause | None = None
    error: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector. ``type`` is source, sink or "" where that is not known; ``settings`` are of KEPT_SETTINGS.

    ``plugin`` is its class as it is configured, and ``version`` that of the plugin; "" where they are not known.
    """

    name: str
    type: str
    state: str = ""
    worker: str = ""
    error: str = ""
    settings: Mapping[str, str] | None = None
    tasks: tuple[Task, ...] = ()
    plugin: str = ""
    version: str = ""

    @property
    def exactly_once_support(self) -> str:
        """``exactly.once.support`` of a source, "" where there is none or it is not known. Default: KIP-618."""
        return self._source_setting("exactly.once.support", "requested")

    @property
    def transaction_boundary(self) -> str:
        """``transaction.boundary`` of a source, "" where there is none or it is not known. Default: KIP-618."""
        return self._source_setting("transaction.boundary", "poll")

    def _source_setting(self, key: str, default: str) -> str:
        if self.type != "source" or self.settings is None:
            return ""
        return self.settings.get(key, default).lower()


class RestAnswer(NamedTuple):
    """``connectors`` is None when no worker answered; a connector that could not be read is a fault and is left out.

    ``versions`` has the version of each worker by address, as far as it is known.
    """

    connectors: tuple[Connector, ...] | None
    faults: tuple[Fault, ...]
    preflight: Preflight = Preflight()
    versions: Mapping[str, str] = MappingProxyType({})


class ConnectRest:
    """Asks the workers of one Connect group: every worker has the state of all, so the first answer is enough.

    For use by one thread. It changes nothing. With ``validate`` it also asks every worker for its configuration, by
    validating a source plugin: see ``exporter.connect.preflight``.
    """

    def __init__(self, endpoints: Sequence[Endpoint], *, validate: bool = False) -> None:
        self._endpoints = list(endpoints)
        self._all = tuple(endpoints)
        self._validate = validate
        self._preflight = Preflight()
        self._preflight_at: float | None = None
        self._plugin_versions: Mapping[str, str] = {}
        self._worker_versions: Mapping[str, str] = {}
        self._looked_at: float | None = None

    def read(self, deadline: Deadline) -> RestAnswer:
        """Return the connectors, or a fault for every worker when none of them answered."""
        faults: list[Fault] = []
        for number, endpoint in enumerate(self._endpoints):
            share = deadline.within(deadline.remaining() / (len(self._endpoints) - number))
            answer = _ask_worker(endpoint, share)
            if answer.connectors is None:
                faults.extend(answer.faults)
                continue
            if number:
                # The worker that answered is asked first from now on, so that a dead one costs its timeout once.
                log.info("%s does not answer, %s does", self._endpoints[0].address, endpoint.address)
                self._endpoints = [*self._endpoints[number:], *self._endpoints[:number]]
            self._look_at_versions(endpoint, deadline)
            return answer._replace(
                connectors=tuple(map(self._with_version, answer.connectors)),
                preflight=self._ask_workers(answer.connectors, deadline),
                versions=self._worker_versions,
            )
        return RestAnswer(None, tuple(faults))

    def _look_at_versions(self, endpoint: Endpoint, deadline: Deadline) -> None:
        """Read the versions of plugins and workers, every 10 minutes. A failure is ignored: no state needs them."""
        now = deadline.monotonic()
        if self._looked_at is not None and now - self._looked_at < VERSIONS_INTERVAL:
            return
        self._looked_at = now
        try:
            share = deadline.within(deadline.remaining() / 2)
            self._plugin_versions = _ask_plugins(endpoint, share)
        except HttpError as error:
            log.info("the versions of connectors are not known: %s", error.fault.detail)
        self._worker_versions = worker_versions(self._all, deadline.within(deadline.remaining() / 2))

    def _ask_workers(self, connectors: Sequence[Connector], deadline: Deadline) -> Preflight:
        """Ask for the workers' configuration, every two minutes. What does not answer is unknown, and no fault."""
        now = deadline.monotonic()
        plugins = sorted(
            {connector.plugin for connector in connectors if connector.type == "source" and connector.plugin}
        )
        if not self._validate or not plugins:
            return Preflight()
        if self._preflight_at is None or now - self._preflight_at >= PREFLIGHT_INTERVAL:
            self._preflight_at = now
            found = preflight(self._all, plugins, deadline.within(deadline.remaining() / 2))
            doubtful = [
                connector.name
                for connector in connectors
                if found.plugins.get(connector.plugin) is PluginSupport.UNSUPPORTED
            ]
            exact = with_settings(self._all, doubtful, deadline.within(deadline.remaining() / 2))
            self._preflight = found._replace(connectors=exact)
            if self._preflight.error:
                log.info("the workers' exactly-once support is not known in full: %s", self._preflight.error)
        return self._preflight

    def _with_version(self, connector: Connector) -> Connector:
        return replace(connector, version=self._plugin_versions.get(connector.plugin, ""))


def _ask_worker(endpoint: Endpoint, deadline: Deadline) -> RestAnswer:
    with AnswerRoom() as room:
        try:
            reply = ask(endpoint, deadline, path=PATH, max_bytes=MOST_BYTES, room=room)
        except HttpError as error:
            return RestAnswer(None, (error.fault,))
        with one_heavy_at_a_time(weight(reply.body)):
            return parse(reply.body, endpoint.address)


def _ask_plugins(endpoint: Endpoint, deadline: Deadline) -> dict[str, str]:
    """As ``plugin_versions``. Raises HttpError."""
    with AnswerRoom() as room:
        reply = ask(endpoint, deadline, path=PLUGINS_PATH, max_bytes=MOST_BYTES, room=room)
        with one_heavy_at_a_time(weight(reply.body)):
            return plugin_versions(reply.body)


def plugin_versions(body: bytes) -> dict[str, str]:
    """Versions by class, and by the short names that a configuration may use for it: without package, and without
    ``Connector`` at the end (PluginUtils.simpleName, prunedName). A name with several versions (KIP-891), or of several
    classes, has none. Empty for an answer of another shape; never raises.
    """
    try:
        document = parse_json(body)
    except JsonError:
        return {}
    found: dict[str, set[str]] = {}
    for row in document[:MOST_PLUGINS] if isinstance(document, list) else ():
        if isinstance(row, dict) and isinstance(row.get("class"), str) and isinstance(row.get("version"), str):
            short = row["class"].rpartition(".")[2]
            for name in (row["class"], short, short.removesuffix("Connector")):
                found.setdefault(name[:LONGEST_WORD], set()).add(cut(row["version"], LONGEST_WORD))
    return {name: version for name, (version, *others) in found.items() if not others}


def parse(body: bytes, address: str) -> RestAnswer:
    """The connectors of an answer. ``address`` names the worker in faults. Never raises."""
    try:
        document = parse_json(body)
    except JsonError as error:
        what = "answered something else than JSON" if str(error) == NO_JSON else f"answered JSON that {error}"
        return RestAnswer(None, (Fault(Reason.MALFORMED, f"{address} {what}: is this Connect's REST API?"),))
    if isinstance(document, list):
        fault = Fault(Reason.UNSUPPORTED, f"{address} does not support ?expand=: Connect 2.3 or later is needed")
        return RestAnswer(None, (fault,))
    if not isinstance(document, dict) or "error_code" in document:
        fault = Fault(Reason.MALFORMED, f"{address} answered no list of connectors: is this Connect's REST API?")
        return RestAnswer(None, (fault,))
    connectors: list[Connector] = []
    unknown: list[str] = []
    tasks = 0
    for name, described in document.items():
        try:
            connector = _connector(name, described)
        except (TypeError, KeyError, AttributeError, ValueError, OverflowError):
            unknown.append(name)
            continue
        tasks += len(connector.tasks)
        if len(connectors) == MOST_CONNECTORS or tasks > MOST_TASKS:
            text = f"{address} has more than {MOST_CONNECTORS} connectors or {MOST_TASKS} tasks: the rest is left out"
            return RestAnswer(tuple(connectors), (*_unknown(address, unknown), Fault(Reason.UNSUPPORTED, text)))
        connectors.append(connector)
    return RestAnswer(tuple(connectors), _unknown(address, unknown))


def _unknown(address: str, names: Sequence[str]) -> tuple[Fault, ...]:
    return tuple(
        Fault(Reason.MALFORMED, f"{address} describes connector {cut(name, 80)} in a form unknown here")
        for name in names[:MOST_FAULTS]
    )


def _connector(name: str, described: Mapping[str, Any]) -> Connector:
    """Raises TypeError, KeyError, AttributeError, ValueError or OverflowError for what Connect does not write."""
    if len(name) > LONGEST_WORD:
        raise ValueError("a name is too long")
    status = described.get("status") or {}
    info = described.get("info") or {}
    config = info.get("config")
    secrets = secrets_of(config or {})
    own = status.get("connector") or {}
    return Connector(
        name=name,
        type=_type(status, info),
        state=_word(own.get("state", "")).lower(),
        worker=_word(own.get("worker_id", "")),
        error=last_line(str(own.get("trace") or ""), secrets),
        settings=None if config is None else {key: _word(config[key]) for key in KEPT_SETTINGS if key in config},
        tasks=tuple(_tasks(name, status.get("tasks") or (), secrets)),
        plugin=_word((config or {}).get("connector.class", "")),
    )


def _word(value: object) -> str:
    """A text as it is kept: states, addresses, settings. Raises TypeError for a list or an object."""
    if isinstance(value, list | dict):
        raise TypeError("a text is a list or an object")
    return cut(str(value), LONGEST_WORD)


def _type(status: Mapping[str, Any], info: Mapping[str, Any]) -> str:
    """Connect reports the type ``unknown`` for a connector whose class is not installed."""
    found = str(status.get("type") or info.get("type") or "").lower()
    return found if found in {"source", "sink"} else ""


def _tasks(connector: str, tasks: Sequence[Mapping[str, Any]], secrets: frozenset[str]) -> Iterator[Task]:
    for task in tasks:
        state = _word(task["state"]).lower()
        worker = _word(task.get("worker_id", ""))
        number = str(int(task["id"]))
        if state != "failed":
            yield Task(connector, number, state, worker)
            continue
        trace = str(task.get("trace") or "")
        mark = hashlib.sha256(f"{worker}\n{trace}".encode(errors="replace")).hexdigest()
        yield Task(connector, number, state, worker, cause_of(trace), last_line(trace, secrets), mark)
