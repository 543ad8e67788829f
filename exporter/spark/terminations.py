"""Why a streaming query ended: one value of a closed list, from Spark's error class and the exceptions' classes.

Spark names errors by class, such as ``KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS`` (error-conditions.json,
since 3.4 in the event); before, and for errors that are not Spark's own, only the exceptions' class names are known.
Texts of exceptions are not used: they may quote records.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from exporter.words import TerminationReason

_CLASS = re.compile(
    r"^(?:Caused by: )?([A-Za-z_][\w.$]*(?:Exception|Error))(?=:|\s|$)|KafkaError\{code=(\w+)", re.MULTILINE
)
"""A class name at the beginning of a line of a Java or Python trace; the code of confluent-kafka's errors."""

MOST_CLASSES = 20


_BY_ERROR_CLASS: tuple[tuple[TerminationReason, re.Pattern[str]], ...] = (
    (TerminationReason.CONCURRENT_RUN, re.compile(r"CONCURRENT_(STREAM_LOG_UPDATE|QUERY)")),
    (TerminationReason.DATA_LOSS, re.compile(r"KAFKA_DATA_LOSS")),
    (TerminationReason.CHECKPOINT, re.compile(r"STATE_STORE|STATEFUL_OPERATOR|CHECKPOINT|_LOG_(FILE|VERSION)|STDS_")),
)
_BY_EXCEPTION: tuple[tuple[TerminationReason, re.Pattern[str]], ...] = (
    (TerminationReason.FENCED, re.compile(r"\b(ProducerFencedException|InvalidProducerEpochException|_FENCED)$")),
    (TerminationReason.CONCURRENT_RUN, re.compile(r"ConcurrentModificationException$")),
    (
        TerminationReason.DATA_LOSS,
        re.compile(r"KafkaIllegalStateException$|\b(NoOffsetForPartition|OffsetOutOfRange)Exception$"),
    ),
    (TerminationReason.KAFKA, re.compile(r"^org\.apache\.kafka\.|\bKafkaException$|^_?[A-Z]+(_[A-Z]+)*$")),
    (TerminationReason.CHECKPOINT, re.compile(r"\bStateStore\w*$")),
)
_USER_CLASS = re.compile(r"USER_FUNCTION_ERROR|FAILED_EXECUTE_UDF|^PYTHON_")
_USER_EXCEPTION = re.compile(r"\bPythonException$|\bPy4JException$")


def exceptions_in(trace: str) -> tuple[str, ...]:
    """The classes of the exceptions in a trace, outermost first, each once; no text of theirs."""
    found = (match[1] or match[2] for match in _CLASS.finditer(trace))
    return tuple(dict.fromkeys(found))[:MOST_CLASSES]


def reason_of(error_class: str, exceptions: Sequence[str]) -> TerminationReason:
    """Why a query ended. ``error_class`` is "" when Spark gave none; without both it was stopped.

    An exception inside the user's function is classified first: a fence there is a fence.
    """
    if not error_class and not exceptions:
        return TerminationReason.STOPPED
    for reason, pattern in _BY_ERROR_CLASS:
        if pattern.search(error_class):
            return reason
    for reason, pattern in _BY_EXCEPTION:
        if any(pattern.search(exception) for exception in exceptions):
            return reason
    if error_class.startswith("KAFKA_"):
        return TerminationReason.KAFKA
    if _USER_CLASS.search(error_class) or any(_USER_EXCEPTION.search(exception) for exception in exceptions):
        return TerminationReason.USER_CODE
    return TerminationReason.OTHER
