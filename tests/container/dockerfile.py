"""A Dockerfile as its stages and instructions, and the files that its .dockerignore lets through."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Instruction:
    name: str
    value: str

    @property
    def words(self) -> list[str]:
        """The value as a command line: its JSON form, or the shell's."""
        if self.value.startswith("["):
            return [str(word) for word in json.loads(self.value)]
        return shlex.split(self.value)


@dataclass(frozen=True)
class BuildStage:
    name: str
    base: str
    instructions: tuple[Instruction, ...]

    def all(self, name: str) -> list[Instruction]:
        return [instruction for instruction in self.instructions if instruction.name == name]

    def last(self, name: str) -> Instruction:
        return self.all(name)[-1]


def stages(text: str) -> dict[str, BuildStage]:
    """By name, in order. Raises ValueError for a stage without a name."""
    found: dict[str, BuildStage] = {}
    current: list[Instruction] = []
    for instruction in _instructions(resolved(text)):
        if instruction.name == "ARG" and not found:
            continue
        if instruction.name == "FROM":
            match = re.fullmatch(r"(\S+) AS (\S+)", instruction.value)
            if match is None:
                raise ValueError(f"FROM {instruction.value}: every stage has a name here")
            current = []
            found[match[2]] = BuildStage(match[2], match[1], ())
        else:
            current.append(instruction)
            name = next(reversed(found))
            found[name] = BuildStage(name, found[name].base, tuple(current))
    return found


def resolved(text: str) -> str:
    """The text with the defaults of the arguments that precede the first stage."""
    for name, default in re.findall(r"(?m)^ARG (\w+)=(\S+)$", text[: text.index("\nFROM ")]):
        text = text.replace(f"FROM ${{{name}}} ", f"FROM {default} ")
    return text


def _instructions(text: str) -> Iterator[Instruction]:
    without_comments = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in re.sub(r"\\\n\s*", "", without_comments).splitlines():
        if line.strip():
            name, _, value = line.strip().partition(" ")
            yield Instruction(name, value.strip())


def lineage(all_stages: Mapping[str, BuildStage], name: str) -> list[BuildStage]:
    """The stage and the stages that it is made from, the oldest first."""
    stage = all_stages[name]
    return [*(lineage(all_stages, stage.base) if stage.base in all_stages else []), stage]


def context(root: Path, ignore: str) -> set[str]:
    """The files that are sent to the engine, relative to the root: the last line that fits a file or one of its folders
    decides.
    """
    patterns = [line for line in ignore.splitlines() if line and not line.startswith("#")]
    return {str(file.relative_to(root)) for top in root.iterdir() for file in _files(top, root, patterns)}


def _files(path: Path, root: Path, patterns: list[str]) -> Iterator[Path]:
    if _ignored(str(path.relative_to(root)), patterns):
        return
    if path.is_dir():
        for child in path.iterdir():
            yield from _files(child, root, patterns)
    else:
        yield path


def _ignored(name: str, patterns: list[str]) -> bool:
    parts = PurePosixPath(name).parts
    above = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    ignored = False
    for pattern in patterns:
        bare = pattern.removeprefix("!")
        if any(_fits(text, bare) for text in above):
            ignored = not pattern.startswith("!")
    return ignored


def _fits(name: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatchcase(name.rpartition("/")[2], pattern[3:])
    return name.count("/") == pattern.count("/") and fnmatchcase(name, pattern)
