"""Quoting for a shell and a terminal: ids and topics are arbitrary texts, and a line to copy must run as it is
displayed.
"""

from __future__ import annotations

import shlex


def transactions_tool(bootstrap_servers: str) -> str:
    """The start of a command line of Kafka's own tool for transactions."""
    return f"kafka-transactions.sh --bootstrap-server {quoted(bootstrap_servers)}"


def shown(name: str) -> str:
    """A name unchanged, or as one quoted word where it has spaces or characters that a terminal interprets."""
    return name if name.isprintable() and " " not in name else quoted(name)


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
