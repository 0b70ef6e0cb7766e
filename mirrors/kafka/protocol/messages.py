"""Requests and replies by kafka-python's schemas, and the versions of them that we speak.

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
    """The least and the most version of this request that we speak."""
    return SUPPORTED_VERSIONS.get(type(request)) or (0, request.max_version)


def encode(request: Any, version: int, correlation: int, client_id: str) -> bytes:
    """The whole frame, length first."""
    request.API_VERSION = version
    request.with_header(correlation_id=correlation, client_id=client_id)
    frame: bytes = request.encode(header=True, framed=True)
    return frame


def decode(request: Any, version: int, frame: memoryview) -> Any:
    """The reply to this request, from a frame without its length.

    Raises NotKafka, whatever the codec makes of bytes that are no such reply.
    """
    try:
        return reply_of(request).decode(frame, version=version, header=True)
    except (KafkaProtocolError, LookupError, TypeError, ValueError, ArithmeticError, struct.error):
        raise NotKafka from None


def reply_of(request: Any) -> Any:
    """The reply's class stands beside the request's, under the same name.

    kafka-python's own look-up (`header.get_response_class`) holds weakly whichever class of a
    version was made last. Two threads that ask for the first time at the same moment make two, one
    is dropped, and if it was the registered one, no thread of the process finds that reply again:
    each question is a ReferenceError from then on (kafka-python 3.0.12, `VersionSubscriptable`).
    """
    kind = type(request)
    name = kind.__name__.removesuffix("Request") + "Response"
    return getattr(sys.modules[kind.__module__], name)


class RepeatedRequest:
    """A question asked again and again: it is encoded once, and an answer of the same bytes is the
    same object as before, so that who asks may compare by identity. For one broker."""

    def __init__(self, request: Any) -> None:
        self.request = request
        self._asked: tuple[int, bytearray] | None = None
        self._heard: tuple[int, bytes] = (-1, b"")
        self._reply: Any = None

    def encode(self, version: int, correlation: int, client_id: str) -> bytes:
        if self._asked is None or self._asked[0] != version:
            once = encode(self.request, version, correlation, client_id)
            self._asked = version, bytearray(once)
        frame = self._asked[1]
        _CORRELATION.pack_into(frame, _CORRELATION_AT, correlation)
        return bytes(frame)

    def decode(self, version: int, frame: memoryview) -> Any:
        heard = version, bytes(frame[_CORRELATION.size :])
        if heard != self._heard:
            self._reply = decode(self.request, version, frame)
            self._heard = heard
        return self._reply
