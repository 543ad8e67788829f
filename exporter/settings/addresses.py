"""Listen addresses in Prometheus's form."""

from __future__ import annotations

import re

DEFAULT_PORT = 10618


def split_address(address: str) -> tuple[str, int]:
    """Host and port of a listen address in Prometheus's form: ``127.0.0.1:9090``, ``[::1]:9090``, ``:9090`` (host "").

    Raises ValueError, whose text is what to write instead.
    """
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\[\]:/\s]*)):([0-9]{1,5})", address.strip())
    if match is None or int(match[3]) > 65535:
        raise ValueError(f"is no address; write HOST:PORT, [IPV6]:PORT or :PORT, such as 127.0.0.1:{DEFAULT_PORT}")
    return match[1] or match[2] or "", int(match[3])
