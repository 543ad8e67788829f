"""All cases."""

from __future__ import annotations

from tests.rules import cases_aborts, cases_audits, cases_lso, cases_others, cases_spark, cases_transactions
from tests.rules.promtool import Case

CASES: tuple[Case, ...] = (
    *cases_lso.cases(),
    *cases_transactions.cases(),
    *cases_aborts.cases(),
    *cases_others.cases(),
    *cases_spark.cases(),
    *cases_audits.cases(),
)
