"""Which application a transactional.id belongs to by its form alone, and the rule that says so: pure functions.

Every pattern is linear in the length of the id, which any client of the cluster chooses.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from exporter.applications.made_up import is_made_up

UUID_ID = "_uuid"
HOST_ID = "_host"
"""The application of ids that consist only of addresses or names of hosts and numbers."""

UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})"
_SEPARATORS = frozenset("-._:/#@|~\\")
_MARK = "\0"
"""Placeholder of the part that names an instance; an id that contains it is not searched for instances."""


class Form(NamedTuple):
    """The application of an id by its form, the kind (``catalogue.APPLICATION_KINDS``), and the rule.

    ``connect`` is the group and ``connector`` the connector where the form names them.
    """

    name: str
    kind: str
    rule: str
    connect: str = ""
    connector: str = ""


_BARE_UUID = re.compile(UUID)
_UUID_LENGTH = 36
# QueryApplicationId of ksqlDB: each transient query (a push query, or one of a console) is a Streams application.
_KSQL = re.compile(r"(?P<application>_confluent-ksql-.*?transient)_.*", re.DOTALL)
# MirrorMaker's dedicated mode (MirrorMakerConfig.workerConfig): group.id=<source>-mm2, three connectors.
_MIRROR_MAKER = re.compile(
    r"(?P<group>.+-mm2)-(?P<connector>Mirror(?:Source|Checkpoint|Heartbeat)Connector)-\d+", re.DOTALL
)
# StreamsProducer: <application.id>-<process UUID>-<thread> (exactly_once_v2), threads counted from 1
# (KafkaStreams.getNextThreadIndex); before 3.0 <application.id>-<0_1> (exactly_once).
_STREAMS_V2 = re.compile(rf"(?P<application>.+)-{UUID}-(?P<thread>\d+)", re.DOTALL)
_STREAMS_V1 = re.compile(r"(?P<application>.+)-\d+_\d+", re.DOTALL)
_STREAMS_V2_DASHES = 6
# <prefix>-<pod of a StatefulSet>-<number> of a pool of producers; Flink's TransactionalIdFactory makes the same form,
# <prefix>-<subtask>-<checkpoint or number>: an id alone shows neither.
_TWO_NUMBERS = re.compile(r"(?P<application>.+)-\d+-\d+", re.DOTALL)
# spring-kafka before 3.0 (EOSMode.V1): <prefix><group>.<topic>.<partition>.
_SPRING = re.compile(r"(?P<application>.+\.[^.]+)\.\d+", re.DOTALL)
_NUMBERED = re.compile(rf"(?P<application>.+?)[-._:/#@|~\\](?:{UUID}|\d+)", re.DOTALL)
# At least three letters before the digits: `s3`, `pay-v2` and `eu1` are names.
_GLUED = re.compile(r"(?P<application>.*(?:[^\W\d_]{3}|(?<![^\W\d_])tx))\d{1,10}", re.DOTALL)
_NAMES_WITH_A_NUMBER = ("oauth", "ipv", "http", "sha", "utf", "web", "base", "route")
_TOKENS = re.compile(r"([-._:/#@|~\\\0])")
# A part within an id, its letters and its number. At the end any number is an instance's; before that one of four
# digits or more, one with a zero before it, and one after a word for an instance. Ten digits are an instant.
_WORD_AND_NUMBER = re.compile(r"(?P<word>[^\W\d_]{3,}?)(?P<number>\d{1,18})")
_FEWEST_DIGITS = 4
_TIME_DIGITS = 10
_INSTANCE_WORDS = (
    "host", "instance", "member", "node", "partition", "pod", "replica", "server", "shard", "slot", "srv", "subtask",
    "svc", "task", "thread", "vm", "vmss", "worker",
)  # fmt: skip
# <id>-p<partition>, and the like for workers, nodes, threads, instances and replicas.
# A nanoid, or a UUID in base64 (Kafka's Uuid), with the two letters of its alphabet that are no letters.
_URL_BASE64 = re.compile(r"(?<=[-._:/#@|~])(?=[0-9A-Za-z]{0,21}[-_])[0-9A-Za-z_-]{21,22}(?=$|-[0-9]{1,3}$)")
_LETTER_AND_NUMBER = re.compile(r"[pwntir]\d{1,6}")
MOST_PARTS = 64
"""Parts of an id that are looked at: an id is up to 32 kB long."""

# The rule, what an id must have one of for its pattern to be tried (a text, and how often), and the pattern.
_INSTANCES: tuple[tuple[str, tuple[tuple[str, int], ...], re.Pattern[str]], ...] = (
    (
        "Spark application id",
        (("application_", 1), ("app-", 1), ("local-", 1), ("spark-", 1), ("attempt_", 1)),
        re.compile(
            r"(?<![0-9A-Za-z])(?:application_\d{13}_\d{4,9}|app-\d{14}-\d{4}|local-\d{13}|spark-[0-9a-f]{32}"
            r"|attempt_\d{12,14}_\d{4}_[mr]_\d{6}_\d{1,9})(?![0-9A-Za-z])"
        ),
    ),
    # WriteKafkaP of Hazelcast: jet.job-<job id>.<job>.<vertex>.<processor>-<number>, an id as Util.idToString has it.
    ("Jet job id", (("jet.job-", 1),), re.compile(r"(?<=jet\.job-)(?:[0-9a-f]{4}-){3}[0-9a-f]{4}(?![0-9a-f])")),
    ("UUID", (("", 32),), re.compile(rf"(?<![0-9a-fA-F])(?:{UUID}|[0-9a-fA-F]{{32}})(?![0-9a-fA-F])")),
    # ReplicaSet: <deployment>-<hash>-<five>, with the alphabets of Kubernetes' rand.SafeEncodeString: no vowels, no 0,
    # 1 and 3; the hash is the digits of a number in it. Also <cron job>-<minutes>-<five>.
    (
        "date",
        (("20", 1),),
        re.compile(
            r"(?<![0-9])20[0-9]{2}([-_.]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12][0-9]|3[01])"
            r"(?:[-_.T]{1,2}[0-2][0-9][-_:.]?[0-5][0-9](?:[-_:.]?[0-5][0-9](?:[.,][0-9]{1,9})?)?Z?)?(?![0-9A-Za-z])"
        ),
    ),
    ("version", ((".", 2),), re.compile(r"(?<![0-9A-Za-z.])v?[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,6}(?![0-9A-Za-z.])")),
    (
        "pod name",
        (("-", 2),),
        re.compile(
            r"(?<=[0-9A-Za-z])-(?:[4-9bcdf]{6,10}|[0-9]{8,10})-(?=[0-9]{0,4}[a-z])[bcdfghjklmnpqrstvwxz2456789]{5}"
            r"(?![0-9A-Za-z])"
            # The pod of a Job or DaemonSet; with a digit, as there are words without a vowel. A node of GKE.
            r"|(?<=[0-9A-Za-z])-(?=[a-z]{0,4}[0-9])(?=[0-9]{0,4}[a-z])[bcdfghjklmnpqrstvwxz2456789]{5}(?=-[0-9]{1,3}$|$)"
            r"|(?<=[0-9A-Za-z])-(?=[a-f]{0,7}[0-9])[0-9a-f]{8}-(?=[a-z]{0,3}[0-9])[0-9a-z]{4}(?![0-9A-Za-z])"
            r"|(?<=[0-9A-Za-z])-0[0-9]{4}-[a-z]{3}(?![0-9A-Za-z])"  # a revision of Cloud Run
        ),
    ),
    (
        "domain",
        ((".internal", 1), (".local", 1), (".lan", 1), (".svc", 1), (".", 3)),
        re.compile(
            r"(?:\.[A-Za-z0-9-]{1,63}){0,8}\.(?:internal|local|localdomain|lan|svc)(?![0-9A-Za-z])"
            r"|(?:\.[A-Za-z0-9-]{1,63}){2,8}\.(?:com|net|org|io|cloud|corp|intra)(?![0-9A-Za-z.])"
        ),
    ),
    (
        "IP address",
        (
            (".", 3),
            *((prefix, 1) for prefix in ("10-", "192-168-", "172-", "169-254-", "100-", "::", "ec2-")),
            (":", 7),
        ),
        re.compile(
            rf"(?<![0-9A-Za-z])(?<![0-9]\.){_OCTET}(?:\.{_OCTET}){{3}}(?!\.?[0-9])"
            rf"|(?<![0-9A-Za-z])ec2-{_OCTET}(?:-{_OCTET}){{3}}(?![0-9A-Za-z])"
            # With dashes only private ones: four numbers may be anything.
            rf"|(?<![0-9A-Za-z])(?:ip-)?(?:10-{_OCTET}-|192-168-|172-(?:1[6-9]|2[0-9]|3[01])-|169-254-"
            rf"|100-(?:6[4-9]|[7-9][0-9]|1[01][0-9]|12[0-7])-){_OCTET}-{_OCTET}(?![0-9A-Za-z])"
            r"|(?<![0-9A-Za-z:])(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}(?![0-9A-Za-z:])"
            r"|(?<![0-9A-Za-z:])(?:fe80|f[cd][0-9a-f]{2}|2[0-9a-f]{3})(?::[0-9a-f]{1,4}){0,6}::"
            r"(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,5})?(?![0-9A-Za-z:])"
        ),
    ),
    # An instance of EC2, Windows' default names, and a container's: the first 12 digits of its id.
    (
        "host name",
        (("", 10),),
        re.compile(
            r"(?<![0-9A-Za-z])(?:(?:af|ap|ca|eu|il|me|mx|sa|us)-[a-z]{4,9}-[1-9][a-f](?![0-9A-Za-z])"
            r"|i-[0-9a-f]{17}|(?:DESKTOP|LAPTOP)-[0-9A-Z]{7}|WIN-[0-9A-Z]{11}|(?=[0-9a-f]{0,11}[0-9])(?=[0-9]{0,11}[a-f])[0-9a-f]{12})(?![0-9A-Za-z])"
        ),
    ),
)


def form_of(transactional_id: str) -> Form:
    """The application of an id by its form; ``transactional_id`` is not empty."""
    if len(transactional_id) == _UUID_LENGTH and _BARE_UUID.fullmatch(transactional_id):
        return Form(UUID_ID, "other", "UUID")
    return _framework(transactional_id) or _instance(transactional_id) or _numbered(transactional_id)


def counted_from_zero(transactional_id: str) -> str | None:
    """The application of an id that resembles one of Streams but is not: Streams counts its threads from 1."""
    match = _streams_v2(transactional_id)
    return match["application"] if match is not None and not int(match["thread"][:10]) else None


def _streams_v2(transactional_id: str) -> re.Match[str] | None:
    return _STREAMS_V2.fullmatch(transactional_id) if transactional_id.count("-") >= _STREAMS_V2_DASHES else None


def _framework(transactional_id: str) -> Form | None:
    if transactional_id.startswith("_") and (match := _KSQL.fullmatch(transactional_id)):
        return Form(match["application"], "streams", "ksqlDB transient query")
    match = _streams_v2(transactional_id)
    if match is not None and int(match["thread"][:10]):
        rule = "ksqlDB query" if transactional_id.startswith("_confluent-ksql-") else "Streams, exactly_once_v2"
        return Form(match["application"], "streams", rule)
    if "_" in transactional_id and (match := _STREAMS_V1.fullmatch(transactional_id)):
        return Form(match["application"], "streams", "Streams, exactly_once")
    if "-mm2-" in transactional_id and (match := _MIRROR_MAKER.fullmatch(transactional_id)):
        group, connector = match["group"], match["connector"]
        return Form(f"{group}-{connector}", "connect_task", "MirrorMaker", group, connector)
    return None


def _instance(transactional_id: str) -> Form | None:
    """The application by the rest of an id without the parts that name an instance; None where it has none."""
    if _MARK in transactional_id:
        return None
    rules, left = [], transactional_id
    for rule, needs, pattern in _INSTANCES:
        for text, times in needs:
            if text in transactional_id and (times == 1 or transactional_id.count(text) >= times):
                left, count = pattern.subn(_MARK, left)
                if count:
                    rules.append(rule)
                break
    match = _URL_BASE64.search(left)
    if match is not None and is_made_up(match[0].replace("-", "").replace("_", "")):
        rules.append("random part")
        left = left[: match.start()] + _MARK + left[match.end() :]
    parts, rule = _without_made_up(_TOKENS.split(left))
    if rule:
        rules.append(rule)
        left = "".join(parts)
    if not rules:
        return None
    name = _stem(left)
    if not name:
        return Form(UUID_ID if rules == ["UUID"] else HOST_ID, "other", " and ".join(rules))
    return Form(name, "producer", " and ".join(rules))


def _without_made_up(parts: list[str]) -> tuple[list[str], str]:
    """The parts of an id, separators included, with marks for those that are random and for numbers of instances, and
    the rule that found some, "" where none did.
    """
    if len(parts) > 2 * MOST_PARTS:
        return parts, ""
    found = list(parts)
    rules = []
    words = [at for at in range(0, len(parts), 2) if parts[at]]
    for before, at in pairwise((-1, *words)):
        part = parts[at]
        last = at == words[-1]
        if is_made_up(part):
            found[at] = _MARK
            rules.append("random part")
        elif _is_number(part):
            followed = not last and not all(map(_is_number, filter(None, parts[at + 2 :: 2])))
            after_word = before >= 0 and parts[before].lower() in _INSTANCE_WORDS
            if len(part) >= _TIME_DIGITS or (followed and (len(part) >= _FEWEST_DIGITS or after_word)):
                found[at] = _MARK
                rules.append("number of an instance")
            elif last and before >= 0 and at < len(parts) - 1:  # before a separator
                found[at] = _MARK
                rules.append("number at the end")
        elif last and before >= 0 and _LETTER_AND_NUMBER.fullmatch(part):
            found[at] = _MARK
            rules.append("letter and number at the end")
        elif not last and (match := _WORD_AND_NUMBER.fullmatch(part)) is not None and _is_instance(match):
            found[at] = match["word"]
            rules.append("number of an instance")
    return found, " and ".join(dict.fromkeys(rules))


def _is_number(part: str) -> bool:
    return part.isascii() and part.isdigit()


def _is_instance(match: re.Match[str]) -> bool:
    word, number = match["word"].lower(), match["number"]
    if word.endswith(_NAMES_WITH_A_NUMBER):
        return False
    return len(number) >= _FEWEST_DIGITS or number.startswith("0") or word.endswith(_INSTANCE_WORDS)


def _stem(marked: str) -> str:
    """The text without marks, and without the numbers at its end; "" where nothing else is in it."""
    tokens = _TOKENS.split(marked)
    while tokens and _is_number_or_separator(tokens[-1]):
        tokens.pop()
    kept: list[str] = []
    for token in tokens:
        if token != _MARK:
            kept.append(token)
            continue
        while kept and (not kept[-1] or kept[-1] in _SEPARATORS):
            kept.pop()
    return "".join(kept).strip("".join(_SEPARATORS))


def _is_number_or_separator(token: str) -> bool:
    return not token or token == _MARK or token in _SEPARATORS or (token.isascii() and token.isdigit())


def _numbered(transactional_id: str) -> Form:
    if match := _TWO_NUMBERS.fullmatch(transactional_id):
        return Form(match["application"], "producer", "two numbers at the end")
    if "." in transactional_id and (match := _SPRING.fullmatch(transactional_id)):
        return Form(match["application"], "producer", "Spring: prefix, group, topic, partition")
    if match := _NUMBERED.fullmatch(transactional_id):
        return Form(match["application"], "producer", "number at the end")
    match = _GLUED.fullmatch(transactional_id)
    if match is not None and not match["application"].lower().endswith(_NAMES_WITH_A_NUMBER):
        return Form(match["application"], "producer", "number at the end, without a separator")
    return Form(transactional_id, "producer", "the id itself")
