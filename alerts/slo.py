"""Service level objectives: transactions that end well, by application, and records that readers get in time, by topic.

An application's objective is its threshold `unclean`, over 30 days. A topic has one where `fresh_within` is set: 99% of
the time its oldest withheld record is no older than that. Without one, a topic is compared with itself a day before.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.aborts import BUDGET, finished, unclean_ratio
from exporter.alerts.rule import Alert, Board, Record, Severity
from exporter.catalogue import IGNORED_INFO, TOPIC_THRESHOLD_SECONDS, TOPIC_WITHHELD_RECORD_AGE_SECONDS

LATE_SHARE = 0.01
"""The share of time in which readers of a topic may be late."""
LATE_SECONDS = 60
_TOPIC = "kafka_cluster, topic"
_APPLICATION = "kafka_cluster_application:kafka_eos_transactions_slo"
_FRESHNESS = "kafka_cluster_topic:kafka_eos_freshness_slo"

AGE = Record(
    "kafka_cluster_topic:kafka_eos_topic_withheld_record_age_seconds:max",
    f"""\
max by ({_TOPIC}) ({TOPIC_WITHHELD_RECORD_AGE_SECONDS})
unless on ({_TOPIC}) label_replace({IGNORED_INFO}{{kind="topic"}}, "topic", "$1", "subject", "(.+)")""",
)
"""How old the oldest record is that readers of a topic are not given; absent where the topic is ignored."""

LATE = Record(
    f"{_FRESHNESS}:late",
    f'{AGE} > bool on ({_TOPIC}) max by ({_TOPIC}) ({TOPIC_THRESHOLD_SECONDS}{{threshold="fresh_within"}})',
)
"""1 while the readers of a topic are later than its threshold, 0 while they are not; absent without a threshold."""

USUAL = Record(
    "kafka_cluster_topic:kafka_eos_topic_withheld_record_age_seconds:usual",
    f"avg_over_time({AGE}[1d] offset 1d) or avg_over_time({AGE}[1d] offset 2h)",
)
"""How old it was on average on the day before; on a first day, until two hours ago."""

DAY_AGO = Record(
    "kafka_cluster_topic:kafka_eos_topic_withheld_record_age_seconds:max_day_ago",
    f"max_over_time(avg_over_time({AGE}[1h])[4h:30m] offset 22h)",
)
"""How old it was on average in the worst hour at this time of the day before, give or take two hours: a long
transaction of every night is usual.
"""

OBJECTIVE = Record(f"{_APPLICATION}:objective", f"1 - {BUDGET}")
BURN = Record(f"{_APPLICATION}:burn_rate1h", f"{unclean_ratio('1h')} / {BUDGET}")
REMAINING = Record(
    f"{_APPLICATION}:budget_remaining30d",
    f"""\
1 - sum_over_time(({unclean_ratio("1h")} * {finished("1h")} >= 0)[30d:1h])
  / sum_over_time({finished("1h")}[30d:1h]) / {BUDGET}""",
)
"""The share of the budget of 30 days that an application has left; below 0 when it lost more than it may."""
FRESHNESS_BURN = Record(f"{_FRESHNESS}:burn_rate1h", f"avg_over_time({LATE}[1h]) / {LATE_SHARE}")
FRESHNESS_REMAINING = Record(f"{_FRESHNESS}:budget_remaining30d", f"1 - avg_over_time({LATE}[30d:5m]) / {LATE_SHARE}")


def records() -> Iterator[Record]:
    """Recording rules with the usual interval."""
    yield AGE
    yield LATE


def slow_records() -> Iterator[Record]:
    """Recording rules over long windows, with a longer interval."""
    yield USUAL
    yield DAY_AGO
    yield OBJECTIVE
    yield BURN
    yield REMAINING
    yield FRESHNESS_BURN
    yield FRESHNESS_REMAINING


def slow_alerts() -> Iterator[Alert]:
    """Readers that are later than their objective allows, or than a day before."""
    yield Alert(
        "KafkaEosReadersLate",
        Severity.WARNING,
        Board.STALLS,
        f"""\
group by ({_TOPIC}) (
  avg_over_time({LATE}[1h]) > {14.4 * LATE_SHARE:g} and avg_over_time({LATE}[15m]) > {14.4 * LATE_SHARE:g}
  or
  avg_over_time({LATE}[1d]) > {3 * LATE_SHARE:g} and avg_over_time({LATE}[2h]) > {3 * LATE_SHARE:g}
  or
  avg_over_time({AGE}[1h]) > {LATE_SECONDS}
  and avg_over_time({AGE}[1h]) > 3 * {USUAL}
  unless avg_over_time({AGE}[1h]) <= 3 * {DAY_AGO}
)""",
        "{{ $labels.kafka_cluster }}: readers of {{ $labels.topic }} get records later than they should (fresh_within),"
        " or more than three times as late as the day before.",
        "First: open the agent's status page (page_url) and see which transactions are open for long: each of them ends"
        " by itself, and the next one holds the topic again."
        "\nShorter transactions make readers faster: commit more often, or lower the interval of checkpoints.",
        hold="5m",
        when="the oldest withheld record of a topic is older than its threshold (topic: fresh_within, never) for more"
        " than 14.4% of 1h and of 15m, or 3% of 1d and of 2h; or it was on average older than"
        f" {LATE_SECONDS} s in 1h, and more than three times as old as the day before, and as at this time of the day"
        " before; for 5m",
    )
