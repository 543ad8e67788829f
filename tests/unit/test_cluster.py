"""Which cluster of the settings has the state of a Kafka cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.kafka.faults import AskError
from exporter.model import Deadline, Reason
from tests.helpers.cluster import FakeKafka


def test_a_second_cluster_of_the_settings_with_the_same_cluster_id_is_refused_and_keeps_no_state(
    tmp_path: Path,
) -> None:
    world = FakeKafka()
    deadline = Deadline.after(10.0, world.time.clock.monotonic)
    alpha, beta = world.cluster(tmp_path, "alpha"), world.cluster(tmp_path, "beta")
    beta.state = alpha.state
    assert alpha.metadata(deadline).cluster_id == alpha.cluster_id
    with pytest.raises(AskError) as refused:
        beta.metadata(deadline)
    assert alpha.metadata(deadline).cluster_id == alpha.cluster_id
    assert refused.value.fault.reason is Reason.IDENTITY
    assert "is read as alpha" in refused.value.fault.detail
    assert beta.cluster_id == ""
    alpha.state.release("alpha")
    assert beta.metadata(deadline).cluster_id == beta.cluster_id


def test_without_a_state_folder_two_clusters_of_the_settings_may_be_the_same() -> None:
    world = FakeKafka()
    deadline = Deadline.after(10.0, world.time.clock.monotonic)
    alpha, beta = world.cluster(None, "alpha"), world.cluster(None, "beta")
    beta.state = alpha.state
    assert alpha.metadata(deadline).cluster_id == beta.metadata(deadline).cluster_id
