"""Transactions by application: outcomes, what is open, durations, and the objectives with their budgets.

An application's objective is the share of its transactions that are committed, a topic's the share of the time in which
its oldest withheld record is younger than its threshold ``fresh_within``. Both are read from the recording rules.
"""

from __future__ import annotations

from grafanalib import core

from exporter import catalogue
from exporter.alerts.aborts import BUDGET, unclean_ratio
from exporter.alerts.slo import BURN, FRESHNESS_BURN, FRESHNESS_REMAINING, LATE, LATE_SHARE, OBJECTIVE, REMAINING
from exporter.dashboards import figures
from exporter.dashboards.board import APPLICATION, TRANSACTIONS, Dashboard, PanelRow, Variable
from exporter.dashboards.panels import (
    BLUE,
    GREEN,
    NEUTRAL,
    OF_THRESHOLD,
    ORANGE,
    OUTCOME_COLOURS,
    RED,
    STATE_COLOURS,
    YELLOW,
    Column,
    Query,
    lines,
    stat,
    table,
)
from exporter.dashboards.queries import OF_APPLICATION, age, now, per_second, quantile, recorded, series, total
from exporter.dashboards.shared import TO_APPLICATION, TO_TOPIC, outcomes

_OF_TOPIC = 'topic=~"$topic"'
_BY_APPLICATION, _BY_TOPIC = "kafka_cluster, application", "kafka_cluster, topic"
_APPLICATION = "{{kafka_cluster}} {{application}}"
_WINDOWS = ("1h", "1d")
_BURN_STEPS = {"1h": ((None, GREEN), (1, YELLOW), (14.4, RED)), "1d": ((None, GREEN), (1, ORANGE))}
"""Red and orange from the burn rates on at which the windows of the alerts begin."""
_LEFT_STEPS = ((None, RED), (0, ORANGE), (0.25, YELLOW), (0.5, GREEN))


def _failures() -> core.Panel:
    failed = total(
        per_second(catalogue.TRANSACTIONS_TOTAL, 'outcome!="committed"', OF_APPLICATION), f"{_BY_APPLICATION}, outcome"
    )
    return lines(
        "Which applications do not commit?",
        "Transactions per second that were aborted, timed out or fenced, the ten worst.",
        Query(f"topk(10, {failed} > 0)", _APPLICATION + " {{outcome}}"),
        "ops",
    )


def _last_commits() -> core.Panel:
    last = series(catalogue.LAST_TRANSACTION_TIMESTAMP_SECONDS, 'outcome="committed"', OF_APPLICATION)
    ago = age(f"max by ({_BY_APPLICATION}) ({last})")
    kind = f"max by ({_BY_APPLICATION}, kind) ({now(catalogue.APPLICATION_INFO, OF_APPLICATION)})"
    return table(
        "When did each application last commit?",
        "A steady pipeline that has stopped shows here before anything fails.",
        [f"{kind} * on ({_BY_APPLICATION}) group_left () ({ago})"],
        [
            Column("Value #A", "Last commit ago", "s", width=140),
            Column("application", "Application"),
            Column("kind", "Kind", width=130),
        ],
        sort=["Last commit ago"],
    )


def _open_table() -> core.Panel:
    start = age(now(catalogue.OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, OF_APPLICATION))
    timeout = now(catalogue.OPEN_TRANSACTION_TIMEOUT_SECONDS, OF_APPLICATION)
    return table(
        "Which open transactions are nearest to their timeout?",
        "The coordinator ends a transaction once its age reaches its timeout, which two-phase-commit transactions"
        " lack.",
        [start, timeout, f"({start}) / {timeout}"],
        [
            Column("Value #A", "Open for", "s", width=120),
            Column("Value #B", "Timeout", "s", width=110),
            Column("Value #C", "Of its timeout", "percentunit", steps=OF_THRESHOLD, width=130),
            Column("transactional_id", "Transactional id"),
            Column("application", "Application"),
            Column("state", "State", colours=STATE_COLOURS, width=140),
            Column("producer_id", "Producer id", width=110),
            Column("producer_epoch", "Epoch", width=80),
        ],
        sort=["Of its timeout", "Open for"],
        none="none is known to be open",
    )


def _oldest() -> core.Panel:
    oldest = age(now(catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, OF_APPLICATION))
    return lines(
        "How old is the oldest open transaction?",
        "A line that keeps rising is one transaction that does not end, and a last stable offset that does not move.",
        Query(f"topk(10, max by ({_BY_APPLICATION}) ({oldest}))", _APPLICATION),
        "s",
    )


def _completion() -> core.Panel:
    slow = quantile(0.99, catalogue.TRANSACTION_COMPLETION_SECONDS, _BY_APPLICATION, OF_APPLICATION)
    return lines(
        "How long from the decision to its markers? (p99)",
        "The ten slowest applications: slow when a leader of one of the partitions is.",
        Query(f"topk(10, {slow})", _APPLICATION),
        "s",
    )


def _left(*, topics: bool) -> str:
    """Return the budget left; the smallest where labels outside of these tell series apart."""
    if topics:
        return recorded("min", _BY_TOPIC, FRESHNESS_REMAINING, _OF_TOPIC)
    # NaN, where nothing finished in 30 days, is no budget.
    return f"{recorded('min', _BY_APPLICATION, REMAINING, OF_APPLICATION)} > -Inf"


def _application_burn(window: str) -> str:
    """Return how many times as fast as allowed the budget is spent; absent where nothing finished in the window."""
    if window == "1h":
        return f"{recorded('max', _BY_APPLICATION, BURN, OF_APPLICATION)} >= 0"
    ratio = recorded("max", _BY_APPLICATION, unclean_ratio(window), OF_APPLICATION)
    return f"{ratio} / {recorded('min', _BY_APPLICATION, BUDGET, OF_APPLICATION)} >= 0"


def _topic_burn(window: str) -> str:
    if window == "1h":
        return recorded("max", _BY_TOPIC, FRESHNESS_BURN, _OF_TOPIC)
    return f"{recorded('max', _BY_TOPIC, LATE, _OF_TOPIC, window=window)} / {LATE_SHARE:g}"


def _topics() -> core.Panel:
    late = recorded("max", _BY_TOPIC, LATE, _OF_TOPIC)
    within = now(catalogue.TOPIC_THRESHOLD_SECONDS, _OF_TOPIC, 'threshold="fresh_within"')
    return _worst_first(
        "Which topics have the least budget left?",
        "Objective: the share of the time in which the oldest record that read_committed readers are not given is"
        " younger than `fresh_within`.",
        Column("topic", "Topic", link=TO_TOPIC),
        _left(topics=True),
        f"{late} * 0 + {1 - LATE_SHARE:g}",
        [_topic_burn(window) for window in _WINDOWS],
        [
            (f"max by ({_BY_TOPIC}) ({within}) < Inf", "Within", "s", ()),
            (late, "Late now", "none", ((None, GREEN), (1, RED))),
        ],
        none="no topic with fresh_within, or the rules are not loaded",
    )


def _worst_first(
    title: str,
    description: str,
    subject: Column,
    left: str,
    objective: str,
    burns: list[str],
    more: list[tuple[str, str, str, tuple[tuple[float | None, str], ...]]] | None = None,
    *,
    none: str,
) -> core.Panel:
    """Return a table of one row for a subject, with its objective, burn rates and budget; ``more`` are expression,
    title, unit and steps.
    """
    values = [
        (left, "Budget left, 30 d", "percentunit", _LEFT_STEPS),
        (objective, "Objective", "percentunit", ()),
        *((burn, f"Burn, {window}", "none", _BURN_STEPS[window]) for window, burn in zip(_WINDOWS, burns, strict=True)),
        *(more or ()),
    ]
    columns = [
        Column(f"Value #{chr(ord('A') + index)}", name, unit, steps=steps, width=120)
        for index, (_, name, unit, steps) in enumerate(values)
    ]
    return table(
        title,
        description,
        [query for query, *_ in values],
        [Column("kafka_cluster", "Cluster", width=160), subject, *columns],
        sort=["Budget left, 30 d"],
        smallest_first=True,
        none=none,
    )


_FIGURES = (
    figures.NOT_COMMITTED.on(OF_APPLICATION),
    figures.TIMEOUTS.on(OF_APPLICATION),
    figures.FENCES.on(OF_APPLICATION),
    figures.LONGEST_OPEN.on(OF_APPLICATION),
    stat(
        "Overdue",
        "Open for longer than their own timeout and 15 seconds: the coordinator should have ended them.",
        total(now(catalogue.OVERDUE_TRANSACTIONS, OF_APPLICATION)),
    ),
    stat(
        "Commits per second",
        "Transactions that committed.",
        total(per_second(catalogue.TRANSACTIONS_TOTAL, 'outcome="committed"', OF_APPLICATION)),
        "ops",
        NEUTRAL,
    ),
)
_UNCLEAN_ENDS = table(
    "Who was fenced or timed out last?",
    "In the last hour, by the time of the transaction log.",
    [age(now(catalogue.LAST_UNCLEAN_END_TIMESTAMP_SECONDS, OF_APPLICATION))],
    [
        Column("Value #A", "Ago", "s", width=110),
        Column("outcome", "Outcome", colours=OUTCOME_COLOURS, width=110),
        Column("transactional_id", "Transactional id"),
        Column("application", "Application"),
        Column("producer_id", "Producer id", width=110),
        Column("producer_epoch", "Epoch", width=80),
    ],
    sort=["Ago"],
    smallest_first=True,
    none="none known in the last hour",
)
_FENCED_IDS = table(
    "Which ids are fenced again and again? (10 min)",
    "From 2 on, two live processes share the transactional.id or one crashes in a loop.",
    [now(catalogue.RECENT_PRODUCER_FENCES, OF_APPLICATION)],
    [
        Column("Value #A", "Fences", steps=((None, YELLOW), (2, RED)), width=130),
        Column("transactional_id", "Transactional id"),
        Column("application", "Application"),
    ],
    sort=["Fences"],
    none="none known in 10 minutes",
)
_OPEN_SECONDS = lines(
    "How long from begin to the decision?",
    "Median and 99th percentile by outcome: how long each transaction held the last stable offset.",
    [
        Query(quantile(share, catalogue.TRANSACTION_OPEN_SECONDS, "outcome", OF_APPLICATION), f"{{{{outcome}}}} {name}")
        for share, name in ((0.5, "p50"), (0.99, "p99"))
    ],
    "s",
    log=True,
)
_IDS = (
    stat(
        "Transactional ids",
        "Seen in the transaction log in the last hour.",
        total(now(catalogue.TRANSACTIONAL_IDS, OF_APPLICATION)),
        "none",
        NEUTRAL,
    ),
    stat(
        "New applications, 1h",
        "Many are ids with a host or a counter in them that need a pattern.",
        total(now(catalogue.RECENT_APPLICATIONS)),
        "none",
        ((None, BLUE), (20, YELLOW)),
    ),
)
_APPLICATIONS = _worst_first(
    "Which applications have the least budget left?",
    "Objective: the share of transactions that shall be committed, 1 - the threshold `unclean`; none is listed that"
    " finished no transaction in 30 days.",
    Column("application", "Application", link=TO_APPLICATION),
    _left(topics=False),
    # Of an application without a budget it would be the first row, with nothing else in it.
    f"{recorded('max', _BY_APPLICATION, OBJECTIVE, OF_APPLICATION)} and {_left(topics=False)}",
    [_application_burn(window) for window in _WINDOWS],
    none="no such recorded series: load the rules, and wait for the next full hour",
)


def board() -> Dashboard:
    """Transactions by application; freshness by topic."""
    return Dashboard(
        uid=TRANSACTIONS,
        title="Transactions",
        description="Outcomes and durations of transactions by application, what is open, who fences whom, and what is"
        " left of the objectives' budgets.",
        variables=(APPLICATION, Variable("topic", "Topic of freshness", catalogue.STALLED_PARTITIONS)),
        rows=(
            PanelRow("Do transactions end well?", (_FIGURES,)),
            PanelRow(
                "How do they end, and whose?",
                ((outcomes(OF_APPLICATION), _failures()), (_UNCLEAN_ENDS, _last_commits()), (_FENCED_IDS,)),
            ),
            PanelRow("What is open?", ((_open_table(),), (_oldest(),))),
            PanelRow("How long do they take?", ((_OPEN_SECONDS, _completion()),)),
            PanelRow("Are the objectives met? (needs the recording rules)", ((_APPLICATIONS,), (_topics(),))),
            PanelRow("How many ids and applications are there?", (_IDS,)),
        ),
    )
