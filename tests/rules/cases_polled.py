"""Cases of what became of transactions as far as polling shows it, where the log is not read."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import (
    APPLICATION_THRESHOLD_RATIO,
    LAST_TRANSACTION_OBSERVED_TIMESTAMP_SECONDS,
    TRANSACTIONS_OBSERVED_TOTAL,
)
from tests.rules.promtool import Case, Series, case, scraped, spread

APP = ("prod", "pay")
OUTCOMES = ("committed", "aborted", "timed_out", "fenced", "unknown")


def of(app: tuple[str, ...] = APP) -> dict[str, str]:
    return {"severity": "warning", "reason": "polled", "kafka_cluster": app[0], "application": app[1]}


def cases() -> Iterator[Case]:
    yield from _events("KafkaEosProducerFenced", "fenced", "timed_out")
    yield from _events("KafkaEosTransactionTimeouts", "timed_out", "fenced")
    yield from _ratio()


def _events(alert: str, outcome: str, other: str) -> Iterator[Case]:
    name = f"{alert} polled"

    def last(values: str, app: tuple[str, ...] = APP, agent: str = "a", outcome: str = outcome) -> Series:
        return scraped(LAST_TRANSACTION_OBSERVED_TIMESTAMP_SECONDS, *app, outcome, values=values, agent=agent)

    apps = spread(APP)
    yield case(name, "the first one", [last("_ _ _ 170x60")], {"2m": [], "3m": [of()], "12m": [of()]})
    yield case(name, "for ten minutes, and seven", [last("0x60")], {"9m": [of()], "16m": [of()], "17m": []})
    yield case(name, "ten minutes after it are over", [last("-600x60")], {"0m": []})
    yield case(name, "just within ten minutes", [last("-599x60")], {"0m": [of()]})
    yield case(name, "each application", [last("0x60", app) for app in apps], {"1m": [of(app) for app in apps]})
    late = [last("0x60"), last("-2000x60", agent="b")]
    yield case(name, "two replicas tell of it once, by the later look", late, {"1m": [of()]})
    yield case(name, "the canary's are on purpose", [last("0x60", ("prod", "kafka-eos-canary"))], {"1m": []})
    others = [last("0+60x60", outcome=text) for text in (other, "committed", "aborted", "unknown")]
    yield case(name, "other outcomes are other alerts'", others, {"1m": [], "30m": []})


def _ratio() -> Iterator[Case]:
    name = "KafkaEosAbortRatioHigh polled"

    def ended(*per_minute: float, app: tuple[str, ...] = APP, agent: str = "a") -> list[Series]:
        return [
            scraped(TRANSACTIONS_OBSERVED_TOTAL, *app, outcome, values=f"0+{count:g}x120", agent=agent)
            for outcome, count in zip(OUTCOMES, per_minute, strict=True)
        ]

    def budget(share: float, app: tuple[str, ...] = APP, agent: str = "a") -> Series:
        return scraped(APPLICATION_THRESHOLD_RATIO, *app, "unclean", values=f"{share:g}x500", agent=agent)

    bad, well = (94, 2, 2, 2, 0), (96, 2, 1, 1, 0)
    apps = spread(APP)
    yield case(name, "more than 5%", ended(*bad), {"15m": [], "17m": [of()], "90m": [of()]})
    yield case(name, "less than 5%", ended(*well), {"30m": [], "90m": []})
    yield case(name, "half, and no more", [*ended(50, 20, 20, 10, 0), budget(0.5)], {"30m": [], "90m": []})
    yield case(
        name, "each application", [one for app in apps for one in ended(*bad, app=app)], {"30m": [*map(of, apps)]}
    )
    yield case(name, "unknown outcomes are not judged", ended(0, 0, 0, 0, 100), {"30m": [], "90m": []})
    yield case(name, "unknown outcomes dilute no share", ended(94, 6, 0, 0, 1000), {"30m": [of()]})
    few = ended(0, 0.3, 0, 0, 10)
    yield case(name, "eighteen seen in an hour are too few", few, {"30m": [], "90m": []})
    yield case(name, "twenty-one are enough", ended(0, 0.35, 0, 0, 0), {"40m": [], "90m": [of()]})
    yield case(name, "twenty, for a quarter of an hour", ended(0, 1, 0, 0, 0), {"34m": [], "35m": [of()]})
    yield case(name, "unknown outcomes are no losses", ended(97, 3, 0, 0, 100), {"30m": [], "90m": []})
    differ = [*ended(*bad), *ended(100, 0, 0, 0, 0, agent="b")]
    yield case(name, "of two replicas, the one that saw more losses", differ, {"30m": [of()]})
    three = [*ended(97, 3, 0, 0, 0), *ended(97, 3, 0, 0, 0, agent="b")]
    yield case(name, "two shares do not add up", three, {"30m": [], "90m": []})
    young = [*ended(*bad), *ended(0.1, 0, 0, 0, 0, agent="b")]
    yield case(name, "a replica that saw little", young, {"60m": [of()]})
    away = scraped(APPLICATION_THRESHOLD_RATIO, *APP, "unclean", values="0.05x60 stale")
    yield case(name, "an agent that is away", [*ended(*bad), away], {"69m": [of()], "70m": [of()], "71m": []})
    twice = [*ended(0, 0.2, 0, 0, 0), *ended(0, 0.2, 0, 0, 0, agent="b")]
    yield case(name, "two replicas saw the same twelve", twice, {"30m": [], "90m": []})
    two = [*ended(*bad), *ended(*bad, agent="b")]
    yield case(name, "two replicas are one ticket", two, {"30m": [of()]})
    yield case(name, "a budget below 2% is not judged by polling", [*ended(*bad), budget(0.019)], {"90m": []})
    yield case(name, "2% is", [*ended(*bad), budget(0.02)], {"90m": [of()]})
    yield case(name, "all may be lost", [*ended(0, 10, 0, 0, 0), budget(1.0)], {"90m": []})
