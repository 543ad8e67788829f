"""Explores the model breadth-first to its end, and holds each state against the laws.

``python -m tests.model.explore`` explores larger bounds, and prints how many states they have.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from exporter.transactions.decided.fate import Fate
from tests.model.kafka import (
    COMMITTED,
    OPEN,
    PLACES,
    Bounds,
    KeptJudgement,
    KnownEnd,
    ModelState,
    initial,
    open_records,
    steps,
)
from tests.model.observer import judgements, suspects


class Explored(NamedTuple):
    """``wrong`` are the ways to states that break a law, the shortest first; ``fates`` how often each was said."""

    states: int
    edges: int
    fates: Counter[tuple[str, str]]
    wrong: list[str]


class _Claim(NamedTuple):
    state: ModelState
    transactions: frozenset[int]


def explore(bounds: Bounds, most: int = 10_000_000) -> Explored:
    """Explore all states within the bounds. Raises RuntimeError beyond ``most``."""
    first = initial(bounds)
    came: dict[ModelState, tuple[ModelState | None, str]] = {first: (None, "")}
    backwards: dict[ModelState, list[ModelState]] = {}
    fates: Counter[tuple[str, str]] = Counter()
    claims: list[_Claim] = []
    wrong: list[str] = []
    edges = 0
    queue = deque([first])
    while queue:
        state = queue.popleft()
        for place, producer, _, said in judgements(state, bounds.ahead):
            _, records = open_records(state.partitions[place], producer)
            own = frozenset(record.transaction for record in records)
            promised = any(state.clients[number].state == COMMITTED for number in own)
            fates[said.fate, kind_of(state, own)] += 1
            if said.promised_to_nobody:
                claims.append(_Claim(state, own))
            if said.fate is Fate.COMMITTED and not promised and not state.spent.truncations and len(wrong) < 5:
                wrong.append(f"said to be committed, and nobody was told so:\n{_way(came, state)}\n{said}")
        wrong += [f"{text}\n{_way(came, state)}" for text in _kept_wrong(state)][: 5 - len(wrong)]
        for name, after in chain(agent_steps(steps(state, bounds)), _looks(state, bounds)):
            edges += 1
            if after.next >= state.next:  # what a later unclean election of the log undoes is not foreseen
                backwards.setdefault(after, []).append(state)
            if after not in came:
                came[after] = state, name
                queue.append(after)
                if len(came) > most:
                    raise RuntimeError(f"more than {most} states")
    for number in range(len(bounds.owners)):
        may_commit = _leads_to(number, came, backwards)
        for claim in claims:
            if number in claim.transactions and claim.state in may_commit and len(wrong) < 5:
                wrong.append(f"a line, and transaction {number} is or will be committed:\n{_way(came, claim.state)}")
    return Explored(len(came), edges, fates, wrong)


def _looks(state: ModelState, bounds: Bounds) -> Iterator[tuple[str, ModelState]]:
    """An agent judges open records and keeps that, or restarts without what it saved, or reads the ends.

    It uses ends that are older than all transactions that may write yet (``log_history.MARGIN_SECONDS``).
    """
    if bounds.notes and state.noted is None and all(client.state != OPEN for client in state.clients):
        for place, entries in enumerate(state.partitions):
            if all(open_records(entries, producer)[0] < 0 for producer in PLACES):
                noted = KnownEnd(place, len(entries), state.next, state.leader_epoch)
                yield f"read the ends of {place}", state._replace(noted=noted)
    if state.spent.looks < bounds.looks:
        spent = state.spent._replace(looks=state.spent.looks + 1)
        for place, producer, _, said in judgements(state, bounds.ahead):
            if said.fate is not Fate.UNKNOWN:
                _, records = open_records(state.partitions[place], producer)
                kept = KeptJudgement(place, producer, tuple(records), state.next, said.promised_to_nobody)
                yield f"look at {place}", state._replace(spent=spent, kept=kept)
    if state.kept is not None:
        yield "restart without state", state._replace(kept=None)


def agent_steps(found: Iterable[tuple[str, ModelState]]) -> Iterator[tuple[str, ModelState]]:
    """The steps, with what the agent keeps: ``JudgedRecords`` drops it when the producer writes, a marker comes, or the
    log loses records that were read.
    """
    for name, state in found:
        kept = state.kept
        if kept is not None:
            _, records = open_records(state.partitions[kept.place], kept.producer)
            if tuple(records) != kept.records or state.next < kept.read:
                state = state._replace(kept=None)  # noqa: PLW2901 -- the same state, with less
        yield name, state


def _kept_wrong(state: ModelState) -> Iterator[str]:
    """Whether what is kept gives a line for records that a client was told are committed."""
    kept = state.kept
    if kept is None or not kept.nobody:
        return
    told = {record.transaction for record in kept.records if state.clients[record.transaction].state == COMMITTED}
    if told and any((place, producer) == (kept.place, kept.producer) for place, producer, _ in suspects(state)):
        yield f"what was kept says that nobody was promised transaction {min(told)}"


def kind_of(state: ModelState, own: frozenset[int]) -> str:
    """Return what the open records are, by what their clients were told."""
    if any(state.clients[number].state == COMMITTED for number in own):
        return "committed"
    return "late" if state.spent.late else "dropped" if state.spent.drops else "other"


def _leads_to(
    number: int, came: dict[ModelState, tuple[ModelState | None, str]], backwards: dict[ModelState, list[ModelState]]
) -> set[ModelState]:
    """The states from which the client of a transaction can still be told that it is committed, or was."""
    found = {state for state in came if state.clients[number].state == COMMITTED}
    queue = deque(found)
    while queue:
        for before in backwards.get(queue.popleft(), ()):
            if before not in found:
                found.add(before)
                queue.append(before)
    return found


def _way(came: dict[ModelState, tuple[ModelState | None, str]], state: ModelState) -> str:
    names = []
    at: ModelState | None = state
    while at is not None:
        at, name = came[at]
        names.append(name)
    return "; ".join(reversed(names)) + f"\n{state}"


def main() -> None:
    """Explore larger bounds than the tests do."""
    for v2 in (False, True):
        bounds = Bounds((v2, False), elections=int(sys.argv[1]) if len(sys.argv) > 1 else 2)
        began = time.monotonic()
        found = explore(bounds)
        print(f"{bounds}\n{found.states:,} states, {found.edges:,} steps, {time.monotonic() - began:.0f} s")
        print(dict(found.fates))
        print("\n\n".join(found.wrong) or "no law broken")


if __name__ == "__main__":
    main()
