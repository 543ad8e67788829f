"""Applications from records of the transaction log."""

from __future__ import annotations

import pytest

from exporter.catalogue import INTERNAL_TOPICS
from exporter.inventory import applications_in_log
from exporter.inventory.applications_in_log import ApplicationsInLog, ApplicationUse
from exporter.model import TopicPartition
from exporter.transactions.machine.records import NO_TIMEOUT_MS, LogValue, Status, Tags


def value(
    status: Status, *topics: str, version: int = 0, timeout_ms: int = 60_000, producer_id: int = 7, previous: int = -1
) -> LogValue:
    places = tuple(TopicPartition(topic, 0) for topic in topics)
    tags = Tags(previous_producer_id=previous, client_version=version)
    return LogValue(1, producer_id, 0, timeout_ms, status, places, 1000, 900, tags)


def only(log: ApplicationsInLog) -> ApplicationUse:
    (use,) = log.uses({})
    return use


def test_topics_outcomes_timeouts_and_generations_are_summed_by_application() -> None:
    log = ApplicationsInLog()
    log.take("pay", "pay-1", value(Status.ONGOING, "orders", INTERNAL_TOPICS[1]))
    log.take("pay", "pay-1", value(Status.COMPLETE_COMMIT))
    log.take("pay", "pay-2", value(Status.ONGOING, "ledger", version=2, timeout_ms=30_000, producer_id=8))
    log.take("pay", "pay-2", value(Status.COMPLETE_ABORT, version=2, producer_id=8))
    use = only(log)
    assert (use.ids, use.committed, use.aborted, set(use.topics)) == (2, 1, 1, {"orders", "ledger"})
    assert (use.timeouts, use.clients, use.commits_offsets) == ((30.0, 60.0), {0: 1, 2: 1}, True)
    assert log.topics == {"orders", "ledger"}
    assert (log.application_of(7), log.application_of(8), log.application_of(9)) == ("pay", "pay", None)


def test_the_servers_abort_and_a_fence_say_nothing_of_the_client() -> None:
    log = ApplicationsInLog()
    log.take("pay", "pay-1", value(Status.PREPARE_ABORT, "orders", version=2))
    log.take("pay", "pay-1", value(Status.EMPTY, version=2, timeout_ms=1))
    log.take("pay", "pay-1", value(Status.ONGOING, "orders", timeout_ms=NO_TIMEOUT_MS))
    assert (only(log).clients, only(log).timeouts) == ({0: 1}, ())


def test_applications_and_topics_beyond_the_limits_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applications_in_log, "MOST_APPLICATIONS", 1)
    monkeypatch.setattr(applications_in_log, "MOST_TOPICS", 1)
    log = ApplicationsInLog()
    log.take("pay", "pay-1", value(Status.ONGOING, "orders", "orders"))
    log.take("pay", "pay-1", value(Status.ONGOING, "ledger"))
    log.take("ship", "ship-1", value(Status.ONGOING, "ledger"))
    assert (set(only(log).topics), log.dropped) == ({"orders"}, 2)


def test_groups_are_those_whose_offsets_were_committed_by_the_application() -> None:
    log = ApplicationsInLog()
    log.take("pay", "pay-1", value(Status.ONGOING, "orders"))
    (use,) = log.uses({"pay": {"readers"}, "ship": {"others"}})
    assert use.groups == {"readers"}


def test_names_of_topics_are_bounded_over_all_applications(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applications_in_log, "MOST_NAMES", 2)
    log = ApplicationsInLog()
    for number in range(3):
        log.take(f"pay{number}", f"pay{number}-1", value(Status.ONGOING, "orders", producer_id=number))
    assert ([len(use.topics) for use in log.uses({})], log.dropped) == ([1, 1, 0], 1)
    log.take("pay0", "pay0-1", value(Status.ONGOING, "orders", producer_id=0))
    assert log.dropped == 1
