"""Requests and responses by kafka-python's schemas, and the supported versions of each.

The engine encodes Produce, and Fetch for copying, by its own code.
"""

from __future__ import annotations

import struct
import sys
from typing import Any, Final

from kafka.errors import KafkaProtocolError
from kafka.protocol.admin import DescribeProducersRequest, DescribeTransactionsRequest
from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from mirrors.kafka.protocol.connection_errors import NotKafka

_CORRELATION: Final = struct.Struct(">i")
# Behind the frame's length, the key and the version.
_CORRELATION_AT: Final = 8

# request class -> the least and the most version that we speak. The least are those of Kafka 2.8,
# the oldest broker supported; InitProducerId 6 is not served by any broker yet, and from version 4
# on AddPartitionsToTxn is for brokers. Of other requests: all versions that kafka-python knows.
SUPPORTED_VERSIONS: dict[type, tuple[int, int]] = {
    ApiVersionsRequest: (0, 3),
    SaslHandshakeRequest: (1, 1),
    SaslAuthenticateRequest: (1, 2),
    MetadataRequest: (9, 12),
    FindCoordinatorRequest: (3, 4),
    ListOffsetsRequest: (5, 7),
    FetchRequest: (12, 16),
    OffsetForLeaderEpochRequest: (3, 4),
    InitProducerIdRequest: (3, 5),
    AddPartitionsToTxnRequest: (2, 3),
    EndTxnRequest: (2, 5),
    DescribeProducersRequest: (0, 0),
    # since Kafka 3.0
    DescribeTransactionsRequest: (0, 0),
}


def supported_versions(request: Any) -> tuple[int, int]:
    """The lowest and highest supported version of this request."""
    return SUPPORTED_VERSIONS.get(type(request)) or (0, request.max_version)


def encode(request: Any, version: int, correlation: int, client_id: str) -> bytes:
    """The whole frame, with its length."""
    request.API_VERSION = version
    request.with_header(correlation_id=correlation, client_id=client_id)
    frame: bytes = request.encode(header=True, framed=True)
    return frame


def decode(request: Any, version: int, frame: memoryview) -> Any:
    """The response to this request, from a frame without its length.

    Raises NotKafka for bytes that are no such response, whatever error the codec raises.
    """
    try:
        return reply_of(request).decode(frame, version=version, header=True)
    except (KafkaProtocolError, LookupError, TypeError, ValueError, ArithmeticError, struct.error):
        raise NotKafka from None


def reply_of(request: Any) -> Any:
    """The class of the response: it has the request's name, in the same module.

    kafka-python's own lookup (`header.get_response_class`) keeps a weak reference to the last class
    that was created of a version. Two threads that look up the first time at the same moment create
    two. If the registered one is released, every later lookup in the process raises ReferenceError
    (kafka-python 3.0.12, `VersionSubscriptable`).
    """
    kind = type(request)
    name = kind.__name__.removesuffix("Request") + "Response"
    return getattr(sys.modules[kind.__module__], name)


class RepeatedRequest:
    """A request that is sent repeatedly to one broker. It is encoded once.

    A response of the same bytes is the same object as before, so the caller may compare by
    identity.
    """

    def __init__(self, request: Any) -> None:
        self.request = request
        self._asked: tuple[int, bytearray] | None = None
        self._last_frame: tuple[int, bytes] = (-1, b"")
        self._reply: Any = None

    def encode(self, version: int, correlation: int, client_id: str) -> bytes:
        if self._asked is None or self._asked[0] != version:
            once = encode(self.request, version, correlation, client_id)
            self._asked = version, bytearray(once)
        frame = self._asked[1]
        _CORRELATION.pack_into(frame, _CORRELATION_AT, correlation)
        return bytes(frame)

    def decode(self, version: int, frame: memoryview) -> Any:
        frame_bytes = version, bytes(frame[_CORRELATION.size :])
        if frame_bytes != self._last_frame:
            self._reply = decode(self.request, version, frame)
            self._last_frame = frame_bytes
        return self._reply
