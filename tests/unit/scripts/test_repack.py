"""Archives of the same files have the same bytes, on any machine and at any time."""

from __future__ import annotations

import io
import tarfile

from scripts.repack import repacked


def packed(names: list[str], mtime: int, user: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uname, member.uid = len(name), mtime, user, mtime % 1000
            member.mode = 0o775 if name.endswith("run") else 0o664
            archive.addfile(member, io.BytesIO(name.encode()))
    return out.getvalue()


def test_order_times_owners_and_groups_leave_no_trace() -> None:
    one, two = packed(["a", "b/run"], 1_000_000, "me"), packed(["b/run", "a"], 1_700_000_000, "root")
    assert repacked(one, 1_795_255_200) == repacked(two, 1_795_255_200)


def test_the_files_are_those_that_were_packed() -> None:
    with tarfile.open(fileobj=io.BytesIO(repacked(packed(["b/run", "a"], 7, "me"), 1_795_255_200))) as archive:
        assert archive.getnames() == ["a", "b/run"]
        assert [member.mode for member in archive] == [0o644, 0o755]
        content = archive.extractfile("a")
        assert content is not None
        assert content.read() == b"a"


def test_other_content_is_other_bytes() -> None:
    assert repacked(packed(["a"], 7, "me"), 1) != repacked(packed(["c"], 7, "me"), 1)
