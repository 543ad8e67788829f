"""Run ``audit``: needs pyspark."""

from __future__ import annotations

import argparse
import logging

from exporter.commands.audit_output import print_report, spark_progress
from exporter.commands.audit_post import AgentAddress, agent_of, exit_code, post
from exporter.commands.audit_spec import audit_of, spec_of_file
from exporter.commands.clusters import one_cluster
from exporter.commands.output import say
from exporter.commands.settings import UsageError
from exporter.commands.spark import spark_conf, until_stopped
from exporter.jobs.audit.definition import Audit
from exporter.jobs.audit.follow import FollowedAudit
from exporter.jobs.audit.offset_range import described
from exporter.jobs.audit.outcome import EVIDENCE_FILE, AuditReport, AuditSettings, audit_once, is_name
from exporter.jobs.audit.read import JAVA_OPTIONS, PLAIN_SHUFFLE, TopicAccess, tasks_of
from exporter.jobs.session import is_local, spark_module, spark_session
from exporter.jobs.streams import follow, trigger


def run_audit(options: argparse.Namespace, connector: str) -> int:
    """Run the audit of these flags, with Spark's source of these coordinates. Raises CommandError."""
    audit, agent = _audit(options), agent_of(options)
    settings = _settings(options, audit.topic)
    with one_cluster(options, "one audit is of one cluster") as cluster:
        access = TopicAccess(cluster.client, cluster.properties, options.timeout)
        for topic in filter(None, (audit.topic, audit.source_topic)):
            described(cluster.client, topic, access.deadline())
        # Spark's refusal is reported in one line.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        packages, conf = _spark_settings(options, audit, connector)
        say("starting Spark ...")
        with spark_session(
            "kafka-eos-audit", master=options.master, packages=packages, conf=conf, java_options=JAVA_OPTIONS
        ) as session:
            if options.follow:
                return _follow(
                    options, agent, FollowedAudit(session, access, audit, settings, options.state, options.window)
                )
            with spark_progress(lambda: tasks_of(session)) as tell:
                report = audit_once(session, access, audit, settings, tell)
    print_report(report, options.output)
    if settings.folder is not None:
        say(f"written to {settings.folder}: {settings.name}.json, .html and {EVIDENCE_FILE}")
    return exit_code(report.result.verdict, delivered=agent is None or post(agent, report.result))


def _follow(options: argparse.Namespace, agent: AgentAddress | None, followed: FollowedAudit) -> int:
    """Print and post the result after each batch, until stopped; the exit code is that of the last one."""
    codes = [0]

    def deliver(report: AuditReport) -> None:
        print_report(report, options.output)
        delivered = agent is None or post(agent, report.result)
        codes.append(exit_code(report.result.verdict, delivered=delivered))

    with until_stopped() as over:
        every = trigger(once=False, interval=options.interval)
        follow(lambda: followed.start(every, deliver), over, lambda _: None)
    return codes[-1]


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


def _audit(options: argparse.Namespace) -> Audit:
    """The audit of the spec, or of the flags. Raises ConfigError."""
    if options.spec is not None:
        return spec_of_file(options.spec)
    flags = {name: getattr(options, name) for name in ("topic", "id", "key", "sequence")}
    return audit_of(flags, "the flags")


def _settings(options: argparse.Namespace, topic: str) -> AuditSettings:
    """Where the result goes. Raises UsageError for a name that no file can have."""
    name = options.name or topic
    if not is_name(name):
        raise UsageError(f"--name {name!r}: letters, digits, dots, dashes and underscores only")
    if options.examples < 0:
        raise UsageError("--examples must not be negative")
    # Only an explicit name: otherwise the agent uses the name of its own settings.
    cluster = vars(options).get("--cluster.name", "")
    return AuditSettings(name, cluster, options.output_dir, options.examples)
