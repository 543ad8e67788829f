"""Output of commands: the result to standard output, everything else to standard error.

Ids are arbitrary texts from the cluster: characters that do not print are escaped, so that no id can send control
sequences to the terminal, and no line begins with words of an id that a shell would run. A command to copy is one line,
printed outside of any table, so that it is never wrapped; paragraphs are comments of a shell.

rich is imported where it is used: the agent prints no tables and does not load it.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from exporter.bounds.text import printable
from exporter.core.durations import format_duration
from exporter.lso.next_step import CHECK_FIRST, NextStep
from exporter.lso.shell import shown

_NAMES = {"application", "transactional.id"}
"""Columns of names from the cluster, which are one word of a shell where they begin a line."""
_WIDEST = 100


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Collection[str] = ()) -> None:
    """A table, or a list of names and values for each row where the terminal is too narrow; no value is ever broken.
    ``numbers`` are the columns that are flush right.
    """
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415
    from rich.cells import cell_len  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    cells = [[printable(str(cell)) for cell in row] for row in rows]
    if columns[0] in _NAMES:
        cells = [[shown(row[0]), *row[1:]] for row in cells]
    widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    needed = sum(widths) + 3 * (len(widths) - 1)
    if sys.stdout.isatty() and needed > _terminal_width():
        _print_records(columns, cells)
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True, justify="right" if column in numbers else "left")
    for row in cells:
        table.add_row(*map(Text, row))
    Console(file=sys.stdout, highlight=False, markup=False, emoji=False, width=max(needed, _terminal_width())).print(
        table
    )


def _print_records(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    margin = max(map(len, columns))
    for number, row in enumerate(rows):
        if number:
            print()
        for column, cell in zip(columns, row, strict=True):
            print(f"{column:<{margin}}  {cell}")


def _terminal_width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def print_json(document: Mapping[str, object]) -> None:
    """One JSON object."""
    print(json.dumps(document, indent=2).replace("\x7f", r"\u007f"))


def print_next_step(subject: str, step: NextStep) -> None:
    """Print a next step: a paragraph, then the command to copy on a line of its own."""
    print()
    print(_paragraph(f"{subject}: {step.text}"))
    if step.warning:
        print(_paragraph(f"Beware: {step.warning}"))
    if step.check:
        print(_paragraph(f"{CHECK_FIRST}:"))
        print(f"  {step.check}")
        print(_paragraph(f"Go on only if {step.expect}:"))
    if step.command:
        print(f"  {step.command}")


def print_advice(text: str) -> None:
    """Print an explanation, as a paragraph."""
    print()
    print(_paragraph(text))


def print_not_asked(cluster: str, not_asked: Iterable[str]) -> None:
    """Print to standard error what could not be read, so that an empty result is not mistaken for a clean one."""
    for text in not_asked:
        print(f"could not ask {printable(cluster)}: {printable(text)}", file=sys.stderr)


def say(text: str) -> None:
    """Print lines to standard error: progress, or what another program answered."""
    for line in text.split("\n"):
        print(printable(line), file=sys.stderr, flush=True)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error; one plain line where that is not a terminal."""
    if not sys.stderr.isatty():
        say(f"{what} ...")
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(printable(what), total=total)
        yield lambda done: bar.advance(task, done)


def wait(why: str, seconds: float, sleep: Callable[[float], object]) -> None:
    """Wait so long, with a progress bar by the second on a terminal."""
    with progress(f"{why} in {format_duration(round(seconds))}", round(seconds)) as advance:
        if not sys.stderr.isatty():
            sleep(seconds)
            return
        for _ in range(int(seconds)):
            sleep(1.0)
            advance(1)
        sleep(seconds % 1)


def _paragraph(text: str) -> str:
    """Lines that a shell takes for comments: wrapping may bring any word of an id to the start of a line."""
    return textwrap.fill(
        printable(text),
        min(_WIDEST, _terminal_width()),
        initial_indent="# ",
        subsequent_indent="# ",
        break_long_words=False,
        break_on_hyphens=False,
    )
