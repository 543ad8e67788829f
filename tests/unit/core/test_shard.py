"""Shards: each name belongs to exactly one, and all shards together expose the same as one agent."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from exporter import catalogue
from exporter.agent.composition import Agent as WholeAgent
from exporter.applications.applications import Grouping
from exporter.config import ConfigSource
from exporter.core.shard import WHOLE, Shard
from exporter.exposition.render import Exposition
from exporter.exposition.text_format import Format
from exporter.groups.source.groups import GroupsSource
from exporter.lso.source.lso import LsoSource
from exporter.model import Fact, Sample, Snapshot, Source
from exporter.posture.source import PostureSource
from exporter.settings.layers import ConfigError
from exporter.settings.plain import GroupsConfig, LsoConfig, PostureConfig, TopicsConfig, TransactionsConfig
from exporter.transactions.counting.known_applications import KnownApplications
from exporter.transactions.machine.records import Status, decode_key, decode_value
from exporter.transactions.source.transactions import TransactionsSource
from exporter.transactions.source.txnlog import TxnlogSource
from tests.helpers.cluster import (
    LOG,
    FakeGroup,
    FakeKafka,
    FakeTransaction,
    OpenWriter,
    Partition,
    partitions,
    read,
    world_of,
)
from tests.helpers.coordinator import BEGIN_MS, GeneratedLog, histories

NAMES = st.text(st.characters(), max_size=40)


def all_of(count: int) -> list[Shard]:
    return [Shard(index, count) for index in range(count)]


# --- The shard of a name
# --------------------------------------------------------------------------------------------------


@given(NAMES, st.integers(1, 50))
def test_every_name_is_exactly_one_shards(name: str, count: int) -> None:
    assert sum(shard.holds(name) for shard in all_of(count)) == 1


@pytest.mark.parametrize(("name", "count", "index"), [("orders", 3, 1), ("orders", 2, 0), ("", 3, 1), ("größe", 5, 4)])
def test_whose_a_name_is_never_changes(name: str, count: int, index: int) -> None:
    assert int(sha256(name.encode()).hexdigest()[:16], 16) % count == index
    assert Shard(index, count).holds(name)


@pytest.mark.parametrize("form", ["topic-{}", "orders.{}.v1", "{}-repartition", "pay{:04d}"])
@pytest.mark.parametrize("count", [2, 3, 8])
def test_names_that_are_much_alike_spread_evenly(form: str, count: int) -> None:
    names = [form.format(number) for number in range(2000)]
    shares = [sum(map(shard.holds, names)) for shard in all_of(count)]
    assert max(shares) < 1.25 * 2000 / count
    assert min(shares) > 0.75 * 2000 / count


def test_one_of_one_is_the_whole() -> None:
    assert WHOLE.holds("anything")
    assert WHOLE.first
    assert Shard(0, 3).first
    assert not Shard(1, 3).first


# --- Settings ---------------------------------------------------------------------------------------------------------


def load(file: Path, text: str, **environ: str) -> Shard:
    file.write_text(f"clusters: [{{kafka: {{bootstrap.servers: 'k:9092'}}}}]\n{text}\n")
    names = {f"KAFKA_EOS_{name}": value for name, value in environ.items()}
    return ConfigSource(file, names).load().shard.shard()


def problems(file: Path, text: str, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load(file, text, **environ)
    return [str(problem) for problem in error.value.problems]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.yml"


def test_it_is_written_as_one_text_or_as_two_keys(file: Path) -> None:
    assert load(file, "") == WHOLE
    assert load(file, "shard: 1/3") == Shard(1, 3)
    assert load(file, "shard: {index: 1, count: 3}") == Shard(1, 3)
    assert load(file, "shard: 0/3", SHARD="2/3") == Shard(2, 3)
    assert load(file, "shard: {count: 3}", SHARD__INDEX="2") == Shard(2, 3)
    assert load(file, "", SHARD__INDEX="2", SHARD__COUNT="4") == Shard(2, 4)


def test_the_flag_wins(file: Path) -> None:
    load(file, "shard: {index: 1, count: 3}")
    source = ConfigSource(file, {}, {("shard",): ("--shard", "0/2")})
    assert source.load().shard.shard() == Shard(0, 2)


def test_printed_settings_can_be_read_back(file: Path) -> None:
    load(file, "shard: 1/3")
    printed = ConfigSource(file, {}).printed()
    file.write_text(printed)
    assert ConfigSource(file, {}).load().shard.shard() == Shard(1, 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1", "shard: '1' is no shard; write INDEX/COUNT, such as 0/3 for the first of three"),
        ("-1/3", "shard: '-1/3' is no shard; write INDEX/COUNT"),
        ("3/3", "shard: '3/3' is no shard: they are counted from 0, so the last of 3 is 2/3"),
        ("0/0", "shard: '0/0' is no shard: there must be from 1 to 1000 of them"),
        ("{index: 3, count: 3}", "shard: is no shard: they are counted from 0, so the last of 3 is 2/3"),
        ("{index: 1}", "shard: is no shard: they are counted from 0, so the last of 1 is 0/1"),
        ("{index: x, count: 3}", "shard.index: must be a whole number"),
        ("{index: 0, counts: 3}", "shard.counts: unknown key; did you mean count?"),
    ],
)
def test_what_is_no_shard_is_said_with_what_to_write_instead(file: Path, text: str, says: str) -> None:
    assert any(problem.startswith(says) for problem in problems(file, f"shard: {text}"))


def test_both_forms_at_once_are_refused(file: Path) -> None:
    [problem] = problems(file, "", SHARD="0/3", SHARD__INDEX="1")
    assert problem == "KAFKA_EOS_SHARD__INDEX: KAFKA_EOS_SHARD is set, too, and means the whole section: keep one"


# --- All shards together expose the same as one agent
# -----------------------------------------------------------------------------------

INTERVAL = 5.0
CYCLES = 9
TOPICS = ("orders", "payments")


class ShardSources:
    """The sources of one cluster, which hand each other facts as the runner lets them."""

    def __init__(self, world: FakeKafka, shard: Shard, most: int = 0, caps: TransactionsConfig | None = None) -> None:
        cluster = world.cluster(grouping=Grouping(["^(?P<application>app-[0-9]+)"]), shard=shard)
        self._world = world
        self._facts: dict[type[Fact], Fact] = {}
        self.sources: tuple[Source, ...] = (
            TxnlogSource(cluster, caps or TransactionsConfig(outcomes="log"), world.tail),
            TransactionsSource(cluster, TransactionsConfig(open_transactions=most)),
            LsoSource(cluster, LsoConfig(stall_after=10.0, sweep_interval=15.0), TopicsConfig()),
            GroupsSource(cluster, GroupsConfig()),
            PostureSource(cluster, PostureConfig()),
        )
        self.samples: dict[tuple[str, tuple[str, ...]], object] = {}

    def read(self) -> None:
        self.samples.clear()
        for source in self.sources:
            seen = read(self._world, source, *self._facts.values())
            self._facts |= seen.facts
            for sample in seen.samples:
                key = (sample.metric.name, sample.labels)
                assert key not in self.samples or sample.metric in catalogue.OF_EACH_SHARD, key
                if sample.metric not in catalogue.OF_EACH_SHARD:
                    self.samples[key] = sample.value


def stand(world: FakeKafka) -> None:
    """Return what is open in the log holds its partitions, the oldest first; the coordinators know of it."""
    world.transactions.clear()
    begun: set[tuple[int, int]] = set()
    for rows in world.log.values():
        for record in rows:
            name, value = decode_key(record.key), record.value and decode_value(record.value)
            if not value or value.status not in {Status.ONGOING, Status.PREPARE_COMMIT, Status.PREPARE_ABORT}:
                world.transactions.pop(name, None)
                continue
            begun.add((value.start_ms, value.producer_id))
            state = {Status.ONGOING: "Ongoing", Status.PREPARE_COMMIT: "PrepareCommit"}.get(value.status)
            world.transactions[name] = FakeTransaction(
                value.producer_id,
                state or "PrepareAbort",
                [(partition.topic, partition.partition) for partition in value.partitions or ()],
                value.producer_epoch,
                value.timeout_ms,
                value.start_ms,
            )
    # Offsets are in the order of time, whatever partition of the log tells of a transaction, and no two begin at one.
    # Whatever begins in a partition has a record there, so that its high watermark moves as well.
    offsets = {begun_place: 10 + place for place, begun_place in enumerate(sorted(begun))}
    written = sum(map(len, world.log.values()))
    for topic in TOPICS:
        for number, partition in enumerate(world.topics[topic]):
            holders = [
                transaction for transaction in world.transactions.values() if (topic, number) in transaction.partitions
            ]
            partition.writers = [
                OpenWriter(holder.producer_id, offsets[holder.start_ms, holder.producer_id], holder.epoch)
                for holder in sorted(holders, key=lambda holder: holder.start_ms)
            ]
            partition.high_watermark = 10 + written
            partition.stable = min((writer.start_offset for writer in partition.writers), default=None)


def without_since(samples: Mapping[tuple[str, tuple[str, ...]], object]) -> dict[tuple[str, tuple[str, ...]], object]:
    since = catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS.name
    return {key: value for key, value in samples.items() if key[0] != since}


@settings(max_examples=8, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(histories(most_ids=8), st.integers(2, 4), st.booleans(), st.data())
def test_shards_are_disjoint_and_together_say_what_one_agent_says(
    history: GeneratedLog, count: int, log_is_refused: bool, data: st.DataObject
) -> None:
    world = world_of(log=history.log_partitions, offsets=1)
    world.topics |= {topic: partitions(3, lambda: Partition(high_watermark=10)) for topic in TOPICS}
    world.groups = {
        f"readers-{number}": FakeGroup({("orders", number % 3): 7, ("payments", 0): 200}) for number in range(5)
    }
    world.settings[LOG] = {"min.insync.replicas": "1"}
    world.log_reads.refused = log_is_refused
    world.time.wall = BEGIN_MS / 1000
    whole = ShardSources(world, WHOLE)
    shards = [ShardSources(world, shard) for shard in all_of(count)]
    records = list(history.records)
    for agent in (whole, *shards):
        agent.read()
    while records:
        size = data.draw(st.integers(1, len(records)), label="records")
        world.write(records[:size])
        world.time.pass_(max(0.0, records[size - 1].ms / 1000 - world.time.wall))
        del records[:size]
        stand(world)
        for _ in range(CYCLES):
            for agent in (whole, *shards):
                agent.read()
            world.time.pass_(INTERVAL)
        times = Counter(key for shard in shards for key in shard.samples)
        assert [key for key, said in times.items() if said > 1] == []
        together = {key: value for shard in shards for key, value in shard.samples.items()}
        assert without_since(together) == without_since(whole.samples)
        # Each agent dates a stall by its own reads of that partition, which are at most one interval apart.
        for key in whole.samples.keys() - without_since(whole.samples).keys():
            assert together[key] == pytest.approx(whole.samples[key], abs=INTERVAL)


def test_what_a_cap_folds_has_a_name_of_each_shards_own() -> None:
    sides = [KnownApplications(Grouping(), 1, shard) for shard in all_of(2)]
    names = [f"application-{letter}" for letter in "abcdefgh"]
    called = [[side.group(name) for side in sides] for name in names]
    assert {application for side in sides for application in side.by_name} & {"_other_0", "_other_1"}
    for name, (first, second) in zip(names, called, strict=True):
        mine, other = (first, second) if Shard(0, 2).holds(name) else (second, first)
        assert other == name
        assert mine in {name, f"_other_{[first, second].index(mine)}"}
    alone = KnownApplications(Grouping(), 1, WHOLE)
    assert {alone.group(name) for name in names} == {names[0], "_other"}


# --- Metrics of the agent itself ---------------------------------------------------------------------------------


def exposed(shard: Shard, *samples: Sample) -> list[str]:
    exposition = Exposition(shard=shard)
    snapshot = Snapshot("agent", "", "", 60.0, samples, (), (), 0.0, time.monotonic(), 0.0)
    exposition.swap({("agent",): snapshot, ("other",): snapshot})
    return [line for line in exposition.body(Format.TEXT).decode().splitlines() if not line.startswith("#")]


def test_what_each_agent_reports_names_its_shard_and_nothing_else_does() -> None:
    up = catalogue.SOURCE_UP(1.0, "prod", "lso", "prod")
    dropped = catalogue.SERIES_DROPPED(3.0, "kafka_eos_transactions_total")
    open_now = catalogue.TRANSACTIONS_OPEN(2.0, "prod", "app", "ongoing")
    held = catalogue.LSO_HOLDER_PARTITIONS(4.0, "prod", "app", "id", "7", "open")
    who = 'kafka_cluster="prod",application="app",transactional_id="id",producer_id="7",kind="open"'
    rest = '{kafka_cluster="prod",application="app",state="ongoing"} 2.0'
    assert exposed(Shard(1, 3), up, dropped, open_now, held) == [
        'kafka_eos_source_up{kafka_cluster="prod",source="lso",target="prod",shard="1"} 1.0',
        'kafka_eos_series_dropped{metric="kafka_eos_transactions_total",shard="1"} 6.0',
        f"kafka_eos_transactions_open{rest}",
        f'kafka_eos_lso_holder_partitions{{{who},shard="1"}} 4.0',
    ]
    assert exposed(WHOLE, up, dropped, open_now, held) == [
        'kafka_eos_source_up{kafka_cluster="prod",source="lso",target="prod"} 1.0',
        'kafka_eos_series_dropped{metric="kafka_eos_transactions_total"} 6.0',
        f"kafka_eos_transactions_open{rest}",
        f"kafka_eos_lso_holder_partitions{{{who}}} 4.0",
    ]


def test_the_families_of_each_agent_are_those_about_itself() -> None:
    about_itself = {row for row in catalogue.rows() if row.source == "agent"}
    assert about_itself < set(catalogue.OF_EACH_AGENT)
    assert {row.source for row in set(catalogue.OF_EACH_AGENT) - about_itself} == {"txnlog"}


# --- What each shard reads
# ---------------------------------------------------------------------------------------------------

SETTINGS = """
web: {{listen_address: "127.0.0.1:0"}}
shard: {shard}
clusters: [{{name: prod, kafka: {{bootstrap.servers: "127.0.0.1:1"}}, brokers: [{{jolokia: "http://127.0.0.1:1/j"}}]}}]
connect: [{{name: main, group_id: etl, rest: "http://127.0.0.1:1"}}]
streams: [{{jolokia: "http://127.0.0.1:1/j"}}]
ingest: {{enabled: true}}
"""
OF_EVERY_SHARD = {"lso", "transactions", "txnlog", "groups", "posture"}


@pytest.mark.parametrize(("shard", "rest"), [("0/2", {"brokers", "connect", "streams", "ingest"}), ("1/2", set())])
def test_what_is_around_the_clusters_is_read_by_the_first_shard_alone(
    shard: str, rest: set[str], file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text(SETTINGS.format(shard=shard))
    source = ConfigSource(file, {})
    agent = WholeAgent(source.load(), source.load)
    agent.start()
    try:
        read = {source["source"] for source in agent.status()["clusters"][0]["sources"]}
        assert OF_EVERY_SHARD | rest <= read
        assert bool(read & {"brokers", "connect", "streams", "ingest", "spark", "audits"}) == bool(rest)
        assert agent.status()["shard"] == {"index": int(shard[0]), "count": 2}
        door = urllib.request.Request(f"http://127.0.0.1:{agent.ports[0]}/ingest/librdkafka", b"{}", method="POST")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(door, timeout=10)  # noqa: S310 -- ours
        refused.value.close()
        assert (refused.value.code == 404) == (not rest)
        file.write_text(SETTINGS.format(shard="1/3"))
        with caplog.at_level("WARNING"):
            assert agent.reload() == []
        assert "shard take effect at the next start only" in caplog.text
        assert agent.status()["shard"] == {"index": int(shard[0]), "count": 2}
    finally:
        agent.stop()
