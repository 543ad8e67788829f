"""All clusters and all agents: is it healthy; if not, where, and who."""

from __future__ import annotations

from grafanalib import core

from exporter import catalogue
from exporter.dashboards import figures
from exporter.dashboards.board import (
    AGENT,
    APPLICATION,
    BROKERS,
    CLIENTS,
    JOBS,
    OVERVIEW,
    STALLS,
    TRANSACTIONS,
    Dashboard,
    PanelRow,
)
from exporter.dashboards.figures import WINDOW
from exporter.dashboards.panels import (
    ANY_IS_BAD,
    ANY_IS_ODD,
    BLUE,
    GREEN,
    OF_THRESHOLD,
    ORANGE,
    RED,
    Column,
    stat,
    table,
)
from exporter.dashboards.queries import OF_APPLICATION, age, agents, answered, gained, now, of_threshold, total
from exporter.dashboards.shared import RUNBOOKS, TO_APPLICATION, holders, outcomes

_BY_APPLICATION = "kafka_cluster, application"


ALERT_SUBJECTS = (
    "transactional_id",
    "producer_id",
    "topic",
    "group",
    "connect",
    "connector",
    "task",
    "server",
    "spark_application",
    "query",
    "audit",
    "check",
    "broker",
    "coordinator",
    "client_id",
    "thread",
    "source",
    "target",
    "error",
    "metric",
    "job",
    "instance",
)


"""Labels of alerts that tell two of one name, cluster and application apart."""


_NUMBERED = {"producer_id": "producer", "task": "task", "broker": "broker", "coordinator": "broker"}


def _firing() -> core.Panel:
    who = ", ".join(("severity", "alertname", "reason", "kafka_cluster", "application", *ALERT_SUBJECTS))
    ours = 'alertname=~"KafkaEos.+", severity!="none", kafka_cluster=~"$kafka_cluster", application=~"$application"'
    fires = f'max by ({who}) (ALERTS{{{ours}, alertstate="firing"}})'
    begun = f"min by ({who}) (ALERTS_FOR_STATE{{{ours}}})"
    return table(
        "Which alerts fire?",
        "Pages on top, then those whose condition has lasted longest, as Prometheus has them: without Alertmanager's"
        " silences and inhibition.",
        [_of_subject(fires), _of_subject(f"({begun} and {fires}) * 1000")],
        [
            Column("severity", "Severity", colours={"critical": RED, "warning": ORANGE}, width=90),
            Column("Value #B", "Since", "dateTimeAsLocal", width=160),
            Column("alertname", "Alert", width=270, page=("Runbook", f"{RUNBOOKS}/${{__value.text}}.md")),
            Column("reason", "Reason", width=110),
            Column("application", "Application", link=TO_APPLICATION),
            Column("subject", "Subject"),
            Column(
                "kafka_cluster",
                "Cluster",
                width=110,
                page=("The agent's page", "${agent_page}/?cluster=${__value.text:percentencode}"),
            ),
        ],
        sort=["Severity", "Since"],
        smallest_first=True,
        none="none fires, or the rules are not loaded",
    )


def _of_subject(alerts: str) -> str:
    """Return alerts with one label ``subject``, of all labels that tell two alerts of one name apart."""
    for label, word in _NUMBERED.items():
        alerts = f'label_replace({alerts}, "{label}", "{word} $1", "{label}", "(.+)")'
    names = ", ".join(f'"{label}"' for label in ALERT_SUBJECTS)
    joined = f'label_join({alerts}, "subject", " ", {names})'
    return f'label_replace({joined}, "subject", "$1", "subject", " *(.*?) *")'


def _by_application() -> core.Panel:
    gains = [
        total(gained(catalogue.TRANSACTIONS_TOTAL, WINDOW, f'outcome="{name}"', OF_APPLICATION), _BY_APPLICATION)
        for name in ("fenced", "timed_out", "aborted", "committed")
    ]
    opened = age(now(catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, OF_APPLICATION))
    share = of_threshold(opened, catalogue.APPLICATION_THRESHOLD_SECONDS, "open_warning")
    return table(
        f"Which applications do not commit? ({WINDOW})",
        "The outcomes of each application's transactions, and the age of its oldest open one by its threshold.",
        [
            *gains,
            total(now(catalogue.TRANSACTIONS_OPEN, OF_APPLICATION), _BY_APPLICATION),
            f"max by ({_BY_APPLICATION}) ({share})",
        ],
        [
            Column("application", "Application", link=TO_APPLICATION),
            Column("Value #A", "Fenced", "none", steps=ANY_IS_BAD, width=80),
            Column("Value #B", "Timed out", "none", steps=ANY_IS_ODD, width=90),
            Column("Value #C", "Aborted", "none", steps=((None, GREEN), (1, BLUE)), width=80),
            Column("Value #D", "Committed", "none", width=100),
            Column("Value #E", "Open", "none", width=70),
            Column("Value #F", "Oldest, of its threshold", "percentunit", steps=OF_THRESHOLD, width=170),
        ],
        sort=["Fenced", "Timed out", "Aborted", "Committed"],
    )


_AGENTS = table(
    "Which agents answer, and where are their pages?",
    "Each agent that Prometheus scrapes with each cluster that it reads, first those of which a source does not"
    " answer; Page is its web.external_url.",
    [agents()],
    [
        Column(
            "Value #A",
            "Sources",
            "none",
            steps=((None, RED), (1, GREEN)),
            width=150,
            texts={"0": "not all answer", "1": "answer"},
        ),
        Column("kafka_cluster", "Cluster"),
        Column("instance", "Instance"),
        Column("version", "Version", width=110),
        Column("external_url", "Page", page=("The agent's page", "${__value.raw}")),
    ],
    sort=["Sources"],
    smallest_first=True,
    none="no agent is known",
)


def board() -> Dashboard:
    """The dashboard to open first."""
    healthy = (
        figures.STALLED.on(link=STALLS),
        figures.HANGING.on(link=STALLS),
        figures.HELD_UP.on(link=STALLS),
        figures.FENCES.on(OF_APPLICATION, link=TRANSACTIONS),
        figures.IDS_UNAVAILABLE.on(OF_APPLICATION, link=BROKERS),
        stat(
            "Sources not answering",
            "What a replica of the agent got no full answer from: while this is not 0, a part of this page is unknown.",
            total(f"1 - {answered()}"),
            link=AGENT,
        ),
    )
    worst = (
        figures.LONGEST_STALL.on(link=STALLS),
        figures.LONGEST_OPEN.on(OF_APPLICATION, link=TRANSACTIONS),
        figures.NOT_COMMITTED.on(OF_APPLICATION, link=TRANSACTIONS),
        figures.APPLICATIONS_WITHOUT_BUDGET.on(OF_APPLICATION, link=TRANSACTIONS),
        figures.TOPICS_WITHOUT_BUDGET.on(link=TRANSACTIONS),
    )
    engines = (
        figures.TASKS_FAILED.on(link=CLIENTS),
        figures.TO_RESTORE.on(link=CLIENTS),
        figures.QUERIES_FAILED.on(link=JOBS),
        figures.QUERIES_STARVED.on(link=JOBS),
        figures.WITH_FINDINGS.on(link=JOBS),
        figures.CHECKS_FAILED.on(link=BROKERS),
    )
    return Dashboard(
        uid=OVERVIEW,
        title="Overview",
        description="Is exactly-once healthy on these clusters; if not, where, and who.",
        variables=(APPLICATION,),
        rows=(
            PanelRow("Is it healthy?", (healthy, worst)),
            PanelRow("Where, and who?", ((_firing(),), (holders(),))),
            PanelRow("Do the engines that rest on it work?", (engines,)),
            PanelRow("Who ends transactions, and how?", ((outcomes(OF_APPLICATION), _by_application()),)),
            PanelRow("Who watches?", ((_AGENTS,),)),
        ),
    )
