"""Why a Connect task failed, out of the stack trace that the REST API shows. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

MOST_CHARACTERS = 400
REDACTED = "[redacted]"

_FRAME = re.compile(r"\s+(?:at |\.\.\. \d+ more|\.\.\. \d+ common frames)|\s*\[CIRCULAR REFERENCE")
_CAUSED_BY = "Caused by: "
_SECRET_KEY = re.compile(
    r"passw|secret|token|credential|jaas|private|(?:api|access)[._-]?key|connection[._](?:url|uri|string)",
    re.IGNORECASE,
)
# Possessive, so that the time is linear: what stands before an @ is looked at once.
_USER_INFO = re.compile(r"(?<=://)[^/\s@]*+(?=@)")
_ASSIGNED = re.compile(
    r"((?:password|passwd|pwd|secret|token|api[_.-]?key)\s*+[=:]\s*+)(\"[^\"]*+\"|'[^']*+'|[^\s,;&)]++)",
    re.IGNORECASE,
)
MOST_SECRETS = 200
"""Values of one connector's settings that are looked for in its errors; with more, no error is shown."""


class Cause(StrEnum):
    """Why a task failed: the label values of ``connect_task_failures_total{cause}``."""

    FENCED = "fenced"
    INVALID_EPOCH = "invalid_epoch"
    TIMEOUT = "timeout"
    OTHER = "other"


# The first that is found wins. ExactlyOnceWorkerSourceTask words every InvalidProducerEpochException as an expired
# transaction, a fence as well: the exception itself says more than the words around it, and cannot tell the two apart.
# A client of Transactions V2 whose open transaction somebody else ended hears InvalidTxnStateException when it commits
# (seen on 4.3.1): the same story as an old epoch.
_TELLING = (
    (Cause.FENCED, ("ProducerFencedException",)),
    (Cause.INVALID_EPOCH, ("InvalidProducerEpochException", "InvalidTxnStateException")),
    (Cause.TIMEOUT, ("TimeoutException", "before its producer transaction expired")),
)


def cause_of(trace: str) -> Cause:
    """The cause that a trace tells. Looks at the exceptions and their messages, never at the frames between."""
    told = "\n".join(headlines(trace))
    for cause, signs in _TELLING:
        if any(sign in told for sign in signs):
            return cause
    return Cause.OTHER


def headlines(trace: str) -> tuple[str, ...]:
    """The lines of a trace that name an exception or belong to its message."""
    return tuple(line.strip() for line in trace.splitlines() if line.strip() and not _FRAME.match(line))


def last_line(trace: str, secrets: Iterable[str] = ()) -> str:
    """What failed in the end: the innermost exception, with every secret that is known or looks like one taken out."""
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
    found = {str(value) for key, value in config.items() if _SECRET_KEY.search(key)}
    return frozenset(value for value in found if len(value) >= 4)
