"""Fuzz targets, each for some seconds: python -m tests.fuzz.run SECONDS TARGET...

Coverage-guided by atheris where it is installed (libFuzzer; Linux on x86-64), by Hypothesis elsewhere. An input that
makes the target fail is written to tests/fuzz/corpus/TARGET/, where every later run tries it first.
"""

from __future__ import annotations

import hashlib
import os
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

CORPUS = Path(__file__).parent / "corpus"
MOST_BYTES = 16 * 1024
INPUT_SECONDS = 20
MEMORY_MB = 1024
SEED = int(os.environ.get("FUZZ_SEED", "0"))
"""Of libFuzzer: 0 takes another one at each run."""


def corpus_of(name: str) -> list[Path]:
    """The inputs of a target, in the order of their names."""
    return sorted(path for path in (CORPUS / name).glob("*") if path.is_file())


def by_libfuzzer(names: Sequence[str], seconds: int) -> None:
    """Raises RuntimeError with the target that failed. Instrumenting takes 5 s, and is done once for all."""
    import atheris  # noqa: PLC0415 -- not on every platform

    with atheris.instrument_imports(include=["exporter"]):
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415 -- instrumented while it is imported

    for name in names:
        if not (process := os.fork()):
            _by_libfuzzer(name, seconds, TARGETS[name])
        if os.waitpid(process, 0)[1]:
            raise RuntimeError(name)


def _by_libfuzzer(name: str, seconds: int, reader: Callable[[bytes], None]) -> NoReturn:
    import atheris  # noqa: PLC0415 -- not on every platform

    with tempfile.TemporaryDirectory() as found:
        arguments = [
            f"-max_total_time={seconds}",
            f"-max_len={MOST_BYTES}",
            f"-timeout={INPUT_SECONDS}",
            f"-rss_limit_mb={MEMORY_MB}",
            f"-artifact_prefix={CORPUS / name}/",
            f"-seed={SEED}",
            "-print_final_stats=1",
            "-verbosity=0",
        ]
        atheris.Setup([name, *arguments, found, str(CORPUS / name)], reader)
        atheris.Fuzz()  # leaves the process: 0 when nothing was found
    raise AssertionError


def by_hypothesis(name: str, seconds: int) -> None:
    import time  # noqa: PLC0415

    from hypothesis import HealthCheck, given, settings  # noqa: PLC0415
    from hypothesis import strategies as st  # noqa: PLC0415

    from tests.fuzz.targets import TARGETS  # noqa: PLC0415

    known = [path.read_bytes() for path in corpus_of(name)] or [b""]
    # Cut and joined pieces of what is known find more than bytes at random.
    pieces = st.sampled_from(known).flatmap(
        lambda content: st.tuples(st.integers(0, len(content)), st.integers(0, len(content))).map(
            lambda ends: content[min(ends) : max(ends)]
        )
    )
    end = time.monotonic() + seconds

    @settings(max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(pieces | st.binary(max_size=20) | st.text(max_size=20).map(str.encode), max_size=8).map(b"".join))
    def one(data: bytes) -> None:
        if time.monotonic() < end:
            try:
                TARGETS[name](data)
            except BaseException:
                (CORPUS / name / f"crash-{hashlib.sha256(data).hexdigest()[:40]}").write_bytes(data)
                raise

    while time.monotonic() < end:
        one()


def main(seconds: int, names: Sequence[str]) -> None:
    for name in names:
        (CORPUS / name).mkdir(parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        by_libfuzzer(names, seconds)
    except ModuleNotFoundError as error:
        if error.name != "atheris":
            raise
        for name in names:
            by_hypothesis(name, seconds)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), sys.argv[2:])
    except Exception:  # noqa: BLE001 -- the exit code says so
        traceback.print_exc()
        sys.exit(1)
