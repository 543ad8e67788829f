"""The bill of materials of an image, as CycloneDX 1.6: ``python -m scripts.image_bill ROOT NAME VERSION`` prints it.

ROOT has the files of the image that are needed: metadata of Python's packages, pyvenv.cfg, dpkg's status, os-release,
and Spark's jars. Listed are the interpreter, packages of Python and Debian, and jars by their hash. Libraries inside of
wheels (librdkafka, OpenSSL) come under the wheel that brings them.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

ENVIRONMENT = "opt/kafka-eos-exporter"
SITE_PACKAGES = (f"{ENVIRONMENT}/lib/python3*/site-packages", "usr/local/lib/python3*/site-packages")
DPKG_STATUS = "var/lib/dpkg/status"
INSTALLED = "install ok installed"

Component = dict[str, Any]


class BillError(Exception):
    """A file of the image that every image has is not there."""


def bill(root: Path, name: str, version: str) -> Component:
    """The document. Raises BillError."""
    components = [*interpreter(root), *python_packages(root), *debian_packages(root), *jars(root)]
    found = {component["bom-ref"]: component for component in components}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "bom-ref": name, "name": name, "version": version}},
        "components": [found[ref] for ref in sorted(found)],
    }


def interpreter(root: Path) -> Iterator[Component]:
    match = re.search(r"(?m)^version = (\S+)$", _text(root, f"{ENVIRONMENT}/pyvenv.cfg"))
    if match is None:
        raise BillError("pyvenv.cfg has no version")
    yield _component("application", "python", match[1], f"pkg:generic/python@{match[1]}")


def python_packages(root: Path) -> Iterator[Component]:
    folders = [str(folder) for pattern in SITE_PACKAGES for folder in sorted(root.glob(pattern))]
    if not folders:
        raise BillError(f"no folder {SITE_PACKAGES[0]}")
    for distribution in distributions(path=folders):
        name = re.sub("[-_.]+", "-", distribution.name).lower()
        yield _component(
            "library",
            name,
            distribution.version,
            f"pkg:pypi/{name}@{quote(distribution.version)}",
            licence(distribution),
        )


def licence(package: Distribution) -> str:
    """The licence that its metadata name; "" where that is a whole text, or only a classifier."""
    for key in ("License-Expression", "License"):
        if key in package.metadata and len(found := str(package.metadata[key])) < 100 and "\n" not in found:
            return found
    return ""


def debian_packages(root: Path) -> Iterator[Component]:
    release = dict(re.findall(r'(?m)^(\w+)="?([^"\n]*)"?$', _text(root, "etc/os-release")))
    distro = f"{release.get('ID', 'debian')}-{release.get('VERSION_ID', '')}"
    for paragraph in _text(root, DPKG_STATUS).split("\n\n"):
        fields = dict(re.findall(r"(?m)^([\w-]+): (.*)$", paragraph))
        if fields.get("Status") == INSTALLED:
            name, version = fields["Package"], fields["Version"]
            where = f"arch={fields['Architecture']}&distro={distro}"
            yield _component("library", name, version, f"pkg:deb/debian/{name}@{quote(version, safe='')}?{where}")


def jars(root: Path) -> Iterator[Component]:
    for path in sorted(root.glob(f"{ENVIRONMENT}/lib/python3*/site-packages/pyspark/jars/*.jar")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        match = re.fullmatch(r"(.+?)-(\d.*)\.jar", path.name)
        name, version = match.groups() if match else (path.stem, "")
        yield {
            **_component("library", name, version, f"pkg:generic/{quote(path.name)}?checksum=sha256:{digest}"),
            "hashes": [{"alg": "SHA-256", "content": digest}],
        }


def _component(kind: str, name: str, version: str, purl: str, licence: str = "") -> Component:
    licences = {"licenses": [{"license": {"name": licence}}]} if licence else {}
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl, **licences}


def _text(root: Path, path: str) -> str:
    try:
        return (root / path).read_text()
    except FileNotFoundError:
        raise BillError(f"no {path}") from None


if __name__ == "__main__":
    print(json.dumps(bill(Path(sys.argv[1]), sys.argv[2], sys.argv[3]), indent=2))
