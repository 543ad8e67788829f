"""Modules of a package are imported without the package's own, which works as before."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(program: str) -> str:
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return ended.stdout.strip()


def test_requests_are_imported_without_the_clients() -> None:
    program = "import sys, exporter.kafka.client, exporter.kafka.log.markers\nprint(*sys.modules)"
    modules = set(run(program).split())
    assert "kafka.protocol.admin" in modules
    assert modules.isdisjoint({"kafka.admin", "kafka.consumer", "kafka.producer", "kafka.net"})


@pytest.mark.parametrize(
    "use",
    [
        "from kafka import KafkaAdminClient as found",
        "import kafka; found = kafka.KafkaConsumer",
        "import kafka; found = kafka.__version__",
        "from kafka.admin import KafkaAdminClient as found",
    ],
)
def test_a_client_is_there_for_who_names_it(use: str) -> None:
    assert run(f"import exporter.kafka.client\n{use}\nprint(bool(found))") == "True"


def test_a_name_that_the_package_has_not_is_an_import_error() -> None:
    program = "import exporter.kafka\ntry:\n  from kafka import nothing\nexcept ImportError:\n  print('none')"
    assert run(program) == "none"


def test_a_package_that_is_imported_already_stays() -> None:
    program = "import kafka, exporter.kafka.client as c\nprint(type(kafka).__name__, kafka.KafkaProducer.__name__)"
    assert run(program) == "module KafkaProducer"
