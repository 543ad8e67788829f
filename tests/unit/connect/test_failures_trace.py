"""Why a task failed, and that no secret leaves with the reason."""

from __future__ import annotations

import pytest

from exporter.connect.failures import REDACTED, cause_of, headlines, last_line, redacted, secrets_of
from exporter.words import FailureCause

WRAPPED = (
    "org.apache.kafka.connect.errors.ConnectException: The task steps-0 was unable to finish writing records to Kafka "
    "before its producer transaction expired.\n"
    "\tat org.apache.kafka.connect.runtime.ExactlyOnceWorkerSourceTask.wrapTransactionTimeoutError(X.java:365)\n"
    "\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
)
ERRORS = "org.apache.kafka.common.errors"


@pytest.mark.parametrize(
    ("trace", "cause"),
    [
        (f"{WRAPPED}Caused by: {ERRORS}.ProducerFencedException: There is a newer producer\n", FailureCause.FENCED),
        (f"{WRAPPED}Caused by: {ERRORS}.InvalidProducerEpochException: old epoch\n", FailureCause.INVALID_EPOCH),
        (
            f"a.ConnectException: x\n\tat a.b\nCaused by: {ERRORS}.InvalidTxnStateException: no\n",
            FailureCause.INVALID_EPOCH,
        ),
        (
            f"a.ConnectException: x\nCaused by: {ERRORS}.TimeoutException: Timeout expired after 60000ms\n",
            FailureCause.TIMEOUT,
        ),
        (WRAPPED, FailureCause.TIMEOUT),
        (
            "java.lang.NullPointerException\n\tat a.ProducerFencedExceptionMaker.make(A.java:1)\n",
            FailureCause.OTHER,
        ),
        ("", FailureCause.OTHER),
    ],
)
def test_the_cause_is_reported_by_exceptions_and_not_by_frames(trace: str, cause: FailureCause) -> None:
    assert cause_of(trace) is cause


def test_the_last_line_is_the_innermost_exception() -> None:
    trace = f"{WRAPPED}Caused by: {ERRORS}.InvalidProducerEpochException: old epoch\n\t... 13 more\n"
    assert last_line(trace) == f"{ERRORS}.InvalidProducerEpochException: old epoch"


def test_without_a_cause_the_last_line_is_the_exception_itself() -> None:
    assert last_line("a.DataException: no schema\nin record 7\n\tat a.b(C.java:1)\n") == "a.DataException: no schema"
    assert headlines("\tat a.b(C.java:1)\n") == ()
    assert last_line("") == ""


def test_a_last_line_has_an_end() -> None:
    assert len(last_line("x.E: " + "y" * 10_000)) == 400


@pytest.mark.parametrize(
    "text",
    [
        "cannot reach jdbc:postgresql://scott:hunter2@db/orders",
        "login failed with password=hunter2 for scott",
        "login failed with Password: 'hunter2', token = hunter2;",
        'sasl.jaas.config=X required username=a password="hunter2";',
        "https://hunter2:hunter2@registry:8081/subjects",
        "https://scott:ti@hunter2@registry:8081/subjects",
    ],
)
def test_secrets_are_taken_out_by_their_form(text: str) -> None:
    assert "hunter2" not in redacted(text)
    assert REDACTED in redacted(text)


def test_the_first_line_of_a_secret_is_taken_out_of_the_line_that_is_shown() -> None:
    secrets = secrets_of({"ssl.keystore.key": " MIIEhunter2  \nsecond\n"})
    assert last_line("x.E: no key: MIIEhunter2  \nsecond\n\tat y", secrets) == f"x.E: no key: {REDACTED}"


def test_secrets_of_the_configuration_are_taken_out_wherever_they_stand() -> None:
    config = {
        "connection.password": "hunter2",
        "connection.url": "jdbc:x;user=sa;pw=tiger9",
        "aws.secret.access.key": "AKIA1234",
        "topic": "orders",
        "some.password": "ab",
    }
    assert secrets_of(config) == {"hunter2", "jdbc:x;user=sa;pw=tiger9", "AKIA1234"}
    text = "x.E: jdbc:x;user=sa;pw=tiger9 said no to hunter2 with AKIA1234 at orders"
    assert redacted(text, secrets_of(config)) == f"x.E: {REDACTED} said no to {REDACTED} with {REDACTED} at orders"
