"""Every error of either client is translated into one sentence that says what to do."""

from __future__ import annotations

import inspect
from typing import Any

import kafka.errors
import pytest
from confluent_kafka import KafkaError, KafkaException

from mirrors.domain.errors import Fenced, KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.kafka import error_table
from mirrors.kafka.error_codes import ClientCode, Code, name_of
from mirrors.kafka.error_table import ROWS, Category, error_of_number
from mirrors.kafka.errors import error_of_client, is_passing

KINDS = [
    (KafkaError._TRANSPORT, KafkaUnavailable, "unreachable"),
    (KafkaError._ALL_BROKERS_DOWN, KafkaUnavailable, "unreachable"),
    (KafkaError._RESOLVE, KafkaUnavailable, "dns"),
    (KafkaError._SSL, KafkaUnavailable, "tls"),
    (KafkaError._TIMED_OUT, KafkaUnavailable, "timeout"),
    (KafkaError._AUTHENTICATION, KafkaRefused, "authentication"),
    (KafkaError.SASL_AUTHENTICATION_FAILED, KafkaRefused, "authentication"),
    (KafkaError.UNSUPPORTED_SASL_MECHANISM, KafkaRefused, "mechanism"),
    (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaRefused, "not_authorised"),
    (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaRefused, "not_authorised"),
    (KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaRefused, "not_authorised"),
    (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, KafkaRefused, "not_authorised"),
    (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaUnavailable, "moving"),
    (KafkaError._FENCED, Fenced, "fenced"),
    (KafkaError.INVALID_PRODUCER_EPOCH, Fenced, "fenced"),
    (90, Fenced, "fenced"),
    (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaRefused, "not_found"),
    (100, KafkaRefused, "not_found"),
    (KafkaError.UNKNOWN_MEMBER_ID, KafkaRefused, "group_active"),
]


@pytest.mark.parametrize(("number", "kind", "code"), KINDS)
def test_an_error_number_has_its_kind_and_code_by_whatever_road_it_comes(
    number: int, kind: type[UnderstudyError], code: str
) -> None:
    for error in (KafkaError(number), KafkaException(KafkaError(number))):
        ours = error_of_client(error, where="primary", doing="look")
        assert (type(ours), ours.code) == (kind, code)
    assert error_of_number(number, where="primary", doing="look").code == code


def test_every_row_is_one_whole_sentence_that_names_cluster_and_act() -> None:
    for number in ROWS:
        message = error_of_client(KafkaError(number), where="primary", doing="list topics").message
        assert message.startswith("Cluster primary: cannot list topics: ")
        assert message.endswith(".")
        assert ".." not in message
        assert "\n" not in message


def test_a_number_without_kafkas_words_is_a_whole_sentence_too() -> None:
    assert error_of_number(40, where="a", doing="look").message == (
        "Cluster a: cannot look: Kafka rejects one of the configs."
    )
    for number, named in ((39, "INVALID_REPLICATION_ASSIGNMENT"), (9999, "error 9999")):
        message = error_of_number(number, where="a", doing="look").message
        assert message == f"Cluster a: cannot look: Kafka answered {named}."


def test_every_number_that_we_name_has_the_number_of_the_protocol_and_one_row() -> None:
    for code in Code:
        assert name_of(code) == code.name
        if code is not Code.NONE:
            assert code in ROWS, code.name
            known = kafka.errors.for_code(int(code)).__name__
            assert known != "UnrecognizedBrokerError", code.name
    for own in ClientCode:
        assert own == getattr(KafkaError, f"_{own.name}"), own.name
    rows = [*error_table._PROTOCOL, *error_table._CLIENT_ROWS]
    assert len(rows) == len(ROWS), "a number has two rows"


# What brokers mean by a number does not change: who moves one decides it here as well.
CATEGORIES = {
    "RETRIABLE": {3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 51, 56, 74, 75, 78, 100, 103, 106},
    "LEADER_MOVED": {3, 5, 6, 9, 56, 74, 75, 100, 103, 106},
    "COORDINATOR_MOVING": {14, 15, 16},
    "TOPIC_MISSING": {3, 100, 103, -188, -190},
    "SESSION_LOST": {70, 71, 106},
    "BATCH_REJECTED": {2, 10, 18, 32, 87},
    "PRODUCER_LOST": {-1, 45, 46, 48, 49, 52, 59, 120},
    "FENCING": {47, 90, -144},
}


@pytest.mark.parametrize("name", CATEGORIES)
def test_the_sets_of_the_engine_are_the_categories_of_the_rows(name: str) -> None:
    numbers = getattr(error_table, name)
    assert numbers == CATEGORIES[name]
    assert {type(number) for number in numbers} == {int}
    assert {category.name for category in Category} == CATEGORIES.keys()


def test_a_fenced_producer_is_fenced_and_a_lost_one_may_be_retried() -> None:
    for number in error_table.FENCING:
        assert ROWS[number].kind is Fenced
    for number in error_table.PRODUCER_LOST:
        assert ROWS[number].kind is KafkaUnavailable


def test_every_error_of_kafka_python_is_translated() -> None:
    kind: Any
    for name, kind in inspect.getmembers(kafka.errors, inspect.isclass):
        if issubclass(kind, kafka.errors.KafkaError):
            ours = error_of_client(kind("words"), where="primary", doing="look")
            assert isinstance(ours, UnderstudyError), name
            assert ours.message.startswith("Cluster primary: cannot look: "), name


def test_both_clients_numbers_agree() -> None:
    theirs = error_of_client(kafka.errors.TopicAuthorizationFailedError(), where="a", doing="look")
    ours = error_of_client(KafkaError(29), where="a", doing="look")
    assert theirs.message == ours.message


def test_kafkas_own_words_are_quoted_where_they_name_the_value() -> None:
    error = KafkaError(40, "Invalid value x for configuration retention.ms.")
    assert "(Invalid value x for configuration retention.ms)" in (
        error_of_client(error, where="a", doing="create topic t").message
    )


def test_an_error_without_a_row_is_quoted_on_one_line_and_its_retry_kept() -> None:
    error = KafkaException(KafkaError(39, "strange\nwords " * 100))
    ours = error_of_client(error, where="a", doing="write t")
    assert isinstance(ours, KafkaRefused)
    assert "Kafka answered strange words strange" in ours.message
    assert len(ours.message) < 400
    retriable = error_of_client(kafka.errors.TooManyInFlightRequests(), where="a", doing="look")
    assert isinstance(retriable, KafkaUnavailable)


KIND_OF = [
    (56, KafkaUnavailable),  # KAFKA_STORAGE_ERROR
    (78, KafkaUnavailable),  # OFFSET_NOT_AVAILABLE
    (87, KafkaRefused),  # INVALID_RECORD
    # Without a row:
    (39, KafkaRefused),  # INVALID_REPLICA_ASSIGNMENT
    (80, KafkaUnavailable),  # PREFERRED_LEADER_NOT_AVAILABLE
    (86, KafkaRefused),  # GROUP_SUBSCRIBED_TO_TOPIC
]


@pytest.mark.parametrize(("number", "kind"), KIND_OF)
def test_a_number_has_one_kind_by_whatever_road_it_comes(
    number: int, kind: type[UnderstudyError]
) -> None:
    """librdkafka sets its flag in transactional calls only."""
    of_a_client = (
        KafkaError(number),
        KafkaException(KafkaError(number)),
        kafka.errors.for_code(number)(),
    )
    for error in of_a_client:
        assert type(error_of_client(error, where="a", doing="look")) is kind, repr(error)
    assert type(error_of_number(number, where="a", doing="look")) is kind


def test_the_flag_of_the_client_counts_where_it_is_set() -> None:
    state = KafkaError._STATE
    assert type(error_of_client(KafkaError(state), where="a", doing="look")) is KafkaRefused
    for flags in ({"retriable": True}, {"fatal": True}):
        error = KafkaError(state, "words", **flags)
        for wrapped in (error, KafkaException(error)):
            assert type(error_of_client(wrapped, where="a", doing="look")) is KafkaUnavailable, (
                flags
            )


def test_a_reader_waits_out_what_the_protocol_calls_retriable() -> None:
    for number in (7, 13, 30, 56, 78, KafkaError._TRANSPORT, KafkaError._WAIT_COORD):
        assert is_passing(KafkaError(number)), number
    # A missing topic and an internal error of the broker are the caller's to judge.
    for number in (-1, 1, 3, 29, 87, 100, KafkaError._AUTO_OFFSET_RESET):
        assert not is_passing(KafkaError(number)), number


def test_a_fatal_error_that_came_out_of_a_callback_is_found() -> None:
    error = SystemError("returned a result with an exception set")
    error.__cause__ = KafkaException(KafkaError(KafkaError._FENCED))
    assert isinstance(error_of_client(error, where="a", doing="write"), Fenced)


def test_what_the_system_says_is_translated_and_what_is_ours_passes() -> None:
    assert error_of_client(TimeoutError(), where="a", doing="look").code == "timeout"
    assert error_of_client(ConnectionResetError(), where="a", doing="look").code == "unreachable"
    ours = KafkaRefused("Said already.")
    assert error_of_client(ours, where="a", doing="look") is ours
