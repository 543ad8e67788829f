"""Rules for Streams and ksqlDB, Connect workers and connectors, and Flink jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exporter.linter.client_rules import DEFAULT_TRANSACTION_TIMEOUT_MS, isolation
from exporter.linter.rule import Context, Fault, Level, Look, flink_guarantee, is_transactional
from exporter.linter.views import View

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


def _streams_removed(view: View, _: Context) -> Iterator[Fault]:
    step = _STEPS.get(view.lower(_GUARANTEE) or "")
    if step and view.version >= (4, 0):
        yield Fault(_GUARANTEE, f"was removed in 4.0: the application does not start; {step}")
    elif step:
        yield Fault(_GUARANTEE, f"is deprecated since 3.0; {step}", Level.WARNING)


def _streams_commit_interval(view: View, context: Context) -> Iterator[Fault]:
    name = "commit.interval.ms"
    interval = view.milliseconds(name)
    timeout = context.file.producers[0].milliseconds_or("transaction.timeout.ms", STREAMS_TRANSACTION_TIMEOUT_MS)
    if interval is not None and timeout is not None and interval > timeout and is_transactional(view, context):
        yield Fault(name, f"is above producer.transaction.timeout.ms ({timeout}): the application refuses to start")


def _replication(view: View, _: Context) -> Iterator[Fault]:
    for name in ("replication.factor", "ksql.internal.topic.replicas", "config.storage.replication.factor",
                 "offset.storage.replication.factor", "status.storage.replication.factor"):  # fmt: skip
        factor = view.milliseconds(name)
        if factor is not None and 0 < factor < 3:
            yield Fault(name, f"is {factor}: the loss of a broker loses this state")


def _handlers(view: View, _: Context) -> Iterator[Fault]:
    for name in ("production.exception.handler", "deserialization.exception.handler"):
        for full in (f"default.{name}", name):
            if "continue" in (view.lower(full) or ""):
                yield Fault(full, "drops the records that fail and goes on")


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


def _support(view: View, name: str, unset: str, nodes: str) -> Iterator[Fault]:
    """The support of exactly-once of a worker, or of the workers of a target."""
    match view.lower(name):
        case None:
            yield Fault(name, f"{name} is not set{unset}")
        case "disabled":
            yield Fault(name, "is disabled")
        case "preparing":
            text = f"is the first of two rolling restarts; exactly-once begins with `enabled` on every {nodes}"
            yield Fault(name, text, Level.WARNING)


def _is_standalone(view: View) -> bool:
    return _OFFSETS_FILE in view.settings and "offset.storage.topic" not in view.settings


def _standalone(view: View, _: Context) -> Iterator[Fault]:
    if _is_standalone(view):
        text = "this is a standalone worker: it keeps offsets in a file, outside of any transaction"
        yield Fault(_OFFSETS_FILE, text)


def _worker_exactly_once(view: View, _: Context) -> Iterator[Fault]:
    if not _is_standalone(view):  # it has no such setting
        yield from _support(view, _SUPPORT, ", and its default is disabled", "worker")


def _connector_ignores(view: View, _: Context) -> Iterator[Fault]:
    mirror = ".connect.mirror." in _connector_name(view)  # MirrorMaker's connectors make clients of their own
    for name, step in _OF_WORKERS.items():
        if name in view.settings and not (mirror and name == _ISOLATION):
            yield Fault(name, f"is a setting of a worker: a connector ignores it; {step}")


def _mirror_source(view: View, _: Context) -> Iterator[Fault]:
    if not _connector_name(view).endswith("MirrorSourceConnector"):
        return
    names = [name for name in (f"source.{_ISOLATION}", _ISOLATION) if name in view.settings]
    if not names or view.text(names[0]) != "read_committed":
        required = view.lower("exactly.once.support") == "required"
        ending = "Connect refuses the connector" if required else "it copies records of aborted transactions"
        text = f"source.consumer.isolation.level=read_committed is not set: {ending}"
        yield Fault(names[0] if names else _ISOLATION, text, Level.ERROR if required else Level.WARNING)


def _override_policy(view: View, _: Context) -> Iterator[Fault]:
    name = "connector.client.config.override.policy"
    if view.lower(name) == "none" or (name not in view.settings and view.version < (3, 0)):
        yield Fault(name, "connectors cannot set producer.override.* and consumer.override.*")


def _connector_name(view: View) -> str:
    return view.text("connector.class") or ""


def _is_sink(view: View) -> bool:
    name = _connector_name(view).lower()
    if "source" in name.rpartition(".")[2] or ".connect.mirror." in name:
        return False  # MirrorMaker's connectors have topics as well
    return "sink" in name or "topics" in view.settings or "topics.regex" in view.settings


def _source_required(view: View, _: Context) -> Iterator[Fault]:
    name = _connector_name(view)
    if not name or _is_sink(view) or name.endswith(("MirrorCheckpointConnector", "MirrorHeartbeatConnector")):
        return  # those of MirrorMaker have no exactly-once: Connect would refuse them
    if view.lower("exactly.once.support") != "required":
        text = "on a worker without exactly-once support this source runs at-least-once, silently"
        yield Fault("exactly.once.support", text)


def _boundary_interval(view: View, context: Context) -> Iterator[Fault]:
    name = "transaction.boundary.interval.ms"
    timeout = context.file.producers[0].milliseconds_or("transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS)
    interval = view.milliseconds_or(name, WORKER_FLUSH_INTERVAL_MS)
    if view.lower("transaction.boundary") != "interval" or timeout is None or interval is None or interval < timeout:
        return
    if name in view.settings:
        text = f"is not below the transaction timeout ({timeout}): each transaction times out, the task stays RUNNING "
        yield Fault(name, f"{text}until the interval ends and fails then")
    else:
        text = f"{name} is not set, so it is the workers' offset.flush.interval.ms ({interval} by default), which is "
        yield Fault(name, f"{text}not below the transaction timeout ({timeout})", Level.WARNING)


def _sink_reads(view: View, context: Context) -> Iterator[Fault]:
    if _is_sink(context.file.main):
        yield from isolation(view, context)


def _tolerance(view: View, _: Context) -> Iterator[Fault]:
    if view.lower("errors.tolerance") == "all" and not view.text("errors.deadletterqueue.topic.name"):
        yield Fault("errors.tolerance", "records that fail are dropped, and no dead letter queue keeps them")


def _insert_mode(view: View, _: Context) -> Iterator[Fault]:
    if "jdbcsink" in _connector_name(view).lower().replace("_", "") and view.lower("insert.mode") != "upsert":
        yield Fault("insert.mode", "a batch that is written again after a failure inserts its rows twice")


# --- Flink ------------------------------------------------------------------------------------------------------------


def _flink_sink(view: View, context: Context) -> Iterator[Fault]:
    name, value = flink_guarantee(view)
    if value != "exactly-once" and context.file.producers:
        yield Fault(name, f"the Kafka sink is {value}" if value else "the Kafka sink's default is at-least-once")


def _flink_prefix(view: View, context: Context) -> Iterator[Fault]:
    name = "sink.transactional-id-prefix"
    if is_transactional(view, context) and not view.text(name):
        yield Fault(name, f"{name} is not set: the sink cannot be built, or two jobs share ids")


def _flink_timeout(view: View, context: Context) -> Iterator[Fault]:
    if not is_transactional(view, context):
        return
    name, most = "transaction.timeout.ms", context.max_timeout_ms
    timeout, interval = view.milliseconds(name), context.file.main.milliseconds("execution.checkpointing.interval")
    if name not in view.settings and most < FLINK_TRANSACTION_TIMEOUT_MS:
        limit = f"transaction.max.timeout.ms of {most} ms{'' if context.max_timeout_known else ' (its default)'}"
        text = f"{name} is not set: Flink takes 1 h, above the brokers' {limit}, and the job fails at its start"
        yield Fault(name, text)
    if interval is not None and timeout is not None and timeout < 2 * interval:
        text = f"is below two checkpoint intervals ({interval} ms): a checkpoint that fails once loses what was "
        yield Fault(name, f"{text}precommitted", Level.WARNING)


def _flink_checkpoints(view: View, context: Context) -> Iterator[Fault]:
    if not is_transactional(view, context):
        return
    interval, mode = "execution.checkpointing.interval", "execution.checkpointing.mode"
    if interval not in view.settings:
        text = f"{interval} is not in this file: set elsewhere, or nothing is ever committed"
        yield Fault(interval, text, Level.INFO)
    if (view.lower(mode) or "exactly_once").replace("-", "_") != "exactly_once":
        yield Fault(mode, "contradicts the sink's exactly-once")


# --- MirrorMaker ------------------------------------------------------------------------------------------------------


def _flows(view: View) -> Iterator[tuple[str, str]]:
    """The pairs of clusters that are replicated, source and target."""
    for name in view.settings:
        source, arrow, target = name.removesuffix(".enabled").partition("->")
        if arrow and name.endswith(".enabled") and view.lower(name) == "true":
            yield source, target


def _mirror_exactly_once(view: View, _: Context) -> Iterator[Fault]:
    for target in sorted({target for _, target in _flows(view)}):
        name = f"{target}.{_SUPPORT}"
        if name not in view.settings and _SUPPORT in view.settings:
            yield Fault(_SUPPORT, f"a worker takes only {name}: this is ignored")
        else:
            yield from _support(view, name, ": it is disabled", "node")


def _mirror_reads(view: View, _: Context) -> Iterator[Fault]:
    for source, target in _flows(view):
        flow, least = f"{source}->{target}", f"{source}.{_ISOLATION}"
        taken = (f"{flow}.source.{_ISOLATION}", least, f"{flow}.{_ISOLATION}")
        names = [name for name in taken if name in view.settings]
        if names and view.text(names[0]) != "read_committed":
            yield Fault(names[0], "copies records of aborted and of open transactions")
        elif not names:
            ignored = "is ignored: " if _ISOLATION in view.settings else ""
            yield Fault(_ISOLATION, f"{ignored}{least}=read_committed is not set")


def _mirror_rest(view: View, _: Context) -> Iterator[Fault]:
    name, text = "dedicated.mode.enable.internal.rest", "the nodes of a cluster cannot fence tasks of one another"
    if view.lower(name) != "true" and any(_flows(view)):
        yield Fault(name, text if name in view.settings else f"{name} is not set: {text}")


ENGINE_LOOKS: Mapping[str, Look] = {
    "streams-guarantee-removed": _streams_removed,
    "streams-commit-interval": _streams_commit_interval,
    "handler-continues": _handlers,
    "replication-factor": _replication,
    "worker-exactly-once": _worker_exactly_once,
    "worker-standalone": _standalone,
    "connector-ignores": _connector_ignores,
    "mirror-source-reads-uncommitted": _mirror_source,
    "mirror-exactly-once": _mirror_exactly_once,
    "mirror-reads-uncommitted": _mirror_reads,
    "mirror-internal-rest": _mirror_rest,
    "override-policy": _override_policy,
    "worker-sinks-read-uncommitted": isolation,
    "source-not-required": _source_required,
    "boundary-interval": _boundary_interval,
    "sink-read-uncommitted": _sink_reads,
    "errors-dropped": _tolerance,
    "sink-inserts": _insert_mode,
    "flink-guarantee": _flink_sink,
    "flink-prefix": _flink_prefix,
    "flink-timeout": _flink_timeout,
    "flink-checkpoints": _flink_checkpoints,
}
"""The functions of rules.toml's rules for engines."""
