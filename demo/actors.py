"""Applications that behave, or misbehave, in one way until they are stopped. Their records are complete when they end.

Each is a function for a thread of its own: it returns after ``stop`` is set and its last transaction is over.
"""

from __future__ import annotations

from threading import Event

from confluent_kafka import Consumer

from testkit.workloads.producers import EndedError, Producer

PAUSE_SECONDS = 0.25
FENCE_SECONDS = 3.0
POLL_SECONDS = 0.2


def commits(producer: Producer, topic: str, stop: Event) -> None:
    """A healthy application: a few transactions a second."""
    producer.init()
    while not stop.wait(PAUSE_SECONDS):
        producer.begin()
        producer.send(topic, 3)
        producer.commit()


def carries_offsets(producer: Producer, source: str, target: str, group: str, stop: Event) -> None:
    """A healthy consume-transform-produce application: its group's offset is committed with its output."""
    producer.init()
    offset = 0
    while not stop.wait(PAUSE_SECONDS):
        offset += 1
        producer.begin()
        producer.send(target, 1)
        producer.send_offsets(group, source, 0, offset)
        producer.commit()


def aborts(producer: Producer, topic: str, stop: Event) -> None:
    """Every second transaction fails in the application, which aborts it."""
    producer.init()
    while not stop.wait(PAUSE_SECONDS):
        for end in (producer.abort, producer.commit):
            _write(producer, topic)
            end()


def times_out(producer: Producer, topic: str, timeout: float, stop: Event) -> None:
    """Works longer than its transaction.timeout.ms, learns of it at the commit, and starts anew."""
    while not stop.is_set():
        producer.init()
        _write(producer, topic)
        # The coordinator looks for overdue transactions every 2 seconds on our brokers.
        stop.wait(timeout + 4)
        try:
            producer.commit()
        except EndedError:
            continue


def fence_each_other(first: Producer, second: Producer, topic: str, stop: Event) -> None:
    """Two live processes with one transactional.id: each start ends the transaction of the other."""
    holder, challenger = first, second
    holder.init()
    _write(holder, topic)
    while not stop.wait(FENCE_SECONDS):
        challenger.init()
        _write(challenger, topic)
        try:
            holder.commit()
        except EndedError:
            holder, challenger = challenger, holder
    holder.abort()


def holds_open(producer: Producer, topic: str, partition: int, reading: Event, stop: Event) -> None:
    """Writes and stops: the last stable offset does not move until the timeout of 15 minutes.

    Starts after a reader has a position in the partition, so that its wait shows.
    """
    producer.init()
    producer.begin()
    producer.send(topic, 1, partition)
    producer.commit()
    while not reading.wait(POLL_SECONDS):
        if stop.is_set():
            return
    producer.begin()
    producer.send(topic, 5, partition)
    producer.flush()
    stop.wait()


def reads_committed(bootstrap: str, group: str, topic: str, partition: int, reading: Event, stop: Event) -> None:
    """A consumer group that reads committed records only, so an open transaction stops it.

    Sets ``reading`` once the group has an offset in the partition.
    """
    settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0, **settings})
    try:
        consumer.subscribe([topic])
        while not stop.is_set():
            batch = [message for message in consumer.consume(100, POLL_SECONDS) if message.error() is None]
            if batch:
                consumer.commit(asynchronous=False)
                if any(message.partition() == partition for message in batch):
                    reading.set()
    finally:
        consumer.close()


def _write(producer: Producer, topic: str) -> None:
    producer.begin()
    producer.send(topic)
    producer.flush()
