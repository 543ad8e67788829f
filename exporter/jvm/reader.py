"""One interface to read any JVM: queries to values, by a Jolokia agent or a jmx_exporter.

answer = reader_for(target).read([MBeanQuery("kafka.server:type=ReplicaManager,name=ProducerIdCount", ("Value",))], by)
"""

from __future__ import annotations

from exporter.jvm.answers import AgentKind, JvmAnswer, JvmReader, JvmTarget, MBeanValue, Missing
from exporter.jvm.jmx_exporter import ScrapeReader
from exporter.jvm.jolokia import JolokiaReader
from exporter.jvm.mbeans import MBean, MBeanQuery, parse_object_name


def reader_for(target: JvmTarget) -> JvmReader:
    """The reader of this JVM. Connects to nothing yet."""
    return (
        JolokiaReader(target.endpoint)
        if target.way is AgentKind.JOLOKIA
        else ScrapeReader(target.endpoint, target.profile)
    )


__all__ = [
    "AgentKind",
    "JvmAnswer",
    "JvmReader",
    "JvmTarget",
    "MBean",
    "MBeanQuery",
    "MBeanValue",
    "Missing",
    "parse_object_name",
    "reader_for",
]
