"""What the record lane cannot carry faithfully, found before it is produced."""

from __future__ import annotations

import operator

from confluent_kafka import Message

from mirrors.domain.errors import UnderstudyError

# confluent-kafka's own type: a list of pairs, in order, as it comes and as it is taken.
Headers = dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]]

# The client's C code leaves the decoding error set and returns a list all the same. A plain call
# that Python has specialised (3.11 and later) does not look; this way of calling always does, and
# raises SystemError.
_headers = operator.methodcaller("headers")


class Unfaithful(UnderstudyError):
    """This record would not arrive as it was; its partition stops before it."""

    code = "unfaithful"


def timestamp_of(message: Message) -> int:
    """The record's time in milliseconds. librdkafka takes 0 for "now", so 0 cannot be carried."""
    timestamp: int = message.timestamp()[1]
    if timestamp == 0:
        raise Unfaithful(
            "its timestamp is 0 (1970-01-01), which the record lane cannot write: "
            "the client would put the present time instead",
            code="timestamp_zero",
        )
    return timestamp


def headers_of(message: Message) -> Headers | None:
    """All headers in order. A name that is not UTF-8 is never mended: mending would change it."""
    try:
        headers: Headers | None = _headers(message)
    except (UnicodeDecodeError, SystemError):
        raise Unfaithful(
            "it has a header name that is not UTF-8, which the record lane cannot read",
            code="header_name",
        ) from None
    return headers
