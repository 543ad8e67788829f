"""Service level objectives: what burns, and what is left over 30 days, by application and by topic.

An application's objective is the share of its transactions that end well, a topic's the share of the time in which its
oldest withheld record is younger than its threshold ``fresh_within``. Both are read from the recording rules.
"""

from __future__ import annotations

from grafanalib import core

from exporter.alerts.aborts import BUDGET, unclean_ratio
from exporter.alerts.slo import BURN, FRESHNESS_BURN, FRESHNESS_REMAINING, LATE, LATE_SHARE, OBJECTIVE, REMAINING
from exporter.catalogue import STALLED_PARTITIONS, TOPIC_THRESHOLD_SECONDS
from exporter.dashboards.board import APPLICATION, Board, Line, PanelRow, Variable
from exporter.dashboards.panels import GREEN, ORANGE, RED, YELLOW, Column, Query, lines, stat, table
from exporter.dashboards.queries import OF_APPLICATION, now, recorded
from exporter.dashboards.shared import SLO, TO_APPLICATION, TO_TOPIC, used_up

_OF_TOPIC = 'topic=~"$topic"'
_BY_APPLICATION, _BY_TOPIC = "kafka_cluster, application", "kafka_cluster, topic"
_WINDOWS = ("1h", "1d")
_BURN_STEPS = {
    "1h": ((None, GREEN), (1, YELLOW), (14.4, RED)),
    "1d": ((None, GREEN), (1, ORANGE)),
}
"""Red and orange from the burn rates on at which the windows of the alerts begin."""
_LEFT_STEPS = ((None, RED), (0, ORANGE), (0.25, YELLOW), (0.5, GREEN))
_NO_RULES = "no such recorded series: load the rules, and wait for the next full hour"
_NO_TOPIC = "no topic with fresh_within, or the rules are not loaded"


def board() -> Board:
    """Objectives by application and topic, the smallest budget first."""
    return Board(
        uid=SLO,
        title="Kafka EOS / Service level objectives",
        description="Transactions that end well, by application, and records that readers get in time, by topic: burn"
        " rates, and the budget that is left over 30 days.",
        variables=(APPLICATION, Variable("topic", "Topic", STALLED_PARTITIONS)),
        rows=(
            PanelRow("Now", (Line(4, _now()),)),
            PanelRow("Transactions that end well, by application", (Line(9, (_applications(),)),)),
            PanelRow("Freshness, by topic", (Line(9, (_topics(),)),)),
            PanelRow("Over time", (Line(8, _left_over_time()), Line(8, _burns_over_time()))),
        ),
        since="now-7d",
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


def _now() -> tuple[core.Panel, ...]:
    return (
        used_up("Applications without budget", REMAINING, _BY_APPLICATION, OF_APPLICATION),
        _least("Least budget left, applications", _left(topics=False)),
        _fastest("Fastest burn in 1 h, applications", _application_burn("1h")),
        used_up("Topics without budget", FRESHNESS_REMAINING, _BY_TOPIC, _OF_TOPIC),
        _least("Least budget left, topics", _left(topics=True)),
        _fastest("Fastest burn in 1 h, topics", _topic_burn("1h")),
    )


def _least(title: str, left: str) -> core.Panel:
    return stat(
        title,
        "The share of the budget of 30 days that is left, of the one with the least; below 0 the objective is missed.",
        f"min({left})",
        "percentunit",
        _LEFT_STEPS,
        none="not known",
    )


def _fastest(title: str, burn: str) -> core.Panel:
    return stat(
        title,
        "How many times as fast as allowed the budget was spent in the last hour, of the fastest; at 1 it lasts"
        " exactly 30 days.",
        f"max({burn})",
        "none",
        _BURN_STEPS["1h"],
        none="not known",
    )


def _applications() -> core.Panel:
    return _worst_first(
        "Applications, least budget left first",
        "Objective: the share of transactions that shall be committed, 1 - the threshold `unclean`. A burn rate of 1"
        " uses the budget up in exactly 30 days; it is empty where no transaction finished in that time. An application"
        " without a finished transaction in 30 days is not listed.",
        ("application", "Application", TO_APPLICATION),
        _left(topics=False),
        # Of an application without a budget it would be the first row, with nothing else in it.
        f"{recorded('max', _BY_APPLICATION, OBJECTIVE, OF_APPLICATION)} and {_left(topics=False)}",
        [_application_burn(window) for window in _WINDOWS],
        none=_NO_RULES,
    )


def _topics() -> core.Panel:
    late = recorded("max", _BY_TOPIC, LATE, _OF_TOPIC)
    within = now(TOPIC_THRESHOLD_SECONDS, _OF_TOPIC, 'threshold="fresh_within"')
    return _worst_first(
        "Topics, least budget left first",
        "Objective: the share of the time in which the oldest record that read_committed readers are not given is"
        " younger than `fresh_within`. Late now: 1 while it is older.",
        ("topic", "Topic", TO_TOPIC),
        _left(topics=True),
        f"{late} * 0 + {1 - LATE_SHARE:g}",
        [_topic_burn(window) for window in _WINDOWS],
        [
            (f"max by ({_BY_TOPIC}) ({within}) < Inf", Column("", "Within", "s", width=90)),
            (late, Column("", "Late now", "none", steps=((None, GREEN), (1, RED)), width=90)),
        ],
        none=_NO_TOPIC,
    )


def _worst_first(
    title: str,
    description: str,
    subject: tuple[str, str, tuple[str, str, str]],
    left: str,
    objective: str,
    burns: list[str],
    more: list[tuple[str, Column]] | None = None,
    *,
    none: str,
) -> core.Panel:
    """Return a table of one row for a subject, with its objective, burn rates and budget."""
    label, word, link = subject
    values = [
        (left, Column("", "Budget left, 30 d", "percentunit", steps=_LEFT_STEPS, width=150)),
        (objective, Column("", "Objective", "percentunit", width=100)),
        *(
            (burn, Column("", f"Burn, {window}", "none", steps=_BURN_STEPS[window], width=100))
            for window, burn in zip(_WINDOWS, burns, strict=True)
        ),
        *(more or ()),
    ]
    columns = [
        Column(f"Value #{chr(ord('A') + index)}", column.title, column.unit, steps=column.steps, width=column.width)
        for index, (_, column) in enumerate(values)
    ]
    named = [Column("kafka_cluster", "Cluster", width=160), Column(label, word, link=link)]
    return table(
        title,
        description,
        [query for query, _ in values],
        [*named, *columns],
        sort=["Budget left, 30 d"],
        smallest_first=True,
        none=none,
    )


def _left_over_time() -> tuple[core.Panel, ...]:
    text = "The share of the budget of 30 days that is left, of the ten with the least. A line falls while more is lost"
    return tuple(
        lines(
            f"Budget left, {word}s",
            f"{text} than comes back.",
            Query(f"bottomk(10, {_left(topics=word == 'topic')})", f"{{{{kafka_cluster}}}} {{{{{word}}}}}"),
            "percentunit",
            signed=True,
        )
        for word in ("application", "topic")
    )


def _burns_over_time() -> tuple[core.Panel, ...]:
    return (
        lines(
            "Burn rate over 1 h, applications",
            "Of the ten that spend their budget fastest; the line is where the alert of this window begins.",
            Query(f"topk(10, {_application_burn('1h')})", "{{kafka_cluster}} {{application}}"),
            "none",
            steps=((None, GREEN), (14.4, RED)),
        ),
        lines(
            "Burn rate over 1 h, topics",
            "Of the ten that spend their budget fastest; the line is where the alert of this window begins.",
            Query(f"topk(10, {_topic_burn('1h')})", "{{kafka_cluster}} {{topic}}"),
            "none",
            steps=((None, GREEN), (14.4, RED)),
        ),
    )
