"""Objectives for sloth and OpenSLO: each query is one that Prometheus accepts, and no name breaks out of it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.alerts.slo_files import SLO_FORMATS, Objective

EVIL = 'a"} or vector(1) #\\'


def queries(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        for name, content in document.items():
            if name.endswith("query"):
                yield content
            else:
                yield from queries(content)
    elif isinstance(document, list):
        for content in document:
            yield from queries(content)


@pytest.mark.parametrize("form", ["sloth", "openslo"])
def test_prometheus_accepts_every_query_and_no_name_breaks_out_of_it(tmp_path: Path, form: str) -> None:
    objectives = [Objective(kind, EVIL, 99) for kind in ("application", "topic")]
    given = list(yaml.safe_load_all(SLO_FORMATS[form](objectives)))
    found = [query.replace("{{.window}}", "5m") for query in queries(given)]
    assert len(found) == 3
    assert all(json.dumps(EVIL) in expression for expression in found)
    rules = [{"record": f"x:y{place}", "expr": expression} for place, expression in enumerate(found)]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "a", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    names = (
        [slo["name"] for slo in given[0]["slos"]]
        if form == "sloth"
        else [resource["metadata"]["name"] for resource in given]
    )
    assert all(re.fullmatch("[a-z0-9][a-z0-9-]*[a-z0-9]", name) for name in names)
