"""The last hour and the posture of one cluster, as ``/api/v1/status`` has them."""

from __future__ import annotations

from exporter.core.documents import document_of
from exporter.posture.check import CheckResult
from exporter.posture.evidence import Posture
from exporter.transactions.counting.last_hour import LastHour
from exporter.views import documents as docs
from exporter.words import Outcome


def last_hour_document(noted: LastHour | None) -> docs.LastHourDocument | None:
    """How transactions ended in the last hour: None where the transaction log is not read.

    Lists by minute have ``minutes`` numbers, the oldest first; the last minute is not over. ``stopped_minutes`` is for
    how long an application that used to commit has not, else None.
    """
    view = noted.view() if noted is not None else None
    if view is None:
        return None
    applications: list[docs.ApplicationHourDocument] = [
        {
            "application": name,
            "outcomes": {outcome: minutes.total(outcome) for outcome in Outcome},
            "committed_per_minute": list(minutes.counts[Outcome.COMMITTED]),
            "stopped_minutes": minutes.stopped(),
        }
        for name, minutes in view.applications.items()
    ]
    return {
        "minutes": len(view.together.counts[Outcome.COMMITTED]),
        "outcomes_per_minute": {outcome: list(view.together.counts[outcome]) for outcome in Outcome},
        "applications": sorted(applications, key=_most_trouble),
        "applications_left_out": view.left_out,
        "fence_storms": [document_of(docs.FenceStormDocument, storm) for storm in view.storms],
    }


def _most_trouble(application: docs.ApplicationHourDocument) -> tuple[int, int, str]:
    """Most ends that are no commit first, then most commits."""
    outcomes = application["outcomes"]
    committed = outcomes[Outcome.COMMITTED]
    return committed - sum(outcomes.values()), -committed, application["application"]


def posture_document(posture: Posture | None) -> docs.PostureDocument | None:
    """The checks that failed or could not be made, and the number of each verdict; None before they were made."""
    if posture is None:
        return None
    return {
        "verdicts": {result: sum(check.verdict is result for check in posture.checks) for result in CheckResult},
        "failed": [
            document_of(docs.CheckDocument, check) for check in posture.checks if check.verdict is CheckResult.FAILED
        ],
        "unknown": [
            document_of(docs.CheckDocument, check) for check in posture.checks if check.verdict is CheckResult.UNKNOWN
        ],
    }
