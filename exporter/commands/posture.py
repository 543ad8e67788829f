"""``check posture``: checks of the settings that exactly-once depends on, each with what was found and what to set."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from typing import Any

from exporter.agent.engine_sources import engine_sources
from exporter.bounds.text import printable
from exporter.cluster import Cluster
from exporter.commands.clusters import configured
from exporter.commands.output import say
from exporter.commands.runner import (
    CLEAN,
    FOUND,
    UNKNOWN,
    ClusterReport,
    Read,
    SectionForm,
    add_command,
    fault_texts,
    print_views,
    run,
)
from exporter.config import ClusterConfig
from exporter.core.documents import document_of
from exporter.groups.source.groups import GroupsSource
from exporter.inventory.source import MOST_PARTITIONS
from exporter.kafka.log.offset_commits import NEWEST
from exporter.model import Deadline, Fact, Facts, Source
from exporter.posture.check import CheckResult, PostureCheck
from exporter.posture.evidence import Posture
from exporter.posture.source import PostureSource
from exporter.settings.sections import PostureConfig, TransactionsConfig
from exporter.settings.targets import Engines
from exporter.transactions.facts import LoggedTransactions
from exporter.transactions.source.transactions import TransactionsSource
from exporter.transactions.source.txnlog import TxnlogSource
from exporter.views.command_documents import PosturePart
from exporter.views.documents import CheckDocument

_SLICE_SECONDS = 5.0
_LOOKING_SECONDS = 18.0
"""Seconds; more than three times the default of auto.commit.interval.ms."""
_EXAMPLES = """\
examples:
  kafka-eos-exporter check posture --bootstrap-server kafka-1:9092
  kafka-eos-exporter check posture --config /etc/kafka-eos-exporter.yml --ignore transaction_clients
  kafka-eos-exporter check posture --bootstrap-server kafka-1:9092 --output json

exit codes: 0 no check failed, 1 some failed, 2 some could not be made (and none failed)
"""


def add_to(checks: Any) -> None:  # noqa: ANN401 -- argparse's subparsers have no public type
    """The command line of ``check posture``."""
    parser = add_command(
        checks,
        "posture",
        lambda options: run(options, reader(options), FORM),
        summary="replication, minimum ISR, timeouts, versions, Connect and group settings that exactly-once needs",
        description="Check the settings that exactly-once depends on, and print what to set where one is wrong.",
        examples=_EXAMPLES,
        timeout=60.0,
    )
    add_ignore_flag(parser)


def add_ignore_flag(parser: argparse.ArgumentParser) -> None:
    """The flag that leaves checks out."""
    parser.add_argument("--ignore", action="append", default=[], metavar="CHECK[:SUBJECT]", help="leave a check out")


def reader(options: argparse.Namespace) -> Read[PostureCheck]:
    """The read of one cluster, with its engines as the settings have them."""
    config = configured(options)

    def read(cluster: Cluster, settings: ClusterConfig, deadline: Deadline) -> ClusterReport[PostureCheck]:
        say(f"looking at {cluster.target} ...")
        return ClusterReport(
            cluster, *_look(cluster, settings, config.engines_on(settings.name), options.ignore, deadline)
        )

    return read


def _code(report: ClusterReport[PostureCheck]) -> int:
    verdicts = {check.verdict for check in report.found}
    if CheckResult.FAILED in verdicts:
        return FOUND
    return UNKNOWN if CheckResult.UNKNOWN in verdicts or not verdicts else CLEAN


def _look(
    cluster: Cluster, settings: ClusterConfig, engines: Engines, ignored: Iterable[str], deadline: Deadline
) -> tuple[tuple[PostureCheck, ...], tuple[str, ...]]:
    """All checks of a cluster, after one read of each source that they use; the groups last, which takes longest."""
    facts: list[Fact] = []
    faults: list[str] = []
    # The log first: open transactions are taken from it where it is readable, else from the coordinators.
    groups = GroupsSource(cluster, settings.groups, looking=_LOOKING_SECONDS)
    sources: tuple[Source, ...] = (
        TxnlogSource(cluster, TransactionsConfig(), timeout=_SLICE_SECONDS),
        TransactionsSource(cluster, TransactionsConfig()),
        *engine_sources(cluster, engines._replace(spark=(), audits=())),  # no posture check uses these
    )
    for source in sources:
        try:
            given, lost = _read(source, deadline, Facts({type(fact): fact for fact in facts}, facts))
        finally:
            source.close()
        facts += given
        faults += lost
    say(f"looking at the commits of groups for up to {_LOOKING_SECONDS:.0f} s ...")
    given, lost = _read(groups, deadline, Facts({type(fact): fact for fact in facts}, facts))
    facts += given
    faults += lost
    ignore = (*settings.posture.ignore, *ignored)
    posture = PostureSource(cluster, PostureConfig(ignore=ignore), NEWEST, MOST_PARTITIONS)
    by_type = {type(fact): fact for fact in facts}
    given, lost = _read(posture, deadline, Facts(by_type, facts))
    checks = next((fact.checks for fact in given if isinstance(fact, Posture)), ())
    return checks, tuple(dict.fromkeys((*faults, *lost)))


def _read(source: Source, deadline: Deadline, facts: Facts | None = None) -> tuple[list[Fact], tuple[str, ...]]:
    while True:
        items = list(source.read(deadline.within(source.timeout), facts or Facts()))
        faults = fault_texts(items)
        given = [item for item in items if isinstance(item, Fact)]
        # The tail has caught up with the log once it gives the open transactions.
        behind = source.name == "txnlog" and not any(isinstance(fact, LoggedTransactions) for fact in given)
        if not behind or faults or deadline.over:
            return given, faults
        time.sleep(0.1)


def _section(report: ClusterReport[PostureCheck]) -> PosturePart:
    return {
        "checks": [document_of(CheckDocument, check) for check in report.found],
        "faults": list(report.not_asked),
    }


def _print(report: ClusterReport[PostureCheck], _: bool) -> None:
    if not report.found:
        return
    print(f"{printable(report.cluster.target)}:")
    print_views(CheckDocument, [("", check) for check in _section(report)["checks"]])
    advised: set[str] = set()
    for check in report.found:
        if check.verdict in {CheckResult.FAILED, CheckResult.INFORMATION} and check.name not in advised:
            advised.add(check.name)
            remedy = "set" if check.verdict is CheckResult.FAILED else "would help"
            print(f"\n{check.name}: {check.why}\n  {remedy}: {check.fix}")


FORM = SectionForm(_section, _print, _code)
