"""Threads of Kafka Streams that are dead or gone."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.catalogue import STREAMS_FAILED_THREADS_TOTAL, STREAMS_THREAD_STATE
from tests.rules.promtool import Case, Series, case, scraped

THREAD = "KafkaEosStreamsFailed thread"
JVM = ("prod", "app-1:8778")


def cases() -> Iterator[Case]:
    yield from _threads()


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
    yield case(THREAD, "it was dead when it was first seen", [thread(2, "1x120", "dead")], {"9m": [], "10m": [ours()]})
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
