from __future__ import annotations

import pytest

from exporter.posture.software_version import Version, software_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("4.3.1", (4, 3, 1)),
        ("v3.9.2", (3, 9, 2)),
        ("1.11.0-SNAPSHOT", (1, 11, 0)),
        ("7.8", (7, 8)),
        ("5.5.1-ce", (2, 5)),
        ("6.2.0-ccs", (2, 8)),
        ("7.9.1-ccs", (3, 9)),
        ("8.1.0-ccs", (4, 1)),
        ("3.7.0.redhat-00007", (3, 7)),
        ("4.1.0-ccs", None),
        ("", None),
        ("null", None),
        ("1" * 50 + ".0", None),
    ],
)
def test_a_version_is_its_numbers_and_confluents_are_those_of_kafka(text: str, version: Version | None) -> None:
    assert software_version(text) == version
