from __future__ import annotations

from pathlib import Path

from exporter.core.state import boot_id


def test_the_boot_is_the_same_at_every_look_and_unknown_where_the_kernel_does_not_say(tmp_path: Path) -> None:
    assert boot_id() == boot_id()
    assert len(boot_id()) == 36
    assert boot_id(tmp_path / "absent") == ""
    (tmp_path / "odd").write_bytes(b"\xff")
    assert boot_id(tmp_path / "odd") == ""
