"""Several transactional ids of librdkafka in one process, each in a thread that does a drawn mix of things for ever.

Started by path. Arguments: bootstrap servers, seed, incarnation, topics as ``NAME:PARTITIONS,...``, then one
``ID;TIMEOUT_MS;PAUSE_MS;ACTION=WEIGHT,...`` for every id. ``ChaosWorker.java`` takes and writes the same. Each line of
output is ``MILLISECONDS<TAB>ID<TAB>EVENT<TAB>TOKEN<TAB>DETAIL``; a token is in the value of every record of one
transaction. The end of the input ends the process once every id has ended what it had open.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

CALL_SECONDS = 10.0
COMMIT_SECONDS = 75.0
FENCE_GAP_SECONDS = 6.5

stopping = threading.Event()
output = threading.Lock()


def say(transactional_id: str, event: str, token: str = "", detail: str = "") -> None:
    clean = " ".join(detail.split())
    line = "\t".join((str(time.time_ns() // 1_000_000), transactional_id, event, token, clean))
    with output:
        print(line, flush=True)


class LostError(Exception):
    """The producer is of no more use: a new one must be initialised."""


class WorkerId:
    """One transactional id. The token of a transaction is ``ID/INCARNATION.NUMBER``."""

    def __init__(self, bootstrap: str, seed: str, incarnation: str, topics: dict[str, int], spec: str) -> None:
        self.id, timeout_ms, pause_ms, weights = spec.split(";")
        self._bootstrap = bootstrap
        self._timeout_ms, self._pause_ms = int(timeout_ms), int(pause_ms)
        pairs = [pair.split("=") for pair in weights.split(",")]
        self._actions, self._weights = [name for name, _ in pairs], [int(weight) for _, weight in pairs]
        self._random = random.Random(f"{seed}/{self.id}/{incarnation}")
        self._topics = topics
        self._incarnation = incarnation
        self._number = 0
        self._offset = int(incarnation) * 1_000_000
        self._producer: Producer | None = None
        self._group: Consumer | None = None
        self._failed: KafkaError | None = None

    def run(self) -> None:
        while not stopping.is_set():
            try:
                if self._producer is None:
                    self._init()
                action = self._random.choices(self._actions, self._weights)[0]
                getattr(self, f"_{action}")()
            except LostError:
                self._producer = None
                stopping.wait(0.5)
            except KafkaException as error:
                # What failed before its end was tried: end it, or begin anew where that is not possible.
                self._recover(error.args[0])
            self._pause(self._random.uniform(0.3, 1.7) * self._pause_ms / 1000)
        say(self.id, "stopped")

    def _pause(self, seconds: float) -> None:
        stopping.wait(seconds)

    # --- What it does ---

    def _commit(self) -> None:
        self._end(self._write(), commit=True)

    def _abort(self) -> None:
        self._end(self._write(), commit=False)

    def _offsets(self) -> None:
        token = self._write()
        self._offset += 1
        if self._group is None:
            self._group = Consumer({"bootstrap.servers": self._bootstrap, "group.id": f"g-{self.id}", "log_level": 0})
        place = TopicPartition(next(iter(self._topics)), 0, self._offset)
        self._now.send_offsets_to_transaction([place], self._group.consumer_group_metadata(), CALL_SECONDS)
        self._end(token, commit=True)

    def _slow(self) -> None:
        token = self._write()
        self._pause(self._random.uniform(15, 45))
        self._end(token, commit=True)

    def _timeout(self) -> None:
        token = self._write()
        self._pause(self._timeout_ms / 1000 + self._random.uniform(4, 8))
        self._end(token, commit=True)

    def _fence(self) -> None:
        """Another incarnation comes while this one has a transaction open."""
        token = self._write()
        first, self._producer = self._now, None
        self._init(token)
        del first

    def _restart(self) -> None:
        """A clean one: nothing is open. Some seconds after an abort, which a fence could otherwise be taken for."""
        self._pause(FENCE_GAP_SECONDS)
        self._producer = None
        self._init()

    # --- How ---

    @property
    def _now(self) -> Producer:
        if self._producer is None:
            raise LostError
        return self._producer

    def _init(self, displaced: str = "") -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": self.id,
                "transaction.timeout.ms": self._timeout_ms,
                "message.timeout.ms": self._timeout_ms,
                "linger.ms": 0,
                "log_level": 0,
                "socket.timeout.ms": min(10000, self._timeout_ms),
            }
        )
        for _ in range(20):
            try:
                producer.init_transactions(CALL_SECONDS)
                break
            except KafkaException as error:
                if not error.args[0].retriable() or stopping.is_set():
                    say(self.id, "refused", displaced, f"init: {error.args[0]}")
                    raise LostError from None
        else:
            raise LostError
        self._producer = producer
        say(self.id, "initialised", displaced)

    def _write(self) -> str:
        self._number += 1
        token = f"{self.id}/{self._incarnation}.{self._number}"
        producer, self._failed = self._now, None
        producer.begin_transaction()
        say(self.id, "begun", token)
        for _ in range(self._random.randint(1, 3)):
            topic = self._random.choice(list(self._topics))
            for partition in self._random.sample(range(self._topics[topic]), self._random.randint(1, 2)):
                producer.produce(topic, token, self.id, partition, on_delivery=self._delivered)
        left = producer.flush(CALL_SECONDS + 10)
        if self._failed is not None:
            raise KafkaException(self._failed)
        if left:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "flush", retriable=True))
        say(self.id, "written", token)
        return token

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and self._failed is None:
            self._failed = error

    def _end(self, token: str, *, commit: bool) -> None:
        producer = self._now
        word = "commit" if commit else "abort"
        say(self.id, f"{word}s", token)
        until = time.monotonic() + COMMIT_SECONDS
        while True:
            try:
                (producer.commit_transaction if commit else producer.abort_transaction)(CALL_SECONDS)
            except KafkaException as error:
                cause = error.args[0]
                if (cause.retriable() or cause.code() == KafkaError._TIMED_OUT) and time.monotonic() < until:
                    continue
                say(self.id, "refused", token, f"{word}: {cause}")
                if cause.txn_requires_abort() and commit:
                    self._end(token, commit=False)
                    return
                raise LostError from None
            say(self.id, "committed" if commit else "aborted", token)
            return

    def _recover(self, cause: KafkaError) -> None:
        token = f"{self.id}/{self._incarnation}.{self._number}"
        say(self.id, "refused", token, str(cause))
        if self._producer is None or cause.fatal():
            self._producer = None
            return
        try:
            self._end(token, commit=False)
        except LostError:
            self._producer = None


def main() -> None:
    bootstrap, seed, incarnation, places, *specs = sys.argv[1:]
    topics = {name: int(count) for name, count in (place.split(":") for place in places.split(","))}
    threads = [threading.Thread(target=WorkerId(bootstrap, seed, incarnation, topics, spec).run) for spec in specs]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stopping.set()
    for thread in threads:
        thread.join()
    with output:
        sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
