"""Tests of what ended a query, by the classes of its errors."""

from __future__ import annotations

import pytest

from exporter.spark.terminations import MOST_CLASSES, exceptions_in, reason_of
from exporter.words import TerminationReason

STREAMING = "org.apache.spark.sql.streaming"


@pytest.mark.parametrize(
    ("error_class", "exceptions", "reason"),
    [
        ("", [], TerminationReason.STOPPED),
        (
            "KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
            ["java.lang.Exception"],
            TerminationReason.DATA_LOSS,
        ),
        ("", ["org.apache.spark.sql.kafka010.KafkaIllegalStateException"], TerminationReason.DATA_LOSS),
        ("", ["org.apache.kafka.clients.consumer.OffsetOutOfRangeException"], TerminationReason.DATA_LOSS),
        ("CONCURRENT_STREAM_LOG_UPDATE", ["org.apache.spark.SparkException"], TerminationReason.CONCURRENT_RUN),
        ("", ["org.apache.spark.SparkConcurrentModificationException"], TerminationReason.CONCURRENT_RUN),
        ("", ["a.B", "org.apache.kafka.common.errors.ProducerFencedException"], TerminationReason.FENCED),
        ("FOREACH_BATCH_USER_FUNCTION_ERROR", ["cimpl.KafkaException", "_FENCED"], TerminationReason.FENCED),
        ("FOREACH_BATCH_USER_FUNCTION_ERROR", ["py4j.Py4JException", "ValueError"], TerminationReason.USER_CODE),
        ("FAILED_EXECUTE_UDF", ["org.apache.spark.SparkException"], TerminationReason.USER_CODE),
        ("", ["org.apache.spark.api.python.PythonException"], TerminationReason.USER_CODE),
        ("KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED", [], TerminationReason.KAFKA),
        (
            "",
            ["java.util.concurrent.ExecutionException", "org.apache.kafka.common.errors.TimeoutException"],
            TerminationReason.KAFKA,
        ),
        ("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", ["org.apache.spark.SparkException"], TerminationReason.CHECKPOINT),
        ("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", [], TerminationReason.CHECKPOINT),
        ("MALFORMED_LOG_FILE", ["java.lang.IllegalStateException"], TerminationReason.CHECKPOINT),
        ("", ["java.lang.OutOfMemoryError"], TerminationReason.OTHER),
        ("DIVIDE_BY_ZERO", ["org.apache.spark.SparkArithmeticException"], TerminationReason.OTHER),
    ],
)
def test_each_kind_of_end_has_its_word(error_class: str, exceptions: list[str], reason: TerminationReason) -> None:
    assert reason_of(error_class, exceptions) is reason


def test_classes_are_taken_from_a_trace_and_no_text() -> None:
    trace = (
        "org.apache.spark.SparkException: Job aborted: secret SecretError inside\n"
        "\tat a.B(C.scala:1)\n"
        "Caused by: org.apache.kafka.common.errors.TimeoutException\n"
        "ValueError: secret\n"
        "cimpl.KafkaException: KafkaError{code=_FENCED,val=-144,str=secret}\n"
        "Caused by: org.apache.spark.SparkException: again\n"
    )
    found = exceptions_in(trace)
    assert found == (
        "org.apache.spark.SparkException",
        "org.apache.kafka.common.errors.TimeoutException",
        "ValueError",
        "cimpl.KafkaException",
        "_FENCED",
    )


def test_a_trace_without_end_gives_a_few_classes() -> None:
    assert len(exceptions_in("\n".join(f"a.E{number}Exception: x" for number in range(1000)))) == MOST_CLASSES
