"""Spring Boot's and Spring Cloud Stream's properties as settings of Kafka clients, by Spring Boot's relaxed binding.

Within an element of a name dashes, underscores and case do not count, and a dot always separates elements; keys of a
map are taken as they are written (Spring Boot reference, "Relaxed Binding"; KafkaProperties,
KafkaMessageChannelBinder).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from exporter.linter.files import Setting, table

_ELEMENT = re.compile(r"\[([^][]*)\]|([^.\[\]]+)")
_BINDER = "spring.cloud.stream.kafka.binder"
_NAMES = table("names.toml")["spring"]
_MAPS: dict[str, str] = _NAMES["maps"]
_STREAM = "spring.cloud.stream."
_OF_BINDER = re.compile(r"spring\.cloud\.stream\.binders\.([^.]{1,200})\.environment\.(.+)", re.DOTALL)
_OF_BINDING = re.compile(r"spring\.cloud\.stream\.(?:kafka\.)?bindings\.([^.]{1,200})\.")
_TOPOLOGIES = {"kstream", "ktable", "globalktable"}
_NESTED = {"ssl", "security", "properties", "cleanup"}


def _uniform(text: str) -> str:
    return re.sub(r"[-_.]", "", text).lower()


_OWN_NAMES = {client: {_uniform(name): name for name in names} for client, names in _NAMES["own"].items()}
_MISPLACED = {_uniform(name): name for name in _NAMES["misplaced"]}
_NEEDED = {"isolation.level", "processing.guarantee"}
_ID = "transactional.id"


class PropertyPlace(NamedTuple):
    """Where a property belongs: ``owner`` is a part of the configuration, ``name`` Kafka's name in it.

    ``instead`` is what to write where Spring ignores the property, else ""; ``needed`` whether exactly-once needs it.
    """

    owner: str
    name: str
    instead: str = ""
    needed: bool = False


def place(name: str) -> PropertyPlace:
    """The place of a property; the owner is "" for those that concern no client of Kafka."""
    words = [bracketed or plain for bracketed, plain in _ELEMENT.findall(name)]
    uniform = [re.sub(r"[-_]", "", word).lower() for word in words]
    for end in range(3, 9):
        if (owner := _MAPS.get(".".join(uniform[:end]))) and len(words) > end:
            return PropertyPlace(owner, ".".join(words[end:]))
    if uniform[:3] == ["spring", "cloud", "stream"]:
        return _of_stream(words, uniform)
    if uniform[:2] != ["spring", "kafka"] or len(words) < 3:
        return PropertyPlace("", name)
    client = uniform[2]
    if client not in _OWN_NAMES:
        return _misplaced("listener" if client == "listener" else "", "", "".join(uniform[2:]))
    own = _OWN_NAMES[client].get(uniform[3]) if len(words) == 4 else None
    if own is not None:
        return PropertyPlace(client, _ID if own == "transaction-id-prefix" else own.replace("-", "."))
    if len(words) > 3 and uniform[3] in _NESTED:
        return PropertyPlace(client, "")
    return _misplaced(client, client, "".join(uniform[3:]))


def _misplaced(owner: str, client: str, written: str) -> PropertyPlace:
    kafka = _MISPLACED.get(written)
    if kafka is None:
        return PropertyPlace(owner, "")
    if kafka.startswith("transaction") and "timeout" not in kafka:
        return PropertyPlace(owner, "", "spring.kafka.producer.transaction-id-prefix", needed=True)
    parent = f"spring.kafka.{client}." if client else "spring.kafka."
    bound = _OWN_NAMES[client].get(_uniform(kafka)) if client else None
    ways = ([f"{parent}{bound}"] if bound else []) + [f"{parent}properties.{kafka}"]
    return PropertyPlace(owner, "", " or ".join(ways), kafka in _NEEDED)


def _of_stream(words: list[str], uniform: list[str]) -> PropertyPlace:
    match uniform[3:]:
        case ["kafka", "binder", "transaction", "transactionidprefix"]:
            return PropertyPlace("binder transaction", _ID)
        case ["kafka", "binder", "requiredacks"]:
            return PropertyPlace("required acks", "acks")
        case ["kafka", "bindings", _, ("producer" | "consumer") as side, "configuration", _, *_]:
            return PropertyPlace(f"{side} of {words[5]}", ".".join(words[8:]))
        case ["bindings", channel, *_]:
            outgoing = re.search(r"out\d+$|^output$", channel)
            incoming = re.search(r"in\d+$|^input$", channel)
            role = "producer" if outgoing else "consumer" if incoming else "channel"
            return PropertyPlace(f"{role} of {words[4]}", "")
        case ["kafka", "streams", *_]:
            return PropertyPlace("streams", "")
        case ["kafka", *_]:
            return PropertyPlace("binder", "")
    return PropertyPlace("", "")


def by_binder(profiles: Sequence[Sequence[Setting]]) -> dict[str, Sequence[Sequence[Setting]]]:
    """The profiles of each binder for Kafka that has an environment: the application's properties and over them its
    own, without bindings of other binders. Of an application without such binders, its profiles by "".
    """
    found: dict[str, Sequence[Sequence[Setting]]] = {}
    for settings in profiles:
        values = {setting.name: setting.value for setting in settings}
        own = [(match, setting) for setting in settings if (match := _OF_BINDER.fullmatch(setting.name))]
        for binder in dict.fromkeys(match[1] for match, _ in own):
            kind = values.get(f"{_STREAM}binders.{binder}.type", binder)
            whole = [setting for setting in settings if _is_shared(setting.name, binder, kind, values)]
            whole += [setting._replace(name=match[2]) for match, setting in own if match[1] == binder]
            if kind in {"kafka", *_TOPOLOGIES}:
                found[binder] = (*found.get(binder, ()), tuple(whole))
    return found if any(_OF_BINDER.fullmatch(one.name) for settings in profiles for one in settings) else {"": profiles}


def _is_shared(name: str, binder: str, kind: str, values: Mapping[str, str]) -> bool:
    """Return whether a binder of this kind reads the application's property of this name."""
    if match := _OF_BINDING.match(name):
        default = values.get(f"{_STREAM}default-binder", binder)
        return values.get(f"{_STREAM}bindings.{match[1]}.binder", default) == binder
    return not name.startswith(_BINDER) or kind not in _TOPOLOGIES


def from_variable(variable: str) -> str:
    """The property that an environment variable sets; dashes of a name are underscores in it, or left out."""
    for parent in sorted((*_MAPS, *_NAMES["parents"]), key=len, reverse=True):
        prefix = parent.upper().replace(".", "_") + "_"
        if variable.startswith(prefix):
            rest = variable[len(prefix) :].lower()
            return f"{parent}.{rest.replace('_', '.' if parent in _MAPS else '-')}"
    return variable.lower().replace("_", ".")


class _Owners(dict[str, dict[str, Setting]]):
    """The client settings of each part of the configuration, by Kafka's names."""

    def __init__(self, settings: Iterable[Setting]) -> None:
        super().__init__()
        for setting in settings:
            owner, name, *_ = place(setting.name)
            values = self.setdefault(owner, {})
            if name:
                is_enum = (owner, name) == ("consumer", "isolation.level")  # bound by its relaxed spelling, too
                value = setting.value.lower().replace("-", "_") if is_enum else setting.value
                values[name] = setting._replace(name=name, value=value)

    def merged(self, *owners: str) -> dict[str, Setting]:
        """The settings of some, of a name that several have the last."""
        return {name: setting for owner in owners for name, setting in self.get(owner, {}).items()}


def streams(settings: Iterable[Setting]) -> tuple[Setting, ...] | None:
    """The settings of the Kafka Streams application; None where no property configures one."""
    owners = _Owners(settings)
    if not owners.keys() & {"streams", "streams map"}:
        return None
    return tuple(owners.merged("common", "streams", "streams map").values())


def shows_clients(settings: Iterable[Setting]) -> bool:
    """Return whether any property is of a producer, a consumer or a binder, not of all clients alike."""
    return any(owner not in {"", "common", "binder", "required acks"} for owner in _Owners(settings))


def clients(settings: Iterable[Setting]) -> tuple[list[list[Setting]], list[list[Setting]]]:
    """The settings of each producer and of each consumer: those that the application's properties configure.

    Where only common properties are set it is not known which there are: both.
    """
    owners = _Owners(settings)
    writes = bool(owners.keys() & {"producer", "producer map"})
    reads = bool(owners.keys() & {"consumer", "consumer map", "listener"})
    sender = owners.merged("common", "producer", "producer map")
    reader = owners.merged("common", "consumer", "consumer map")
    of_streams = bool(owners.keys() & {"streams", "streams map"})
    binder = any(owner.startswith(("binder", "required acks")) for owner in owners)
    channels = [owner for owner in owners if " of " in owner]
    if not binder and (of_streams or not channels):  # channels of the Streams binder are its topology's
        neither = not writes and not reads and not of_streams
        return [[*sender.values()]] * (writes or neither), [[*reader.values()]] * (reads or neither)
    # The binder makes its clients from Spring Boot's properties and its own.
    acks = Setting("acks", "1 (the binder's default, required-acks)", 0)
    base = {"acks": acks, **owners.merged("required acks"), **sender, **owners.merged("binder", "binder producer")}
    producers = [{**base, **owners[name]} for name in channels if name.startswith("producer")]
    if "binder transaction" in owners:  # one set of properties for all producers
        producers = [{**base, **owners["binder transaction"]}]
    elif not producers and (writes or "binder producer" in owners):
        producers = [base]
    whole = {**reader, **owners.merged("binder", "binder consumer")}
    consumers = [{**whole, **owners[name]} for name in channels if name.startswith("consumer")]
    if not consumers and (reads or "binder consumer" in owners or not producers):
        consumers = [whole]
    return [[*producer.values()] for producer in producers], [[*consumer.values()] for consumer in consumers]
