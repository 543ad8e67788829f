"""The process's own families are those of prometheus_client, written here."""

from __future__ import annotations

import subprocess
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text

from exporter.exposition.process_metrics import ProcessMetrics
from exporter.exposition.text_format import END_OF_OPENMETRICS, Format

COUNTERS = {"process_cpu_seconds", "python_gc_objects_collected", "python_gc_collections"}


def test_both_formats_are_parsed_to_the_same_families() -> None:
    own = ProcessMetrics()
    plain = {metric.name: metric for metric in text(own(Format.TEXT).decode())}
    page = (own(Format.OPENMETRICS) + END_OF_OPENMETRICS).decode()
    other = {openmetric.name: openmetric for openmetric in openmetrics(page)}  # type: ignore[no-untyped-call]  # prometheus_client's
    assert plain.keys() == other.keys() >= {"process_resident_memory_bytes", "python_info", *COUNTERS}
    for name, family in plain.items():
        assert (family.type, family.documentation) == (other[name].type, other[name].documentation)
        assert {(sample.name, *sample.labels.items()) for sample in family.samples} == {
            (sample.name, *sample.labels.items()) for sample in other[name].samples
        }


def test_a_counter_has_its_total_in_the_name_of_its_family_in_the_text_format_only() -> None:
    own = ProcessMetrics()
    assert b"\n# TYPE process_cpu_seconds_total counter\n" in own(Format.TEXT)
    assert b"\n# TYPE process_cpu_seconds counter\n" in own(Format.OPENMETRICS)


def test_the_text_is_that_of_prometheus_client_but_for_the_spelling_of_numbers() -> None:
    program = (
        "from prometheus_client import *\n"
        "r = CollectorRegistry()\n"
        "[kind(registry=r) for kind in (ProcessCollector, PlatformCollector, GCCollector)]\n"
        "print(generate_latest(r).decode())"
    )
    theirs = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    ours = ProcessMetrics()(Format.TEXT).decode()

    def without_values(page: str) -> list[str]:
        return [line if line.startswith("#") else line.rpartition(" ")[0] for line in page.splitlines() if line]

    assert without_values(ours) == without_values(theirs)
