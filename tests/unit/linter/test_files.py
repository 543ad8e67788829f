"""Reading settings files: three forms, with lines, within bounds."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.linter.files import LONGEST_NAME, MOST_BYTES, FileError, Setting, parse, read_text
from exporter.linter.forms import parts


def test_properties_have_continued_lines_escapes_and_the_last_of_two_values() -> None:
    text = "# comment\nacks = 1\nbootstrap.servers=a:9092,\\\n    b:9092\nna\\=me: x\n! other\nacks all\n"
    assert parse(text, ".properties") == (
        Setting("acks", "all", 7),
        Setting("bootstrap.servers", "a:9092,b:9092", 3),
        Setting("na=me", "x", 5),
    )


def test_json_is_flattened_with_lines() -> None:
    text = '{\n "name": "x",\n "config": {\n  "connector.class": "A",\n  "tasks.max": 2,\n  "on": true}\n}'
    assert parse(text, ".json") == (
        Setting("name", "x", 2),
        Setting("config.connector.class", "A", 4),
        Setting("config.tasks.max", "2", 5),
        Setting("config.on", "true", 6),
    )


def test_yaml_is_flattened_with_lines_and_scalars_stay_as_written() -> None:
    text = "spring:\n  kafka:\n    producer:\n      acks: 0123\n      retries: ~\n    topics: [a, b]\n"
    assert parse(text, ".yml") == (
        Setting("spring.kafka.producer.acks", "0123", 4),
        Setting("spring.kafka.producer.retries", "", 5),
        Setting("spring.kafka.topics", "a,b", 6),
    )


def test_yaml_aliases_and_merge_keys_stand_for_what_they_name_and_own_values_come_first() -> None:
    text = "x: &x {acks: 1, retries: 2}\nproducer:\n  acks: all\n  <<: *x\nnames: &n\n  - a\nothers: *n\n"
    assert parse(text, ".yml") == (
        Setting("x.acks", "1", 1),
        Setting("x.retries", "2", 1),
        Setting("producer.acks", "all", 3),
        Setting("producer.retries", "2", 1),
        Setting("names", "a", 6),
        Setting("others", "a", 6),
    )


def test_documents_of_yaml_and_of_springs_properties_are_read_with_their_lines() -> None:
    assert [setting.line for setting in parse("a: 1\n---\nb: 2\n---\n", ".yaml")] == [1, 3]
    assert [setting.line for setting in parse("a=1\n#---\nb=2\n", ".properties")] == [1, 3]


def test_a_list_of_json_has_its_lines() -> None:
    text = '[{"name": "a",\n "config": {"x": 1}},\n {"name": "b"}]'
    assert [(setting.name, setting.line) for setting in parse(text)] == [
        ("[0].name", 1),
        ("[0].config.x", 2),
        ("[1].name", 3),
    ]


@pytest.mark.parametrize(
    ("text", "suffix", "error"),
    [
        ("[1, 2]", ".json", "no JSON object"),
        ('{"a": ', ".json", "line 1: no JSON"),
        ("- a\n- b\n", ".yml", "no YAML mapping"),
        ("a: &x {b: *x}\n", ".yml", "is nested too deeply|no YAML"),
        ("a: [", ".yml", "no YAML"),
        ("a: \x00", ".yml", "no YAML"),
        ("[" * 100_000, ".json", "nested too deeply"),
        ('{"a":' * 40 + "1" + "}" * 40, ".json", "nested too deeply"),
        ("a=\0", ".properties", "line 1: holds a NUL byte"),
        ('streams {\n  application.id = "a"\n}\n', ".conf", "has blocks in braces"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(text: str, suffix: str, error: str) -> None:
    with pytest.raises(FileError, match=error):
        parse(text, suffix)


def test_a_file_is_bounded_and_must_be_text(tmp_path: Path) -> None:
    large = tmp_path / "large.properties"
    large.write_bytes(b"a" * (MOST_BYTES + 1))
    binary = tmp_path / "binary.properties"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, error in ((large, "larger than"), (binary, "no UTF-8"), (tmp_path / "gone", "cannot be read")):
        with pytest.raises(FileError, match=error):
            read_text(path)


@pytest.mark.parametrize(
    ("form", "suffix", "where"),
    [
        ('{{"{parent}": {{"{leaf}": 1}}}}', ".json", "line 1: "),
        ("{parent}:\n  {leaf}: 1\n", ".yml", "line 2: "),
        ("{parent}.{leaf}=1", ".properties", "line 1: "),
    ],
)
def test_a_long_name_is_refused_with_its_parents_and_not_repeated(form: str, suffix: str, where: str) -> None:
    parent, leaf = "p" * 100, "l" * (LONGEST_NAME - 101)
    [setting] = parse(form.format(parent=parent, leaf=leaf), suffix)
    assert setting.name == f"{parent}.{leaf}"
    with pytest.raises(FileError) as refused:
        parse(form.format(parent=parent, leaf=f"{leaf}l"), suffix)
    assert str(refused.value) == f"{where}has a name of more than {LONGEST_NAME} characters"


@given(
    st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.integers() | st.lists(st.none()), max_size=3),
    st.booleans(),
    st.sampled_from([None, 1, "\t"]),
)
def test_any_json_object_is_read(value: dict[str, object], ascii_only: bool, indent: int | str | None) -> None:
    assert set(parse(json.dumps({"acks": "all", "x": value}, ensure_ascii=ascii_only, indent=indent), ".json")) >= {
        Setting("acks", "all", 1 if indent is None else 2)
    }


@pytest.mark.parametrize("name", ["sasl.jaas.config", "ssl.keystore.key", "ssl.key.pem", "basic.auth.user.info"])
def test_a_secret_is_never_shown(name: str) -> None:
    [setting] = parse(f"{name}=hunter2")
    assert setting.shown == "[hidden]"


@given(st.text(), st.sampled_from([".properties", ".json", ".yml", ""]))
def test_any_text_is_settings_or_a_file_error(text: str, suffix: str) -> None:
    try:
        settings = parse(text, suffix)
    except FileError:
        return
    assert all(setting.line >= 0 for setting in settings)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.properties", "a=\\\n" * 240_000),
        ("x.yml", "[" * 400_000),
        ("x.yml", "".join(f"k{at}: 1\n" for at in range(90_000))),
        ("x.yml", "a0: &a0 [x, x]\n" + "".join(f"a{at}: &a{at} [*a{at - 1}, *a{at - 1}]\n" for at in range(1, 28))),
        ("x.sql", "/*" * 400_000),
        ("x.sql", "CREATE TABLE t WITH (" * 40_000),
        ("x.sql", "'a' = " * 150_000),
        ("x.env", "A=${A:-" * 130_000),
        ("application.yml", "spring.kafka.x: '" + "${a:" * 200_000 + "'"),
    ],
)
def test_a_hostile_file_takes_seconds_at_most(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    before = time.process_time()
    with suppress(FileError):
        parts(read_text(tmp_path / name), name)
    assert time.process_time() - before < 10


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.properties")
    with pytest.raises(FileError, match="no regular file"):
        read_text(tmp_path / "x.properties")
