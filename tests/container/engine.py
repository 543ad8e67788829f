"""Carries out a Dockerfile where there is no container engine: each stage is an overlay over this machine's own root.

What is true: every RUN, COPY and ENV happens as it is written, in order, in a root of its own; and what runs at the end
sees a read-only root and is not root. What is not: the base image. This machine's Debian and its Python, laid out as
the official image has it, stand in for it, so nothing is said about what else that image holds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.container.dockerfile import BuildStage, context

BUILD_SECONDS = 600
BASE_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_PASSED_ON = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE")

_ENTER = """
set -e
mount -t overlay overlay -o "lowerdir=/,upperdir=$UPPER,workdir=$WORK" "$ROOT"
mount --rbind /dev "$ROOT/dev"
mount --rbind /proc "$ROOT/proc"
if [ -n "$READ_ONLY" ]; then
    mount -o remount,ro "$ROOT"
    for folder in $WRITABLE; do mount -t tmpfs -o size=64m,mode=1777 tmpfs "$ROOT$folder"; done
fi
exec chroot $AS "$ROOT" "$@"
"""


@dataclass(frozen=True)
class RootLayer:
    """The changes that a stage, and those that it is made from, made of this machine's root."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in (self.files, self.folder / "work", self.folder / "root"):
            part.mkdir(parents=True, exist_ok=True)

    @property
    def files(self) -> Path:
        return self.folder / "files"

    def command(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        *,
        user: str = "",
        writable: Sequence[str] = (),
    ) -> tuple[list[str], dict[str, str]]:
        """How to run these words inside: a command and its environment. With a ``user``, on a read-only root."""
        inside = [
            "/usr/bin/env", "-i", *(f"{key}={value}" for key, value in environment.items()), *words,
        ]  # fmt: skip
        outside = {
            "PATH": os.environ["PATH"],
            "UPPER": str(self.files),
            "WORK": str(self.folder / "work"),
            "ROOT": str(self.folder / "root"),
            "AS": f"--userspec={user} --groups=" if user else "",
            "READ_ONLY": "yes" if user else "",
            "WRITABLE": " ".join(writable),
        }
        # The mounts are in a namespace of their own: whatever becomes of the process, none is left.
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER, "enter", *inside], outside

    def run(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Raises AssertionError with what it printed when it fails."""
        command, outside = self.command(words, environment)
        done = subprocess.run(command, env=outside, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"


def base(folder: Path, packages: Path) -> RootLayer:
    """In place of the official image of Python: this Python under /usr/local, with pip from these ``packages``."""
    layer = RootLayer(folder, {"PATH": BASE_PATH})
    prefix, version = Path(sys.base_prefix), f"python{sys.version_info.major}.{sys.version_info.minor}"
    local = layer.files / "usr" / "local"
    (local / "bin").mkdir(parents=True)
    shutil.copytree(
        prefix / "lib" / version,
        local / "lib" / version,
        symlinks=True,
        ignore=shutil.ignore_patterns("test", "tests", "__pycache__", "site-packages", "dist-packages", "config-*"),
    )
    for library in (prefix / "lib").glob("libpython*.so*"):
        shutil.copy2(library, local / "lib" / library.name, follow_symlinks=False)
    shutil.copy2(prefix / "bin" / version, local / "bin" / version)
    for name in ("python3", "python"):
        (local / "bin" / name).symlink_to(version)
    site = local / "lib" / version / "site-packages"
    shutil.copytree(packages / "pip", site / "pip")
    pip = local / "bin" / "pip"
    pip.write_text("#!/usr/local/bin/python\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n")
    pip.chmod(0o755)
    layer.run(["ldconfig"], layer.environment)
    return layer


def build(
    stage: BuildStage,
    below: RootLayer,
    built: Mapping[str, RootLayer],
    folder: Path,
    source: Path,
    arguments: Mapping[str, str],
) -> RootLayer:
    """Carry out a stage over the layer that it is FROM."""
    layer = RootLayer(folder)
    # A copy, as layers that lie within the root that they are laid over cannot be stacked.
    subprocess.run(["cp", "-a", f"{below.files}/.", layer.files], timeout=BUILD_SECONDS, check=True)
    environment = dict(below.environment)
    given: dict[str, str] = {}
    place = "/"
    sent = context(source, (source / ".dockerignore").read_text())
    for instruction in stage.instructions:
        if instruction.name == "RUN":
            proxy = {key: value for key, value in os.environ.items() if key.startswith(_PASSED_ON)}
            layer.run(
                ["sh", "-c", f"cd {place} && {instruction.value}"], {"HOME": "/root", **proxy, **environment, **given}
            )
        elif instruction.name == "COPY":
            _copy(layer, instruction.words, place, source, sent, built)
        elif instruction.name == "WORKDIR":
            place = instruction.value
            (layer.files / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif instruction.name == "ENV":
            for word in instruction.words:
                key, _, value = word.partition("=")
                environment[key] = value.replace("$PATH", environment["PATH"])
        elif instruction.name == "ARG":
            key, _, value = instruction.value.partition("=")
            given[key] = arguments.get(key, value)
    return RootLayer(folder, environment)


def _copy(
    layer: RootLayer, words: list[str], place: str, source: Path, sent: set[str], built: Mapping[str, RootLayer]
) -> None:
    *froms, to = [word for word in words if not word.startswith("--")]
    stage = next((word.partition("=")[2] for word in words if word.startswith("--from=")), "")
    target = layer.files / str(Path(place) / to).lstrip("/")
    if stage:
        shutil.copytree(built[stage].files / froms[0].lstrip("/"), target, symlinks=True)
        return
    for name in froms:
        files = [file for file in sent if file == name or file.startswith(f"{name}/")]
        assert files, f"COPY {name}: .dockerignore lets nothing of it through"
        for file in files:
            inner = (
                Path(file).relative_to(name) if file != name else Path(Path(name).name) if to.endswith("/") else Path()
            )
            (target / inner).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / file, target / inner)
