"""The groups of a stalled partition's holder and their members, as JSON and in words: is anybody there to end it?"""

from __future__ import annotations

from exporter.bounds.text import count_of
from exporter.core.documents import document_of
from exporter.groups.facts import HolderGroup, HolderGroups, HolderMember
from exporter.lso.facts import Blocker
from exporter.lso.next_step import clock_time
from exporter.views import documents as docs
from exporter.words import BlockerKind, MemberMatch

MOST_IN_TEXT = 3
"""Members that the text names."""
_MATCHES = {MemberMatch.NO: "", MemberMatch.LIKELY: ", likely the holder", MemberMatch.CERTAIN: ", the holder"}


def holder_document(blocker: Blocker, found: HolderGroups | None) -> docs.HolderDocument:
    """What is known of the groups that the holder commits for; ``found`` is None while they were not read."""
    groups = (
        found.by_producer.get(blocker.producer_id) if found is not None and blocker.producer_id is not None else None
    )
    if groups is None:
        return {"text": "its groups are not known yet", "groups": []}
    if isinstance(groups, str):
        return {"text": f"its groups are not known: {groups}", "groups": []}
    return {
        "text": "; ".join(_text(group, blocker) for group in groups),
        "groups": [
            {
                "group": group.group,
                "member_count": None if group.missing else group.member_count,
                "members": [document_of(docs.HolderMemberDocument, member) for member in group.members],
                "empty_since_timestamp": group.empty_since,
                "missing": group.missing,
            }
            for group in groups
        ],
    }


def _text(group: HolderGroup, blocker: Blocker) -> str:
    if group.missing:
        return f"the members of its group {group.group} are not known: {group.missing}"
    if not group.member_count:
        since = f" since {clock_time(group.empty_since)} at the latest" if group.empty_since is not None else ""
        return f"its group {group.group} has no member{since}{_left_alone(blocker)}"
    named = ", ".join(map(_member, group.members[:MOST_IN_TEXT]))
    more = group.member_count - MOST_IN_TEXT
    return (
        f"its group {group.group} has {count_of(group.member_count, 'member')}: {named}"
        f"{f' and {more} more' if more > 0 else ''}"
    )


def _left_alone(blocker: Blocker) -> str:
    """When a transaction that nobody is left to end is ended by its coordinator; "" where something else ends it."""
    if blocker.kind is not BlockerKind.OPEN:
        return ""
    if blocker.started is None or blocker.timeout is None:
        return ": unless it is started again, nobody will end it"
    due = clock_time(blocker.started + blocker.timeout + (blocker.scan_behind or 0.0))
    return f": unless it is started again, nobody will end it before {due}"


def _member(member: HolderMember) -> str:
    return f"{member.host or 'an unknown address'} ({member.client_id}{_MATCHES[member.match]})"
