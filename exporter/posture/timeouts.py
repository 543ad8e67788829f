"""Transaction timeouts against the durations of the same application's transactions, and two-phase commit. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from exporter.posture.check import PostureCheck, Rule, Settings
from exporter.transactions.facts import ApplicationTimeouts, CommitDurations
from exporter.transactions.outcome import LEAST_TRANSACTIONS, suggested_timeout

FAR = 10.0
"""A timeout that is so many times the suggested one is told."""
TWO_PHASE_KEY = "transaction.two.phase.commit.enable"

SUGGESTED = Rule(
    "suggested_timeout",
    "A client that dies holds back read_committed readers until its timeout; one that is shorter than a transaction"
    " aborts it.",
    "the transaction.timeout.ms that its own transactions suggest, if a restart of the application is not longer",
    fixable=False,
)
TWO_PHASE = Rule(
    "two_phase_commit",
    "A transaction of two-phase commit (KIP-939) has no timeout: one that its coordinator forgets is in doubt, and"
    " holds back read_committed readers until the coordinator commits or aborts it.",
    "transaction.two.phase.commit.enable=false on the brokers, unless an application needs it; then TWO_PHASE_COMMIT on"
    " its TransactionalIds only",
    fixable=False,
)


def timeout_checks(
    durations: Mapping[str, CommitDurations],
    timeouts: Mapping[str, ApplicationTimeouts],
    left_out: Collection[str] = (),
) -> Iterator[PostureCheck]:
    """Compare the applications whose durations and timeouts are known. ``left_out`` are jobs of Flink: their timeout
    has to cover a restart, which their durations do not show.
    """
    for name, found in sorted(durations.items()):
        limits = timeouts.get(name)
        if limits is None or limits.shortest is None or limits.longest is None or name in left_out:
            continue
        if found.transactions < LEAST_TRANSACTIONS or found.within is None:
            continue
        wanted = suggested_timeout(found.within)
        text = f"999 of 1000 of {found.transactions} transactions were open for {found.within:g} s or less, and"
        if limits.shortest < found.within:
            shown = f"{text} they may take {limits.shortest:g} s: {wanted:g} s would be safe"
            yield SUGGESTED.says(name, passed=False, found=shown, fix=_fix(wanted))
        elif limits.longest >= FAR * wanted:
            shown = f"{text} they time out after {limits.longest:g} s: {wanted:g} s would do"
            yield SUGGESTED.says(name, passed=False, found=shown, fix=_fix(wanted))
        else:
            yield SUGGESTED.says(name, passed=True, found=f"{text} they time out after {limits.longest:g} s")


def _fix(seconds: float) -> str:
    return f"transaction.timeout.ms={seconds * 1000:.0f}, if a restart of the application is not longer"


def two_phase_checks(
    cluster: str, brokers: Collection[Settings], error: str, timeouts: Mapping[str, ApplicationTimeouts]
) -> Iterator[PostureCheck]:
    """Report what the brokers allow, and the applications that use it; ``error`` is why one did not answer, "" if all
    did. Nothing before Kafka 4.0, which has no such setting.
    """
    values = {settings[TWO_PHASE_KEY] for settings in brokers if TWO_PHASE_KEY in settings}
    if values == {"false"} and error:
        yield TWO_PHASE.cannot(cluster, error)
    elif values:
        found = f"{TWO_PHASE_KEY}={', '.join(sorted(values))}"
        yield TWO_PHASE.says(cluster, passed=values == {"false"}, found=found)
    for name, limits in sorted(timeouts.items()):
        if limits.two_phase:
            found = f"{limits.two_phase} of its transactional ids have no timeout"
            yield TWO_PHASE.says(name, passed=False, found=found)
