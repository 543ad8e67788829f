"""Lower bounds of the coordinators' clock. A command does not run long enough to measure how far two clocks differ.

A coordinator's timestamp is never later than its clock: the newest record of the transaction log and the newest start
of a transaction are lower bounds of that clock. A next step uses this bound. Where the two clocks may differ, the
command prints that ages are by this machine's clock.
"""

from __future__ import annotations

from collections.abc import Iterable

from exporter.cluster import Cluster
from exporter.commands.output import say
from exporter.kafka.client import AskError
from exporter.kafka.requests.metadata import TRANSACTION_STATE
from exporter.kafka.requests.offsets import newest_timestamps
from exporter.lso.next_step import clock_time
from exporter.model import Deadline
from exporter.transactions.facts import NOTICEABLE_SECONDS, CoordinatorTime


def coordinators_clock(cluster: Cluster, starts: Iterable[float | None], deadline: Deadline) -> CoordinatorTime:
    """Bounds of the coordinators' clock: the log's newest record, if it may be asked for, and starts (Unix seconds)."""
    newest: list[float] = []
    try:
        metadata = cluster.metadata(deadline, [TRANSACTION_STATE])
        places = metadata.partitions(TRANSACTION_STATE)
        answers = newest_timestamps(cluster.client, metadata, places, deadline)
        newest += [value / 1000 for value in answers.values.values() if value >= 0]
    except AskError:
        pass  # the starts of transactions are still a bound
    newest += [start for start in starts if start is not None]
    return CoordinatorTime(at_most=cluster.clock.wall() - max(newest) if newest else None)


def shown_now(time: CoordinatorTime, wall: float) -> float:
    """The clock by which ages are shown: this machine's clock, or the coordinators' where it is known to be ahead."""
    return max(wall, time.advising(wall))


def say_clock(cluster: Cluster, time: CoordinatorTime, wall: float) -> None:
    """Print which clock the ages use, where the coordinators' clock may differ by more than a few seconds."""
    theirs = time.earliest(wall)
    if theirs is None:
        say(f"ages in {cluster.target} are by this machine's clock: the coordinators' clock is not known")
    elif theirs - wall > NOTICEABLE_SECONDS:
        say(f"this machine's clock is {theirs - wall:.0f} s or more behind the coordinators of {cluster.target}")
    elif wall - theirs > NOTICEABLE_SECONDS:
        say(
            f"ages in {cluster.target} are by this machine's clock ({clock_time(wall)}); the coordinators' shows"
            f" {clock_time(theirs)} or later"
        )
