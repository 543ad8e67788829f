"""Connect's part of the status document."""

from __future__ import annotations

import pytest

from exporter.connect.facts import ConnectState
from exporter.connect.rest import Connector, Task
from exporter.views.pipelines import connect_document
from exporter.words import FailureCause

SETTINGS = {
    "transaction.boundary": "interval",
    "transaction.boundary.interval.ms": "40000",
    "producer.override.transaction.timeout.ms": "15000",
}


@pytest.mark.parametrize(
    ("cause", "hinted"),
    [(FailureCause.INVALID_EPOCH, True), (FailureCause.FENCED, True), (FailureCause.OTHER, False)],
)
def test_a_task_whose_transactions_time_out_by_its_own_settings_has_them_as_a_hint(
    cause: FailureCause, hinted: bool
) -> None:
    task = Task("orders", "0", "failed", "c1:8083", error="expired", cause=cause)
    connector = Connector("orders", "source", settings=SETTINGS, tasks=(task,))
    (failed,) = connect_document(ConnectState("etl", (connector,), True))["failed"]
    assert (failed["connector"], failed["task"], failed["cause"]) == ("orders", "0", cause)
    assert ("is not below 15000" in (failed["hint"] or "")) is hinted
