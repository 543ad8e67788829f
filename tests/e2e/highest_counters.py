"""The counters of one application over many scrapes, of which none may be lower than an earlier one."""

from __future__ import annotations

from exporter import catalogue
from testkit.agent import Metrics

COUNTERS = (
    str(catalogue.TRANSACTIONS_TOTAL),
    str(catalogue.PRODUCER_INITS_TOTAL),
    f"{catalogue.TRANSACTION_OPEN_SECONDS}_sum",
    f"{catalogue.TRANSACTION_OPEN_SECONDS}_count",
    f"{catalogue.TRANSACTION_OPEN_SECONDS}_bucket",
    f"{catalogue.TRANSACTION_COMPLETION_SECONDS}_sum",
    f"{catalogue.TRANSACTION_COMPLETION_SECONDS}_count",
    str(catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL),
)


class HighestCounters:
    """The highest that was shown of every counter of an application: no later scrape may be lower."""

    def __init__(self, application: str) -> None:
        self._application = application
        self._highest: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}

    def look(self, metrics: Metrics) -> Metrics:
        for name in COUNTERS:
            for sample in metrics.samples(name):
                if sample.labels.get("application", self._application) != self._application:
                    continue
                series = name, frozenset(sample.labels.items())
                assert sample.value >= self._highest.get(series, 0.0), f"{sample} was {self._highest[series]:g}"
                self._highest[series] = sample.value
        return metrics

    @property
    def committed(self) -> float:
        return max(
            (
                value
                for (name, labels), value in self._highest.items()
                if name == str(catalogue.TRANSACTIONS_TOTAL) and ("outcome", "committed") in labels
            ),
            default=0.0,
        )


def outcomes_of(metrics: Metrics, application: str) -> dict[str, float | None]:
    """How many transactions ended in each outcome."""
    return {
        outcome: metrics.value(catalogue.TRANSACTIONS_TOTAL, application=application, outcome=outcome)
        for outcome in catalogue.OUTCOMES
    }
