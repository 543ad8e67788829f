"""Rules for Streams and ksqlDB, Connect workers and connectors, and Flink jobs."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.linter.client_rules import DEFAULT_TRANSACTION_TIMEOUT_MS, isolation
from exporter.linter.rule import (
    BOTH,
    EXACTLY,
    ClientRule,
    Context,
    Found,
    Level,
    Scope,
    chosen,
    flink_guarantee,
    is_transactional,
)
from exporter.linter.views import Client, View

STREAMS_TRANSACTION_TIMEOUT_MS = 10_000
"""StreamsConfig.DEFAULT_TRANSACTION_TIMEOUT."""
FLINK_TRANSACTION_TIMEOUT_MS = 3_600_000
"""KafkaSinkBuilder.DEFAULT_KAFKA_TRANSACTION_TIMEOUT."""

# --- Streams and ksqlDB -----------------------------------------------------------------------------------------------

_STREAMS = (Client.STREAMS, Client.KSQLDB)


def _streams_guarantee(view: View, _: Context) -> Iterator[Found]:
    value = view.lower("processing.guarantee")
    if value is None:
        yield Found(None, "processing.guarantee is not set, and its default is at_least_once")
    elif value == "at_least_once":
        yield Found(chosen(view, "processing.guarantee"), "is at_least_once")


def _streams_removed(view: View, _: Context) -> Iterator[Found]:
    value = view.lower("processing.guarantee")
    if value in {"exactly_once", "exactly_once_beta"}:
        gone = view.version >= (4, 0)
        text = "was removed in 4.0: the application does not start" if gone else "is deprecated since 3.0"
        step = (
            "; from exactly_once: upgrade to 3.x with exactly_once first, then a second rolling bounce to "
            "exactly_once_v2"
            if value == "exactly_once"
            else "; from exactly_once_beta the value can change in the same rolling bounce"
        )
        yield Found(
            chosen(view, "processing.guarantee"),
            text + step,
            Level.ERROR if gone else Level.WARNING,
        )


def _streams_commit_interval(view: View, context: Context) -> Iterator[Found]:
    interval = view.milliseconds("commit.interval.ms")
    producer = context.file.producers[0]
    timeout = producer.milliseconds_or("transaction.timeout.ms", STREAMS_TRANSACTION_TIMEOUT_MS)
    if interval is not None and timeout is not None and interval > timeout and is_transactional(view, context):
        yield Found(
            chosen(view, "commit.interval.ms"),
            f"is above producer.transaction.timeout.ms ({timeout}): the application refuses to start",
        )


def _replication(view: View, _: Context) -> Iterator[Found]:
    for name in ("replication.factor", "ksql.internal.topic.replicas", "config.storage.replication.factor",
                 "offset.storage.replication.factor", "status.storage.replication.factor"):  # fmt: skip
        factor = view.milliseconds(name)
        if factor is not None and 0 < factor < 3:
            yield Found(chosen(view, name), f"is {factor}: the loss of a broker loses this state")


def _handlers(view: View, _: Context) -> Iterator[Found]:
    for name in (
        "default.production.exception.handler", "production.exception.handler",
        "default.deserialization.exception.handler", "deserialization.exception.handler",
    ):  # fmt: skip
        text = view.text(name)
        if text and "continue" in text.lower():
            yield Found(chosen(view, name), "drops the records that fail and goes on")


# --- Connect ----------------------------------------------------------------------------------------------------------


WORKER_FLUSH_INTERVAL_MS = 60_000
"""WorkerConfig.OFFSET_COMMIT_INTERVAL_MS_DEFAULT: the interval of transactions where a connector sets none."""
_OF_CONNECTORS = (
    "exactly.once.support",
    "transaction.boundary",
    "transaction.boundary.interval.ms",
    "offsets.storage.topic",
)


_OF_WORKERS = (
    "exactly.once.source.support", "offset.storage.topic", "config.storage.topic", "status.storage.topic",
    "connector.client.config.override.policy", "offset.flush.interval.ms", "consumer.isolation.level",
)  # fmt: skip


def _is_standalone(view: View) -> bool:
    return "offset.storage.file.filename" in view.settings and "offset.storage.topic" not in view.settings


def _standalone(view: View, _: Context) -> Iterator[Found]:
    if _is_standalone(view):
        yield Found(
            chosen(view, "offset.storage.file.filename"),
            "this is a standalone worker: it keeps offsets in a file, outside of any transaction",
        )


def _worker_ignores(view: View, _: Context) -> Iterator[Found]:
    for name in _OF_CONNECTORS:
        if name in view.settings:
            yield Found(chosen(view, name), "is a setting of a connector: a worker ignores it without a word")


def _connector_ignores(view: View, _: Context) -> Iterator[Found]:
    mirror = ".connect.mirror." in _connector_name(view)  # MirrorMaker's connectors make clients of their own
    for name in _OF_WORKERS if not mirror else _OF_WORKERS[:-1]:
        if name in view.settings:
            step = "write consumer.override.isolation.level" if name == _OF_WORKERS[-1] else "set it on every worker"
            yield Found(chosen(view, name), f"is a setting of a worker: a connector ignores it; {step}")


def _mirror_source(view: View, _: Context) -> Iterator[Found]:
    if not _connector_name(view).endswith("MirrorSourceConnector"):
        return
    names = ("source.consumer.isolation.level", "consumer.isolation.level")
    setting = next((view.settings[name] for name in names if name in view.settings), None)
    if setting is None or setting.value != "read_committed":
        required = view.lower("exactly.once.support") == "required"
        ending = "Connect refuses the connector" if required else "it copies records of aborted transactions"
        text = f"source.consumer.isolation.level=read_committed is not set: {ending}"
        yield Found(setting, text, Level.ERROR if required else Level.WARNING)


def _worker_transactional_id(view: View, context: Context) -> Iterator[Found]:
    if "transactional.id" in view.settings:
        yield Found(
            chosen(view, "transactional.id"),
            "the id of the leader is connect-cluster-<group.id>, whatever is set here, and the producers of the "
            "worker's own topics cannot be made with it: the worker does not start",
        )
    for producer in context.file.producers:
        if "transactional.id" in producer.settings:
            setting = chosen(producer, "transactional.id")
            yield Found(
                setting._replace(name=f"producer.{setting.name}"),
                "exactly-once source tasks ignore it, and every other task's producer and dead letter queue cannot be "
                "made with it",
            )


def _worker_exactly_once(view: View, _: Context) -> Iterator[Found]:
    if _is_standalone(view):
        return  # it has no such setting
    value = view.lower("exactly.once.source.support")
    if value is None:
        yield Found(None, "exactly.once.source.support is not set, and its default is disabled")
    elif value == "disabled":
        yield Found(chosen(view, "exactly.once.source.support"), "is disabled")
    elif value == "preparing":
        yield Found(
            chosen(view, "exactly.once.source.support"),
            "is the first of two rolling restarts; exactly-once begins with `enabled` on every worker",
            Level.WARNING,
        )


def _override_policy(view: View, _: Context) -> Iterator[Found]:
    value = view.lower("connector.client.config.override.policy")
    if value == "none" or (value is None and view.version < (3, 0)):
        setting = view.settings.get("connector.client.config.override.policy")
        yield Found(setting, "connectors cannot set producer.override.* and consumer.override.*")


def _connector_name(view: View) -> str:
    return view.text("connector.class") or ""


def _is_sink(view: View) -> bool:
    name = _connector_name(view).lower()
    if "source" in name.rpartition(".")[2] or ".connect.mirror." in name:
        return False  # MirrorMaker's connectors have topics as well
    return "sink" in name or "topics" in view.settings or "topics.regex" in view.settings


def _source_required(view: View, _: Context) -> Iterator[Found]:
    name = _connector_name(view)
    if not name or _is_sink(view) or name.endswith(("MirrorCheckpointConnector", "MirrorHeartbeatConnector")):
        return  # those of MirrorMaker have no exactly-once: Connect would refuse them
    value = view.lower("exactly.once.support")
    if value != "required":
        setting = view.settings.get("exactly.once.support")
        yield Found(setting, "on a worker without exactly-once support this source runs at-least-once, silently")


def _boundary_interval(view: View, context: Context) -> Iterator[Found]:
    if view.lower("transaction.boundary") != "interval":
        return
    interval = view.milliseconds("transaction.boundary.interval.ms")
    producer = context.file.producers[0]
    timeout = producer.milliseconds_or("transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS)
    if timeout is None:
        return
    if "transaction.boundary.interval.ms" not in view.settings:
        if timeout <= WORKER_FLUSH_INTERVAL_MS:
            yield Found(
                None,
                "transaction.boundary.interval.ms is not set, so it is the workers' offset.flush.interval.ms "
                f"({WORKER_FLUSH_INTERVAL_MS} by default), which is not below the transaction timeout ({timeout})",
                Level.WARNING,
            )
    elif interval is not None and interval >= timeout:
        yield Found(
            chosen(view, "transaction.boundary.interval.ms"),
            f"is not below the transaction timeout ({timeout}): each transaction times out, the task stays RUNNING "
            "until the interval ends and fails then",
        )


def _override_transactional_id(view: View, _: Context) -> Iterator[Found]:
    if "transactional.id" in view.settings:
        yield Found(chosen(view, "transactional.id"), "Connect names its transactions itself and refuses this override")


def _tolerance(view: View, _: Context) -> Iterator[Found]:
    if view.lower("errors.tolerance") == "all" and not view.text("errors.deadletterqueue.topic.name"):
        yield Found(
            chosen(view, "errors.tolerance"), "records that fail are dropped, and no dead letter queue keeps them"
        )


def _insert_mode(view: View, _: Context) -> Iterator[Found]:
    if "jdbcsink" in _connector_name(view).lower().replace("_", ""):
        mode = view.lower("insert.mode")
        if mode != "upsert":
            setting = view.settings.get("insert.mode")
            yield Found(setting, "a batch that is written again after a failure inserts its rows twice")


# --- Flink ------------------------------------------------------------------------------------------------------------

_FLINK = (Client.FLINK,)


def _flink_sink(view: View, context: Context) -> Iterator[Found]:
    value = flink_guarantee(view)
    if value != "exactly-once" and context.file.producers:
        name = next(
            (option for option in ("sink.delivery-guarantee", "delivery-guarantee") if option in view.settings), None
        )
        text = "the Kafka sink's default is at-least-once" if value is None else f"the Kafka sink is {value}"
        yield Found(view.settings.get(name) if name else None, text)


def _flink_prefix(view: View, _: Context) -> Iterator[Found]:
    if flink_guarantee(view) == "exactly-once" and not view.text("sink.transactional-id-prefix"):
        yield Found(None, "sink.transactional-id-prefix is not set: the sink cannot be built, or two jobs share ids")


def _flink_timeout(view: View, context: Context) -> Iterator[Found]:
    if flink_guarantee(view) != "exactly-once":
        return
    producer = context.file.producers[0]
    timeout = producer.milliseconds("transaction.timeout.ms")
    setting = producer.settings.get("transaction.timeout.ms")
    if setting is None and context.max_timeout_ms < FLINK_TRANSACTION_TIMEOUT_MS:
        yield Found(
            None,
            f"transaction.timeout.ms is not set: Flink takes 1 h, above the brokers' transaction.max.timeout.ms of "
            f"{context.max_timeout_ms} ms{'' if context.max_timeout_known else ' (its default)'}, and the job fails at "
            "its start",
        )
    interval = view.milliseconds("execution.checkpointing.interval")
    if interval is not None and timeout is not None and timeout < 2 * interval:
        yield Found(
            setting,
            f"is below two checkpoint intervals ({interval} ms): a checkpoint that fails once loses what was "
            "precommitted",
            Level.WARNING,
        )


def _flink_checkpoints(view: View, _: Context) -> Iterator[Found]:
    if flink_guarantee(view) != "exactly-once":
        return
    if "execution.checkpointing.interval" not in view.settings:
        yield Found(
            None,
            "execution.checkpointing.interval is not in this file: set elsewhere, or nothing is ever committed",
            Level.INFO,
        )
    if (view.lower("execution.checkpointing.mode") or "exactly_once").replace("-", "_") != "exactly_once":
        yield Found(chosen(view, "execution.checkpointing.mode"), "contradicts the sink's exactly-once")


# --- MirrorMaker ------------------------------------------------------------------------------------------------------

_MIRRORMAKER = (Client.MIRRORMAKER,)


def _flows(view: View) -> Iterator[tuple[str, str]]:
    """The pairs of clusters that are replicated, source and target."""
    for name, setting in view.settings.items():
        source, arrow, target = name.removesuffix(".enabled").partition("->")
        if arrow and name.endswith(".enabled") and setting.value.lower() == "true":
            yield source, target


def _mirror_exactly_once(view: View, _: Context) -> Iterator[Found]:
    for target in sorted({target for _, target in _flows(view)}):
        name = f"{target}.exactly.once.source.support"
        value = view.lower(name)
        top = view.settings.get("exactly.once.source.support")
        if value is None:
            text = f"a worker takes only {name}: this is ignored" if top else f"{name} is not set: it is disabled"
            yield Found(top, text)
        elif value == "disabled":
            yield Found(chosen(view, name), "is disabled")
        elif value == "preparing":
            text = "is the first of two rolling restarts; exactly-once begins with `enabled` on every node"
            yield Found(chosen(view, name), text, Level.WARNING)


def _mirror_reads(view: View, _: Context) -> Iterator[Found]:
    for source, target in _flows(view):
        names = (
            f"{source}->{target}.source.consumer.isolation.level", f"{source}.consumer.isolation.level",
            f"{source}->{target}.consumer.isolation.level",
        )  # fmt: skip
        setting = next((view.settings[name] for name in names if name in view.settings), None)
        if setting is None:
            top = view.settings.get("consumer.isolation.level")
            yield Found(top, f"{'is ignored: ' if top else ''}{names[1]}=read_committed is not set")
        elif setting.value != "read_committed":
            yield Found(setting, "copies records of aborted and of open transactions")


def _mirror_rest(view: View, _: Context) -> Iterator[Found]:
    name = "dedicated.mode.enable.internal.rest"
    if view.lower(name) != "true" and any(_flows(view)):
        setting = view.settings.get(name)
        text = "the nodes of a cluster cannot fence tasks of one another"
        yield Found(setting, text if setting else f"{name} is not set: {text}")


ENGINE_RULES: tuple[ClientRule, ...] = (
    ClientRule("streams-at-least-once", Scope.MAIN, Level.ERROR, _streams_guarantee,
         "Without exactly_once_v2 a restart repeats outputs and state updates since the last commit.",
         "processing.guarantee=exactly_once_v2", "KIP-129, KIP-447; StreamsConfig", EXACTLY, _STREAMS),
    ClientRule("streams-guarantee-removed", Scope.MAIN, Level.ERROR, _streams_removed,
         "exactly_once and exactly_once_beta are names of older protocols.",
         "processing.guarantee=exactly_once_v2 (brokers 2.5 or later)", "KIP-732; Streams upgrade guide", BOTH,
         _STREAMS),
    ClientRule("streams-commit-interval", Scope.MAIN, Level.ERROR, _streams_commit_interval,
         "A transaction is open for a commit interval, and must end before its timeout.",
         "lower commit.interval.ms or raise producer.transaction.timeout.ms",
         "StreamsConfig.verifyEOSTransactionTimeoutCompatibility", BOTH, _STREAMS),
    ClientRule("handler-continues", Scope.MAIN, Level.WARNING, _handlers,
         "A record that cannot be read or written is lost with a log line.",
         "fail, or write such records to a dead letter topic", "KIP-161, KIP-210", BOTH, _STREAMS),
    ClientRule("replication-factor", Scope.MAIN, Level.WARNING, _replication,
         "Changelogs, offsets and configurations are what exactly-once resumes from.",
         "3, with min.insync.replicas 2 on the topics", "StreamsConfig, DistributedConfig", BOTH,
         (*_STREAMS, Client.CONNECT_WORKER, Client.MIRRORMAKER)),
    ClientRule("worker-exactly-once", Scope.MAIN, Level.ERROR, _worker_exactly_once,
         "Source connectors get transactions only on workers that have it enabled, all of them.",
         "exactly.once.source.support=preparing on every worker, then =enabled on every worker", "KIP-618", EXACTLY,
         (Client.CONNECT_WORKER,)),
    ClientRule("worker-standalone", Scope.MAIN, Level.ERROR, _standalone,
         "Only workers in distributed mode write source records and their offsets in one transaction.",
         "connect-distributed with offset.storage.topic, group.id and exactly.once.source.support=enabled", "KIP-618",
         EXACTLY, (Client.CONNECT_WORKER,)),
    ClientRule("worker-ignores", Scope.MAIN, Level.WARNING, _worker_ignores,
         "Each connector has its own exactly-once settings, with poll as the boundary unless its configuration says "
         "otherwise.",
         "it in the configuration of each connector", "KIP-618; SourceConnectorConfig", EXACTLY,
         (Client.CONNECT_WORKER,)),
    ClientRule("connector-ignores", Scope.MAIN, Level.WARNING, _connector_ignores,
         "Connect passes a connector only its own settings and those of the framework's connectors.",
         "it in the configuration of the workers", "KIP-618; ConnectorConfig, DistributedConfig", EXACTLY,
         (Client.CONNECTOR,)),
    ClientRule("mirror-source-reads-uncommitted", Scope.MAIN, Level.WARNING, _mirror_source,
         "A mirror that reads uncommitted records copies what was aborted, as committed records.",
         "source.consumer.isolation.level=read_committed", "MirrorSourceConnector.validateExactlyOnceConfigs", EXACTLY,
         (Client.CONNECTOR,)),
    ClientRule("mirror-exactly-once", Scope.MAIN, Level.ERROR, _mirror_exactly_once,
         "MirrorMaker's workers take settings with the name of their target before them, and few others.",
         "TARGET.exactly.once.source.support=enabled for each target (existing clusters: preparing first)",
         "KIP-618, KIP-710; MirrorMakerConfig.workerConfig", EXACTLY, _MIRRORMAKER),
    ClientRule("mirror-reads-uncommitted", Scope.MAIN, Level.ERROR, _mirror_reads,
         "A mirror that reads uncommitted records copies what was aborted, as committed records.",
         "SOURCE.consumer.isolation.level=read_committed", "MirrorMakerConfig.connectorBaseConfig", EXACTLY,
         _MIRRORMAKER),
    ClientRule("mirror-internal-rest", Scope.MAIN, Level.ERROR, _mirror_rest,
         "Nodes of a dedicated MirrorMaker need it to fence tasks and to pass configurations on; one node alone does "
         "not.",
         "dedicated.mode.enable.internal.rest=true, and listeners", "KIP-710; MirrorMakerConfig", EXACTLY,
         _MIRRORMAKER),
    ClientRule("worker-transactional-id", Scope.MAIN, Level.ERROR, _worker_transactional_id,
         "Connect names its transactions itself: connect-cluster-<group.id> and <group.id>-<connector>-<task>.",
         "no transactional.id", "KIP-618; KafkaOffsetBackingStore, Worker", BOTH, (Client.CONNECT_WORKER,)),
    ClientRule("override-policy", Scope.MAIN, Level.INFO, _override_policy,
         "A sink's isolation level and a source's transaction timeout are set by such overrides.",
         "connector.client.config.override.policy=All", "KIP-458, KIP-722", EXACTLY, (Client.CONNECT_WORKER,)),
    ClientRule("worker-sinks-read-uncommitted", Scope.CONSUMER, Level.WARNING, isolation,
         "Sink tasks read with the worker's consumer settings.",
         "consumer.isolation.level=read_committed", "ConsumerConfig", EXACTLY, (Client.CONNECT_WORKER,)),
    ClientRule("source-not-required", Scope.MAIN, Level.WARNING, _source_required,
         "The default `requested` accepts a worker and a connector that cannot do it.",
         "exactly.once.support=required: Connect then refuses a connector that has no exactly-once",
         "KIP-618; SourceConnectorConfig", EXACTLY, (Client.CONNECTOR,)),
    ClientRule("boundary-interval", Scope.MAIN, Level.ERROR, _boundary_interval,
         "A transaction by interval must end before its timeout.",
         "transaction.boundary.interval.ms well below producer.override.transaction.timeout.ms",
         "KIP-618; seen on Connect 4.3.1", BOTH, (Client.CONNECTOR,)),
    ClientRule("override-transactional-id", Scope.PRODUCER, Level.ERROR, _override_transactional_id,
         "The ids <group.id>-<connector>-<task> are what fences zombie tasks.",
         "remove producer.override.transactional.id", "KIP-618; Worker", BOTH, (Client.CONNECTOR,)),
    ClientRule("sink-read-uncommitted", Scope.CONSUMER, Level.WARNING,
         lambda view, context: isolation(view, context) if _is_sink(context.file.main) else iter(()),
         "A sink that reads uncommitted records writes what is aborted later.",
         "consumer.override.isolation.level=read_committed, or consumer.isolation.level at the worker",
         "ConsumerConfig", EXACTLY, (Client.CONNECTOR,)),
    ClientRule("errors-dropped", Scope.MAIN, Level.WARNING, _tolerance,
         "errors.tolerance=all goes on without the record.",
         "errors.tolerance=none, or errors.deadletterqueue.topic.name (sinks)", "KIP-298", BOTH, (Client.CONNECTOR,)),
    ClientRule("sink-inserts", Scope.MAIN, Level.WARNING, _insert_mode,
         "Sinks are at-least-once: only an idempotent write makes the result exactly-once.",
         "insert.mode=upsert with a primary key", "the JDBC sinks' documentation", EXACTLY, (Client.CONNECTOR,)),
    ClientRule("flink-guarantee", Scope.MAIN, Level.ERROR, _flink_sink,
         "Only exactly-once writes in transactions that end with the checkpoint.",
         "sink.delivery-guarantee=exactly-once", "flink-connector-kafka KafkaSink", EXACTLY, _FLINK),
    ClientRule("flink-prefix", Scope.MAIN, Level.ERROR, _flink_prefix,
         "The prefix names the job's transactions; two jobs with one prefix fence each other.",
         "sink.transactional-id-prefix, one for each job", "flink-connector-kafka KafkaSinkBuilder", EXACTLY, _FLINK),
    ClientRule("flink-timeout", Scope.MAIN, Level.ERROR, _flink_timeout,
         "A transaction that times out before its checkpoint's commit is lost data, also while the job is down.",
         "properties.transaction.timeout.ms above checkpoint interval plus the longest restart, at most the brokers' "
         "transaction.max.timeout.ms", "seen with Flink 2.0.0 and connector 4.0.0-2.0", EXACTLY, _FLINK),
    ClientRule("flink-checkpoints", Scope.MAIN, Level.ERROR, _flink_checkpoints,
         "The sink commits its transactions when a checkpoint completes.",
         "execution.checkpointing.interval, and mode EXACTLY_ONCE", "flink-connector-kafka KafkaSink", EXACTLY, _FLINK),
)  # fmt: skip
"""The rows of engines."""
