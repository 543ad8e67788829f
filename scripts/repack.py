"""Write a .tar.gz anew so that its bytes depend on its files only: ``python -m scripts.repack FILE SECONDS``.

Members are sorted; owners, times and modes do not depend on the machine. SECONDS is the Unix time that all get.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from pathlib import Path


def repacked(content: bytes, seconds: int) -> bytes:
    """Return the archive with sorted members, each of user 0, of this time, and of mode 644, or 755 where it runs."""
    tar = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as old,
        tarfile.open(fileobj=tar, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda entry: entry.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = seconds, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=seconds) as out:
        out.write(tar.getvalue())
    return packed.getvalue()


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_bytes(repacked(file.read_bytes(), int(sys.argv[2])))
