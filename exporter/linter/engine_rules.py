"""The functions of rules for Streams, ksqlDB, Connect, MirrorMaker and Flink, as in client_rules."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.linter.client_rules import DEFAULT_TRANSACTION_TIMEOUT_MS, isolation_fault, isolation_read_uncommitted
from exporter.linter.rule import Context, Level, Mistake, is_transactional, sink_guarantee
from exporter.linter.views import Client, View

STREAMS_TRANSACTION_TIMEOUT_MS = 10_000
"""StreamsConfig.DEFAULT_TRANSACTION_TIMEOUT."""
FLINK_TRANSACTION_TIMEOUT_MS = 3_600_000
"""KafkaSinkBuilder.DEFAULT_KAFKA_TRANSACTION_TIMEOUT."""
WORKER_FLUSH_INTERVAL_MS = 60_000
"""WorkerConfig.OFFSET_COMMIT_INTERVAL_MS_DEFAULT: the interval of transactions where a connector sets none."""

# --- Streams and ksqlDB -----------------------------------------------------------------------------------------------

_GUARANTEE = "processing.guarantee"
_STEPS = {
    "exactly_once": "from exactly_once: upgrade to 3.x with exactly_once first, then a second rolling bounce to "
    "exactly_once_v2",
    "exactly_once_beta": "from exactly_once_beta the value can change in the same rolling bounce",
}


def streams_guarantee_removed(view: View, _: Context) -> Iterator[Mistake]:
    step = _STEPS.get(view.text(_GUARANTEE) or "")
    if step and view.version >= (4, 0):
        yield Mistake(_GUARANTEE, f"was removed in 4.0: the application does not start; {step}")
    elif step:
        yield Mistake(_GUARANTEE, f"is deprecated since 3.0; {step}", Level.WARNING)
    elif view.text(_GUARANTEE) not in {None, "", "at_least_once", "exactly_once_v2"}:
        yield Mistake(_GUARANTEE, "is no value of processing.guarantee: the application does not start")


def streams_commit_interval(view: View, context: Context) -> Iterator[Mistake]:
    name = "commit.interval.ms"
    interval = view.milliseconds(name)
    timeout = context.file.producers[0].milliseconds_or("transaction.timeout.ms", STREAMS_TRANSACTION_TIMEOUT_MS)
    if interval is not None and timeout is not None and interval > timeout and is_transactional(view, context):
        yield Mistake(name, f"is above producer.transaction.timeout.ms ({timeout}): the application refuses to start")


_STORAGE = tuple(f"{store}.storage.replication.factor" for store in ("config", "offset", "status"))
_REPLICATION = {
    Client.STREAMS: ("replication.factor",),
    Client.KSQLDB: ("replication.factor", "ksql.internal.topic.replicas"),
    Client.CONNECT_WORKER: _STORAGE,
    Client.MIRRORMAKER: ("replication.factor", *_STORAGE),
}


def replication_factor(view: View, _: Context) -> Iterator[Mistake]:
    names = [*_REPLICATION[view.kind]]
    for source, target in _flows(view):
        names += [f"{source}->{target}.replication.factor", *(f"{target}.{name}" for name in _STORAGE)]
    for name in names:
        factor = view.milliseconds(name)
        if factor is not None and 0 < factor < 3:
            yield Mistake(name, f"is {factor}: the loss of a broker loses this state")


def handler_continues(view: View, _: Context) -> Iterator[Mistake]:
    for name in ("production.exception.handler", "deserialization.exception.handler"):
        for full in (f"default.{name}", name):
            if "continue" in (view.lower(full) or ""):
                yield Mistake(full, "drops the records that fail and goes on")


# --- Connect ----------------------------------------------------------------------------------------------------------

_OF_WORKERS = {
    **dict.fromkeys(
        ("exactly.once.source.support", "offset.storage.topic", "config.storage.topic", "status.storage.topic",
         "connector.client.config.override.policy", "offset.flush.interval.ms"), "set it on every worker"),
    "consumer.isolation.level": "write consumer.override.isolation.level",
}  # fmt: skip
_ISOLATION = "consumer.isolation.level"
_SUPPORT = "exactly.once.source.support"
_OFFSETS_FILE = "offset.storage.file.filename"


def _support(view: View, name: str, unset: str, nodes: str) -> Iterator[Mistake]:
    """The support of exactly-once of a worker, or of the workers of a target."""
    match view.lower(name):
        case None:
            yield Mistake(name, f"{name} is not set{unset}")
        case "disabled":
            yield Mistake(name, "is disabled")
        case "preparing":
            text = f"is the first of two rolling restarts; exactly-once begins with `enabled` on every {nodes}"
            yield Mistake(name, text, Level.WARNING)


def _is_standalone(view: View) -> bool:
    return _OFFSETS_FILE in view.settings and "offset.storage.topic" not in view.settings


def worker_standalone(view: View, _: Context) -> Iterator[Mistake]:
    if _is_standalone(view):
        text = "this is a standalone worker: it keeps offsets in a file, outside of any transaction"
        yield Mistake(_OFFSETS_FILE, text)


def worker_exactly_once(view: View, _: Context) -> Iterator[Mistake]:
    if not _is_standalone(view):  # it has no such setting
        yield from _support(view, _SUPPORT, ", and its default is disabled", "worker")


def connector_ignores(view: View, _: Context) -> Iterator[Mistake]:
    mirror = ".connect.mirror." in _connector_name(view)  # MirrorMaker's connectors make clients of their own
    for name, step in _OF_WORKERS.items():
        if name in view.settings and not (mirror and name == _ISOLATION):
            yield Mistake(name, f"is a setting of a worker: a connector ignores it; {step}")


def mirror_source_reads_uncommitted(view: View, _: Context) -> Iterator[Mistake]:
    if not _connector_name(view).endswith("MirrorSourceConnector"):
        return
    names = [name for name in (f"source.{_ISOLATION}", _ISOLATION) if name in view.settings]
    if not names or view.text(names[0]) != "read_committed":
        required = view.lower("exactly.once.support") == "required"
        ending = "Connect refuses the connector" if required else "it copies records of aborted transactions"
        text = f"source.consumer.isolation.level=read_committed is not set: {ending}"
        yield Mistake(names[0] if names else _ISOLATION, text, Level.ERROR if required else Level.WARNING)


def override_policy(view: View, _: Context) -> Iterator[Mistake]:
    name = "connector.client.config.override.policy"
    if view.lower(name) == "none" or (name not in view.settings and view.version < (3, 0)):
        yield Mistake(name, "connectors cannot set producer.override.* and consumer.override.*")


def _connector_name(view: View) -> str:
    return view.text("connector.class") or ""


def _is_sink(view: View) -> bool:
    name = _connector_name(view).lower()
    if "source" in name.rpartition(".")[2] or ".connect.mirror." in name:
        return False  # MirrorMaker's connectors have topics as well
    return "sink" in name or "topics" in view.settings or "topics.regex" in view.settings


def source_not_required(view: View, _: Context) -> Iterator[Mistake]:
    name = _connector_name(view)
    if not name or _is_sink(view) or name.endswith(("MirrorCheckpointConnector", "MirrorHeartbeatConnector")):
        return  # those of MirrorMaker have no exactly-once: Connect would refuse them
    if view.lower("exactly.once.support") != "required":
        text = "on a worker without exactly-once support this source runs at-least-once, silently"
        yield Mistake("exactly.once.support", text)


def boundary_interval(view: View, context: Context) -> Iterator[Mistake]:
    name = "transaction.boundary.interval.ms"
    timeout = context.file.producers[0].milliseconds_or("transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS)
    interval = view.milliseconds_or(name, WORKER_FLUSH_INTERVAL_MS)
    if view.lower("transaction.boundary") != "interval" or timeout is None or interval is None or interval < timeout:
        return
    if name in view.settings:
        text = f"is not below the transaction timeout ({timeout}): each transaction times out, the task stays RUNNING "
        yield Mistake(name, f"{text}until the interval ends and fails then")
    else:
        text = f"{name} is not set, so it is the workers' offset.flush.interval.ms ({interval} by default), which is "
        yield Mistake(name, f"{text}not below the transaction timeout ({timeout})", Level.WARNING)


worker_sinks_read_uncommitted = isolation_read_uncommitted


def sink_read_uncommitted(view: View, context: Context) -> Iterator[Mistake]:
    if _is_sink(context.file.main):
        yield from isolation_read_uncommitted(view, context)


def errors_dropped(view: View, _: Context) -> Iterator[Mistake]:
    if view.lower("errors.tolerance") == "all" and not view.text("errors.deadletterqueue.topic.name"):
        yield Mistake("errors.tolerance", "records that fail are dropped, and no dead letter queue keeps them")


def sink_inserts(view: View, _: Context) -> Iterator[Mistake]:
    if "jdbcsink" in _connector_name(view).lower().replace("_", "") and view.lower("insert.mode") != "upsert":
        yield Mistake("insert.mode", "a batch that is written again after a failure inserts its rows twice")


# --- Flink ------------------------------------------------------------------------------------------------------------


def flink_guarantee(view: View, context: Context) -> Iterator[Mistake]:
    name, value = sink_guarantee(view)
    if value != "exactly-once" and context.file.producers:
        yield Mistake(name, f"the Kafka sink is {value}" if value else "the Kafka sink's default is at-least-once")


def flink_prefix(view: View, context: Context) -> Iterator[Mistake]:
    name = "sink.transactional-id-prefix"
    if is_transactional(view, context) and not view.text(name):
        yield Mistake(name, f"{name} is not set: the sink cannot be built, or two jobs share ids")


def flink_timeout(view: View, context: Context) -> Iterator[Mistake]:
    if not is_transactional(view, context):
        return
    name, most = "transaction.timeout.ms", context.max_timeout_ms
    timeout, interval = view.milliseconds(name), context.file.main.milliseconds("execution.checkpointing.interval")
    if name not in view.settings and most < FLINK_TRANSACTION_TIMEOUT_MS:
        limit = f"transaction.max.timeout.ms of {most} ms{'' if context.max_timeout_known else ' (its default)'}"
        text = f"{name} is not set: Flink takes 1 h, above the brokers' {limit}, and the job fails at its start"
        yield Mistake(name, text)
    if interval is not None and timeout is not None and timeout < 2 * interval:
        text = f"is below two checkpoint intervals ({interval} ms): a checkpoint that fails once loses what was "
        yield Mistake(name, f"{text}precommitted", Level.WARNING)


def flink_checkpoints(view: View, context: Context) -> Iterator[Mistake]:
    if not is_transactional(view, context):
        return
    interval, mode = "execution.checkpointing.interval", "execution.checkpointing.mode"
    if interval not in view.settings:
        text = f"{interval} is not in this file: set elsewhere, or nothing is ever committed"
        yield Mistake(interval, text, Level.INFO)
    if (view.lower(mode) or "exactly_once").replace("-", "_") != "exactly_once":
        yield Mistake(mode, "contradicts the sink's exactly-once")


# --- MirrorMaker ------------------------------------------------------------------------------------------------------


def _flows(view: View) -> Iterator[tuple[str, str]]:
    """MirrorMaker's pairs of clusters that are replicated, source and target (MirrorMakerConfig.clusterPairs)."""
    clusters = {alias.strip() for alias in (view.text("clusters") or "").split(",")}
    for name in view.settings:
        source, _, target = name.removesuffix(".enabled").partition("->")
        if name.endswith(".enabled") and {source, target} <= clusters and view.lower(name) == "true":
            yield source, target


def mirror_exactly_once(view: View, _: Context) -> Iterator[Mistake]:
    for target in sorted({target for _, target in _flows(view)}):
        name = f"{target}.{_SUPPORT}"
        if name not in view.settings and _SUPPORT in view.settings:
            yield Mistake(_SUPPORT, f"a worker takes only {name}: this is ignored")
        else:
            yield from _support(view, name, ": it is disabled", "node")


def mirror_reads_uncommitted(view: View, _: Context) -> Iterator[Mistake]:
    for source, target in _flows(view):
        flow, least = f"{source}->{target}", f"{source}.{_ISOLATION}"
        taken = (f"{flow}.source.{_ISOLATION}", least, f"{flow}.{_ISOLATION}")
        names = [name for name in taken if name in view.settings]
        if names and (text := isolation_fault(view.settings[names[0]].value)):
            yield Mistake(names[0], text)
        elif not names:
            ignored = "is ignored: " if _ISOLATION in view.settings else ""
            yield Mistake(_ISOLATION, f"{ignored}{least}=read_committed is not set")


def mirror_internal_rest(view: View, _: Context) -> Iterator[Mistake]:
    name, text = "dedicated.mode.enable.internal.rest", "the nodes of a cluster cannot fence tasks of one another"
    if view.lower(name) != "true" and any(_flows(view)):
        yield Mistake(name, text if name in view.settings else f"{name} is not set: {text}")
