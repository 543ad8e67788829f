"""All cases."""

from __future__ import annotations

from tests.rules import (
    cases_aborts,
    cases_agent,
    cases_audits,
    cases_brokers,
    cases_canary,
    cases_clients,
    cases_cluster,
    cases_commits,
    cases_coverage,
    cases_debezium,
    cases_engines,
    cases_failures,
    cases_flink,
    cases_groups,
    cases_lso,
    cases_monitoring,
    cases_slo,
    cases_spark,
    cases_storage,
    cases_transactions,
)
from tests.rules.promtool import Case

CASES: tuple[Case, ...] = (
    *cases_lso.cases(),
    *cases_groups.cases(),
    *cases_transactions.cases(),
    *cases_aborts.cases(),
    *cases_cluster.cases(),
    *cases_brokers.cases(),
    *cases_canary.cases(),
    *cases_clients.cases(),
    *cases_coverage.cases(),
    *cases_engines.cases(),
    *cases_failures.cases(),
    *cases_flink.cases(),
    *cases_spark.cases(),
    *cases_audits.cases(),
    *cases_agent.cases(),
    *cases_monitoring.cases(),
    *cases_slo.cases(),
    *cases_storage.cases(),
    *cases_commits.cases(),
    *cases_debezium.cases(),
)
