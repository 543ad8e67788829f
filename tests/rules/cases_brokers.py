"""Zombies and broken sequences, by the errors that brokers answer; writes that verification refused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from exporter.catalogue import (
    BROKER_REQUEST_ERRORS_TOTAL,
    BROKER_REQUESTS_TOTAL,
    BROKER_TXN_VERIFICATION_FAILURES_TOTAL,
    CANARY_TRANSACTIONS_TOTAL,
    EXPIRED_TRANSACTIONAL_IDS,
)
from tests.rules.promtool import Case, Series, case, scraped

ZOMBIES = "KafkaEosZombieProducers"
CONCURRENT, VERIFICATION = "KafkaEosConcurrentTransactions", "KafkaEosVerificationFailures"
PLACE = ("prod", "1", "Produce", "INVALID_PRODUCER_EPOCH")


def cases() -> Iterator[Case]:
    yield from _refused()
    yield from _persistent()
    yield from _answers()
    yield from _concurrent()
    yield from _verification()


def errors(values: str, who: tuple[str, ...] = PLACE, agent: str = "a") -> Series:
    return scraped(BROKER_REQUEST_ERRORS_TOTAL, *who, values=values, agent=agent)


def _zombies(cluster: str = "prod") -> dict[str, str]:
    return {"severity": "warning", "kafka_cluster": cluster}


def _refused() -> Iterator[Case]:
    ours = _zombies()
    for error in ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "FENCED_INSTANCE_ID"):
        who = ("prod", "1", "EndTxn", error)
        yield case(ZOMBIES, error, [errors("0x9 3x60", who)], {"9m": [], "11m": [ours]})
    yield case(ZOMBIES, "two of them, as after one takeover", [errors("0x9 2x60")], {f"{at}m": [] for at in range(25)})
    # Over the whole of its window nothing is extrapolated: exactly three.
    yield case(ZOMBIES, "three", [errors("0 0 0 0 0 3 3 3 3 3 3x20")], {"10m": [ours], "13m": [ours]})
    two = [errors("0x9 2x60", agent=agent) for agent in "ab"]
    yield case(ZOMBIES, "it ends ten minutes and seven later", [errors("0x9 4x60")], {"26m": [ours], "28m": []})
    yield case(
        ZOMBIES,
        "errors that are normal",
        [errors("0+9x60", ("prod", "1", "InitProducerId", "CONCURRENT_TRANSACTIONS"))],
        {"20m": [], "40m": []},
    )

    canary = [errors("0+1x60"), fenced("0+1x60"), fenced("0+5x60", outcome="committed")]
    yield case(ZOMBIES, "the canary's own", canary, {f"{at}m": [] for at in range(0, 60, 5)})
    done = fenced("0+5x60", outcome="committed")
    more = [errors("0+1.45x60"), fenced("0+1x60"), fenced("0x60", "2"), done, errors("0+2x60", ("other", *PLACE[1:]))]
    yield case(ZOMBIES, "more than the canary's", more, {"45m": [ours, _zombies("other")]})
    hardly = [errors("0+1.35x60"), fenced("0+1x60"), done]
    yield case(ZOMBIES, "hardly more than the canary's", hardly, {f"{at}m": [] for at in range(12, 60, 5)})
    two = [errors("0+3x60"), fenced("0+1x60", "1"), fenced("0+2x60", "2")]
    yield case(ZOMBIES, "the canary's through two coordinators", two, {"30m": []})
    anew = [errors("0+1x60"), fenced("0+1x30"), fenced("_x30 0+1x30", agent="canary-2")]
    yield case(ZOMBIES, "the canary in a new pod", anew, {f"{at}m": [] for at in range(0, 60, 5)})
    tenth = [errors("0+10x60"), fenced("0+9x60")]
    yield case(ZOMBIES, "a tenth more than the canary's", tenth, {"20m": []})


def fenced(values: str, coordinator: str = "1", outcome: str = "fenced", agent: str = "canary") -> Series:
    return scraped(CANARY_TRANSACTIONS_TOTAL, "prod", coordinator, outcome, values=values, agent=agent)


def _persistent() -> Iterator[Case]:
    ours = _zombies()
    canary = [errors("0+10x40"), fenced("0+10x40"), fenced("0+50x40", outcome="committed")]
    yield case(ZOMBIES, "the canary's own", canary, {f"{at}m": [] for at in range(0, 400, 30)}, "10m")
    done = fenced("0+50x40", outcome="committed")
    hardly = [*(errors("0+10.5x40", agent=agent) for agent in "ab"), fenced("0+10x40"), done]
    yield case(ZOMBIES, "hardly more than the canary's", hardly, {f"{at}m": [] for at in range(0, 400, 30)}, "10m")
    for another in (("prod", "2", *PLACE[2:]), ("prod", "1", "EndTxn", PLACE[3]), (*PLACE[:3], "PRODUCER_FENCED")):
        both = [errors("0+6x40"), errors("0+6x40", another), fenced("0+10x40"), done]
        yield case(ZOMBIES, f"more than the canary's, {' '.join(another[1:])}", both, {"240m": [ours]}, "10m")
    anew = [errors("0+10x40"), fenced("0+10x15"), fenced("_x15 0+10x25", agent="canary-2")]
    yield case(ZOMBIES, "the canary in a new pod", anew, {f"{at}m": [] for at in range(0, 400, 30)}, "10m")
    two = [errors("0+10x40"), fenced("0+5x40"), fenced("0+5x40", "2"), errors("0+1x40", ("other", *PLACE[1:]))]
    elsewhere = [_zombies("other")]
    yield case(ZOMBIES, "the canary's through two coordinators", two, {"240m": elsewhere}, "10m")
    slow = errors("0 0 0 1 1 1 1 1 1 2 2 2 2 2 2 3 3 3 3 3 3 4x40")  # a step is ten minutes: one in an hour
    yield case(ZOMBIES, "one an hour", [slow], {"90m": [], "200m": [ours], "230m": [ours]}, "10m")
    first = errors("0 0 0 1 1 1 1 1 1 2x20")
    yield case(ZOMBIES, "two hours of it", [first], {f"{at}m": [] for at in range(60, 250, 10)}, "10m")
    pause = errors("0 0 0 2 2 2 2 2 2 2 2 2 2 2 2 4x20")
    yield case(ZOMBIES, "an hour without any", [pause], {f"{at}m": [] for at in range(60, 250, 10)}, "10m")
    begins = errors("0x10 1 1 1 1 1 1 2x20")
    yield case(ZOMBIES, "two hours of it, and well before", [begins], {f"{at}m": [] for at in (190, 210)}, "10m")
    over = errors("0 0 0 1 1 1 1 1 1 2 2 2 2 2 2 3x40")
    yield case(ZOMBIES, "and then none", [over], {"140m": [], "150m": [ours], "240m": []}, "10m")
    gap = errors("0 0 1x12 2 2 2 2 2 3x20")
    yield case(ZOMBIES, "two hours of it, and one more four hours ago", [gap], {"240m": []}, "10m")
    for error in ("PRODUCER_FENCED", "FENCED_INSTANCE_ID"):
        kind = errors("0 0 0 1 1 1 1 1 1 2 2 2 2 2 2 3x40", ("prod", "1", "EndTxn", error))
        yield case(ZOMBIES, error, [kind], {"140m": [], "150m": [ours], "200m": [ours], "220m": []}, "10m")
    normal = errors("0+9x60", ("prod", "1", "InitProducerId", "CONCURRENT_TRANSACTIONS"))
    for missing, values in enumerate(("0x8 1 1 1 1 1 1 2x20", "0 0 0 1x11 2x20", "0 0 0 1 1 1 1 1 1 2x20")):
        title = f"errors that are normal are no fences of hour {missing}"
        yield case(ZOMBIES, title, [errors(values), normal], {f"{at}m": [] for at in range(0, 250, 10)}, "10m")
    other = errors("0+9x60", ("prod", "1", "InitProducerId", "CONCURRENT_TRANSACTIONS"))
    yield case(ZOMBIES, "errors that are normal", [other], {"200m": []}, "10m")


def _answers() -> Iterator[Case]:
    """Errors of which a few are usual, and errors of which each counts."""
    of = partial(case, "KafkaEosRequestsRefused")
    usual = {
        "Produce": ("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"),
        "TxnOffsetCommit": ("ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"),
    }
    each: dict[str, tuple[str, ...]] = {
        "INVALID_TRANSACTION_TIMEOUT": ("InitProducerId",),
        "INVALID_PRODUCER_ID_MAPPING": ("AddPartitionsToTxn", "EndTxn", "AddOffsetsToTxn", "Produce"),
    }

    def ours(error: str) -> dict[str, str]:
        return {"severity": "warning", "kafka_cluster": "prod", "broker": "1", "error": error}

    for request, named in usual.items():
        for error in named:
            at = (*PLACE[:2], request, error)
            yield of(error, [errors("0x20 11x60", at)], {"20m": [], "25m": [ours(error)]})
        error = named[-1]
        at = (*PLACE[:2], request, error)
        yield of(f"a few of {error}", [errors("0x20 9x60", at)], {"25m": [], "40m": []})
        yield of(f"exactly ten of {error}", [errors("0+0x5 5 10x60", at)], {"15m": []})
        yield of(f"{error} ends", [errors("0x5 50x60", at)], {"27m": [ours(error)], "28m": []})
        slowly = errors("0 " * 20 + " ".join(str(count) for count in range(60)), at)
        yield of(f"{error} slowly", [slowly], {"30m": [], "35m": [ours(error)]})
    for error, requests in each.items():
        for request in requests:
            at = (*PLACE[:2], request, error)
            until = {"4m": [], "6m": [ours(error)], "25m": [ours(error)], "28m": []}
            yield of(f"one {error} to {request}", [errors("0x4 1x60", at)], until)
        before = (*PLACE[:2], requests[0], error)
        yield of(f"{error} of before", [errors("3x60", before)], {"6m": [], "30m": []})
    unused = scraped(EXPIRED_TRANSACTIONAL_IDS, "prod", "pay", values="2x60")
    yield of("an expired id that nobody uses", [unused], {"6m": [], "30m": []})


def _concurrent() -> Iterator[Case]:
    ours = {"severity": "warning", "kafka_cluster": "prod"}

    def refused(values: str, broker: str = "1", request: str = "InitProducerId", agent: str = "a") -> Series:
        return errors(values, ("prod", broker, request, "CONCURRENT_TRANSACTIONS"), agent)

    def ended(values: str, broker: str = "1", request: str = "EndTxn", agent: str = "a", version: str = "5") -> Series:
        return scraped(BROKER_REQUESTS_TOTAL, "prod", broker, request, version, values=values, agent=agent)

    none = ended("0x60")
    yield case(CONCURRENT, "an id that waits", [refused("0+60x60"), none], {"8m": [], "15m": [ours]})
    two = [refused("0+6x60"), refused("0+6x60", "2"), none]
    yield case(CONCURRENT, "of two brokers", two, {"30m": [ours]})
    yield case(CONCURRENT, "hardly more than a hundred", [refused("0+10.05x60"), none], {"30m": [ours]})
    versions = [refused("0+61x60"), ended("0+3x60"), ended("0+4x60", version="4")]
    yield case(CONCURRENT, "ended by clients of two versions", versions, {"30m": []})
    yield case(
        CONCURRENT,
        "of several requests",
        [refused("0+6x60"), refused("0+6x60", request="Produce"), none],
        {"30m": [ours]},
    )
    yield case(CONCURRENT, "a few", [refused("0+9x60"), none], {"30m": [], "50m": []})
    yield case(CONCURRENT, "exactly a hundred", [refused("0+10x60"), none], {"30m": []})
    yield case(CONCURRENT, "more than ten for each", [refused("0+61x60"), ended("0+6x60")], {"30m": [ours]})
    yield case(CONCURRENT, "ten for each", [refused("0+60x60"), ended("0+6x60")], {"30m": []})
    yield case(
        CONCURRENT, "ended at two brokers", [refused("0+61x60"), ended("0+3x60"), ended("0+4x60", "2")], {"30m": []}
    )
    yield case(CONCURRENT, "for nine minutes", [refused("0x5 0+60x8 480x60"), none], {"14m": []})
    yield case(CONCURRENT, "requests that are not known", [refused("0+61x60")], {"30m": []})
    yield case(CONCURRENT, "it ends", [refused("0+60x20 1200x60"), none], {"33m": [ours], "40m": []})


def _verification() -> Iterator[Case]:
    def failures(values: str, broker: str = "1", cluster: str = "prod", agent: str = "a") -> Series:
        return scraped(BROKER_TXN_VERIFICATION_FAILURES_TOTAL, cluster, broker, values=values, agent=agent)

    ours = {"severity": "warning", "kafka_cluster": "prod", "broker": "1"}
    yield case(
        VERIFICATION, "more than ten in a quarter of an hour", [failures("0x20 11x60")], {"20m": [], "25m": [ours]}
    )
    yield case(VERIFICATION, "a few while a coordinator moves", [failures("0x20 9x60")], {"25m": [], "40m": []})
    yield case(VERIFICATION, "exactly ten in a quarter of an hour", [failures("0+0x5 5 10x60")], {"15m": []})
    yield case(VERIFICATION, "a count that was there before is no event", [failures("5000x60")], {"0m": [], "30m": []})
    yield case(
        VERIFICATION, "a quarter of an hour later it is over", [failures("0x5 50x60")], {"27m": [ours], "28m": []}
    )
    yield case(
        VERIFICATION,
        "slowly",
        [failures("0 " * 20 + " ".join(str(at) for at in range(60)))],
        {"30m": [], "35m": [ours]},
    )
