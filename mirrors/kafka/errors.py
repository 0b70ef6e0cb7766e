"""Translates errors of Kafka clients (confluent-kafka, kafka-python, OS) to UnderstudyError.

The number decides: `error_table` has its meaning. Here is only how to find the number.
"""

from __future__ import annotations

import kafka.errors
from confluent_kafka import KafkaError, KafkaException

from mirrors.domain.errors import UnderstudyError
from mirrors.kafka.error_codes import ClientCode, Code
from mirrors.kafka.error_table import (
    PRODUCER_LOST,
    ROWS,
    TOPIC_MISSING,
    error_of_number,
    is_temporary,
)

# Errors without a number: what they are in librdkafka's words.
_NUMBER_OF_CLASS: tuple[tuple[type[Exception], ClientCode], ...] = (
    (kafka.errors.KafkaTimeoutError, ClientCode.TIMED_OUT),
    (kafka.errors.KafkaConnectionError, ClientCode.TRANSPORT),
    (TimeoutError, ClientCode.TIMED_OUT),
    (OSError, ClientCode.TRANSPORT),
)
_NO_NUMBER = int(Code.NONE)

# A fatal error is raised out of poll and flush whatever error_cb is set; with a delivery callback
# still to run, the interpreter turns that into a SystemError caused by it.
RAISED = (KafkaException, SystemError)


def error_of_client(
    error: BaseException | KafkaError, *, where: str, doing: str
) -> UnderstudyError:
    """Our error for a client's: `doing` is an infinitive ("list topics"), `where` an alias.

    An error that is ours already passes unchanged.
    """
    if isinstance(error, UnderstudyError):
        return error
    error = _unwrapped(error)
    text = _text(error)
    return error_of_number(
        _number(error), where=where, doing=doing, message=text, temporary=is_retriable(error)
    )


def is_retriable(error: BaseException | KafkaError) -> bool:
    """Whether a retry may help, by the number and by what the client says.

    - librdkafka sets its flag in transactional calls only: errors of records and of admin requests
      never have it. So the row or the protocol decides on the number.
    - After a fatal error a new producer may succeed.
    """
    error = _unwrapped(error)
    number = _number(error)
    if number in ROWS or is_temporary(number):
        return is_temporary(number)
    if isinstance(error, KafkaError):
        return error.retriable() or error.fatal()
    # kafka-python's errors have an attribute, confluent's a method.
    return isinstance(error, kafka.errors.KafkaError) and bool(error.retriable)


def is_passing(error: KafkaError) -> bool:
    """Whether a consumer continues after it: it retries itself, and uses no consumer group.

    An internal error of the broker and a missing topic are the caller's to judge.
    """
    number = error.code()
    if number in PRODUCER_LOST or number in TOPIC_MISSING:
        return False
    return number == Code.GROUP_AUTHORIZATION_FAILED or is_retriable(error)


def confluent_error(error: BaseException | KafkaError) -> KafkaError | None:
    """The KafkaError in what confluent-kafka returned or raised."""
    error = _unwrapped(error)
    return error if isinstance(error, KafkaError) else None


def _unwrapped(error: BaseException | KafkaError) -> BaseException | KafkaError:
    if isinstance(error, SystemError) and isinstance(error.__cause__, KafkaException):
        error = error.__cause__
    return error.args[0] if isinstance(error, KafkaException) and error.args else error


def _number(error: BaseException | KafkaError) -> int:
    if isinstance(error, KafkaError):
        return error.code()
    if isinstance(error, kafka.errors.KafkaError):
        number = getattr(error, "errno", None)
        if number is not None:
            return int(number)
    for kind, code in _NUMBER_OF_CLASS:
        if isinstance(error, kind):
            return int(code)
    return _NO_NUMBER


def _text(error: BaseException | KafkaError) -> str:
    """The client's own words, on one line and without a full stop at the end."""
    words = error.str() if isinstance(error, KafkaError) else f"{type(error).__name__}: {error}"
    return " ".join(str(words).split()).rstrip(".: ")[:300]
