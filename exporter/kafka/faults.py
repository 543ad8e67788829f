"""From Kafka's error codes to faults: why something did not answer, and what to do about it.

Codes and names are those of org.apache.kafka.common.protocol.Errors.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka.errors import for_code

from exporter.model import Fault, Reason

UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
NOT_LEADER_OR_FOLLOWER = 6
COORDINATOR_LOAD_IN_PROGRESS = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
TOPIC_AUTHORIZATION_FAILED = 29
GROUP_AUTHORIZATION_FAILED = 30
UNSUPPORTED_SASL_MECHANISM = 33
UNSUPPORTED_VERSION = 35
INVALID_PRODUCER_ID_MAPPING = 49
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
GROUP_ID_NOT_FOUND = 69
UNSTABLE_OFFSET_COMMIT = 88
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
TRANSACTIONAL_ID_NOT_FOUND = 105

LEADER_MOVED = frozenset({NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH})
COORDINATOR_MOVED = frozenset({NOT_COORDINATOR})

BROKEN = frozenset({Reason.UNREACHABLE, Reason.TIMEOUT, Reason.AUTHENTICATION})
"""Reasons that concern the connection to a broker: further requests to it are not tried in this read."""


class AskError(Exception):
    """A request to the cluster had no answer at all. The only exception of this package for failures of the cluster or
    the network.
    """

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.detail)
        self.fault = fault


class ErrorCode(NamedTuple):
    """How one of Kafka's error codes is reported."""

    name: str
    reason: Reason
    advice: str


_SHUTTING_DOWN = "the broker is going down or losing its lead; the next read finds the new leader"
_LOADING = "the coordinator is loading its partition and answers soon"
_MOVING = "leadership moved during the read; the next read follows it"
_BEHIND = "the broker does not know of the newest election: it lags behind the controller, or is cut off from it"

_CODES = {
    UNKNOWN_TOPIC_OR_PARTITION: ErrorCode(
        "UNKNOWN_TOPIC_OR_PARTITION",
        Reason.UNKNOWN_TOPIC,
        "deleted between two calls, or DESCRIBE on the topic is not granted",
    ),
    LEADER_NOT_AVAILABLE: ErrorCode(
        "LEADER_NOT_AVAILABLE", Reason.NO_LEADER, "no replica leads; start the brokers that hold its replicas"
    ),
    NOT_LEADER_OR_FOLLOWER: ErrorCode("NOT_LEADER_OR_FOLLOWER", Reason.NO_LEADER, _MOVING),
    7: ErrorCode("REQUEST_TIMED_OUT", Reason.TIMEOUT, "the broker gave up waiting for another one"),
    8: ErrorCode("BROKER_NOT_AVAILABLE", Reason.NO_LEADER, _SHUTTING_DOWN),
    9: ErrorCode("REPLICA_NOT_AVAILABLE", Reason.NO_LEADER, _MOVING),
    13: ErrorCode("NETWORK_EXCEPTION", Reason.UNREACHABLE, "the broker lost its connection to another one"),
    COORDINATOR_LOAD_IN_PROGRESS: ErrorCode("COORDINATOR_LOAD_IN_PROGRESS", Reason.COORDINATOR, _LOADING),
    COORDINATOR_NOT_AVAILABLE: ErrorCode(
        "COORDINATOR_NOT_AVAILABLE",
        Reason.COORDINATOR,
        "its partition of the internal topic has no leader or is below min.insync.replicas",
    ),
    NOT_COORDINATOR: ErrorCode("NOT_COORDINATOR", Reason.COORDINATOR, _MOVING),
    17: ErrorCode("INVALID_TOPIC_EXCEPTION", Reason.UNKNOWN_TOPIC, "not a topic that the broker can serve"),
    TOPIC_AUTHORIZATION_FAILED: ErrorCode("TOPIC_AUTHORIZATION_FAILED", Reason.AUTHORIZATION, ""),
    GROUP_AUTHORIZATION_FAILED: ErrorCode("GROUP_AUTHORIZATION_FAILED", Reason.AUTHORIZATION, ""),
    31: ErrorCode("CLUSTER_AUTHORIZATION_FAILED", Reason.AUTHORIZATION, ""),
    UNSUPPORTED_SASL_MECHANISM: ErrorCode(
        "UNSUPPORTED_SASL_MECHANISM", Reason.AUTHENTICATION, "set sasl.mechanism to one the listener offers"
    ),
    34: ErrorCode(
        "ILLEGAL_SASL_STATE", Reason.AUTHENTICATION, "the listener does not expect SASL: check security.protocol"
    ),
    UNSUPPORTED_VERSION: ErrorCode("UNSUPPORTED_VERSION", Reason.UNSUPPORTED, "needs Kafka 3.0 or later"),
    42: ErrorCode("INVALID_REQUEST", Reason.UNSUPPORTED, "the broker does not understand what was asked"),
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ErrorCode("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", Reason.AUTHORIZATION, ""),
    56: ErrorCode("KAFKA_STORAGE_ERROR", Reason.NO_LEADER, "the leader's disk failed; see the broker's log"),
    58: ErrorCode("SASL_AUTHENTICATION_FAILED", Reason.AUTHENTICATION, "check the SASL user and password"),
    FENCED_LEADER_EPOCH: ErrorCode("FENCED_LEADER_EPOCH", Reason.NO_LEADER, _MOVING),
    UNKNOWN_LEADER_EPOCH: ErrorCode("UNKNOWN_LEADER_EPOCH", Reason.NO_LEADER, _BEHIND),
    78: ErrorCode(
        "OFFSET_NOT_AVAILABLE", Reason.NO_LEADER, "a new leader has not caught up with the high watermark yet"
    ),
    88: ErrorCode("UNSTABLE_OFFSET_COMMIT", Reason.COORDINATOR, "a transaction over the group's offsets is open"),
    89: ErrorCode("THROTTLING_QUOTA_EXCEEDED", Reason.TIMEOUT, "a quota of the cluster slows this client down"),
    100: ErrorCode("UNKNOWN_TOPIC_ID", Reason.UNKNOWN_TOPIC, "deleted between two calls"),
}


def error_code(code: int) -> ErrorCode:
    """The meaning of an error code. A code that is not in the table keeps its number, with reason MALFORMED."""
    known = _CODES.get(code)
    if known is not None:
        return known
    name: str = for_code(code).__name__
    return ErrorCode(name, Reason.MALFORMED, "an error that is not expected here; see the broker's log")


def refusal(what: str, code: int, grant: str = "", remedy: str = "") -> Fault:
    """The fault for an error code in an answer.

    ``what`` names the request and the broker; ``grant`` is the ACL that allows it, named when the code reports a
    missing one; ``remedy`` replaces the table's advice.
    """
    error = error_code(code)
    advice = f"grant {grant}" if grant and error.reason is Reason.AUTHORIZATION else remedy or error.advice
    return Fault(error.reason, f"{what}: {error.name} ({code})" + (f": {advice}" if advice else ""))
