"""Run ``audit``: needs pyspark."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable

from exporter.commands.audit_output import print_report, spark_progress
from exporter.commands.audit_post import CODES, AgentAddress, agent_of, exit_code, post
from exporter.commands.audit_settings import audit_of, following_of, settings_of
from exporter.commands.clusters import one_cluster
from exporter.commands.history_run import until_stopped
from exporter.commands.output import say
from exporter.commands.spark import spark_conf
from exporter.jobs.audit.definition import Audit
from exporter.jobs.audit.follow import Follow
from exporter.jobs.audit.offset_range import described
from exporter.jobs.audit.outcome import EVIDENCE_FILE, AuditReport, audit_once
from exporter.jobs.audit.read import TopicAccess, tasks_of
from exporter.jobs.audit.spark_settings import JAVA_OPTIONS, PLAIN_SHUFFLE
from exporter.jobs.session import is_local, spark_module, spark_session


def run_audit(options: argparse.Namespace, connector: str) -> int:
    """Run the audit of these flags, with Spark's source of these coordinates. Raises CommandError."""
    audit, settings, agent = audit_of(options), settings_of(options), agent_of(options)
    following = following_of(options)
    with one_cluster(options, "one audit is of one cluster") as cluster:
        access = TopicAccess(cluster.client, cluster.properties, options.timeout)
        for topic in filter(None, (audit.topic, audit.source_topic)):
            described(cluster.client, topic, access.deadline())
        # Spark's refusal is reported in one line.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        packages, conf = _spark_settings(options, audit, connector)
        say("starting Spark ...")
        with (
            spark_session(
                "kafka-eos-audit", master=options.master, packages=packages, conf=conf, java_options=JAVA_OPTIONS
            ) as session,
            spark_progress(lambda: tasks_of(session)) as tell,
        ):
            if following is not None:
                return _follow(Follow(session, access, audit, settings, following, _teller(agent), tell))
            report = audit_once(session, access, audit, settings, tell)
    print_report(report, options.output)
    if settings.folder is not None:
        say(f"written to {settings.folder}: {settings.name}.json, .html and {EVIDENCE_FILE}")
    return exit_code(report.result.verdict, delivered=agent is None or post(agent, report.result))


def _spark_settings(options: argparse.Namespace, audit: Audit, connector: str) -> tuple[list[str], dict[str, str]]:
    """The packages and the settings of Spark that this audit needs."""
    packages = [connector, *{package for table in audit.tables for package in table.packages}]
    if audit.shape.avro_schema is not None:
        packages.append(spark_module("spark-avro"))
    # What is compared with a table is shuffled as text.
    shuffle = PLAIN_SHUFFLE if is_local(options.master) and not audit.tables else {}
    # A value that is not a number becomes null, and is counted, instead of failing the job.
    conf = {"spark.sql.ansi.enabled": "false", "spark.sql.mapKeyDedupPolicy": "LAST_WIN", **shuffle}
    for table in audit.tables:
        conf |= table.conf
    return packages, conf | spark_conf(options)


def _follow(follow: Follow) -> int:
    """Run until it is stopped, then report the result of all batches."""
    with until_stopped() as over:
        last = follow.run(over)
    if last is None:
        say("nothing was written since it began")
        return CODES["unknown"]
    return CODES["findings" if last.findings else "unknown" if last.unknown else "clean"]


def _teller(agent: AgentAddress | None) -> Callable[[AuditReport], None]:
    """Report the result after each batch, and post it to the agent."""

    def on_report(report: AuditReport) -> None:
        found = ", ".join(f"{finding.count:,} {finding.kind}" for finding in report.result.findings) or "nothing found"
        say(f"{report.result.records or 0:,} records, {report.result.aborted_records or 0:,} aborted: {found}")
        if agent is not None:
            post(agent, report.result)

    return on_report
