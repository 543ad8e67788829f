"""One line of an error of Spark: what a task of ours raised, else the first message of Java, without traces."""

from __future__ import annotations

import re

# The last line of a traceback of a task's Python process, in a Java exception.
_RAISED = re.compile(r"(?:TransactionLogError|OptionError): (.+)")


def error_line(error: Exception) -> str:
    """The message of an error of pyspark or py4j."""
    text = str(error).strip()
    if raised := _RAISED.findall(text):
        return str(raised[-1]).strip()
    lines = text.splitlines() or [type(error).__name__]
    thrown = (line for line in lines if "Exception:" in line and "py4j" not in line.partition("Exception:")[0])
    return next(thrown, lines[0]).strip()
