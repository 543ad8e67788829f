"""One request for settings: JSON on standard input, the answer as JSON on standard output (``child``)."""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import traceback
from typing import Any


def main() -> int:
    """Answer the request. Exit code 0 with an answer, which may be problems; 1 for a defect."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it has secrets
    request = json.load(sys.stdin)
    try:
        answer = _answer(request)
    except Exception as error:  # noqa: BLE001 -- its text may quote a secret of the settings, its place does not
        place = traceback.extract_tb(error.__traceback__)[-1]
        print(f"{type(error).__name__} at {place.filename}:{place.lineno}", file=sys.stderr)  # noqa: T201
        return 1
    json.dump(answer, sys.stdout)
    return 0


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    from exporter.settings.file_text import FileText  # noqa: PLC0415 -- below the limit
    from exporter.settings.root import document_of, read_settings  # noqa: PLC0415
    from exporter.settings.web_file import read_web_file  # noqa: PLC0415

    file = FileText(*request["file"]) if request["file"] else None
    if request["kind"] == "web":
        assert file is not None  # noqa: S101 -- the caller's contract
        document, problems = read_web_file(file)
        return {"document": document, "problems": problems}
    flags = {tuple(path): (flag, value) for path, flag, value in request["flags"]}
    config, found = read_settings(file, request["environ"], flags)
    return {"document": None if config is None else document_of(config), "problems": found}


if __name__ == "__main__":
    sys.exit(main())
