"""Print the oldest versions that pyproject.toml allows, as constraints for pip: ``python -m scripts.lowest``.

A library without a lower bound is an error: the versions that were tested would not be known.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
EXTRAS = ("generate", "msk", "spark")


def lowest(project: str, extras: tuple[str, ...]) -> Iterator[str]:
    """Yield ``name==version`` for each requirement of a pyproject.toml and of these extras.

    Raises ValueError for one without a lower bound.
    """
    table = tomllib.loads(project)["project"]
    lines = [*table["dependencies"], *(line for extra in extras for line in table["optional-dependencies"][extra])]
    for line in lines:
        requirement = Requirement(line)
        versions = [bound.version for bound in requirement.specifier if bound.operator in {">=", "=="}]
        if len(versions) != 1:
            raise ValueError(f"{line}: needs one lower bound")
        yield f"{requirement.name}=={versions[0]}"


if __name__ == "__main__":
    print(*lowest((ROOT / "pyproject.toml").read_text(encoding="utf-8"), EXTRAS), sep="\n")
