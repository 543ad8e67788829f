"""The build of the package: what pyproject.toml cannot say."""

from __future__ import annotations

import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


class BuildWithRevision(build_py):
    """Writes the commit of the checkout into the package, which ``--version`` shows."""

    def run(self) -> None:
        super().run()
        if (ROOT / "exporter" / "REVISION").exists():  # of a release
            return
        read = runpy.run_path(str(ROOT / "exporter" / "exposition" / "revision.py"))
        commit = read["revision"](ROOT / "exporter")
        if commit != read["UNKNOWN"] and not self.editable_mode:  # an installed checkout is asked itself
            (Path(self.build_lib) / "exporter" / "REVISION").write_text(f"{commit}\n", encoding="utf-8")


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildWithRevision})
