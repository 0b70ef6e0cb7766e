"""Detects records that the record lane cannot replicate unchanged, before they are produced."""

from __future__ import annotations

import operator

from confluent_kafka import Message

from mirrors.domain.errors import UnderstudyError

# confluent-kafka's type: a list of pairs in order, for reading and writing.
Headers = dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]]

# The client's C code leaves a decoding error set and returns a list all the same. A plain call that
# Python has specialized (3.11 and later) does not notice. A call through `methodcaller` does, and
# raises SystemError.
_headers = operator.methodcaller("headers")


class UnsupportedRecord(UnderstudyError):
    """The record would arrive changed; its partition stops before it."""

    code = "unfaithful"


def timestamp_of(message: Message) -> int:
    """The record's timestamp in ms. librdkafka replaces 0 by the current time, so 0 is refused."""
    timestamp: int = message.timestamp()[1]
    if timestamp == 0:
        raise UnsupportedRecord(
            "its timestamp is 0 (1970-01-01), which the record lane cannot write: "
            "the client would write the current time instead",
            code="timestamp_zero",
        )
    return timestamp


def headers_of(message: Message) -> Headers | None:
    """All headers in order. A name that is not UTF-8 is refused, since decoding would change it."""
    try:
        headers: Headers | None = _headers(message)
    except (UnicodeDecodeError, SystemError):
        raise UnsupportedRecord(
            "it has a header name that is not UTF-8, which the record lane cannot read",
            code="header_name",
        ) from None
    return headers
