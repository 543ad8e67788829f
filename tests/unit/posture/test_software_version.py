from __future__ import annotations

import pytest

from exporter.posture.software_version import SoftwareVersion, software_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("4.3.1", SoftwareVersion((4, 3, 1))),
        ("v3.9.2", SoftwareVersion((3, 9, 2))),
        ("1.11.0-SNAPSHOT", SoftwareVersion((1, 11, 0))),
        ("7.8", SoftwareVersion((7, 8))),
        ("5.5.1-ce", SoftwareVersion((2, 5), vendor_build=True)),
        ("6.2.0-ccs", SoftwareVersion((2, 8), vendor_build=True)),
        ("7.9.1-ccs", SoftwareVersion((3, 9), vendor_build=True)),
        ("8.1.0-ccs", SoftwareVersion((4, 1), vendor_build=True)),
        ("3.7.0.redhat-00007", SoftwareVersion((3, 7), vendor_build=True)),
        ("4.1.0-ccs", None),
        ("", None),
        ("null", None),
        ("1" * 50 + ".0", None),
    ],
)
def test_a_version_is_its_numbers_and_confluents_are_those_of_kafka(text: str, version: SoftwareVersion | None) -> None:
    assert software_version(text) == version
