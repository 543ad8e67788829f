"""The clients in a settings file, by the forms that people keep them in: custom resources, manifests, compose files,
environment variables, lists of connectors, Quarkus, Flink SQL, MirrorMaker, Helm values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

from exporter.linter import spring, sql
from exporter.linter.files import FileError, Scalar, Setting, Tree, documents, flat
from exporter.linter.views import Client, kind_of, may_be

_MIRROR_SOURCE = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
_SUFFIXES = {".properties", ".yml", ".yaml", ".json", ".sql", ".conf"}
_LINE_OF_PROPERTIES = re.compile(r"[\w.\->%\[\]\"]+[ \t]*=.*|[#!].*|[ \t]*")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_ASSIGNED = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.]*)[ \t]*=[ \t]*(.*)", re.DOTALL)
_SPRING_DEFAULT = re.compile(r"\$\{[^${}:]{1,200}:([^${}]{0,1000})\}")
_SHELL_DEFAULT = re.compile(r"\$\{\w{1,200}:?-([^${}]{0,1000})\}")
_IDS = ("transactional.id", "transaction-id-prefix")
_PROFILE = re.compile(r"%([\w,-]{1,200})\.(.*)", re.DOTALL)
_SPRING = ("spring.kafka.", "spring.cloud.stream.kafka.", "spring.cloud.stream.binders.")
_ON_PROFILE = {"spring.config.activate.on-profile", "spring.profiles", "spring.config.activate.on-cloud-platform"}
_QUARKUS = re.compile(r"(?:%[\w,-]{1,200}\.)?(?:mp\.messaging\.(?:incoming|outgoing)|(?:quarkus\.)?kafka-streams)\.")
_OF_QUARKUS = re.compile(
    r'(?:mp\.messaging\.(?:connector\.smallrye-kafka|(?P<direction>incoming|outgoing)\.(?P<channel>"[^"]{1,300}"|'
    r"[^.]{1,300}))|(?:quarkus\.(?=kafka-s))?(?P<owner>kafka(?:-streams)?))\.(?P<name>.+)",
    re.DOTALL,
)
_SMALLRYE = Setting("connector", "smallrye-kafka", 0)
_CHANNELS = {
    "outgoing": (Client.PRODUCER, Setting("acks", "1 (SmallRye's default)", 0)),
    "incoming": (Client.CONSUMER, Setting("enable.auto.commit", "false", 0)),
}
"""What ReactiveKafkaProducer and ReactiveKafkaConsumer of smallrye-reactive-messaging set where a channel does not."""
_CHANNEL_VARIABLE = re.compile(
    r"MP_MESSAGING_(INCOMING|OUTGOING)_([A-Z0-9_]{1,200}?)_(CONNECTOR|TOPIC|TRANSACTIONAL_ID|ACKS|ISOLATION_LEVEL|"
    r"ENABLE_AUTO_COMMIT|ENABLE_IDEMPOTENCE|AUTO_OFFSET_RESET|GROUP_ID|BOOTSTRAP_SERVERS|RETRIES|TRANSACTION_TIMEOUT_MS)"
)
_DEBEZIUM = re.compile(r"debezium\.sink\.(?:kafka|config)\.producer\.")  # the latter of its operator's resource
_IMAGES = (
    ("CONNECT_", Client.CONNECT_WORKER),
    ("KSQL_", Client.KSQLDB),
    ("KAFKA_CFG_", Client.BROKER),
    ("KAFKA_", Client.BROKER),
)
_OF_DEBEZIUMS_IMAGE = {"GROUP_ID", "CONFIG_STORAGE_TOPIC", "OFFSET_STORAGE_TOPIC", "STATUS_STORAGE_TOPIC"}
_ROOTS = {"spring", "mp", "quarkus", "kafka-streams", "execution", "debezium"}
"""First words of names that are nested mappings in YAML."""
_OF_A_REFERENCE = Scalar("${valueFrom}", 1)
_GROUPS = {"kafka.strimzi.io", "eventstreams.ibm.com", "platform.confluent.io", "debezium.io"}
_MANAGED = {"kafka.auth.mode", "kafka.api.key", "kafka.service.account.id"}


class ClientPart(NamedTuple):
    """One client of a file. ``name`` is its place in the file for people, "" where it is the whole file.

    ``profiles`` has its settings under the names of its kind, once for each profile. Where it is ``partial`` other
    settings may come from elsewhere. ``reason`` is why it is not judged. ``skips`` are rules that do not hold for it.
    """

    name: str
    kind: Client | None
    profiles: tuple[tuple[Setting, ...], ...]
    partial: bool = False
    reason: str = ""
    skips: frozenset[str] = frozenset()

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings of all profiles, each once."""
        return tuple(dict.fromkeys(setting for profile in self.profiles for setting in profile))


def parts(text: str, file: str) -> list[ClientPart]:
    """The clients of a text. ``file`` is the name of the file. Raises FileError where the text cannot be read."""
    name, suffix = file.lower(), PurePath(file).suffix.lower()
    if suffix == ".sql":
        return list(_tables(text, 0, ""))
    if suffix == ".env" or name.startswith(".env"):
        return list(_environment(_assignments(text.splitlines(), 1), ""))
    trees = documents(text, suffix)
    found = list(_of_documents(trees, file, ""))
    if re.match(r"(application|bootstrap)-", name):  # the properties of one profile, over those of another file
        found = [part._replace(partial=True) for part in found]
    known = [part for part in found if part.kind not in {None, Client.BROKER}]
    return known or found or [ClientPart("", None, tuple(flat(tree) for tree in trees))]


def _of_documents(trees: Sequence[Tree], file: str, name: str) -> Iterator[ClientPart]:
    flats = [flat(tree) for tree in trees]
    if any(setting.name.startswith(_SPRING) for settings in flats for setting in settings):
        yield from _spring(flats, name)
    else:
        for tree in trees:
            yield from _of_document(tree, file, name)


def _of_document(tree: Tree, file: str, name: str) -> Iterator[ClientPart]:
    resource = _of_resource(tree)
    if resource is not None:
        yield from resource
    elif isinstance(tree, dict) and _text(tree, "kind") == "List":
        for item in _items(tree.get("items")):
            yield from _of_document(item, file, name)
    elif found := list(_of_settings(flat(tree), name, file)):
        yield from found
    else:
        found = list(_below(tree, _title(tree) or name))
        job = [part for part in found if part.kind is Client.FLINK and "table " not in part.name]
        for part in found:  # checkpoints of a job's resource hold for the tables of its script
            more = tuple(job[0].settings) if job and part.kind is Client.FLINK and part not in job else ()
            yield part._replace(profiles=((*part.settings, *more),)) if more else part


def _text(tree: Tree | None, *path: str) -> str:
    """The text at a place of a document; "" where there is none."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree.value if isinstance(tree, Scalar) else ""


def _items(tree: Tree | None) -> list[Tree]:
    return tree if isinstance(tree, list) else []


def _title(tree: Tree) -> str:
    return f"{_text(tree, 'kind')} {_text(tree, 'metadata', 'name')}".strip() if _text(tree, "apiVersion") else ""


def _of_resource(tree: Tree) -> list[ClientPart] | None:
    """The clients of a custom resource of Strimzi, or of Confluent for Kubernetes; None for anything else."""
    spec = tree.get("spec") if isinstance(tree, dict) else None
    group = _text(tree, "apiVersion").partition("/")[0]
    if not isinstance(spec, dict) or group not in _GROUPS:
        return None
    name, config = _title(tree), flat(spec.get("config") or spec.get("configs") or {})
    match _text(tree, "kind"):
        case "DebeziumServer":
            return list(_of_settings(flat(spec, "debezium"), name))
        case "KafkaConnect":
            return [ClientPart(name, Client.CONNECT_WORKER, (config,))]
        case "KafkaConnector" | "Connector":
            return [_connector(name, (*config, *_class(spec.get("class"))))]
        case "KafkaMirrorMaker2":
            return _mirrors(name, spec)
        case "Kafka":
            return [ClientPart(name, Client.BROKER, (config,))]
        case "Connect":
            return [part._replace(kind=Client.CONNECT_WORKER) for part in _below(spec, name)][:1]
        case "KafkaBridge":  # it begins no transaction
            sides = [(side, _cut(flat(spec), f"{side}.config.")) for side in (Client.PRODUCER, Client.CONSUMER)]
            skips = frozenset({"no-transactional-id"})
            return [ClientPart(f"{name} {side}", side, (found,), skips=skips) for side, found in sides if found]
    return list(_below(spec, name))


def _cut(settings: Iterable[Setting], prefix: str) -> tuple[Setting, ...]:
    return tuple(s._replace(name=s.name[len(prefix) :]) for s in settings if s.name.startswith(prefix))


def _class(tree: Tree | None) -> list[Setting]:
    return [Setting("connector.class", tree.value, tree.line)] if isinstance(tree, Scalar) else []


def _mirrors(name: str, spec: dict[str, Tree]) -> list[ClientPart]:
    target = spec.get("target") or next(
        (item for item in _items(spec.get("clusters")) if _text(item, "alias") == _text(spec, "connectCluster")), None
    )
    worker = flat(target.get("config") or {}) if isinstance(target, dict) else ()
    found = [
        ClientPart(
            f"{name} worker", Client.CONNECT_WORKER, (worker,), skips=frozenset({"worker-sinks-read-uncommitted"})
        )
    ]
    for mirror in _items(spec.get("mirrors")):
        source = mirror.get("sourceConnector") if isinstance(mirror, dict) else None
        if isinstance(source, dict):
            settings = (*flat(source.get("config") or {}), Setting("connector.class", _MIRROR_SOURCE, 0))
            title = _text(mirror, "sourceCluster") or _text(mirror, "source", "alias")
            found.append(_connector(f"{name} mirror of {title}", settings))
    return found


def _connector(name: str, settings: tuple[Setting, ...]) -> ClientPart:
    names = {setting.name for setting in settings}
    reason = ""
    if names & _MANAGED:
        reason = "is a managed connector of Confluent Cloud, which does not have Connect's exactly-once settings: "
        reason += "whether it has exactly-once is on its page of Confluent's documentation"
    elif names & {"offset.storage", "offset.storage.file.filename"}:
        reason = "are the settings of Debezium's engine inside an application: it has no exactly-once"
    return ClientPart(name, Client.CONNECTOR, (settings,), reason=reason)


def _of_settings(settings: Sequence[Setting], name: str, file: str = "") -> Iterator[ClientPart]:
    """The clients of settings that belong together."""
    names = [setting.name for setting in settings]
    if any(one.startswith(_SPRING) for one in names):
        yield from _spring([settings], name)
    elif any(_QUARKUS.match(one) for one in names):
        yield from _quarkus(settings, name)
    elif sink := [s._replace(name=_DEBEZIUM.sub("", s.name)) for s in settings if _DEBEZIUM.match(s.name)]:
        skips = frozenset({"no-transactional-id"})  # Debezium Server's sink begins no transaction
        yield ClientPart(_joined(name, "debezium.sink.kafka.producer"), Client.PRODUCER, (tuple(sink),), skips=skips)
    elif any(_VARIABLE.fullmatch(one) for one in names):
        yield from _environment(settings, name)
    elif (kind := kind_of(settings, file)) is Client.CONNECTOR:
        yield _connector(name, tuple(settings))
    elif kind:  # a file of ksqlDB without brokers is its command line's, or a part
        yield ClientPart(name, kind, (tuple(settings),), kind is Client.KSQLDB and "bootstrap.servers" not in names)


def _below(tree: Tree, name: str) -> Iterator[ClientPart]:
    """The clients in the mappings, lists and embedded files below a place of a document."""
    if isinstance(tree, Scalar):
        yield from _embedded(tree, name)
    elif isinstance(tree, list):
        texts = [leaf for leaf in tree if isinstance(leaf, Scalar)]
        assigned = [setting for leaf in texts for setting in _assignments([leaf.value], leaf.line)]
        for item in tree:
            if isinstance(item, dict) and item.keys() in ({"name", "value"}, {"name", "valueFrom"}):
                value = item.get("value", _OF_A_REFERENCE)
                if isinstance(value, Scalar):
                    assigned.append(Setting(_text(item, "name"), value.value, value.line))
        yield from _partial(_of_settings(assigned, name))
        for at, item in enumerate(tree if not assigned else ()):
            yield from _below(item, f"{name}[{_text(item, 'name') or at}]")
    elif isinstance(config := tree.get("config"), dict) and "connector.class" in config:
        yield _connector(_text(tree, "name") or name, flat(config))
    elif _text(tree, "connector", "state") and "tasks" in tree:
        yield ClientPart(
            name, None, (), reason="is the status of a connector, without its settings (expand=info has them)"
        )
    else:
        own = [key for key, value in tree.items() if key in _ROOTS or _is_setting(key, value)]
        own += [key for key in ("acks", "retries") if own and isinstance(tree.get(key), Scalar)]  # no dots show it
        yield from _partial(_of_settings([setting for key in own for setting in flat(tree[key], key)], name))
        for key, value in tree.items():
            if key not in own:
                yield from _below(value, _joined(name, key, "."))


def _is_setting(key: str, value: Tree) -> bool:
    embedded = isinstance(value, Scalar) and "\n" in value.value
    return (
        not embedded
        and PurePath(key).suffix not in _SUFFIXES
        and (key[0:1] == "%" or (not isinstance(value, dict) and ("." in key or bool(_VARIABLE.fullmatch(key)))))
    )


def _joined(name: str, more: str, sign: str = " ") -> str:
    return f"{name}{sign}{more}" if name else more


def _partial(found: Iterable[ClientPart]) -> Iterator[ClientPart]:
    """What is found inside a document is a part of a configuration; a connector's is always whole."""
    return (part._replace(partial=part.kind is not Client.CONNECTOR) for part in found)


def _embedded(leaf: Scalar, name: str) -> Iterator[ClientPart]:
    """The clients of a file that is a text of another, such as a value of a ConfigMap."""
    suffix = PurePath(name).suffix
    if sql.has_tables(leaf.value):
        yield from _tables(leaf.value, leaf.line, name)
    elif (
        suffix in _SUFFIXES
        or leaf.value.lstrip()[:1] == "{"
        or ("\n" in leaf.value and all(map(_LINE_OF_PROPERTIES.fullmatch, leaf.value.splitlines())))
    ):
        try:
            trees = documents(leaf.value, suffix, leaf.line)
        except FileError:
            return  # a template, or no settings at all
        yield from _partial(_of_documents(trees, "", name))


def _tables(text: str, lines_before: int, name: str) -> Iterator[ClientPart]:
    for table in sql.tables(text, lines_before):
        roles = [Setting("sink", table.name, 0)] * table.is_written + [Setting("scan", table.name, 0)] * table.is_read
        yield ClientPart(_joined(name, f"table {table.name}"), Client.FLINK, ((*table.options, *roles),))


def _assignments(lines: Iterable[str], first: int) -> list[Setting]:
    """Lines of the form NAME=VALUE, as in a file of variables or a list of them."""
    matches = ((at, _ASSIGNED.fullmatch(line)) for at, line in enumerate(lines, first))
    return [Setting(match[1], match[2].strip().strip("\"'"), at) for at, match in matches if match]


def _environment(settings: Sequence[Setting], name: str) -> Iterator[ClientPart]:
    """The clients that environment variables configure. Confluent's images: `_` is a dot, `__` a dash, `___` itself."""
    own: list[Setting] = []
    quarkus = any(setting.name.startswith(("QUARKUS_", "MP_MESSAGING_")) for setting in settings)
    for prefix, kind in _IMAGES:
        variables = [*_cut(settings, prefix)]
        variables += [s for s in settings if kind is Client.CONNECT_WORKER and s.name in _OF_DEBEZIUMS_IMAGE]
        converted = tuple(_resolved([s._replace(name=_of_image(s.name)) for s in variables], _SHELL_DEFAULT))
        if kind_of(converted) is kind:
            yield ClientPart(name, kind, (converted,), partial=True)
    for setting in settings:
        variable = setting.name
        dotted = variable.lower().replace("_", ".")
        if variable.startswith(("KAFKA_STREAMS_", "QUARKUS_KAFKA_STREAMS_")):
            own += [setting._replace(name=f"kafka-streams.{dotted.partition('streams.')[2]}")] * quarkus
        elif match := _CHANNEL_VARIABLE.fullmatch(variable):
            words = (match[1], match[2], match[3].replace("_", "."))
            own.append(setting._replace(name=f"mp.messaging.{'.'.join(words)}".lower()))
        elif variable.startswith("DEBEZIUM_SINK_KAFKA_PRODUCER_"):
            own.append(setting._replace(name=dotted))
        elif variable.startswith("SPRING_"):
            own.append(setting._replace(name=spring.from_variable(variable)))
        elif not _VARIABLE.fullmatch(variable):
            own.append(setting)
    yield from _partial(_of_settings(list(_resolved(own, _SHELL_DEFAULT)), name))


def _of_image(variable: str) -> str:
    return re.sub("_{1,3}", lambda match: {1: ".", 2: "-", 3: "_"}[len(match[0])], variable.lower())


def _resolved(settings: Iterable[Setting], default: re.Pattern[str]) -> Iterator[Setting]:
    """Settings with the defaults of their placeholders, but for ids: those are judged by what changes in them."""
    for setting in settings:
        value = setting.value
        for _ in range(5 if "${" in value and not setting.name.lower().endswith(_IDS) else 0):
            value = default.sub(r"\1", value)
        yield setting._replace(value=value)


def _merged(documents_of_one: Iterable[Sequence[Setting]]) -> dict[str, Setting]:
    return {setting.name: setting for settings in documents_of_one for setting in settings}


def _spring(flats: Sequence[Sequence[Setting]], name: str) -> Iterator[ClientPart]:
    """A document of a profile is merged over those without one; of those alone only where there is no profile."""
    base: list[Sequence[Setting]] = []
    by_profile: dict[str, list[Sequence[Setting]]] = {}
    for settings in flats:
        profile = next(
            (s.value for s in settings if s.name in _ON_PROFILE or s.name.startswith("spring.profiles[")), ""
        )
        (by_profile.setdefault(profile, []) if profile else base).append(settings)
    variants = [_merged([*base, *documents_of_one]) for documents_of_one in by_profile.values()] or [_merged(base)]
    profiles = [tuple(_resolved(variant.values(), _SPRING_DEFAULT)) for variant in variants]
    for binder, of_binder in spring.by_binder(profiles).items():
        title = _joined(name, f"binder {binder}") if binder else name
        yield ClientPart(
            title, Client.SPRING, tuple(map(tuple, of_binder)), partial=not any(map(spring.shows_clients, of_binder))
        )
        streams = [found for settings in of_binder if (found := spring.streams(settings)) is not None]
        if streams:
            yield ClientPart(_joined(title, "streams"), Client.STREAMS, tuple(streams))


def _quarkus(settings: Sequence[Setting], name: str) -> Iterator[ClientPart]:
    """The channels of SmallRye and the Streams application, in the profile ``prod``, that of a built program."""
    profiled = [(_PROFILE.fullmatch(setting.name), setting) for setting in settings]
    plain = {setting.name: setting for match, setting in profiled if match is None}
    prod = {m[2]: s._replace(name=m[2]) for m, s in profiled if m is not None and "prod" in m[1].split(",")}
    owners: dict[str, dict[str, Setting]] = {"connector": {}, "kafka": {}, "kafka-streams": {}}
    for setting in _resolved({**plain, **prod}.values(), _SPRING_DEFAULT):
        if match := _OF_QUARKUS.fullmatch(setting.name):
            owner = (
                f"{match['direction']} channel {match['channel']}"
                if match["channel"]
                else match["owner"] or "connector"
            )
            key = match["name"].replace("-", ".") if owner == "kafka-streams" else match["name"]
            owners.setdefault(owner, {})[key] = setting._replace(name=key)
    for owner, own in owners.items():
        direction, is_channel, _ = owner.partition(" channel ")
        if is_channel and own.get("connector", _SMALLRYE).value == _SMALLRYE.value:
            kind, default = _CHANNELS[direction]
            merged = {default.name: default, **owners["kafka"], **owners["connector"], **own}
            yield ClientPart(_joined(name, owner), kind, (tuple(merged.values()),), "kafka-configuration" in own)
    if owners["kafka-streams"]:
        yield ClientPart(_joined(name, "kafka-streams"), Client.STREAMS, (tuple(owners["kafka-streams"].values()),))


def of_kind(found: list[ClientPart], kind: Client | None) -> list[ClientPart]:
    """The parts of a kind that was named: those that are of it, else those that have a name of it, as that kind."""
    if kind is None:
        return found
    if of_it := [part for part in found if part.kind is kind]:
        return of_it
    return [part._replace(kind=kind if may_be(part.settings, kind) else None, reason="") for part in found]
