"""Known faults of versions that break exactly-once: a table, and the check that compares it with what runs. Pure.

To add a row: a fault whose affected and fixed versions its source states, and what it looks like here. ``AS_OF`` is the
date at which the sources were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from exporter.connect.facts import ConnectState
from exporter.posture.check import PostureCheck, Rule
from exporter.posture.software_version import Version, software_version
from exporter.telemetry.facts import ClientSoftware

AS_OF = "2026-11-25"


class Component(StrEnum):
    """The software that a fault is of."""

    BROKER = "broker"
    CONNECT = "Kafka Connect"
    STREAMS = "Kafka Streams"
    LIBRDKAFKA = "librdkafka"
    ICEBERG_SINK = "Iceberg sink connector"


class Span(NamedTuple):
    """Affected versions: from ``first`` on, and before ``fixed``; None where no release is known to have the fix."""

    first: Version
    fixed: Version | None


class KnownFault(NamedTuple):
    """One row. ``looks_like`` is what an operator sees of it here; ``source`` states the versions."""

    issue: str
    component: Component
    affected: tuple[Span, ...]
    what: str
    looks_like: str
    source: str


FAULTS = (
    KnownFault(
        "KAFKA-19690",
        Component.BROKER,
        (Span((3, 6), (3, 9, 2)), Span((4, 0), (4, 0, 2)), Span((4, 1), (4, 1, 1))),
        "a producer that writes after its transaction timed out gets INVALID_TXN_STATE, which is fatal, in the place of"
        " INVALID_PRODUCER_EPOCH, from which it recovers",
        "producers and Kafka Streams applications that end with INVALID_TXN_STATE after a timeout or a fence",
        "https://github.com/apache/kafka/pull/20534",
    ),
    KnownFault(
        "KAFKA-15653",
        Component.BROKER,
        (Span((3, 6), (3, 6, 1)),),
        "verifying transactions (KIP-890) breaks writes of compressed batches",
        "transactional producers that fail with INVALID_RECORD or UNKNOWN_SERVER_ERROR",
        "https://github.com/apache/kafka/pull/15244",
    ),
    KnownFault(
        "KAFKA-19367",
        Component.BROKER,
        (Span((4, 0), (4, 0, 1)),),
        "Transactions V2: an InitProducerId that aborts an open transaction raises the epoch twice, at the end of the"
        " epochs beyond the largest one",
        "an id that cannot initialise after some 32,000 transactions, with UNKNOWN_SERVER_ERROR",
        "https://github.com/apache/kafka/pull/19910",
    ),
    KnownFault(
        "KAFKA-20090",
        Component.BROKER,
        (Span((4, 0), (4, 3)),),
        "Transactions V2: a timeout at the last producer epoch may leave the transaction Ongoing for good",
        "an overdue transaction whose producer epoch is 32766 or 32767, and an LSO that does not move",
        "https://github.com/apache/kafka/pull/21506",
    ),
    KnownFault(
        "KAFKA-15059",
        Component.CONNECT,
        (Span((3, 3), (3, 6)),),
        "zombies of an exactly-once source are not fenced while a rebalance is pending, and its tasks fail",
        "source tasks that fail at the start of a connector, in MirrorMaker 2 most of all",
        "https://github.com/apache/kafka/pull/13819",
    ),
    KnownFault(
        "KAFKA-16017",
        Component.STREAMS,
        (Span((2, 6), (3, 6, 2)),),
        "a task that is closed while it restores after a corruption checkpoints offsets that it has not restored",
        "a state store that lacks records after TaskCorruptedException and a rebalance",
        "https://github.com/apache/kafka/pull/15044",
    ),
    KnownFault(
        "KAFKA-16903",
        Component.STREAMS,
        (Span((2, 6), (3, 8)),),
        "exactly_once_v2: a task does not know of a send of another task that failed in its transaction",
        "stream threads that end with InvalidTxnStateException",
        "https://github.com/apache/kafka/pull/16222",
    ),
    KnownFault(
        "KAFKA-20685",
        Component.STREAMS,
        (Span((4, 2), (4, 3)),),
        "after a crash, a state store may keep writes of a transaction that was rolled back",
        "results of a stateful exactly_once_v2 application that count records twice after an unclean end",
        "https://github.com/apache/kafka/pull/22548",
    ),
    KnownFault(
        "librdkafka 3575",
        Component.LIBRDKAFKA,
        (Span((1, 4), (1, 6, 2)), Span((1, 7), (1, 8, 2))),
        "after quick changes of a leader, records that were sent before in the transaction are lost by its commit",
        "a committed transaction without some of its records; OUT_OF_ORDER_SEQUENCE_NUMBER errors of Produce before it",
        "https://github.com/confluentinc/librdkafka/releases/tag/v1.6.2",
    ),
    KnownFault(
        "iceberg 17340",
        Component.ICEBERG_SINK,
        (Span((1, 11), None),),
        "after a rebalance in a commit cycle, the same data files are committed twice",
        "rows that are twice in the table; an audit of the table finds duplicates",
        "https://github.com/apache/iceberg/pull/17933",
    ),
)

RULE = Rule(
    "known_faults",
    "This version has a fault that breaks exactly-once, whatever the settings are.",
    "a version that has the fix",
)
_CLIENTS = {"librdkafka": Component.LIBRDKAFKA}
"""Names of software that clients push."""
# MetadataVersion: the first level of each release, which says at least how new the brokers are.
_LEVELS: tuple[tuple[int, Version], ...] = (
    (4, (3, 3)),
    (8, (3, 4)),
    (9, (3, 5)),
    (12, (3, 6)),
    (15, (3, 7)),
    (20, (3, 8)),
    (21, (3, 9)),
    (22, (4, 0)),
    (26, (4, 1)),
    (28, (4, 2)),
    (30, (4, 3)),
    (31, (4, 4)),
)


class Software(NamedTuple):
    """A running version of a component, as the subject of a check. ``version`` is None where it is not known; with
    ``or_later`` it is a lower bound, of a ``vendor_build`` the release that it was made of; ``how`` says how to know
    more.
    """

    component: Component
    subject: str
    version: Version | None
    or_later: bool = False
    how: str = ""
    vendor_build: bool = False

    @classmethod
    def named(cls, component: Component, subject: str, text: str, how: str = "") -> Software:
        """By the version that it gives itself."""
        version = software_version(text)
        if version is None:
            return cls(component, subject, None, how=how)
        how = "see the vendor's release notes" if version.vendor_build else how
        return cls(component, subject, version.numbers, how=how, vendor_build=version.vendor_build)


def brokers_of(
    cluster: str, metadata_version: int | None, versions: Mapping[int, str] | None = None, brokers: int = 0
) -> Software:
    """The brokers by the versions of their JVMs where all of them are known: of several versions one that has a fault.

    Otherwise by their finalized metadata.version: no request of the protocol names a version of Kafka.
    """
    software = [Software.named(Component.BROKER, cluster, text) for text in set((versions or {}).values())]
    known = sorted(running for running in software if running.version is not None)
    if software and len(versions or {}) >= brokers and len(known) == len(software):
        return min(known, key=lambda running: (not faults_of(running), running.vendor_build))
    bounds = [version for level, version in _LEVELS if metadata_version is not None and level <= metadata_version]
    how = "the protocol does not name a broker's version: see the app-info MBeans, or the start of its log"
    return Software(Component.BROKER, cluster, bounds[-1] if bounds else None, or_later=True, how=how)


def plugins_of(connects: Iterable[ConnectState]) -> Iterator[Software]:
    """The connectors whose plugin is a component of the table."""
    for state in connects:
        for connector in state.connectors:
            if "iceberg" in connector.plugin.lower() and connector.type == "sink":
                subject = f"{state.name}/{connector.name}"
                how = "the worker does not name the plugin's version"
                yield Software.named(Component.ICEBERG_SINK, subject, connector.version, how)


def workers_of(connects: Iterable[ConnectState]) -> Iterator[Software]:
    """The workers of Connect, by the version that their REST root names."""
    for state in connects:
        for address, version in sorted(state.versions.items()):
            yield Software.named(Component.CONNECT, f"{state.name}/{address}", version, "see the worker's log")


def clients_of(cluster: str, pushed: Iterable[tuple[ClientSoftware, int]]) -> Iterator[Software]:
    """The clients of a cluster whose software is known, one for each version."""
    found = {}
    for (of, software, version, streams), _ in pushed:
        component = Component.STREAMS if streams else _CLIENTS.get(software)
        if of == cluster and component is not None:
            running = Software.named(component, "", version)
            found[_shown(running)] = running._replace(subject=_shown(running))
    yield from (running for running in found.values() if running.version is not None)


def faults_of(software: Software) -> tuple[KnownFault, ...]:
    """The faults that this software has, or with a lower bound may have."""
    return tuple(fault for fault in FAULTS if fault.component is software.component and _may_have(fault, software))


def _may_have(fault: KnownFault, software: Software) -> bool:
    version = software.version
    if version is None:
        return True
    if software.vendor_build:
        return any(
            span.first[:2] <= version and (span.fixed is None or version < span.fixed) for span in fault.affected
        )
    if software.or_later:
        return any(span.fixed is None or version < span.fixed for span in fault.affected)
    return any(_is_in(span, version) for span in fault.affected)


def fault_checks(running: Iterable[Software]) -> Iterator[PostureCheck]:
    """A check for each software: failed with its faults, information where its version is not known exactly."""
    for software in running:
        found = faults_of(software)
        shown = _shown(software)
        if not found:
            text = f"{shown}: none of the faults known on {AS_OF}"
            yield RULE.says(software.subject, passed=True, found=text)
        elif software.version is None or software.or_later or software.vendor_build:
            names = ", ".join(fault.issue for fault in found)
            # No setting or grant would tell the version, so it is no check that could not be made.
            yield RULE.notes(software.subject, f"{shown}: not known whether it has {names}; {software.how}")
        else:
            texts = (
                f"{fault.issue}: {fault.what}; it looks like: {fault.looks_like} ({fault.source})" for fault in found
            )
            fix = _fix(found, software.component, software.version)
            yield RULE.says(software.subject, passed=False, found=f"{shown}: {'; '.join(texts)}", fix=fix)


def _shown(software: Software) -> str:
    if software.version is None:
        return f"{software.component} of unknown version"
    build = "a vendor's build of " if software.vendor_build else ""
    return f"{software.component} {build}{_text(software.version)}{' or later' if software.or_later else ''}"


def _fix(found: Iterable[KnownFault], component: Component, version: Version) -> str:
    """The first release with all fixes, and the first after the later releases that have a fault of their own."""
    fixed = [next(span.fixed for span in fault.affected if _is_in(span, version)) for fault in found]
    releases = [release for release in fixed if release is not None]
    if len(releases) < len(fixed):
        return "no release was known to have the fix of all of them on " + AS_OF
    first = max(releases)
    spans = [span for fault in FAULTS if fault.component is component for span in fault.affected]
    later = [span.fixed for span in spans if span.first >= first]
    if not later:
        return f"{_text(first)} or later"
    last = max((release for release in later if release is not None), default=())
    return _text(first) if None in later else f"{_text(first)}, or {_text(last)} or later"


def _is_in(span: Span, version: Version) -> bool:
    return span.first <= version and (span.fixed is None or version < span.fixed)


def _text(version: Version) -> str:
    return ".".join(map(str, version))
