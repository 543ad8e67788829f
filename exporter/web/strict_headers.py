"""The head of a request, read so that no two programs can take it for different requests.

A proxy and a server that disagree on where a request ends let one client speak in another's name (request smuggling,
RFC 9112 section 11.2). cheroot takes the last of two lengths, blanks before a colon and folded lines.
"""

from __future__ import annotations

import re
from typing import Any

from cheroot.server import HeaderReader

_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_ONCE = frozenset({b"Authorization", b"Content-Length", b"Content-Type", b"Expect", b"Host"})


class StrictHeaders(HeaderReader):
    """Reads header lines into a dictionary by title-case name. Raises ValueError, whose text is the answer."""

    def __call__(self, rfile: Any, hdict: dict[bytes, bytes] | None = None) -> dict[bytes, bytes]:  # noqa: ANN401 -- cheroot's own signature
        headers: dict[bytes, bytes] = {} if hdict is None else hdict
        while (line := rfile.readline()) != b"\r\n":
            if not line.endswith(b"\r\n"):
                raise ValueError("HTTP requires CRLF terminators")
            name, colon, value = line[:-2].partition(b":")
            value = value.strip(b" \t")
            if not colon or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
                raise ValueError("Illegal header line.")
            if b"_" in name:  # WSGI would take Content_Length for Content-Length
                continue
            key = name.title()
            if key == b"Transfer-Encoding":
                raise ValueError("Transfer-Encoding is not taken here: send Content-Length.")
            if key == b"Content-Length" and not value.isdigit():
                raise ValueError("Malformed Content-Length Header.")
            if key in headers and key in _ONCE:
                raise ValueError("Header given twice.")
            headers[key] = headers[key] + b", " + value if key in headers else value
        headers.pop(b"Expect", None)  # answered while the body was awaited
        return headers
