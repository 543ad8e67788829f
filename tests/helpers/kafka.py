"""A cluster that answers from a function, and a broker on loopback with Kafka's wire protocol."""

from __future__ import annotations

import io
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer import ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from exporter.kafka.faults import AskError
from exporter.kafka.requests.metadata import TRANSACTION_STATE, Metadata, PartitionMetadata
from exporter.model import Deadline, Fault, Reason, TopicPartition

Answer = Callable[[int, Any], Any]

BROKERS = {1: "k1:9092", 2: "k2:9092"}


def led(leader: int | None, replicas: Sequence[int] = (1, 2), epoch: int = -1) -> PartitionMetadata:
    return PartitionMetadata(leader, tuple(replicas), tuple(replicas), epoch)


def cluster_of(
    leaders: Mapping[str, Sequence[int | None]],
    brokers: Mapping[int, str] | None = None,
    errors: Mapping[str, Fault] | None = None,
    epoch: int = -1,
) -> Metadata:
    """Metadata by topic: the leader of each partition, in order, all in the same epoch."""
    topics = {
        topic: {index: led(leader, epoch=epoch) for index, leader in enumerate(row)} for topic, row in leaders.items()
    }
    return Metadata("c", BROKERS if brokers is None else brokers, topics, frozenset(), errors or {})


class FakeCluster:
    """``answer(node, request)`` gives a response or a Fault; ``refreshed`` is what Metadata says when asked again."""

    def __init__(self, answer: Answer, refreshed: Metadata | Fault | None = None) -> None:
        self._answer = answer
        self._refreshed = refreshed
        self.asked: list[tuple[int, Any]] = []
        self.deadlines: list[Deadline] = []
        self.refreshes: list[Sequence[str] | None] = []

    def metadata(self, deadline: Deadline, topics: Sequence[str] | None = None, max_age: float = 0.0) -> Metadata:
        self.refreshes.append(topics)
        if isinstance(self._refreshed, Metadata):
            return self._refreshed
        raise AskError(self._refreshed or Fault(Reason.UNREACHABLE, "no broker answers"))

    def ask(self, requests: Mapping[int, Any], deadline: Deadline) -> dict[int, Any]:
        answers = {}
        for node, request in requests.items():
            self.asked.append((node, request))
            self.deadlines.append(deadline)
            answers[node] = self._answer(node, request)
        return answers


def partitions(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in range(count)]


def offsets(request: Any, codes: dict[str, int] | None = None, offset: int = 7) -> Any:
    """A response to a ListOffsets request; ``codes`` are error codes by ``topic-partition``."""
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    entry = topic.ListOffsetsPartitionResponse

    def answer(name: str, index: int) -> Any:
        code = (codes or {}).get(f"{name}-{index}", 0)
        return entry(
            partition_index=index, error_code=code, timestamp=-1, offset=-1 if code else offset, leader_epoch=0
        )

    return ListOffsetsResponse(
        throttle_time_ms=0,
        topics=[
            topic(
                name=one.name, partitions=[answer(one.name, partition.partition_index) for partition in one.partitions]
            )
            for one in request.topics
        ],
    )


# --- A broker on loopback ---

Handler = Callable[[str, Any], Any]


class CloseConnection:
    """Ends the connection instead of an answer."""


class NoAnswer:
    """Gives no answer."""


REQUESTS = {
    kind.API_KEY: kind for kind in (ApiVersionsRequest, MetadataRequest, SaslHandshakeRequest, SaslAuthenticateRequest)
}
VERSIONS = {0: (0, 12), 2: (1, 10), 3: (0, 12), 17: (0, 1), 18: (0, 3), 36: (0, 2), 65: (0, 0), 66: (0, 1)}


class FakeBroker:
    """Answers with what ``handler(name, request)`` gives: a response, bytes as they are, Close or Silence.

    A request for the metadata of the transaction log alone, the check of a new connection, has the name Identity.

    ``None`` from the handler means the usual: ApiVersions of Kafka 3.x, and Metadata with this broker alone in it.
    """

    def __init__(self, handler: Handler | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._handler = handler or (lambda _name, _request: None)
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.names: list[str] = []
        self.connections = 0
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def hang_up(self) -> None:
        """Ends all connections; new ones are welcome."""
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        self._thread.join(5)

    def _accept(self) -> None:
        serving = []
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                break
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            thread.start()
            serving.append(thread)
        for thread in serving:
            thread.join(5)

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, ssl.SSLError), connection:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            with connection, connection.makefile("rb") as stream:
                while len(size := stream.read(4)) == 4:
                    length = struct.unpack(">i", size)[0]
                    # As socket.request.max.bytes does: what comes of TLS on a plaintext listener.
                    if length > 100_000_000 or not self._answer(connection, stream.read(length)):
                        return

    def _answer(self, connection: socket.socket, frame: bytes) -> bool:
        key, version, correlation = struct.unpack_from(">hhi", frame)
        kind = REQUESTS.get(key)
        name = kind.__name__.removesuffix("Request") if kind is not None else str(key)
        request = None
        if kind is not None:
            body = io.BytesIO(frame)
            RequestHeader.decode(body, flexible=kind.flexible_version_q(version))  # type: ignore[no-untyped-call]
            request = kind.decode(body, version=version)  # type: ignore[no-untyped-call]
        if (
            name == "Metadata"
            and request is not None
            and [topic.name for topic in request.topics or ()] == [TRANSACTION_STATE]
        ):
            name = "Identity"
        self.names.append(name)
        answer = self._handler(name, request)
        if answer is None:
            answer = self._usual(name)
        if answer is CloseConnection:
            return False
        if answer is NoAnswer:
            return True
        if not isinstance(answer, bytes):
            answer.API_VERSION = version
            answer.with_header(correlation_id=correlation)
            answer = answer.encode(framed=True, header=True)
        connection.sendall(answer)
        return True

    def _usual(self, name: str) -> Any:
        if name == "ApiVersions":
            return api_versions()
        if name in {"Metadata", "Identity"}:
            return metadata_response([(1, "127.0.0.1", self.port)])
        if name == "SaslHandshake":
            return SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"])
        if name == "SaslAuthenticate":
            return SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=0)
        return NoAnswer


def api_versions(
    versions: Mapping[int, tuple[int, int]] | None = None, error: int = 0, position: int = -1, **features: int
) -> Any:
    """``position`` is how far the broker has read the cluster's metadata: the epoch of the finalized features."""
    kind = ApiVersionsResponse.ApiVersion
    entry = ApiVersionsResponse.FinalizedFeatureKey
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[
            kind(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in (VERSIONS if versions is None else versions).items()
        ],
        throttle_time_ms=0,
        finalized_features_epoch=position,
        finalized_features=[
            entry(name=name.replace("_", "."), max_version_level=level, min_version_level=0)
            for name, level in features.items()
        ],
    )


def metadata_response(
    brokers: Sequence[tuple[int, str, int]],
    topics: Mapping[str, Sequence[int]] | None = None,
    errors: Mapping[str, int] | None = None,
    epoch: int = 0,
) -> Any:
    """Topics by name: the leader of each partition in order, -1 for none, all in the same epoch."""
    broker = MetadataResponse.MetadataResponseBroker
    topic = MetadataResponse.MetadataResponseTopic
    partition = topic.MetadataResponsePartition

    def described(name: str, error: int, leaders: Sequence[int]) -> Any:
        return topic(
            error_code=error,
            name=name,
            is_internal=name.startswith("__"),
            partitions=[
                partition(
                    error_code=5 if leader < 0 else 0,
                    partition_index=index,
                    leader_id=leader,
                    leader_epoch=epoch,
                    replica_nodes=[1, 2],
                    isr_nodes=[1],
                    offline_replicas=[],
                )
                for index, leader in enumerate(leaders)
            ],
        )

    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[broker(node_id=node, host=host, port=port, rack=None) for node, host, port in brokers],
        cluster_id="cluster-1",
        controller_id=1,
        topics=[described(name, 0, leaders) for name, leaders in (topics or {}).items()]
        + [described(name, code, ()) for name, code in (errors or {}).items()],
    )


@contextmanager
def broker(handler: Handler | None = None, tls: ssl.SSLContext | None = None) -> Iterator[FakeBroker]:
    running = FakeBroker(handler, tls)
    try:
        yield running
    finally:
        running.close()
