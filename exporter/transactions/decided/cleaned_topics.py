"""Whether the log cleaner may take a marker before it is read."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.model import Fault

SETTINGS = ("cleanup.policy", "delete.retention.ms")
DAY_MS = 86_400_000


def may_be_cleaned(settings: Mapping[str, str] | Fault | None, within_ms: float) -> bool | None:
    """Return whether the cleaner may take markers of a topic within this time; None where ``SETTINGS`` are not known.

    A marker stays for delete.retention.ms (a day) after the cleaner first passed it (KIP-98).
    """
    if settings is None or isinstance(settings, Fault):
        return None
    kept = settings.get("delete.retention.ms", str(DAY_MS))
    return "compact" in settings.get("cleanup.policy", "") and not (kept.isdigit() and int(kept) >= within_ms)
