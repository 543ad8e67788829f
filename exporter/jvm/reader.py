"""One way to ask any JVM: queries in, values out, whether a Jolokia or a jmx_exporter answers.

answer = reader_for(target).read([Query("kafka.server:type=ReplicaManager,name=ProducerIdCount", ("Value",))], by)
"""

from __future__ import annotations

from exporter.jvm.answers import Answer, JvmReader, JvmTarget, Missing, Reading, Way
from exporter.jvm.jmx_exporter import ScrapeReader
from exporter.jvm.jolokia import JolokiaReader
from exporter.jvm.mbeans import MBean, Query, parse_object_name


def reader_for(target: JvmTarget) -> JvmReader:
    """The reader of this JVM. Connects to nothing yet."""
    return (
        JolokiaReader(target.endpoint) if target.way is Way.JOLOKIA else ScrapeReader(target.endpoint, target.profile)
    )


__all__ = [
    "Answer",
    "JvmReader",
    "JvmTarget",
    "MBean",
    "Missing",
    "Query",
    "Reading",
    "Way",
    "parse_object_name",
    "reader_for",
]
