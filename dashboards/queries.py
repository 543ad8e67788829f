"""PromQL over rows of the catalogue. Plain text: a misspelt metric is a NameError, Prometheus judges the rest.

Several replicas of the agent may watch one cluster. They tell one truth, so every query takes the largest over them
(the smallest for instants at which something began) before it adds up anything: ``max by`` of all labels of the metric
but ``instance`` and ``pod``.
"""

from __future__ import annotations

from collections.abc import Iterable

from exporter.alerts.rule import Record
from exporter.catalogue import EXPORTER_BUILD_INFO, SERIES_DROPPED, SOURCE_UP
from exporter.model import Kind, Metric

_SELECTED = ('job=~"$job"', 'instance=~"$instance"')
OF_APPLICATION = 'application=~"$application"'
RATE_WINDOW = "$__rate_interval"


def series(metric: Metric, *matchers: str, suffix: str = "") -> str:
    """The selected series of a family; ``suffix`` is ``_bucket``, ``_count`` or ``_sum``."""
    cluster = ('kafka_cluster=~"$kafka_cluster"',) if "kafka_cluster" in metric.labels else ()
    return f"{metric.name}{suffix}{{{', '.join((*_SELECTED, *cluster, *matchers))}}}"


def now(metric: Metric, *matchers: str) -> str:
    """The one truth of a gauge, with all labels of the family."""
    first = any(part in metric.name for part in ("_since_", "_start_"))
    return _by(("min" if first else "max"), metric.labels, series(metric, *matchers))


def in_state(metric: Metric, state: str, *matchers: str) -> str:
    """How many are in this state; 0 when all are in other ones, absent when no state is known."""
    which = now(metric, *matchers, f'state="{state}"')
    return f"{total(which)} or {total(now(metric, *matchers))} * 0"


def numbered(metric: Metric, label: str, values: Iterable[str], *matchers: str, first: int = 0) -> str:
    """A label as a number, the place of its value among ``values``: a band of a timeline is coloured by it."""
    return " or ".join(
        now(metric, *matchers, f'{label}="{value}"') + f" * {place}" for place, value in enumerate(values, first)
    )


def per_second(metric: Metric, *matchers: str) -> str:
    """The one truth of a counter's rate; for a histogram or summary that of its observations."""
    suffix = "" if metric.kind is Kind.COUNTER else "_count"
    return _by("max", metric.labels, f"rate({series(metric, *matchers, suffix=suffix)}[{RATE_WINDOW}])")


def gained(metric: Metric, window: str, *matchers: str) -> str:
    """The increase of a counter in a window such as ``15m``; every panel uses this expression."""
    return _by("max", metric.labels, f"increase({series(metric, *matchers)}[{window}])")


def quantile(share: float, metric: Metric, by: str, *matchers: str) -> str:
    """A quantile of a histogram's observations."""
    rate = f"rate({series(metric, *matchers, suffix='_bucket')}[{RATE_WINDOW}])"
    # Where nothing was observed it is NaN, which no comparison keeps: then there is no line.
    return f"histogram_quantile({share:g}, {total(_by('max', (*metric.labels, 'le'), rate), f'le, {by}')}) >= 0"


def own(metric: Metric, *matchers: str) -> str:
    """A gauge of the agent about itself: here each replica is a fact of its own."""
    return _by("max", ("instance", *metric.labels), series(metric, *matchers))


def answered() -> str:
    """Return whether a source answers in full to every replica of the agent."""
    return _by("min", SOURCE_UP.labels, series(SOURCE_UP))


def agents() -> str:
    """Return 1 for each agent and cluster where every source answers, 0 where one does not, with version and page."""
    answers = _by("min", ("kafka_cluster", "job", "instance"), series(SOURCE_UP))
    builds = _by("max", ("job", "instance", "version", "external_url"), series(EXPORTER_BUILD_INFO))
    return f"{answers} * on (job, instance) group_left (version, external_url) {builds}"


def dropped() -> str:
    """Series that a cap keeps out, by metric."""
    return total(_by("max", SERIES_DROPPED.labels, series(SERIES_DROPPED)), "metric")


def own_per_second(metric: Metric, *matchers: str) -> str:
    """A counter's rate, each replica for itself."""
    return _by("max", ("instance", *metric.labels), f"rate({series(metric, *matchers)}[{RATE_WINDOW}])")


def recorded(operator: str, by: str, record: Record, *matchers: str, window: str = "") -> str:
    """A recorded series, which is one truth already and has no job or instance; over a window its average.

    ``operator`` decides between series that only other labels of the Prometheus tell apart: ``max`` or ``min``.
    """
    selected = ", ".join(('kafka_cluster=~"$kafka_cluster"', *matchers))
    found = f"{record}{{{selected}}}"
    return _by(operator, (by,), f"avg_over_time({found}[{window}])" if window else found)


def total(inner: str, by: str = "") -> str:
    """The sum, by these labels or of everything."""
    return f"sum by ({by}) ({inner})" if by else f"sum({inner})"


def of_threshold(value: str, metric: Metric, threshold: str, *matchers: str) -> str:
    """How much of the threshold of its subject a value has reached, by the settings: 1 is all of it, 0 is never."""
    subject = ", ".join(label for label in metric.labels if label != "threshold")
    limit = now(metric, f'threshold="{threshold}"', *matchers)
    return f"({value}) / on ({subject}) group_left () {limit}"


def age(instant: str) -> str:
    """Seconds since an instant."""
    return f"time() - {instant}"


def _by(operator: str, labels: tuple[str, ...], inner: str) -> str:
    return f"{operator} by ({', '.join(labels)}) ({inner})"
