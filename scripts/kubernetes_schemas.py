"""Kubernetes' JSON schemas, from the wheel of kubernetes-validate into the form that kubeconform reads offline.

    python3 scripts/kubernetes_schemas.py WHEEL DIRECTORY

kubeconform needs one file for each kind and references that are relative; the wheel's name a server.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path

VERSIONS = ("1.25.0", "1.37.0")
"""The oldest that the chart allows, and the newest in the wheel."""


def convert(wheel: Path, directory: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            found = re.fullmatch(r".*/v([0-9.]+)-local-strict/([^/]+\.json)", name)
            if found is None or found[1] not in VERSIONS:
                continue
            schema = json.loads(archive.read(name))
            if found[2] != "_definitions.json" and "x-kubernetes-group-version-kind" not in schema:
                continue
            schema.pop("$id", None)
            file = directory / found[1] / found[2]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(schema).replace('"/api/_definitions.json#', '"_definitions.json#'))


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
