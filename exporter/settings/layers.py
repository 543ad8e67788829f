"""One tree of settings from a YAML file, the environment and flags, with the origin of each value.

Later layers override: defaults, then the file, then the environment, then flags. All scalars stay text, as they were
written, so that a password of ``0123`` or a name of ``on`` is not turned into a number or a boolean; the sections of
``exporter.settings`` interpret them. No message repeats a value, a line of the file, or an odd key in full: any of them
may be a secret.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from exporter.bounds.text import cut

Path: TypeAlias = tuple[str | int, ...]
Tree: TypeAlias = dict[Any, Any]

# What a key of the settings holds, such as {"interval": TEXT, "kafka": PROPERTIES, "topics": {"include": LIST},
# "clusters": ({"name": TEXT},)}: a tuple is a list of sections.
Shape: TypeAlias = "Mapping[str, Shape] | tuple[Shape] | str"
PROPERTIES, LIST, TEXT = "properties", "list", "text"

ENVIRONMENT_PREFIX = "KAFKA_EOS_"
MOST_PROBLEMS = 200
LONGEST_PROBLEM = 2000
"""Characters."""
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.-]{1,80}")


class Problem(NamedTuple):
    """One problem of the settings. ``text`` has what is wrong and what to write instead; it never holds a secret."""

    path: Path
    text: str
    origin: str = ""

    def __str__(self) -> str:
        where = dotted(self.path)
        origin = f" (from {self.origin})" if self.origin else ""
        text = cut(self.text, LONGEST_PROBLEM)
        return f"{where}{origin}: {text}" if where else f"{self.origin or 'config'}: {text}"


class ConfigError(Exception):
    """The settings cannot be used. ``problems`` are the first of them, each with its path; none holds a secret.

    Beyond ``MOST_PROBLEMS`` the last one is how many more there are.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        shown = tuple(problems[:MOST_PROBLEMS])
        if len(problems) > MOST_PROBLEMS:
            shown += (Problem((), f"and {len(problems) - MOST_PROBLEMS} more problems"),)
        super().__init__("\n".join(map(str, shown)))
        self.problems = shown


class Layer(NamedTuple):
    """Settings of one origin: the values, the origin of each, and what could not be read."""

    tree: Tree
    origins: Mapping[Path, str]
    problems: tuple[Problem, ...] = ()


def dotted(path: Path) -> str:
    """``("clusters", 0, "lso")`` as ``clusters[0].lso``; a key that may hold a secret is cut at the first odd sign."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{shown_key(step)}" if text else shown_key(step)
    return text


def did_you_mean(key: str, known: Iterable[str]) -> str:
    """The end of a sentence on an unknown key: the nearest known one, or all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(key.lower(), names, n=1)
    return f"did you mean {near[0]}?" if near else f"known here: {', '.join(names)}"


def shown_key(key: str) -> str:
    """The key, cut at the first character that a key of ours cannot have: the rest may be a secret."""
    match = _PLAIN_KEY.match(key)
    plain = match.group() if match else ""
    return plain if plain == key else f"{plain}…"


def merged(below: Any, above: Any) -> Any:  # noqa: ANN401 -- a tree of settings is anything
    """Merge two trees, ``above`` wins: mappings by key, lists of sections by place, everything else whole."""
    if above is None:
        return below
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **{key: merged(below.get(key), child) for key, child in above.items()}}
    if isinstance(below, list) and isinstance(above, list) and any(isinstance(item, dict) for item in above):
        longest = max(len(below), len(above))
        pairs = ((below[at : at + 1], above[at : at + 1]) for at in range(longest))
        return [merged(*(side[0] if side else None for side in pair)) for pair in pairs]
    return above
