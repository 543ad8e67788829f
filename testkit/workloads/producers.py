"""Transactional producers to be scripted step by step: librdkafka's and Java's, with one interface.

Each is a process of its own that can be paused and killed. Brokers see librdkafka as a Transactions V1 client, and the
Java client of Kafka 4 as a V2 client, which bumps the epoch at every transaction (KIP-890).
"""

from __future__ import annotations

import json
import queue
import sys
import threading
from pathlib import Path
from typing import Protocol, Self

from exporter.model import Deadline
from testkit import jars
from testkit.processes import Child, JvmOptions, ProcessGroup, java
from testkit.workloads.outcome_counts import OutcomeCounts

ANSWER_SECONDS = 120.0
CLOSE_SECONDS = 5.0


class ProducerCluster(Protocol):
    """The part of a cluster that a producer needs."""

    version: str
    processes: ProcessGroup

    @property
    def bootstrap(self) -> str: ...


class ProducerError(RuntimeError):
    """The client refused a command: ``kind`` is fenced, ended, timeout, gone or other."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class EndedError(ProducerError):
    """The coordinator ended the transaction without this client: another incarnation came, or its time was over.

    ``kind`` is the error that the client got: fenced, or ended where it is no more exact (V2 clients after a timeout).
    """


class Producer:
    """A producer in its own process that does one thing at a time; use the two subclasses.

    ``counts`` count what it did; rivals of one transactional.id are given the same. Methods raise EndedError or
    ProducerError and wait at most ``ANSWER_SECONDS``.
    """

    generation: str

    def __init__(self, child: Child, transactional_id: str, counts: OutcomeCounts | None) -> None:
        self.transactional_id = transactional_id
        self.counts = counts or OutcomeCounts(transactional_id)
        self._child = child
        self._incarnation = 0
        self._sent = 0
        self._late = 0  # answers that came after their timeout: they are not the next command's
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name=f"answers of {transactional_id}", daemon=True).start()

    def init(self) -> None:
        """InitProducerId, as a new incarnation: an earlier one of this process is dropped like one that crashed."""
        self._sent = 0
        self._ask("init")
        self._incarnation = self.counts.initialised()

    def begin(self) -> None:
        """Begin on the client's side; the coordinator learns of it with the first records."""
        self._ask("begin")

    def send(self, topic: str, count: int = 1, partition: int | None = None) -> None:
        """Hand records to the client; ``flush`` waits for the broker to have them."""
        self._ask("send", topic, count, *([] if partition is None else [partition]))
        self._sent += count

    def send_offsets(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Commit a group's offset within the transaction; it is pending in __consumer_offsets until the end."""
        self._ask("offsets", group, topic, partition, offset)
        self.counts.wrote()

    def flush(self) -> None:
        self._ask("flush")
        self._written()

    def commit(self) -> None:
        self._end("commit")

    def abort(self) -> None:
        self._end("abort")

    def run(self, transactions: int, topic: str, records: int = 1, *, commit: bool = True) -> None:
        """Many whole transactions at the client's full speed."""
        self._ask("loop", transactions, topic, records, "commit" if commit else "abort")
        for _ in range(transactions):
            self.counts.wrote()
            self.counts.ended(committed=commit)

    def run_to_every_end(self, committed: int, topic: str) -> None:
        """Transactions that are committed, one that is aborted, and one that a new incarnation fences."""
        self.run(committed, topic)
        for end in (self.abort, self.init):
            self.begin()
            self.send(topic)
            self.flush()
            end()

    def pause(self) -> None:
        """SIGSTOP: the process hangs with its connections and its transaction open."""
        self._child.pause()

    def resume(self) -> None:
        self._child.resume()

    def kill(self) -> None:
        """SIGKILL: what was open stays open until its timeout or the next incarnation."""
        self._child.kill()

    def close(self) -> None:
        """End the process without a word to the broker. An orderly client has committed or aborted before."""
        self._child.stop(Deadline.after(CLOSE_SECONDS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _written(self) -> None:
        if self._sent:
            self.counts.wrote()
            self._sent = 0

    def _end(self, how: str) -> None:
        until = Deadline.after(ANSWER_SECONDS)
        while True:
            try:
                self._ask(how)
                break
            except ProducerError as error:
                # Both clients say that a commit or abort that timed out may, and must, be tried again.
                if error.kind != "timeout" or until.over:
                    raise
        if how == "commit":
            self._written()
        self._sent = 0
        self.counts.ended(committed=how == "commit")

    def _ask(self, *words: object) -> None:
        command = " ".join(str(word) for word in words)
        try:
            self._child.stdin.write(command + "\n")
            self._child.stdin.flush()
            until = Deadline.after(ANSWER_SECONDS)
            while self._late:
                self._answers.get(timeout=until.remaining())
                self._late -= 1
            line = self._answers.get(timeout=until.remaining())
        except (BrokenPipeError, ValueError):
            line = ""
        except queue.Empty:
            self._late += 1
            raise ProducerError("timeout", f"{self._child.name} did not answer `{command}`") from None
        if not line:
            raise ProducerError("gone", f"{self._child.name} ended: {self._child.tail(5)}")
        answer = json.loads(line)
        if answer["ok"]:
            return
        text = f"{self._child.name}, `{command}`: {answer['error']}"
        if answer["kind"] in {"fenced", "ended"}:
            self.counts.refused(self._incarnation)
            raise EndedError(answer["kind"], text)
        raise ProducerError(answer["kind"], text)

    def _listen(self) -> None:
        try:
            for line in self._child.stdout:
                if line.startswith("{"):  # agents in a JVM greet there as well
                    self._answers.put(line)
        except ValueError:  # closed while reading: the producer is being stopped
            self._answers.put("")
            return
        self._answers.put("")


class RdkafkaProducer(Producer):
    """confluent-kafka. ``timeout`` is transaction.timeout.ms in seconds; ``settings`` in dotted names.

    ``report_to`` is the address of an agent that takes its statistics.
    """

    generation = "v1"

    def __init__(
        self,
        cluster: ProducerCluster,
        transactional_id: str,
        *,
        timeout: float = 60.0,
        counts: OutcomeCounts | None = None,
        settings: dict[str, str] | None = None,
        report_to: str = "",
    ) -> None:
        program = Path(__file__).with_name("rdkafka_client.py")
        argv = [sys.executable, str(program), *_arguments(cluster, transactional_id, timeout, settings)]
        environment = {"REPORT_TO": report_to} if report_to else None
        child = cluster.processes.start(f"rdkafka-{transactional_id}", argv, environment=environment, pipes=True)
        super().__init__(child, transactional_id, counts)


class JavaProducer(Producer):
    """Kafka's own Java client, of the cluster's version. ``timeout`` and ``settings`` as for librdkafka."""

    generation = "v2"

    def __init__(
        self,
        cluster: ProducerCluster,
        transactional_id: str,
        *,
        timeout: float = 60.0,
        counts: OutcomeCounts | None = None,
        settings: dict[str, str] | None = None,
        jvm_options: JvmOptions = lambda _: (),
    ) -> None:
        argv = java(
            96,
            jars.library(cluster.version),
            "TransactionalClient",
            *_arguments(cluster, transactional_id, timeout, settings),
            classes=jars.classes(cluster.version),
            log_level="warn",
        )
        name = f"java-{transactional_id}"
        child = cluster.processes.start(name, [argv[0], *jvm_options(name), *argv[1:]], pipes=True)
        super().__init__(child, transactional_id, counts)


ProducerClass = type[RdkafkaProducer] | type[JavaProducer]
"""Either generation, for tests that are run with both."""


def _arguments(
    cluster: ProducerCluster, transactional_id: str, timeout: float, settings: dict[str, str] | None
) -> list[str]:
    all_settings = {"transaction.timeout.ms": str(round(timeout * 1000)), **(settings or {})}
    return [cluster.bootstrap, transactional_id, *(f"{key}={value}" for key, value in all_settings.items())]
