"""The bill of materials of an image, from a part of its files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from scripts.image_bill import BillError, bill

STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Source: glibc
Version: 2.36-9+deb12u10
Description: GNU C Library
 Package: no

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1:1.0
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    site = "opt/kafka-eos-exporter/lib/python3.11/site-packages"
    files = {
        "opt/kafka-eos-exporter/pyvenv.cfg": "home = /usr/local/bin\nversion = 3.11.14\n",
        f"{site}/PyYAML-6.0.3.dist-info/METADATA": "Name: PyYAML\nVersion: 6.0.3\nLicense: MIT\n",
        f"{site}/pyspark/jars/kafka-clients-3.9.1.jar": "jar",
        "usr/local/lib/python3.11/site-packages/wheel-1.0+x.dist-info/METADATA": "Name: wheel\nVersion: 1.0+x\n",
        "var/lib/dpkg/status": STATUS,
        "etc/os-release": 'PRETTY_NAME="Debian"\nVERSION_ID="12"\nID=debian\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_it_lists_the_interpreter_packages_of_python_and_debian_and_jars(root: Path) -> None:
    made = bill(root, "kafka-eos-exporter-agent", "0.2.0")
    digest = hashlib.sha256(b"jar").hexdigest()
    assert [component["purl"] for component in made["components"]] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=debian-12",
        f"pkg:generic/kafka-clients-3.9.1.jar?checksum=sha256:{digest}",
        "pkg:generic/python@3.11.14",
        "pkg:pypi/pyyaml@6.0.3",
        "pkg:pypi/wheel@1.0%2Bx",
    ]
    jar, yaml = made["components"][1], made["components"][3]
    assert (jar["name"], jar["version"], jar["hashes"]) == (
        "kafka-clients",
        "3.9.1",
        [{"alg": "SHA-256", "content": digest}],
    )
    assert yaml["licenses"] == [{"license": {"name": "MIT"}}]
    assert (made["metadata"]["component"]["name"], made["metadata"]["component"]["version"]) == (
        "kafka-eos-exporter-agent",
        "0.2.0",
    )


@pytest.mark.parametrize("missing", ["var/lib/dpkg/status", "etc/os-release", "opt/kafka-eos-exporter/pyvenv.cfg"])
def test_an_image_without_a_list_of_packages_has_no_bill(root: Path, missing: str) -> None:
    (root / missing).unlink()
    with pytest.raises(BillError, match=missing.rpartition("/")[2]):
        bill(root, "agent", "0.2.0")
