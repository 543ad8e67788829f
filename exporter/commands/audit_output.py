"""Output of ``audit``: a progress bar while Spark works, a report on the terminal, and the post to the agent."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from exporter.audit_results.result import dump_result
from exporter.bounds.text import printable
from exporter.commands.output import print_table, say
from exporter.jobs.audit.outcome import AuditReport
from exporter.jobs.audit.report_page import MEANING, aborted, cell, columns_of, counted, sentence
from exporter.words import AuditVerdict

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LOOK_SECONDS = 0.5

Tasks = Callable[[], tuple[int, int]]
"""Number of finished tasks of those that run, and of all of them."""


def print_report(report: AuditReport, form: str) -> None:
    """The result alone, to standard output."""
    if form == "json":
        print(dump_result(report.result))
    elif form == "html":
        print(report.html)
    else:
        _print_text(report)


def _print_text(report: AuditReport) -> None:
    result = report.result
    print(printable(sentence(result)))
    print(f"{result.records or 0:,} records, {aborted(result)} aborted")
    for finding in result.findings:
        print()
        print(f"{counted(finding)} ({finding.kind}): {MEANING[finding.kind]}")
        columns = columns_of(finding)
        if finding.examples:
            print_table(columns, ([cell(example, column) for column in columns] for example in finding.examples))
        if (more := finding.count - len(finding.examples)) > 0:
            print(f"and {more:,} more")
    if result.verdict is AuditVerdict.FINDINGS:
        print()
    for text in result.unknown:
        print(printable(f"not known: {text}"))
    for text in report.notes:
        print(printable(f"note: {text}"))


@contextmanager
def spark_progress(tasks: Tasks) -> Iterator[Callable[[str], None]]:
    """Report what is being done, with a bar of Spark's tasks on a terminal and a plain line elsewhere."""
    if not sys.stderr.isatty():
        yield lambda text: say(f"{text} ...")
        return
    # The agent imports this module and runs without rich.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    over = threading.Event()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        watcher = threading.Thread(target=_watch, args=(tasks, bar, task, over), name="progress of Spark", daemon=True)
        watcher.start()
        try:
            yield lambda text: bar.reset(task, description=printable(text), total=None)
        finally:
            over.set()
            watcher.join()


def _watch(tasks: Tasks, bar: Progress, task: TaskID, over: threading.Event) -> None:
    while not over.wait(LOOK_SECONDS):
        done, total = tasks()
        if total:
            bar.update(task, completed=done, total=total)
