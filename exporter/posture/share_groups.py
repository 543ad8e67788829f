"""Checks of share groups (KIP-932). Their isolation is a setting of the group at the brokers, not of clients. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from exporter.groups.facts import ShareGroup
from exporter.posture.check import PostureCheck, Rule

READ_COMMITTED = "read_committed"

SHARE_ISOLATION = Rule(
    "share_group_isolation",
    "By default a share group reads records of open transactions, also of those that are aborted later.",
    "kafka-configs.sh --entity-type groups --entity-name GROUP --alter"
    " --add-config share.isolation.level=read_committed",
)


def share_checks(groups: Mapping[str, ShareGroup], transactional: AbstractSet[str] | None) -> Iterator[PostureCheck]:
    """Judge the groups that read a topic which transactions write to.

    ``transactional`` are those topics, None where the transaction log is not read: then a group that reads uncommitted
    records is information. A group without members subscribes to nothing, and is not judged.
    """
    for name, group in sorted(groups.items()):
        read = group.topics if transactional is None else group.topics & transactional
        if not read:
            continue
        if group.isolation is None:
            yield SHARE_ISOLATION.cannot(name, group.error or "the broker returned no share.isolation.level")
            continue
        shown = ", ".join(sorted(read)[:3]) + (", ..." if len(read) > 3 else "")
        found = f"share.isolation.level={group.isolation}, reads {shown}"
        passed = group.isolation == READ_COMMITTED
        if not passed and transactional is None:
            yield SHARE_ISOLATION.notes(name, f"{found}; whether transactions write to them is not known")
        else:
            yield SHARE_ISOLATION.says(name, passed=passed, found=found)
