"""Why a Connect task failed, out of the stack trace that the REST API shows. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from exporter.words import FailureCause

MOST_CHARACTERS = 400
REDACTED = "[redacted]"

_FRAME = re.compile(r"\s+(?:at |\.\.\. \d+ more|\.\.\. \d+ common frames)|\s*\[CIRCULAR REFERENCE")
_CAUSED_BY = "Caused by: "
_SECRET_KEY = re.compile(
    r"passw|secret|token|credential|jaas|private|(?:api|access|keystore)[._-]?key|key[._-]?pem|connection[._](?:url|uri|string)",
    re.IGNORECASE,
)
# A password may have an @ in it: up to the last one.
_USER_INFO = re.compile(r"(?<=://)[^/\s]*(?=@)")
_ASSIGNED = re.compile(
    r"((?:password|passwd|pwd|secret|token|api[_.-]?key)\s*+[=:]\s*+)(\"[^\"]*+\"|'[^']*+'|[^\s,;&)]++)",
    re.IGNORECASE,
)
MOST_SECRETS = 200
"""Values of one connector's settings that are looked for in its errors; with more, no error is shown."""


# The first match is the cause. ExactlyOnceWorkerSourceTask words every InvalidProducerEpochException as an expired
# transaction, also after a fence: the exception is more exact than the message around it, and cannot distinguish the
# two. A client of Transactions V2 whose open transaction was ended by another producer gets InvalidTxnStateException at
# its commit (seen on 4.3.1): the same cause as an old epoch.
_TELLING = (
    (FailureCause.FENCED, ("ProducerFencedException",)),
    (FailureCause.INVALID_EPOCH, ("InvalidProducerEpochException", "InvalidTxnStateException")),
    (FailureCause.TIMEOUT, ("TimeoutException", "before its producer transaction expired")),
)


def cause_of(trace: str) -> FailureCause:
    """The cause of the failure in a trace. Reads the exceptions and their messages, never the frames between."""
    heads = "\n".join(headlines(trace))
    for cause, signs in _TELLING:
        if any(sign in heads for sign in signs):
            return cause
    return FailureCause.OTHER


def headlines(trace: str) -> tuple[str, ...]:
    """The lines of a trace that name an exception or belong to its message."""
    return tuple(line.strip() for line in trace.splitlines() if line.strip() and not _FRAME.match(line))


def last_line(trace: str, secrets: Iterable[str] = ()) -> str:
    """The message of the innermost exception, with every known or likely secret removed."""
    lines = headlines(trace)
    if not lines:
        return ""
    causes = [number for number, line in enumerate(lines) if line.startswith(_CAUSED_BY)]
    line = lines[causes[-1]].removeprefix(_CAUSED_BY) if causes else lines[0]
    return redacted(line, secrets)[:MOST_CHARACTERS]


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without these secrets, without user and password of an address, and without values of secret names."""
    known = sorted(secrets, key=len, reverse=True)
    if len(known) > MOST_SECRETS:
        return REDACTED
    for secret in known:
        text = text.replace(secret, REDACTED)
    text = _USER_INFO.sub(lambda found: REDACTED if ":" in found[0] else found[0], text)
    return _ASSIGNED.sub(rf"\1{REDACTED}", text)


def secrets_of(config: Mapping[str, object]) -> frozenset[str]:
    """Values of a connector's configuration that must not be shown; too short ones would tear every text apart."""
    found = [str(value) for key, value in config.items() if _SECRET_KEY.search(key)]
    # An error has lines: of a secret of several, the first one may be at the end of the line that is shown.
    begun = [value.strip().partition("\n")[0].strip() for value in found]
    return frozenset(value for value in (*found, *begun) if len(value) >= 4)
