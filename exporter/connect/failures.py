"""Count task failures, each new failure once, from successive snapshots of the tasks, and say why a task failed, from
the stack trace that the REST API shows. Pure: no clock and no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

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


TaskKey = tuple[str, str]
"""Connector and number of the task."""

DELETED_AFTER = 3
"""Number of complete reads without a task until it counts as deleted: a task that moves or restarts is absent briefly.
"""


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """One task at one read.

    ``mark`` distinguishes two failures by what REST reports (worker and trace). ``records`` and ``running_ratio`` are
    the worker's metrics of the task, None where they are not read or where the worker does not call it failed (yet);
    they restart with every start of the task.
    """

    failed: bool
    cause: FailureCause = FailureCause.OTHER
    mark: str = ""
    records: float | None = None
    running_ratio: float | None = None


class FailureCounter:
    """Failures by task and cause. A failure before the first read of a task is not counted."""

    def __init__(self) -> None:
        self._last: dict[TaskKey, TaskSnapshot] = {}
        self._counts: dict[TaskKey, dict[FailureCause, int]] = {}
        self._missed: dict[TaskKey, int] = {}
        self._looked = False

    @property
    def counts(self) -> Mapping[TaskKey, Mapping[FailureCause, int]]:
        """Every cause is present, with 0 where there was no failure."""
        return self._counts

    def count(self, snapshots: Mapping[TaskKey, TaskSnapshot], *, complete: bool) -> None:
        """Count the failures that are new since the last read. ``complete``: a task that is missing does not exist."""
        for key, now in snapshots.items():
            counts = self._counts.setdefault(key, dict.fromkeys(FailureCause, 0))
            before = self._last.get(key)
            # A task that is new since the last read and has failed, failed in between.
            if (before is None and self._looked and now.failed) or (before is not None and is_new(before, now)):
                counts[now.cause] += 1
            self._last[key] = now if before is None else _carried(before, now)
        if complete:
            self._missed = {key: self._missed.get(key, 0) + 1 for key in self._last if key not in snapshots}
            for gone in [key for key, times in self._missed.items() if times >= DELETED_AFTER]:
                del self._last[gone], self._counts[gone], self._missed[gone]
            self._looked = True


def is_new(before: TaskSnapshot, now: TaskSnapshot) -> bool:
    """Return whether the failure at this read happened after the last read.

    A task that had failed before has failed again when REST reports another trace or worker, or when the worker's
    metrics of the task restarted in between. Several failures between two reads count as one.
    """
    return now.failed and (not before.failed or before.mark != now.mark or began_anew(before, now))


def began_anew(before: TaskSnapshot, now: TaskSnapshot) -> bool:
    """Return whether the metrics of a task that is failed at both reads belong to two starts of it.

    Its counters only grow, and the share of time that it has been running only shrinks while it is failed
    (WorkerTask.TaskMetricsGroup, StateTracker.durationRatio). The worker's own task-startup-* do not help: since the
    builders of Worker.startTask they count only tasks that could not be created.
    """
    fewer = before.records is not None and now.records is not None and now.records < before.records
    ratios = before.running_ratio, now.running_ratio
    more = ratios[0] is not None and ratios[1] is not None and ratios[1] > ratios[0]
    return fewer or more


def _carried(before: TaskSnapshot, now: TaskSnapshot) -> TaskSnapshot:
    """The snapshot, with the metrics of the last one where a failed task's could not be read this time."""
    if not (before.failed and now.failed):
        return now
    return replace(
        now,
        records=before.records if now.records is None else now.records,
        running_ratio=before.running_ratio if now.running_ratio is None else now.running_ratio,
    )
