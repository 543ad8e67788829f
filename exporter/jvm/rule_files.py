"""How the public rule files of the jmx_exporter spell Kafka's MBeans, and the rule that adds a dropped one.

There are three spellings: ``jmx_exporter`` (its own examples, and Strimzi's), ``confluent`` (jmx-monitoring-stacks,
Grafana's mixin, and Strimzi's Metrics Reporter) and ``default`` (no rule with a name). Letters' case, and the
``_total`` that versions 1.x add to every counter and take from every gauge, differ within each and mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from exporter.jvm.mbeans import MBean

JMX_EXPORTER, CONFLUENT, DEFAULT = "jmx_exporter", "confluent", "default"
PROFILES = (JMX_EXPORTER, CONFLUENT, DEFAULT)

RENAMED = {"server": "name"}
"""Properties whose label has another name: Debezium's example calls its server so."""
STRING = "\0"
"""Value of a label that holds the attribute's text: series cannot have texts for values."""


class Spelling(NamedTuple):
    """One line of a profile.

    ``of`` is a regular expression over ``domain:type:name:attribute``, whole, where ``name`` is "" for MBeans without
    one. ``series`` is the name of the series, and ``labels`` are those that it must have beyond the MBean's properties.
    """

    profile: str
    of: str
    series: str
    labels: tuple[tuple[str, str], ...] = ()


SPELLINGS = (
    # Meters and histograms of a broker. Only the rules of the examples distinguish a meter's count from a histogram's.
    Spelling(JMX_EXPORTER, r"kafka\.(.+):(.+):(.+)PerSec:Count", r"kafka_\1_\2_\3_total"),
    Spelling(JMX_EXPORTER, r"kafka\.(.+):(.+):(.+):Count", r"kafka_\1_\2_\3_count"),
    Spelling(JMX_EXPORTER, r"kafka\.(.+):(.+):(.+):(\d+)thPercentile", r"kafka_\1_\2_\3", (("quantile", r"0.\4"),)),
    Spelling(JMX_EXPORTER, r"kafka\.(.+):(.+):(.+):Value", r"kafka_\1_\2_\3"),
    # Kafka's own metrics have their numbers as attributes: of a broker in KRaft, of Connect, of clients.
    Spelling(JMX_EXPORTER, r"kafka\.server:(.+)::(.+)", r"kafka_server_\1_\2"),
    Spelling(JMX_EXPORTER, r"kafka\.connect:connect-(.+)-metrics::(.+)", r"kafka_connect_\1_\2"),
    Spelling(
        JMX_EXPORTER,
        r"kafka\.connect:connector-task-metrics::status",
        r"kafka_connect_connector_status",
        (("status", STRING),),
    ),
    Spelling(JMX_EXPORTER, r"kafka\.connect:(.+)-metrics::(.+)", r"kafka_connect_\1_\2"),
    Spelling(
        JMX_EXPORTER, r"kafka\.streams:stream-metrics::state", r"kafka_streams_stream_state", (("state", STRING),)
    ),
    Spelling(JMX_EXPORTER, r"kafka\.streams:stream-(.+)-metrics::(.+)", r"kafka_streams_\1_\2"),
    Spelling(JMX_EXPORTER, r"kafka\..+:(.+)-metrics::(.+)", r"kafka_\1_\2"),
    # Debezium's own example, for the jmx_exporter and for Confluent's images alike.
    Spelling(JMX_EXPORTER, r"debezium\.(.+):connector-metrics::(.+)", r"debezium_metrics_\2", (("plugin", r"\1"),)),
    Spelling(CONFLUENT, r"kafka\.(.+):(.+):(.+):(?:Count|Value)", r"kafka_\1_\2_\3"),
    Spelling(CONFLUENT, r"kafka\.(.+):(.+):(.+):(\d+)thPercentile", r"kafka_\1_\2_\3", (("quantile", r"0.\4"),)),
    Spelling(
        CONFLUENT, r"kafka\.connect:connector-metrics::(.+)", r"kafka_connect_connector_metrics", ((r"\1", STRING),)
    ),
    Spelling(CONFLUENT, r"kafka\.streams:stream-metrics::(.+)", r"kafka_streams_stream_metrics", ((r"\1", STRING),)),
    Spelling(CONFLUENT, r"kafka\.(.+):(.+)::(.+)", r"kafka_\1_\2_\3"),
    # Texts of the Metrics Reporter (KafkaCollector).
    Spelling(CONFLUENT, r"kafka\.(.+):(.+)::(.+)", r"kafka_\1_\2_\3_info", ((r"\3", STRING),)),
    Spelling(DEFAULT, r"(.+):(.+):(.+):(.+)", r"\1_\2_\4", (("name", r"\3"),)),
    Spelling(DEFAULT, r"(.+):(.+)::(.+)", r"\1_\2_\3"),
)


class Spelt(NamedTuple):
    """Names of an attribute on a page: equivalent names, labels that it must have, and the profiles that use them.

    ``text`` is the label that holds the attribute's text, "" for a number.
    """

    names: tuple[str, ...]
    labels: Mapping[str, str]
    text: str
    profile: str


def spelt(mbean: MBean, attribute: str, profile: str = "") -> Iterator[Spelt]:
    """Every spelling of an attribute, or those of one profile, in the order in which to try them."""
    of = ":".join((mbean.domain, mbean.type, mbean.properties.get("name", ""), attribute))
    for spelling in SPELLINGS:
        match = re.fullmatch(spelling.of, of)
        if match is None or (profile and spelling.profile != profile):
            continue
        name = plain(match.expand(spelling.series))
        stem = name.removesuffix("_total")
        labels = {plain(match.expand(label)): value for label, value in spelling.labels}
        text = next((label for label, value in labels.items() if value == STRING), "")
        must = {label: match.expand(value) for label, value in labels.items() if label != text}
        yield Spelt(tuple(dict.fromkeys((name, f"{stem}_total", stem))), must, text, spelling.profile)


def plain(name: str) -> str:
    """A name without what versions and settings write differently: lower case, one underscore for any other sign."""
    return re.sub("[^a-z0-9]+", "_", name.lower())


def squashed(label: str) -> str:
    """The name of a property or label for comparison: ``client-id``, ``client_id`` and ``clientId`` are one."""
    return re.sub("[^a-z0-9]", "", label.lower())


def rule_for(mbean: MBean, attribute: str, profile: str) -> str:
    """The line of ``rules`` that shows this attribute of MBeans like this one, in a spelling of the profile."""
    ways = (way for name in (profile, CONFLUENT, DEFAULT) for way in spelt(mbean, attribute, name))
    way = next(way for way in ways if not way.text)
    properties: list[str] = []
    labels: list[str] = []
    for key, value in mbean.properties.items():
        free = key not in {"type", "name"}
        if free:
            labels.append(f'{re.sub("[^A-Za-z0-9_]", "_", key)}: "${len(labels) + 1}"')
        properties.append(f"{key}={'(.+)' if free else value}")
    labels += [f'{label}: "{value}"' for label, value in way.labels.items()]
    kind = "COUNTER" if attribute == "Count" or attribute.endswith("-total") else "GAUGE"
    tail = f", labels: {{{', '.join(labels)}}}" if labels else ""
    pattern = f"{mbean.domain}<{', '.join(properties)}><>{attribute}:"
    return f"- {{pattern: '{pattern}', name: {way.names[0]}, type: {kind}{tail}}}"
