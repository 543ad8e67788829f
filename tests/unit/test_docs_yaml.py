"""YAML in the docs can be parsed, its settings and grants are real ones, and no wrapped line is an item of a list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.access import READ_ALL

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
STRIMZI = list(yaml.safe_load_all((ROOT / "docs" / "examples" / "strimzi.yaml").read_text()))
FENCE = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPERATIONS = re.compile(r"--operation (\w+)")
KINDS = {"topic": "Topic", "group": "Group", "cluster": "Cluster", "transactionalId": "TransactionalId"}
Grant = tuple[str, str, str]


def blocks(page: Path) -> list[str]:
    return FENCE.findall(page.read_text())


def documents(page: Path) -> Iterator[Any]:
    for block in blocks(page):
        yield from yaml.safe_load_all(block)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_yaml_of_a_page_can_be_parsed(page: Path) -> None:
    for document in documents(page):
        assert isinstance(document, dict | list), document


def test_no_line_that_is_wrapped_begins_with_a_number_that_markdown_takes_for_an_item_of_a_list() -> None:
    assert [line for page in PAGES for line in page.read_text().splitlines() if re.match(r" +\d{2,}[.)] ", line)] == []


def granted(user: str) -> set[Grant]:
    """The grants of a KafkaUser of strimzi.yaml, as ``testkit.access`` writes them."""
    users = [document for document in STRIMZI if document["kind"] == "KafkaUser"]
    [acls] = [found["spec"]["authorization"]["acls"] for found in users if found["metadata"]["name"] == user]
    found = set()
    for acl in acls:
        resource = acl["resource"]
        name = resource.get("name", "kafka-cluster") + ("…" if resource.get("patternType") == "prefix" else "")
        for operation in acl["operations"]:
            word = re.sub(r"(?<!^)([A-Z])", r"_\1", operation).upper()
            found.add((word, KINDS[resource["type"]], name))
    return found


def test_strimzis_user_of_the_agent_has_the_grants_that_are_enough() -> None:
    assert granted("eos") == set(READ_ALL)


def test_strimzis_user_of_the_canary_has_the_grants_of_its_page() -> None:
    expected: set[Grant] = set()
    for line in (ROOT / "docs" / "canary.md").read_text().splitlines():
        if not line.startswith("kafka-acls.sh"):
            continue
        kind, name = next(
            (kind, match[1])
            for flag, kind in (("topic", "Topic"), ("transactional-id", "TransactionalId"), ("group", "Group"))
            if (match := re.search(rf"--{flag} (\S+)", line))
        )
        name += "…" if "--resource-pattern-type prefixed" in line else ""
        expected |= {(operation.upper(), kind, name) for operation in OPERATIONS.findall(line)}
    assert len(expected) == 8
    assert granted("canary") == expected


def test_strimzis_topic_is_the_canarys() -> None:
    [topic] = [document for document in STRIMZI if document["kind"] == "KafkaTopic"]
    assert topic["metadata"]["name"] == "kafka-eos-canary"
    assert topic["spec"]["partitions"] >= 2
