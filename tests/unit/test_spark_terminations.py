"""What ended a query, by the classes of its errors."""

from __future__ import annotations

import pytest

from exporter import catalogue
from exporter.spark.queries import State
from exporter.spark.terminations import MOST_CLASSES, Reason, exceptions_in, reason_of

STREAMING = "org.apache.spark.sql.streaming"


def test_the_words_are_those_of_the_catalogue() -> None:
    assert tuple(Reason) == catalogue.SPARK_TERMINATION_REASONS
    assert tuple(State) == catalogue.SPARK_QUERY_STATES


@pytest.mark.parametrize(
    ("error_class", "exceptions", "reason"),
    [
        ("", [], Reason.STOPPED),
        ("KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS", ["java.lang.Exception"], Reason.DATA_LOSS),
        ("", ["org.apache.spark.sql.kafka010.KafkaIllegalStateException"], Reason.DATA_LOSS),
        ("", ["org.apache.kafka.clients.consumer.OffsetOutOfRangeException"], Reason.DATA_LOSS),
        ("CONCURRENT_STREAM_LOG_UPDATE", ["org.apache.spark.SparkException"], Reason.CONCURRENT_RUN),
        ("", ["org.apache.spark.SparkConcurrentModificationException"], Reason.CONCURRENT_RUN),
        ("", ["a.B", "org.apache.kafka.common.errors.ProducerFencedException"], Reason.FENCED),
        ("FOREACH_BATCH_USER_FUNCTION_ERROR", ["cimpl.KafkaException", "_FENCED"], Reason.FENCED),
        ("FOREACH_BATCH_USER_FUNCTION_ERROR", ["py4j.Py4JException", "ValueError"], Reason.USER_CODE),
        ("FAILED_EXECUTE_UDF", ["org.apache.spark.SparkException"], Reason.USER_CODE),
        ("", ["org.apache.spark.api.python.PythonException"], Reason.USER_CODE),
        ("KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED", [], Reason.KAFKA),
        (
            "",
            ["java.util.concurrent.ExecutionException", "org.apache.kafka.common.errors.TimeoutException"],
            Reason.KAFKA,
        ),
        ("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", ["org.apache.spark.SparkException"], Reason.CHECKPOINT),
        ("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", [], Reason.CHECKPOINT),
        ("MALFORMED_LOG_FILE", ["java.lang.IllegalStateException"], Reason.CHECKPOINT),
        ("", ["java.lang.OutOfMemoryError"], Reason.OTHER),
        ("DIVIDE_BY_ZERO", ["org.apache.spark.SparkArithmeticException"], Reason.OTHER),
    ],
)
def test_each_kind_of_end_has_its_word(error_class: str, exceptions: list[str], reason: Reason) -> None:
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
