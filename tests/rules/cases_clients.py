"""Streams clients and threads, and librdkafka clients, that cannot go on by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from exporter.catalogue import (
    PRODUCER_IDEMPOTENCE_STATE,
    PRODUCER_TXN_STATE,
    STREAMS_CLIENT_STATE,
    STREAMS_FAILED_THREADS_TOTAL,
    STREAMS_THREAD_STATE,
)
from exporter.model import Metric
from tests.rules.promtool import Case, Series, case, scraped, spread

CLIENT, THREAD = "KafkaEosStreamsFailed client", "KafkaEosStreamsFailed thread"
FATAL = "KafkaEosProducerFatalError"
WHO = ("prod", "app-1:8778", "wordcount")
JVM = ("prod", "app-1:8778")
State = Callable[..., Series]


def cases() -> Iterator[Case]:
    for state in ("error", "pending_error"):
        yield from _failed(CLIENT, STREAMS_CLIENT_STATE, state, "running", reason="client")
    for metric in (PRODUCER_TXN_STATE, PRODUCER_IDEMPOTENCE_STATE):
        yield from _failed(FATAL, metric, "fatal_error", "ready")
    both = [
        scraped(PRODUCER_TXN_STATE, *WHO, "fatal_error", values="1x60"),
        scraped(PRODUCER_IDEMPOTENCE_STATE, *WHO, "fatal_error", values="1x60"),
    ]
    yield case(FATAL, "both states are one alert", both, {"1m": [_of("warning", WHO)]})
    yield from _threads()


def _of(severity: str, who: tuple[str, ...], **more: str) -> dict[str, str]:
    return {"severity": severity, "kafka_cluster": who[0], "target": who[1], "client_id": who[2], **more}


def _failed(alert: str, metric: Metric, bad: str, good: str, **more: str) -> Iterator[Case]:
    """A ticket for ten minutes after it was seen, a page while it lasts for five."""

    def state(values: str, who: tuple[str, ...] = WHO, name: str = bad, agent: str = "a") -> Series:
        return scraped(metric, *who, name, values=values, agent=agent)

    ticket, page = _of("warning", WHO, **more), _of("critical", WHO, **more)
    at = f"{metric} {bad}: "
    yield case(
        alert,
        at + "a ticket at once, a page after five minutes",
        [state("_ 1x60")],
        {"0m": [], "1m": [ticket], "5m": [ticket], "6m": [ticket, page]},
    )
    yield case(
        alert,
        at + "each client, and two replicas that see it",
        [state("1x60", who, agent=agent) for who in spread(WHO) for agent in "ab"],
        {"5m": [_of(severity, who, **more) for who in spread(WHO) for severity in ("warning", "critical")]},
    )
    yield case(
        alert,
        at + "it runs again: the ticket stays for ten minutes",
        [state("1 stale"), state("_ 1x60", name=good)],
        {"1m": [ticket], "9m": [ticket], "11m": []},
    )
    yield case(
        alert,
        at + "in a loop it pages though it runs most of the time",
        [state("1 stale stale " * 10), state("_ 1 1 " * 10, name=good)],
        {"4m": [ticket], "5m": [ticket, page], "20m": [ticket, page]},
    )
    yield case(
        alert,
        at + "every fifth minute is a ticket",
        [state("1 stale stale stale stale " * 10)],
        {"12m": [ticket], "30m": [ticket]},
    )
    gone = [state("1x8 stale")]
    yield case(alert, at + "seven minutes without data", gone, {"18m": [ticket, page], "19m": []})
    yield case(alert, at + "well", [state("1x60", name=good)], {"1m": [], "30m": []})


def _scaled(well: Series, gone: Series, dies: list[Series]) -> Iterator[Case]:
    """Fewer threads without a failed one were taken away on purpose."""
    ours = {"severity": "warning", "reason": "thread", "kafka_cluster": "prod", "target": "app-1:8778"}

    def failed(
        values: str, jvm: tuple[str, str] = ("prod", "app-1:8778"), client: str = "c", agent: str = "a"
    ) -> Series:
        return scraped(STREAMS_FAILED_THREADS_TOTAL, *jvm, client, values=values, agent=agent)

    yield case(THREAD, "scaled down", [well, gone, failed("0x120")], {"31m": [], "60m": [], "90m": []})
    yield case(THREAD, "one failed", [well, gone, failed("0x20 1x100")], {"30m": [], "31m": [ours], "60m": [ours]})
    unknown = [well, gone, failed("0x120", ("prod", "app-2")), failed("0x120", ("other", "app-1:8778"))]
    yield case(THREAD, "whether one failed is not known of this instance", unknown, {"31m": [ours]})
    again = [well, gone, failed("0x19 1x9 0x120")]
    yield case(THREAD, "one failed, and the client was started again with fewer", again, {"40m": [ours]})


def _threads() -> Iterator[Case]:
    def thread(
        number: int, values: str, state: str = "running", jvm: tuple[str, ...] = JVM, agent: str = "a"
    ) -> Series:
        return scraped(STREAMS_THREAD_STATE, *jvm, f"app-StreamThread-{number}", state, values=values, agent=agent)

    def ours(jvm: tuple[str, ...] = JVM) -> dict[str, str]:
        return {"severity": "warning", "reason": "thread", "kafka_cluster": jvm[0], "target": jvm[1]}

    well = thread(1, "1x120")
    dies = [thread(2, "1x20 stale"), thread(2, "_x20 1x100", "dead")]
    yield case(THREAD, "a dead thread", [well, *dies], {"29m": [], "30m": [ours()], "119m": [ours()]})
    gone = thread(2, "1x20 stale")
    yield case(
        THREAD,
        "a thread whose metrics go with it, for as long as an hour remembers it",
        [well, gone],
        {"30m": [], "31m": [ours()], "80m": [ours()], "95m": []},
    )
    yield case(
        THREAD,
        "it was dead when it was first seen",
        [thread(2, "1x120", "dead")],
        {"9m": [], "10m": [ours()]},
    )
    yield case(
        THREAD,
        "rebalances change states, not threads",
        [
            thread(1, "1 stale " * 30),
            thread(1, "_ 1 stale " + "1 stale " * 29, "partitions_revoked"),
            thread(2, "1x60"),
        ],
        {"30m": [], "50m": []},
    )
    yield from _scaled(well, gone, dies)
    yield case(THREAD, "one more thread than before", [well, thread(2, "_x20 1x90")], {"40m": [], "90m": []})
