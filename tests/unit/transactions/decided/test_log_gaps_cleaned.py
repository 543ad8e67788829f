from __future__ import annotations

from collections.abc import Mapping

import pytest

from exporter.model import Fault, Reason
from exporter.transactions.decided.log_gaps import may_be_cleaned


@pytest.mark.parametrize(
    ("settings", "cleaned"),
    [
        ({"cleanup.policy": "delete", "delete.retention.ms": "0"}, False),
        ({"cleanup.policy": "compact", "delete.retention.ms": "599999"}, True),
        ({"cleanup.policy": "compact,delete", "delete.retention.ms": "600000"}, False),
        ({"cleanup.policy": "compact"}, False),
        ({"cleanup.policy": "compact", "delete.retention.ms": "-1"}, True),
        (Fault(Reason.AUTHORIZATION, "grant DESCRIBE_CONFIGS"), None),
        (None, None),
    ],
)
def test_a_marker_may_be_cleaned_from_a_compacted_topic_that_keeps_it_for_a_shorter_time(
    settings: Mapping[str, str] | Fault | None, *, cleaned: bool | None
) -> None:
    assert may_be_cleaned(settings, 600_000) is cleaned
