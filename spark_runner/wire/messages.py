"""The cold messages, by kafka-python's schemas: encode a request with its header, decode a reply.

Fetch and Produce are not here: their own code is in `fetch.py` and `produce.py`.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kafka.protocol.consumer import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from spark_runner.wire.heads import CLIENT_ID

_CORRELATION: Final = struct.Struct(">i")
# Behind the frame's length, the key and the version.
_CORRELATION_AT: Final = 8

# request class -> (reply class, the least and the most version that we speak). The least are those
# of Kafka 2.8, the oldest broker supported; InitProducerId 6 is not served by any broker yet.
SPOKEN: dict[Any, tuple[Any, int, int]] = {
    ApiVersionsRequest: (ApiVersionsResponse, 0, 3),
    SaslHandshakeRequest: (SaslHandshakeResponse, 1, 1),
    SaslAuthenticateRequest: (SaslAuthenticateResponse, 1, 2),
    MetadataRequest: (MetadataResponse, 9, 12),
    FindCoordinatorRequest: (FindCoordinatorResponse, 3, 4),
    ListOffsetsRequest: (ListOffsetsResponse, 5, 7),
    OffsetForLeaderEpochRequest: (OffsetForLeaderEpochResponse, 3, 4),
    InitProducerIdRequest: (InitProducerIdResponse, 3, 5),
    AddPartitionsToTxnRequest: (AddPartitionsToTxnResponse, 2, 3),
    EndTxnRequest: (EndTxnResponse, 2, 5),
    DescribeProducersRequest: (DescribeProducersResponse, 0, 0),
    # since Kafka 3.0
    DescribeTransactionsRequest: (DescribeTransactionsResponse, 0, 0),
}


def encode(request: Any, version: int, correlation: int) -> bytes:
    """The whole frame, length first."""
    request.API_VERSION = version
    request.with_header(correlation_id=correlation, client_id=CLIENT_ID)
    frame: bytes = request.encode(header=True, framed=True)
    return frame


def decode(request: Any, version: int, frame: memoryview) -> Any:
    """The reply to this request, from a frame without its length."""
    reply = SPOKEN[type(request)][0]
    return reply.decode(frame, version=version, header=True)


class Repeated:
    """A question asked again and again: it is encoded once, and an answer of the same bytes is the
    same object as before, so that who asks may compare by identity. For one broker."""

    def __init__(self, request: Any) -> None:
        self.request = request
        self._asked: tuple[int, bytearray] | None = None
        self._heard: tuple[int, bytes] = (-1, b"")
        self._reply: Any = None

    def encode(self, version: int, correlation: int) -> bytes:
        if self._asked is None or self._asked[0] != version:
            self._asked = version, bytearray(encode(self.request, version, correlation))
        frame = self._asked[1]
        _CORRELATION.pack_into(frame, _CORRELATION_AT, correlation)
        return bytes(frame)

    def decode(self, version: int, frame: memoryview) -> Any:
        heard = version, bytes(frame[_CORRELATION.size :])
        if heard != self._heard:
            self._reply = decode(self.request, version, frame)
            self._heard = heard
        return self._reply
