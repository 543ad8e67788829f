"""Shards: every name is one's, what is said of it is said once, and all of them together say what one agent says."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.config import ConfigError, ConfigSource
from exporter.shard import WHOLE, Shard

NAMES = st.text(st.characters(), max_size=40)


def all_of(count: int) -> list[Shard]:
    return [Shard(index, count) for index in range(count)]


# --- Whose is a name --------------------------------------------------------------------------------------------------


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
    printed = ConfigSource(file, {}).load().to_yaml()
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
