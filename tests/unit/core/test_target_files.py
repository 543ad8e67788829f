"""Files of targets in Prometheus's file_sd form."""

from __future__ import annotations

import json
import logging
import os
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.agent.jvm_sources import listed
from exporter.bounds.memory import LIGHT_BYTES
from exporter.core import target_files
from exporter.core.target_files import FileTarget, LeftOut, TargetFileError, TargetFiles, parse_targets
from exporter.settings.targets import BrokerJvm

TWO = [{"targets": ["app-1:8778", "[::1]:8778"], "labels": {"env": "prod", "id": 7}}, {"targets": ["app-3"]}]


def addresses(files: TargetFiles) -> list[str]:
    return [target.address for target in files.targets()]


@pytest.mark.parametrize(
    "text",
    [json.dumps(TWO), "- targets: [app-1:8778, '[::1]:8778']\n  labels: {env: prod, id: 7}\n- targets: [app-3]\n"],
)
def test_json_and_yaml_are_read(text: str) -> None:
    labels = {"env": "prod", "id": "7"}
    assert list(parse_targets(text.encode())) == [
        FileTarget("app-1:8778", labels),
        FileTarget("[::1]:8778", labels),
        FileTarget("app-3", {}),
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff",
        b"a: b",
        b"[7]",
        b"- targets: app-1",
        b'[{"targets": [7]}]',
        b"- targets: ['http://app-1/']",
        b"- targets: ['app 1']",
        b"- targets: [a]\n  labels: [b]",
        b"!!python/object:os.system {}",
    ],
)
def test_another_form_is_refused(content: bytes) -> None:
    with pytest.raises(TargetFileError):
        list(parse_targets(content))


def test_files_together_list_no_more_targets_than_one_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(target_files, "MOST_TARGETS", 5)
    for name in "abc":
        (tmp_path / f"{name}.json").write_text(json.dumps([{"targets": [f"{name}-{at}:1" for at in range(3)]}]))
    files = TargetFiles([tmp_path / "*.json"])
    assert addresses(files) == ["a-0:1", "a-1:1", "a-2:1", "b-0:1", "b-1:1"]
    assert addresses(files) == ["a-0:1", "a-1:1", "a-2:1", "b-0:1", "b-1:1"]
    assert [message for message in caplog.messages if "5 together" in message] == [
        "targets of 2 file(s) are left out: 5 together are read"
    ]
    (tmp_path / "a.json").unlink()
    assert addresses(files) == ["b-0:1", "b-1:1", "b-2:1", "c-0:1", "c-1:1"]


def test_heavy_files_are_parsed_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "heavy.yml").write_text("# " + "x" * 100_000 + "\n- targets: ['a:1']\n")
    (tmp_path / "light.yml").write_text("- targets: ['b:1']\n")
    weights: list[int] = []

    @contextmanager
    def turns(weight: int) -> Iterator[None]:
        weights.append(weight)
        yield

    monkeypatch.setattr(target_files, "one_heavy_at_a_time", turns)
    assert addresses(TargetFiles([tmp_path / "*.yml"])) == ["a:1", "b:1"]
    heavy, light = weights
    assert light < LIGHT_BYTES < heavy


def test_no_file_takes_more_memory_than_it_is_weighed_with() -> None:
    """The kinds of YAML that take most for each byte."""
    for content in (
        b"[" + b"{}," * 2_000 + b"]",
        b"[" + b"[a]," * 2_000 + b"]",
        b"".join(b"- a%d: b\n" % at for at in range(2_000)),
        b"- targets: [a]\n  labels:\n" + b"".join(b"    k%d: v\n" % at for at in range(2_000)),
    ):
        tracemalloc.start()
        try:
            list(parse_targets(content))
        except TargetFileError:
            pass
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert peak < len(content) * target_files.PARSED_WEIGHT


def test_a_group_or_a_target_of_another_form_costs_only_itself() -> None:
    content = (
        b"[7, {targets: [app-1:1, 'http://app-2/', app-3:1]}, {targets: [app-4], labels: [b]}, {targets: [app-5]}]"
    )
    read = list(parse_targets(content))
    assert [target.address for target in read if isinstance(target, FileTarget)] == ["app-1:1", "app-3:1", "app-5"]
    assert len([target for target in read if isinstance(target, LeftOut)]) == 3


@pytest.mark.parametrize("value", ["2020-99-99", '!!int ""', "9" * 5000, "!!float x", "!!timestamp x", "!!bool x"])
def test_no_value_of_yaml_raises_anything_else(value: str) -> None:
    for text in (f"[{value}]", f"{{targets: [{value}]}}", f"- {{targets: [a], labels: {{x: {value}}}}}"):
        try:
            list(parse_targets(text.encode()))
        except TargetFileError:
            continue


def test_labels_that_are_lists_of_aliases_cost_their_group() -> None:
    rows = ["- targets: ['a:1']", "  labels:", "    y0: &a0 [a, a, a, a, a, a, a, a, a, a]"]
    rows += [f"    y{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 40)]
    with pytest.raises(TargetFileError, match="labels that are no mapping of texts"):
        list(parse_targets("\n".join(rows).encode()))


def test_a_file_lists_no_more_targets_than_are_read() -> None:
    content = json.dumps([{"targets": [f"app-{at}:1" for at in range(target_files.MOST_TARGETS + 5)]}]).encode()
    *listed_, last = parse_targets(content)
    assert len(listed_) == target_files.MOST_TARGETS
    assert isinstance(last, LeftOut)


def test_a_pipe_named_as_a_target_file_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "apps.json")
    assert addresses(TargetFiles([tmp_path / "apps.json", tmp_path / "*.json"])) == []


def test_an_empty_file_lists_nothing() -> None:
    assert list(parse_targets(b"")) == []


def test_a_file_is_read_again_when_it_changes_and_forgotten_when_it_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "apps.json"
    files = TargetFiles([file])
    assert addresses(files) == []
    file.write_text('[{"targets": ["app-1:1"]}]')
    assert addresses(files) == ["app-1:1"]
    file.write_text('[{"targets": ["app-1:1", "app-2:1"]}]')
    assert addresses(files) == ["app-1:1", "app-2:1"]
    file.unlink()
    assert addresses(files) == []


def test_a_file_that_is_broken_keeps_what_it_said_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, target_files.__name__)
    file = tmp_path / "apps.json"
    file.write_text('[{"targets": ["app-1:1"]}]')
    files = TargetFiles([file])
    assert addresses(files) == ["app-1:1"]
    file.write_text('[{"targets": ["app-')
    assert [addresses(files) for _ in range(3)] == [["app-1:1"]] * 3
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"{file} is no JSON or YAML; 1 target(s) of before stay"
    ]


def test_a_file_that_cannot_be_read_says_so_once_and_is_read_when_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "apps.json"
    file.mkdir()
    files = TargetFiles([file])
    assert [addresses(files) for _ in range(3)] == [[]] * 3
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"{file} is no regular file; 0 target(s) of before stay"
    ]
    file.rmdir()
    file.write_text('[{"targets": ["app-1:1"]}]')
    assert addresses(files) == ["app-1:1"]


def test_a_file_that_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    file = tmp_path / "apps.json"
    file.write_text('[{"targets": ["app-1:1"]}]')
    status = file.stat()
    files = TargetFiles([file])
    files.targets()
    with file.open("r+") as stream:  # the same file, size and time: nothing says that it changed
        stream.write('[{"targets": ["app-9:1"]}]')
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert addresses(files) == ["app-1:1"]


def test_a_pattern_means_all_files_of_a_folder_and_each_target_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("- targets: [app-1:1]")
    (tmp_path / "b.yml").write_text("- targets: [app-1:1, app-2:1]")
    (tmp_path / "c.json").write_text("broken")
    assert addresses(TargetFiles([tmp_path / "*.yml"])) == ["app-1:1", "app-2:1"]


def test_a_loop_of_links_in_a_folder_hides_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("- targets: [app-1:1]")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "loop.yml").symlink_to("loop.yml")
    assert addresses(TargetFiles([tmp_path / "*.yml"])) == ["app-1:1"]


def test_a_folder_that_cannot_be_read_keeps_its_targets_and_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(folder: Path) -> Iterator[os.DirEntry[str]]:
        raise PermissionError(13, "Permission denied", str(folder))

    (tmp_path / "a.yml").write_text("- targets: [app-1:1]")
    files = TargetFiles([tmp_path / "*.yml"])
    assert addresses(files) == ["app-1:1"]
    with monkeypatch.context() as patch:
        patch.setattr(target_files, "names_in", refused)
        assert addresses(files) == addresses(files) == ["app-1:1"]
        assert addresses(TargetFiles([tmp_path / "*.json"])) == []
    assert caplog.text.count(f"{tmp_path} Permission denied; its files of before stay") == 2
    (tmp_path / "a.yml").unlink()
    assert addresses(files) == []


@pytest.mark.parametrize(
    ("labels", "url"),
    [
        ({}, "http://k1:9404/metrics"),
        ({"__scheme__": "https"}, "https://k1:9404/metrics"),
        ({"__metrics_path__": "/jmx"}, "http://k1:9404/jmx"),
    ],
)
def test_a_target_takes_its_place_in_the_address(labels: dict[str, str], url: str) -> None:
    entry = BrokerJvm(jmx_exporter="http://{target}/metrics", file_sd=(Path("x.yml"),))
    assert listed(entry, FileTarget("k1:9404", labels)).endpoint.url == url
