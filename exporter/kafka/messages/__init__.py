"""Requests that kafka-python does not know, with their layouts in its form: groups of KIP-848, KIP-932 and KIP-1071.

Half a megabyte of classes, which a cluster without such groups does not need.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.api_message import ApiMessage

from exporter.words import GroupKind

_LAYOUTS = "exporter.kafka.messages"


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_LAYOUTS):
    """Members of groups of the consumer protocol."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_LAYOUTS):
    """The answer."""


class ShareGroupDescribeRequest(ApiMessage, load_json=_LAYOUTS):
    """Members of share groups."""


class ShareGroupDescribeResponse(ApiMessage, load_json=_LAYOUTS):
    """The answer."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=_LAYOUTS):
    """Members of groups of Kafka Streams."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=_LAYOUTS):
    """The answer."""


DESCRIBE_REQUESTS: Mapping[GroupKind, Any] = {
    GroupKind.CONSUMER: ConsumerGroupDescribeRequest,
    GroupKind.SHARE: ShareGroupDescribeRequest,
    GroupKind.STREAMS: StreamsGroupDescribeRequest,
}
