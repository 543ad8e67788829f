"""Ids of forty and more products: each service is one application, and none is Flink's without evidence."""

from __future__ import annotations

from collections import defaultdict

import pytest

from exporter.applications.applications import Application, Grouping
from exporter.applications.made_up import is_made_up
from exporter.applications.naming import form_of
from tests.unit.applications.id_forms import SERVICES, Service

MOST_SPLIT = 0.05
"""Largest share of services whose ids may be several applications."""


@pytest.fixture(scope="module")
def applications() -> dict[Service, set[Application]]:
    """The applications of each service in one cluster, as the agent groups them."""
    grouping = Grouping()
    for service in SERVICES:
        for transactional_id in service.ids:
            grouping.learn(transactional_id)
    return {service: {grouping.of(transactional_id) for transactional_id in service.ids} for service in SERVICES}


def test_the_table_has_forty_products_and_several_ids_of_most() -> None:
    assert len({service.product for service in SERVICES}) >= 40
    assert sum(len(service.ids) for service in SERVICES) >= 300
    every = [transactional_id for service in SERVICES for transactional_id in service.ids]
    assert len(set(every)) == len(every)


def test_no_two_services_are_one_application(applications: dict[Service, set[Application]]) -> None:
    services = defaultdict(set)
    for service, found in applications.items():
        for application in found:
            services[application.name].add(service.ids)
    assert {name: ids for name, ids in services.items() if len(ids) > 1} == {}


def test_nearly_every_service_is_one_application(applications: dict[Service, set[Application]]) -> None:
    split = {service.ids: sorted(found) for service, found in applications.items() if len(found) > 1}
    assert len(split) <= MOST_SPLIT * len(SERVICES), split


def test_no_id_is_flinks_by_its_form(applications: dict[Service, set[Application]]) -> None:
    assert not [found for found in applications.values() if any(known.kind == "flink" for known in found)]


@pytest.mark.parametrize("name", ["log4j2kafka", "cafe2024", "InventorySnapshotV2ToS3Sink", "route53dns", "a" * 99])
def test_a_name_with_digits_is_not_random(name: str) -> None:
    assert not is_made_up(name)


@pytest.mark.parametrize("random", ["3f2a9c1b", "bcdf1234", "x7k2qm9z1p", "0ujtsYcgvSTl8PAuAdqWYSMnLOv", "9F86D081"])
def test_random_text_is_made_up(random: str) -> None:
    assert is_made_up(random)


def test_a_bar_separates_too() -> None:
    assert form_of("user-events|orders|3").name == form_of("user-events|orders|14").name


def test_a_long_id_of_many_parts_is_not_looked_at_part_by_part() -> None:
    assert form_of("3f2a9c1b-" * 3000 + "x").name
