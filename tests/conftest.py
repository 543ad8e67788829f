"""Fixtures of all tests, in whatever order they run.

Properties are judged by what they find, not by how long a busy machine takes for it; and a test that sets up logging,
as the commands do, leaves it as it was.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from exporter.core import logs

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

CHANGED = ("", *logs.THIRD_PARTY, "kafka.admin.client")
"""The loggers whose levels ``logs.configure`` sets."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say beside a failure how busy the machine was."""
    report = yield
    if report.failed:
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        text = f"{item.nodeid}: {report.when} took {call.duration:.1f} s; load {load} on {os.cpu_count()} cores\n"
        report.sections.append(("time and load", text))
    return report


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers = root.handlers[:]
    levels = {name: logging.getLogger(name).level for name in CHANGED}
    yield
    for handler in root.handlers[:]:
        if handler not in handlers:
            root.removeHandler(handler)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(capture=False)
