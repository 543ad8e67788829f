"""The boot of the machine. Instants of the monotonic clock compare only within one boot."""

from __future__ import annotations

from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id(path: Path = BOOT_ID) -> str:
    """Return the kernel's id of the boot (Linux, random(4)), the same in all containers of a machine; "" elsewhere."""
    try:
        return path.read_text("ascii").strip()[:64]
    except (OSError, UnicodeDecodeError):
        return ""
