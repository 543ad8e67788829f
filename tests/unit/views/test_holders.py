"""The groups of a holder in words: who is there to end its transaction, and what is not known."""

from __future__ import annotations

import pytest

from exporter.groups.facts import HolderGroup, HolderGroups, HolderMember
from exporter.lso.facts import Blocker
from exporter.views.holders import holder_document
from exporter.words import BlockerKind, MemberMatch

NOON = 1_790_000_000.0
BLOCKER = Blocker("pay-1", "pay", 7, 0, 80, BlockerKind.OPEN, None, NOON, 900.0)


def text(found: HolderGroups | None, blocker: Blocker = BLOCKER) -> str:
    return holder_document(blocker, found)["text"]


def of(*groups: HolderGroup) -> HolderGroups:
    return HolderGroups({7: groups})


def test_members_are_named_with_their_addresses_the_likely_one_first() -> None:
    members = tuple(
        HolderMember(f"pay-{name}", f"10.0.3.{at}", match)
        for at, (name, match) in enumerate(
            [("a", MemberMatch.LIKELY), *((name, MemberMatch.NO) for name in "bcde")], start=1
        )
    )
    assert text(of(HolderGroup("pay-group", members, 7))) == (
        "its group pay-group has 7 members: 10.0.3.1 (pay-a, likely the holder), 10.0.3.2 (pay-b), 10.0.3.3 (pay-c) "
        "and 4 more"
    )


def test_a_group_without_members_says_when_the_coordinator_ends_what_nobody_else_will() -> None:
    empty = of(HolderGroup("pay-group", (), 0, NOON + 60))
    assert text(empty) == (
        "its group pay-group has no member since 2026-09-21 14:14:20 UTC at the latest: unless it is started again, "
        "nobody will end it before 2026-09-21 14:28:20 UTC"
    )
    assert text(empty, BLOCKER._replace(timeout=None)).endswith(": unless it is started again, nobody will end it")
    assert text(empty, BLOCKER._replace(kind=BlockerKind.COMPLETING)).endswith(" at the latest")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "its groups are not known yet"),
        (HolderGroups({}), "its groups are not known yet"),
        (HolderGroups({7: "grant READ on it"}), "its groups are not known: grant READ on it"),
        (
            of(HolderGroup("pay-group", (), missing="grant DESCRIBE")),
            "the members of its group pay-group are not known: grant DESCRIBE",
        ),
    ],
)
def test_what_is_not_known_is_said(found: HolderGroups | None, said: str) -> None:
    assert text(found) == said
    assert all(group["member_count"] is None for group in holder_document(BLOCKER, found)["groups"])
