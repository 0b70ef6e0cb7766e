"""Kafka transactions with librdkafka: take over, begin, commit, abort, each with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.client_config import client_config
from mirrors.kafka.error_codes import ClientCode, Code
from mirrors.kafka.error_table import FENCING, error_of_number
from mirrors.kafka.errors import confluent_error, error_of_client

# A dead owner's transaction blocks readers (read_committed) until it is fenced, or for so long;
# a live one's must not last longer.
TRANSACTION_TIMEOUT_MS = 60_000
_ATTEMPT_S = 1.0
# The code of a producer that writes no more; another one with its id can.
PRODUCER_LOST = "producer_lost"


def slice_id(flow_name: str, index: int) -> str:
    """The transactional id of one slice of a flow."""
    return f"understudy.{flow_name}.{index}"


def plan_id(flow_name: str) -> str:
    """The transactional id of a flow's planner, and of writes to a stopped flow."""
    return f"understudy.{flow_name}.plan"


class TransactionAborted(Exception):
    """The transaction was aborted; nothing of it is visible. `cause` is the reason."""

    def __init__(self, cause: UnderstudyError) -> None:
        super().__init__(cause.message)
        self.cause = cause


def open_producer(
    spec: ClusterSpec,
    transactional_id: str,
    *,
    extra: dict[str, Any] | None = None,
    commit_interval_ms: int = 0,
) -> Producer:
    """A producer that is not initialized yet: `take_over` does that. `commit_interval_ms`: for one
    that commits in intervals."""
    own = {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS + commit_interval_ms,
        "acks": "all",
    }
    config = client_config(
        spec, client_id="understudy-writer", role="producer", extra={**(extra or {}), **own}
    )
    return Producer(config)


def take_over(producer: Producer, spec: ClusterSpec, *, deadline_s: float) -> None:
    """InitProducerId: the former owner of the id is fenced, and its open transaction is aborted."""
    until = time.monotonic() + deadline_s
    while True:
        try:
            producer.init_transactions(min(_ATTEMPT_S * 5, max(0.1, until - time.monotonic())))
        except KafkaException as error:
            if not _may_retry(error) or time.monotonic() >= until:
                raise error_of_client(
                    error, where=spec.alias, doing="take over the flow's transactional id"
                ) from None
        else:
            return


def commit(
    producer: Producer,
    spec: ClusterSpec,
    *,
    deadline_s: float,
    is_urgent: Callable[[], bool] = lambda: False,
) -> None:
    """Commit. Raises `TransactionAborted` after an abort, or a fatal error of the producer.

    `is_urgent` is called between attempts. While it returns True, the commit does not wait for a
    target that is down.
    """
    until = time.monotonic() + deadline_s
    while True:
        try:
            producer.commit_transaction(min(_ATTEMPT_S, max(0.1, until - time.monotonic())))
        except KafkaException as error:
            problem = producer_error(error, spec, "commit the transaction")
            if error.args[0].txn_requires_abort():
                abort(producer, spec, deadline_s=deadline_s)
                raise TransactionAborted(problem) from None
            if not _may_retry(error) or time.monotonic() >= until or is_urgent():
                raise problem from None
        else:
            return


def abort(producer: Producer, spec: ClusterSpec, *, deadline_s: float) -> None:
    until = time.monotonic() + deadline_s
    while True:
        try:
            producer.abort_transaction(min(_ATTEMPT_S, max(0.1, until - time.monotonic())))
        except KafkaException as error:
            if not _may_retry(error) or time.monotonic() >= until:
                raise producer_error(error, spec, "abort the transaction") from None
        else:
            return


def begin(producer: Producer, spec: ClusterSpec) -> None:
    try:
        producer.begin_transaction()
    except KafkaException as error:
        raise producer_error(error, spec, "begin a transaction") from None


def is_fencing(error: KafkaError) -> bool:
    return error.code() in FENCING


def producer_error(
    error: BaseException | KafkaError, spec: ClusterSpec, doing: str
) -> UnderstudyError:
    """The error of a transactional producer: fenced, no longer usable, or another one."""
    kafka_error = confluent_error(error)
    if kafka_error is not None:
        # After the first fatal error librdkafka answers every call with _FATAL and the first text.
        if is_fencing(kafka_error) or "fenced" in kafka_error.str().lower():
            return error_of_number(Code.PRODUCER_FENCED, where=spec.alias, doing=doing)
        if kafka_error.fatal() or kafka_error.code() == ClientCode.FATAL:
            return KafkaUnavailable(
                f"Cluster {spec.alias}: the producer failed permanently ({kafka_error.str()}).",
                code=PRODUCER_LOST,
            )
    return error_of_client(error, where=spec.alias, doing=doing)


def _may_retry(error: KafkaException) -> bool:
    kafka_error: KafkaError = error.args[0]
    return bool(kafka_error.retriable()) and not kafka_error.fatal()
