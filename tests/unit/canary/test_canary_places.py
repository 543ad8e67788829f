"""Where the canary goes next."""

from __future__ import annotations

from collections import Counter

from exporter.canary.canary import HIDDEN_PLACES, Rotation, places_of
from exporter.kafka.ask import coordinator_partition


def test_each_partition_of_the_log_has_an_id_that_it_coordinates() -> None:
    leaders = {number: number % 3 for number in range(50)}
    places = places_of("kafka-eos-canary", leaders)
    assert [place.partition for place in places] == list(range(50))
    for place in places:
        assert coordinator_partition(place.transactional_id, 50) == place.partition
        assert place.coordinator == str(place.partition % 3)


def test_a_partition_without_a_leader_has_an_unknown_coordinator() -> None:
    assert places_of("c", {0: None})[0].coordinator == "unknown"


def test_where_the_log_is_hidden_some_ids_are_used_in_turn() -> None:
    places = places_of("c", {})
    assert len({place.transactional_id for place in places}) == HIDDEN_PLACES
    assert {place.coordinator for place in places} == {"unknown"}


def test_every_partition_has_its_turn_and_one_that_failed_more_often() -> None:
    places = places_of("c", dict.fromkeys(range(4), 1))
    rotation = Rotation()
    assert [rotation.choose(places, ()).partition for _ in range(4)] == [0, 1, 2, 3]
    assert rotation.cycles == 1
    turns = Counter(rotation.choose(places, {2}).partition for _ in range(8))
    assert turns == {0: 1, 1: 1, 2: 5, 3: 1}


def test_where_all_failed_they_go_round() -> None:
    places = places_of("c", dict.fromkeys(range(3), 1))
    rotation = Rotation()
    assert [rotation.choose(places, {0, 1, 2}).partition for _ in range(6)] == [0, 1, 2, 0, 1, 2]
