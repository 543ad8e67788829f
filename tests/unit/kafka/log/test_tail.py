"""Tests of what a tail does about certificates, keys and refusals; that it reads is seen on real brokers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError

from exporter.kafka.client import AskError
from exporter.kafka.log.tail import Tail, consume, fault_of
from exporter.kafka.properties.client import Properties
from exporter.model import Reason
from testkit.certificates import Authority, Issued
from tests.helpers.cluster import FakeMessage

TOPIC = "__transaction_state"


def properties(authority: Authority, shown: Issued) -> Properties:
    return Properties.parse(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "security.protocol": "SSL",
            "ssl.ca.location": authority.certificate,
            "ssl.certificate.location": shown.certificate,
            "ssl.key.location": shown.key,
        }
    )


def test_a_key_that_was_spoilt_since_the_start_is_a_refusal_and_no_bug(authority: Authority) -> None:
    shown = authority.issue("spoilt")
    known = properties(authority, shown)
    Path(shown.key).write_text("no key")
    with pytest.raises(AskError) as raised:
        Tail(known, TOPIC)
    assert raised.value.fault.reason is Reason.AUTHENTICATION
    assert "ssl.key.location" in raised.value.fault.detail


def test_a_new_client_takes_over_once_both_files_of_a_pair_are_there(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "exporter.kafka.log.tail")
    now = [0.0]
    tail = Tail(properties(authority, shown := authority.issue("tail")), TOPIC, lambda: now[0])
    tail.assign({0: 7, 3: 9})
    renewed = authority.issue("renewed")

    def look() -> list[str]:
        now[0] += 1.0
        caplog.clear()
        tail.poll(1, 0.0)
        return [record.message for record in caplog.records if "replaced" in record.message]

    try:
        assert look() == []
        Path(renewed.certificate).replace(shown.certificate)
        (waiting,) = look()
        assert "cannot be used yet" in waiting
        assert look() == []
        Path(renewed.key).replace(shown.key)
        (taken,) = look()
        assert "on with the replaced" in taken
        assert look() == []
        assert {partition.partition: partition.offset for partition in tail._consumer.assignment()} == {0: 7, 3: 9}
    finally:
        tail.close()


def test_files_are_looked_at_once_a_second(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "exporter.kafka.log.tail")
    tail = Tail(properties(authority, authority.issue("often")), TOPIC, lambda: 0.9)
    authority.issue("often")
    tail.poll(1, 0.0)
    tail.close()
    assert "replaced" not in caplog.text


def test_a_refusal_of_tls_is_distinguished_from_a_broker_that_is_away() -> None:
    refused = fault_of(KafkaError(KafkaError._SSL, "handshake failed"), TOPIC)
    assert (refused.reason, "handshake failed" in refused.detail) == (Reason.AUTHENTICATION, True)
    assert fault_of(KafkaError(KafkaError._ALL_BROKERS_DOWN, "down"), TOPIC).reason is Reason.UNREACHABLE


class PatientConsumer:
    """Has one message, and waits for as many as are asked for, as librdkafka does."""

    def __init__(self) -> None:
        self.waited = 0.0

    def consume(self, limit: int, seconds: float) -> list[FakeMessage]:
        if limit == 1:
            return [FakeMessage(None, 0, 7)]
        self.waited += seconds
        return []


def test_a_poll_ends_soon_after_its_first_message() -> None:
    tail = Tail(Properties.parse({"bootstrap.servers": "127.0.0.1:1"}), TOPIC)
    tail.close()
    consumer = PatientConsumer()
    tail._consumer = cast("Consumer", consumer)
    assert len(tail.poll(300, 0.5)) == 1
    assert consumer.waited <= 0.1


class RefusedConsumer:
    """Is told that it may not describe its group, as librdkafka reports it, and then refused the topic."""

    def consume(self, limit: int, seconds: float) -> list[FakeMessage]:
        codes = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)
        return [FakeMessage(KafkaError(code), 0, -1001) for code in codes]


def test_the_refusal_of_a_group_that_is_not_used_is_left_out() -> None:
    (message,) = consume(cast("Consumer", RefusedConsumer()), 300, 0.5)
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
