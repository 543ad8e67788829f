"""Words for a shell and a terminal: ids and topics are arbitrary texts, a line to copy must be what it looks like."""

from __future__ import annotations

import shlex


def transactions_tool(bootstrap_servers: str) -> str:
    """How a line begins that Kafka's own tool for transactions runs."""
    return f"kafka-transactions.sh --bootstrap-server {quoted(bootstrap_servers)}"


def shown(name: str) -> str:
    """A name as it is, unless it holds what a terminal would act on."""
    return name if name.isprintable() else quoted(name)


def quoted(argument: str) -> str:
    """One word for a POSIX shell, on one line.

    What does not print (a line break, a mark that turns the direction of text) is written as an escape of bash's
    ``$'...'``.
    """
    if argument.isprintable():
        return shlex.quote(argument)
    return "$'" + "".join(_ansi_c(character) for character in argument) + "'"


def _ansi_c(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    if character.isprintable():
        return character
    point = ord(character)
    return f"\\x{point:02x}" if point < 0x80 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
