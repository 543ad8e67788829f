"""Tests of what one application reads on one cluster and writes in transactions on another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from exporter.inventory.copies import copies_of
from exporter.inventory.facts import ApplicationUse, Inventory
from exporter.status.inventory_documents import ReadInventory, inventory_document
from tests.helpers.schemas import conform

READS = {"pay": frozenset({"orders"}), "other": frozenset({"audit"})}


def inventory(
    cluster_id: str,
    *names: str,
    reads: Mapping[str, frozenset[str]] | None = None,
    groups: tuple[str, ...] = (),
    commits_offsets: bool = False,
) -> Inventory:
    uses = tuple(
        ApplicationUse(name, 1, 5, 0, frozenset({"ledger"}), (60.0,), {2: 1}, commits_offsets) for name in names
    )
    every = frozenset(groups) | (reads or {}).keys()
    return Inventory(3600.0, uses, (), (), cluster_id, reads or {}, every)


SOURCE = inventory("a", reads=READS)


def test_a_group_on_one_cluster_and_an_application_of_its_name_on_another_are_a_copy() -> None:
    (copy,) = copies_of({"east": SOURCE, "west": inventory("b", "pay", "etl")})
    assert (copy.application, copy.source, copy.target) == ("pay", "east", "west")
    assert (copy.read, copy.written) == (frozenset({"orders"}), frozenset({"ledger"}))


@pytest.mark.parametrize(
    "target",
    [
        inventory("a", "pay"),  # the same cluster by another name
        inventory("b", "pay", commits_offsets=True),  # it reads what it writes after on its own cluster
        inventory("b", "pay", groups=("pay",)),  # the same program as on the other cluster, beside it
        inventory("b", "pay", reads=READS),
        inventory("b", "etl"),
    ],
)
def test_an_application_that_is_at_home_on_its_cluster_is_no_copy(target: Inventory) -> None:
    assert list(copies_of({"east": SOURCE, "west": target})) == []


def test_the_document_has_copies_only_where_two_clusters_were_read() -> None:
    def document(*found: Inventory) -> dict[str, Any]:
        read = [ReadInventory(name, inventory, 0.0) for name, inventory in zip(("east", "west"), found, strict=False)]
        return conform("transactions-inventory", dict(inventory_document(read, lambda _: "team-a")))

    assert document(SOURCE)["copies"] is None
    assert document(SOURCE, Inventory(0.0, (), (), ("it does not answer",)))["copies"] is None
    assert document(SOURCE, inventory("b"))["copies"] == []
    (copy,) = document(SOURCE, inventory("b", "pay"))["copies"]
    assert copy == {
        "application": "pay",
        "owner": "team-a",
        "from_cluster": "east",
        "from_topics": ["orders"],
        "to_cluster": "west",
        "to_topics": ["ledger"],
    }
