"""One check of the posture: its texts and its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

Settings = Mapping[str, str]


UNMADE_TOPIC = "internal_topic_creation"
"""The check of internal topics that are not there: where it fails, no transaction can begin, or no group commit."""


class CheckResult(StrEnum):
    """Result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    INFORMATION = "information"
    UNKNOWN = "unknown"


class PostureCheck(NamedTuple):
    """One check of one subject (a topic, an application, a connector, or the cluster).

    ``fix`` is what to set; ``error`` why the verdict is unknown, "" otherwise.
    """

    name: str
    subject: str
    verdict: CheckResult
    found: str
    why: str
    fix: str
    error: str = ""


class Rule(NamedTuple):
    """Texts of all checks of one name. With ``fixable`` False no setting can change it, and it never fails."""

    name: str
    why: str
    fix: str
    fixable: bool = True

    def says(self, subject: str, *, passed: bool, found: str, fix: str = "") -> PostureCheck:
        """Passed or failed. ``fix`` is more exact than the rule's own, where given."""
        missed = CheckResult.FAILED if self.fixable else CheckResult.INFORMATION
        verdict = CheckResult.PASSED if passed else missed
        return PostureCheck(self.name, subject, verdict, found, self.why, fix or self.fix)

    def notes(self, subject: str, found: str) -> PostureCheck:
        """A result that is information, not a failure."""
        return PostureCheck(self.name, subject, CheckResult.INFORMATION, found, self.why, self.fix)

    def cannot(self, subject: str, error: str) -> PostureCheck:
        return PostureCheck(self.name, subject, CheckResult.UNKNOWN, "", self.why, self.fix, error)
