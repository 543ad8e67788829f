"""Checks of Connect: the settings of its connectors compared with what they do. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from exporter.connect.exactly_once import Guarantee, LoggedIds, SourceEvidence, shared_ids, source_evidence, timeouts
from exporter.connect.facts import ConnectState
from exporter.connect.preflight import PluginSupport
from exporter.connect.rest import Connector
from exporter.posture.check import PostureCheck, Rule, Settings
from exporter.posture.software_version import software_version

SUPPORT = "exactly.once.source.support"
PREPARE = (
    f"{SUPPORT}=preparing on every worker in a rolling restart, then {SUPPORT}=enabled in a second one (KIP-618); "
    "posture.ignore silences this check for a connector that may write duplicates"
)
ENABLE = f"the workers are prepared: {SUPPORT}=enabled on every worker in a rolling restart"
FINISH = f"{SUPPORT}=enabled on the workers that do not have it yet: finish the rolling restart"
PLUGIN = (
    "the settings with which the plugin supports it (MirrorSourceConnector: source.consumer.isolation.level="
    "read_committed; FileStreamSource: a file), if there are any; then exactly-once on the workers"
)
MOST_NAMED = 5
"""Workers that a check names."""
DEFAULT_TIMEOUT_MS = 60_000.0
"""transaction.timeout.ms of a producer, where neither worker nor connector sets one (ProducerConfig)."""

WORKER = Rule(
    "connect_worker_exactly_once",
    "A source connector that asks for exactly-once (requested is the default) writes duplicates after a failure while "
    "its workers do not enable it.",
    PREPARE,
)
VERSION = Rule(
    "connect_worker_version",
    "Workers before Kafka 3.3 have no exactly-once for source connectors; a cluster needs it on all of its workers.",
    "Kafka 3.3 or later on every worker, in a rolling restart",
)
FIRST_WITH_SUPPORT = (3, 3)
FLUSH_INTERVAL_MS = 60_000
"""offset.flush.interval.ms of a worker, where none is set (WorkerConfig)."""
BOUNDARY = Rule(
    "connect_boundary_interval",
    "A transaction that stays open for the interval is aborted at its timeout: every send fails until the interval "
    "ends, then the task fails with invalid_epoch.",
    "a transaction.boundary.interval.ms well below producer.override.transaction.timeout.ms",
)
SINK = Rule(
    "connect_sink_isolation",
    "A sink that does not read committed copies records of aborted transactions into the other system.",
    "consumer.override.isolation.level=read_committed on the connector, or consumer.isolation.level on the workers",
)
COLLISION = Rule(
    "connect_transactional_ids",
    "Two source tasks with one transactional.id fence each other: the start of one ends the transactions of the other.",
    "another name for one of the two connectors: ids are <group.id>-<connector>-<task>",
)
OFFSETS_TOPIC = Rule(
    "connect_offsets_topic",
    "Exactly-once connectors that share the workers' offsets topic stall together when one of their transactions hangs "
    "over it.",
    "offsets.storage.topic of its own in the connector's configuration",
)


def connect_checks(
    connects: Sequence[ConnectState],
    log: LoggedIds | None,
    log_error: str,
    beyond_lso: frozenset[tuple[str, str]],
) -> Iterator[PostureCheck]:
    """The checks of every connector of these Connect clusters of one Kafka cluster.

    ``log`` is None where the transaction log is not read, for the reason ``log_error``; ``beyond_lso`` are pairs of
    group and topic that were read beyond the last stable offset.
    """
    for state in connects:
        if not state.by_rest:
            error = (
                f"the settings of Connect {state.name} are known by its REST API only: add rest to its configuration"
            )
            yield from (rule.cannot(state.name, error) for rule in (WORKER, SINK, OFFSETS_TOPIC))
            continue
        yield from _versions(state)
        for connector in state.connectors:
            subject = f"{state.name}/{connector.name}"
            if connector.type == "sink":
                yield _sink(subject, connector, beyond_lso)
            elif connector.type == "source" and connector.tasks:
                seen = source_evidence(connector, state, connects, log)
                if seen.guarantee is Guarantee.UNKNOWN and log is None and log_error:
                    seen = seen._replace(found=f"{seen.found} ({log_error})")
                yield _worker(subject, connector, state, seen)
                yield from _transactions(subject, connector, state, connects, seen, log)


def _versions(state: ConnectState) -> Iterator[PostureCheck]:
    """Judge the workers by their versions; nothing where none is known."""
    known = {address: software_version(version) for address, version in state.versions.items()}
    if not any(known.values()):
        return
    old = sorted(address for address, version in known.items() if version is not None and version < FIRST_WITH_SUPPORT)
    counts = Counter(state.versions.values())
    found = ", ".join(f"{count} of {version}" for version, count in sorted(counts.items()))
    found = f"workers by version: {found}"
    if old:
        found += f"; too old: {', '.join(old[:MOST_NAMED])}{' and more' if len(old) > MOST_NAMED else ''}"
    if not old and None in known.values():
        yield VERSION.cannot(state.name, f"{found}: not all of these are versions of Kafka that are known")
    else:
        yield VERSION.says(state.name, passed=not old, found=found)


def _worker(subject: str, connector: Connector, state: ConnectState, seen: SourceEvidence) -> PostureCheck:
    """Judge by what the tasks do; the plugin's answer is said, and explains what they do not."""
    support = state.support(connector)
    asks = f"exactly.once.support={connector.exactly_once_support or 'requested'}"
    plugin = f"; its plugin answers that with these settings it is {support}" if support in _PLAIN else ""
    found = f"{asks}: {seen.found}{plugin}"
    off = sorted(address for address, enabled in state.workers.items() if not enabled)
    if seen.guarantee is Guarantee.EXACTLY_ONCE:
        if not off:
            return WORKER.says(subject, passed=True, found=found)
        found = f"{found}; another worker of the group, to which its tasks may move, does not enable exactly-once"
    elif support is PluginSupport.UNSUPPORTED and connector.exactly_once_support != "required":
        off_too = f"; exactly-once is not enabled on {', '.join(off)}" if off else ""
        return WORKER.notes(subject, f"{found}, so it is at-least-once by choice of the plugin{off_too}")._replace(
            fix=PLUGIN
        )
    elif seen.guarantee is Guarantee.UNKNOWN:
        return WORKER.cannot(subject, f"{found}; exactly-once is not enabled on {', '.join(off)}" if off else found)
    if seen.guarantee is Guarantee.MIXED or True in state.workers.values():
        fix = FINISH
    else:
        fix = ENABLE if state.leader_transactional else PREPARE
    return WORKER.says(subject, passed=False, found=found, fix=fix)


_PLAIN = frozenset({PluginSupport.SUPPORTED, PluginSupport.UNSUPPORTED})


def _transactions(
    subject: str,
    connector: Connector,
    state: ConnectState,
    others: Sequence[ConnectState],
    seen: SourceEvidence,
    log: LoggedIds | None,
) -> Iterator[PostureCheck]:
    """Settings that matter to a connector that writes in transactions."""
    if seen.guarantee is Guarantee.AT_LEAST_ONCE:
        return
    for shared in shared_ids(connector, state, others):
        found = f"{shared}; {seen.found}"
        yield (
            COLLISION.says(subject, passed=False, found=found)
            if seen.guarantee is not Guarantee.UNKNOWN
            else COLLISION.cannot(subject, f"{shared}, if both write in transactions: {seen.found}")
        )
    settings = connector.settings or {}
    if connector.transaction_boundary == "interval":
        yield _boundary(subject, settings, tuple(timeouts(connector, state, log)))
    if seen.guarantee is Guarantee.UNKNOWN:
        yield OFFSETS_TOPIC.cannot(subject, f"whether it writes in transactions is not known: {seen.found}")
        return
    topic = settings.get("offsets.storage.topic", "")
    yield OFFSETS_TOPIC.says(subject, passed=bool(topic), found=f"offsets.storage.topic={topic or 'not set'}")


def _boundary(subject: str, settings: Settings, logged: Sequence[float]) -> PostureCheck:
    interval = _milliseconds(settings.get("transaction.boundary.interval.ms", ""))
    override = _milliseconds(settings.get("producer.override.transaction.timeout.ms", ""))
    if override is not None:
        timeout, origin = override, "producer.override.transaction.timeout.ms"
    elif logged:
        timeout, origin = min(logged) * 1000, "the timeout of its transactions in the log"
    else:
        timeout, origin = DEFAULT_TIMEOUT_MS, "the default of transaction.timeout.ms, unless a worker sets another"
    if interval is None:
        return BOUNDARY.cannot(
            subject,
            "transaction.boundary.interval.ms is not set, so it is the workers' offset.flush.interval.ms "
            f"({FLUSH_INTERVAL_MS} by default), which REST does not show, and {timeout:.0f} ms is {origin}: set it on "
            "the connector",
        )
    found = f"transaction.boundary.interval.ms={interval:.0f}, and {timeout:.0f} ms is {origin}"
    return BOUNDARY.says(subject, passed=interval < timeout, found=found)


def interval_hint(connector: Connector) -> str | None:
    """Name the setting to change where a connector's transactions time out before it commits them; None where that is
    not seen.
    """
    settings = connector.settings or {}
    interval = _milliseconds(settings.get("transaction.boundary.interval.ms", ""))
    if connector.transaction_boundary != "interval" or interval is None:
        return None
    override = _milliseconds(settings.get("producer.override.transaction.timeout.ms", ""))
    timeout = DEFAULT_TIMEOUT_MS if override is None else override
    if interval < timeout:
        return None
    origin = "the default of transaction.timeout.ms" if override is None else "producer.override.transaction.timeout.ms"
    return (
        f"transaction.boundary.interval.ms={interval:.0f} is not below {timeout:.0f}, {origin}: the coordinator ends "
        "each transaction before the task commits it. Set a shorter interval or a longer timeout, then restart the task"
    )


def _milliseconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() else None


def _sink(subject: str, connector: Connector, beyond_lso: frozenset[tuple[str, str]]) -> PostureCheck:
    """From the group's commits, else from the connector's override. The workers' own setting is not visible."""
    settings = connector.settings or {}
    group = settings.get("consumer.override.group.id", "") or f"connect-{connector.name}"
    level = settings.get("consumer.override.isolation.level", "")
    override = f"consumer.override.isolation.level={level or 'not set'}"
    topics = sorted(topic for reader, topic in beyond_lso if reader == group)
    if topics:
        found = f"{override}, and its group {group} committed on above the last stable offset of {', '.join(topics)}"
        return SINK.says(subject, passed=False, found=found)
    if not level:
        return SINK.cannot(
            subject,
            f"{override}: the level is the workers' consumer.isolation.level, which REST does not show, and nothing "
            f"proves that group {group} reads uncommitted records",
        )
    return SINK.says(subject, passed=level == "read_committed", found=override)
